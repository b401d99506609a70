#!/usr/bin/env python3
"""Tests of check_links.py; ctest runs them."""

import pathlib
import tempfile
import unittest

import check_links


class Links(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / "docs").mkdir()

    def write(self, name, text):
        file = self.root / name
        file.write_text(text)
        return file

    def complaints(self, text, name="docs/a.md"):
        return list(check_links.complaints(self.root, [self.write(name, text)]))

    def test_a_link_to_a_file_that_is_there_is_fine(self):
        self.write("docs/b.md", "# B\n")
        self.assertEqual(self.complaints("see [b](b.md) and [b](./b.md)\n"), [])

    def test_a_link_to_a_missing_file_is_named_with_its_line(self):
        self.assertEqual(self.complaints("first\nsee [b](gone.md)\n"), ["docs/a.md:2: gone.md: there is no such file"])

    def test_a_picture_is_a_link(self):
        self.assertIn("gone.svg", self.complaints("![the budget](gone.svg)\n")[0])

    def test_a_link_to_a_heading_needs_that_heading(self):
        self.write("docs/b.md", "# B\n\n## What `dgxmm fit` says\n")
        self.assertEqual(self.complaints("[b](b.md#what-dgxmm-fit-says)\n"), [])
        self.assertIn("no such heading", self.complaints("[b](b.md#what)\n")[0])

    def test_a_heading_of_the_same_file_counts(self):
        self.assertEqual(self.complaints("# One\n[here](#one)\n"), [])
        self.assertIn("no such heading", self.complaints("# One\n[here](#two)\n")[0])

    def test_a_heading_that_the_site_names_otherwise_is_refused(self):
        self.assertIn("#a-b", self.complaints("# A · B\n[here](#a--b)\n")[0])

    def test_a_second_heading_of_the_same_words_cannot_be_linked_to(self):
        self.assertIn("#one_1", self.complaints("# One\n# One\n[here](#one-1)\n")[0])

    def test_code_holds_no_links_and_no_headings(self):
        self.assertEqual(self.complaints("```sh\n[x](gone.md)\n```\n`[x](gone.md)`\n"), [])
        self.assertIn("no such heading", self.complaints("```sh\n# one\n```\n[here](#one)\n")[0])

    def test_other_hosts_are_not_asked(self):
        self.assertEqual(self.complaints("[x](https://example.org/gone) [m](mailto:a@example.org)\n"), [])

    def test_pages_of_the_site_stay_in_it(self):
        self.write("README.md", "# R\n")
        self.assertIn("leads out of docs/", self.complaints("[r](../README.md)\n")[0])
        self.write("docs/b.md", "# B\n")
        self.assertEqual(self.complaints("[b](docs/b.md)\n", name="README.md"), [])

    def test_a_link_out_of_the_repository_is_refused(self):
        self.assertIn("out of the repository", self.complaints("[x](../)\n", name="README.md")[0])


if __name__ == "__main__":
    unittest.main()
