#!/usr/bin/env python3
"""Compares every link between the repository's Markdown files with what is there: the file, and its heading.

A heading has to have the same anchor where it is read in a repository and on the site (`./dev docs`): the two make them
by different rules. Links inside docs/ stay in docs/, as the site has nothing else."""

import pathlib
import re
import subprocess
import sys
import unicodedata
import urllib.parse

FENCE = re.compile(r"^\s*(```|~~~)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
CODE = re.compile(r"`+[^`]*`+")
LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
HTML_ANCHOR = re.compile(r"<\w+\s[^>]*\b(?:id|name)=\"([^\"]+)\"")
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def prose(text):
    """(number, line) outside fenced code."""
    fenced = None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and fenced in (None, fence[1]):
            fenced = None if fenced else fence[1]
        elif not fenced:
            yield number, line


def repository_anchor(title):
    """As GitHub and its kind do it."""
    kept = "".join(c for c in title.lower() if c in " -_" or c.isalnum())
    return kept.replace(" ", "-")


def site_anchor(title):
    """As Python-Markdown does it."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def anchors(text):
    """{anchor in a repository: anchor on the site}."""
    found, seen = {}, {}
    for _, line in prose(text):
        for anchor in HTML_ANCHOR.findall(line):
            found[anchor] = anchor
        match = HEADING.match(line)
        if not match:
            continue
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).replace("`", "").replace("*", "")
        anchor = repository_anchor(title)
        count = seen[anchor] = seen.get(anchor, -1) + 1
        found[anchor if count == 0 else f"{anchor}-{count}"] = site_anchor(title) + (f"_{count}" if count else "")
    return found


def complaint(root, file, target):
    """What is wrong with a link to `target` in `file`; None when it leads somewhere."""
    if SCHEME.match(target) or target.startswith("//"):
        return None
    path, _, anchor = urllib.parse.unquote(target).partition("#")
    if path.startswith("/"):
        return f"{target}: links between files are relative"
    there = (file.parent / path).resolve() if path else file.resolve()
    if not there.exists():
        return f"{target}: there is no such file"
    if root not in [there, *there.parents]:
        return f"{target}: leads out of the repository"
    docs = root / "docs"
    if docs in file.resolve().parents and docs not in there.parents:
        return f"{target}: leads out of docs/, where the site has nothing"
    if not anchor or there.suffix != ".md":
        return None
    known = anchors(there.read_text())
    if anchor not in known:
        return f"{target}: there is no such heading"
    if known[anchor] != anchor:
        return f"{target}: on the site this heading is #{known[anchor]}; use letters, digits and single spaces in it"
    return None


def complaints(root, files):
    for file in files:
        for number, line in prose(file.read_text()):
            for target in LINK.findall(CODE.sub("", line)):
                found = complaint(root, file, target)
                if found:
                    yield f"{file.relative_to(root)}:{number}: {found}"


def markdown_files(root):
    git = ["git", "-c", f"safe.directory={root}", "-C", root, "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run([*git, "--exclude-standard", "--deduplicate", "*.md"], check=True, capture_output=True)
    return sorted(file for name in listed.stdout.decode().split("\0") if name and (file := root / name).is_file())


def main(root):
    found = list(complaints(root, markdown_files(root)))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()))
