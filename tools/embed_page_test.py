#!/usr/bin/env python3
"""Tests of embed_page.py; ctest runs them."""

import gzip
import pathlib
import re
import tempfile
import unittest

import embed_page

ROW = re.compile(r'\{"(.+?)", "(.+?)", "(.+?)", (true|false), \{\w+ \+ (\d+), (\d+)\}, \{\w+ \+ (\d+), (\d+)\}\},')
SCRIPT = b"const answer = 42;\n" * 100


class Embedding(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.write("index.html", b"<!doctype html>")

    def write(self, name, data):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)

    def files(self):
        """Each path with its type, whether it is immutable, its bytes and its compressed bytes, as the table has them."""
        block, rows = embed_page.embed(self.folder)
        found = {}
        for row in rows:
            path, content_type, _, immutable, *places = ROW.fullmatch(row).groups()
            begin, size, packed_begin, packed_size = map(int, places)
            packed = block[packed_begin : packed_begin + packed_size]
            found[path] = content_type, immutable == "true", block[begin : begin + size], packed
        return found

    def test_every_file_is_there_with_its_bytes_plain_and_compressed(self):
        self.write("assets/main-BrT3x1aQ.js", SCRIPT)
        content_type, _, data, packed = self.files()["/assets/main-BrT3x1aQ.js"]
        self.assertEqual(content_type, "text/javascript; charset=utf-8")
        self.assertEqual(data, SCRIPT)
        self.assertEqual(gzip.decompress(packed), SCRIPT)
        self.assertEqual(self.files()["/index.html"][2], b"<!doctype html>")

    def test_what_does_not_get_smaller_is_kept_plain_alone(self):
        self.assertEqual(self.files()["/index.html"][3], b"")

    def test_only_a_name_with_a_digest_is_immutable(self):
        for name in ("assets/main-BrT3x1aQ.js", "assets/a-b-_4x-1aQz.css", "assets/main.js", "main-BrT3x1aQ.js"):
            self.write(name, SCRIPT)
        immutable = [path for path, file in self.files().items() if file[1]]
        self.assertEqual(immutable, ["/assets/a-b-_4x-1aQz.css", "/assets/main-BrT3x1aQ.js"])

    def test_the_digest_changes_with_the_bytes_and_with_nothing_else(self):
        before = embed_page.embed(self.folder)
        self.assertEqual(embed_page.embed(self.folder), before)
        self.write("index.html", b"<!doctype html>.")
        self.assertNotEqual(ROW.fullmatch(embed_page.embed(self.folder)[1][0])[3], ROW.fullmatch(before[1][0])[3])

    def test_a_file_of_an_unknown_type_is_an_error(self):
        self.write("notes.doc", b"")
        with self.assertRaisesRegex(SystemExit, "notes.doc"):
            embed_page.embed(self.folder)

    def test_a_folder_without_a_page_is_an_error(self):
        (self.folder / "index.html").unlink()
        with self.assertRaisesRegex(SystemExit, "index.html"):
            embed_page.embed(self.folder)

    def test_a_name_that_would_break_the_table_is_an_error(self):
        self.write('a"b.js', b"")
        with self.assertRaisesRegex(SystemExit, "name"):
            embed_page.embed(self.folder)


if __name__ == "__main__":
    unittest.main()
