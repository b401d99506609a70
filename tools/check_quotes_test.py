#!/usr/bin/env python3
"""Tests of check_quotes.py; ctest runs them."""

import unittest

import check_quotes


class Quotes(unittest.TestCase):
    def complaints(self, page, source):
        return list(check_quotes.complaints(page, [source]))

    def test_a_message_that_is_there_is_fine(self):
        self.assertEqual(self.complaints('see "nothing waits"\n', 'out << "nothing waits\\n";'), [])

    def test_a_message_that_changed_is_named_with_its_line(self):
        found = self.complaints('first\nsee "nothing waits"\n', 'out << "nobody waits";')
        self.assertEqual(found, [(2, 'no message says "nothing waits"')])

    def test_figures_stand_for_what_is_filled_in(self):
        source = 'fmt::format("only {} were left on the host, {} less each second", a, b);'
        self.assertEqual(self.complaints('"only 3.1 GiB were left on the host, 6.6 GiB less each second"', source), [])

    def test_paths_addresses_and_names_stand_for_what_is_filled_in(self):
        source = 'format("the Docker Engine at {} does not answer", s); format("no daemon at {}", a);'
        page = '"the Docker Engine at /var/run/docker.sock does not answer" and "no daemon at 127.0.0.1:8484"\n'
        self.assertEqual(self.complaints(page, source), [])
        self.assertEqual(self.complaints('"NAME waits for its turn"', 'format("{} waits for its turn", name);'), [])

    def test_a_message_over_several_lines_is_one(self):
        source = 'f("the kernel killed it for "\n  "lack of memory");'
        self.assertEqual(self.complaints('"the kernel killed it for lack of memory"', source), [])

    def test_words_of_two_messages_are_none(self):
        self.assertEqual(len(self.complaints('"stop it now"', 'f("stop it", "now");')), 1)

    def test_comments_say_nothing_and_break_nothing(self):
        self.assertEqual(len(self.complaints('"stop it now"', '// "stop it now"\n')), 1)
        self.assertEqual(self.complaints('"stop it now"', "// it's\nf(\"http://x\", \"stop it now\");"), [])

    def test_what_is_code_is_not_asked_for(self):
        self.assertEqual(self.complaints('`echo "hello there"`\n```\n"hello there"\n```\n', ""), [])


if __name__ == "__main__":
    unittest.main()
