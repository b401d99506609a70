#!/usr/bin/env python3
"""embed_page.py FOLDER BYTES TABLE: writes all files of FOLDER into the one file BYTES, plain and compressed, and a C++
table of where each of them lies in it to TABLE. The same folder always gives the same two files."""

import gzip
import hashlib
import pathlib
import re
import sys

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
# Vite puts a digest of eight characters or more into the names in assets/.
HAS_DIGEST = re.compile(r"/assets/.+-[A-Za-z0-9_-]{8,}\.[a-z0-9]+")
PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/-]+")


def compressed(data):
    """Nothing when that would save less than a tenth."""
    packed = gzip.compress(data, 9, mtime=0)
    return packed if len(packed) < 0.9 * len(data) else b""


def embed(folder):
    """The block of bytes, and the lines of the table."""
    block, rows = b"", []
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        path = "/" + file.relative_to(folder).as_posix()
        if file.suffix not in TYPES:
            raise SystemExit(f"{file}: which content type has this? Add it to tools/embed_page.py")
        if not PLAIN_PATH.fullmatch(path):
            raise SystemExit(f"{file}: the name of a file of the page has only letters, digits and . _ -")
        places = []
        data = file.read_bytes()
        for part in (data, compressed(data)):
            places.append(f"{{dgxmm_page_bytes + {len(block)}, {len(part)}}}")
            block += part
        immutable = "true" if HAS_DIGEST.fullmatch(path) else "false"
        digest = hashlib.sha256(data).hexdigest()[:16]
        rows.append(f'{{"{path}", "{TYPES[file.suffix]}", "{digest}", {immutable}, {", ".join(places)}}},')
    if not any(row.startswith('{"/index.html"') for row in rows):
        raise SystemExit(f"{folder} has no index.html")
    return block, rows


def table(rows):
    lines = "\n    ".join(rows)
    return f"""// Written by tools/embed_page.py.
#include "page/embedded_page.h"

extern "C" const char dgxmm_page_bytes[];

namespace dgxmm::page {{

std::span<const api::PageFile> embedded_page() {{
  static const api::PageFile kFiles[] = {{
    {lines}
  }};
  return kFiles;
}}

}}  // namespace dgxmm::page
"""


def main(folder, bytes_file, table_file):
    block, rows = embed(pathlib.Path(folder))
    pathlib.Path(bytes_file).write_bytes(block)
    pathlib.Path(table_file).write_text(table(rows))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
