#!/usr/bin/env python3
"""Tests of check_commands.py; ctest runs them."""

import unittest

import check_commands


COMPLETION = """
    '') words="ps logs scenario" ;;
    ps) words="-h --help -a --all"; files=0 ;;
    logs) words="-h --help -f --follow"; files=0 ;;
    scenario) words="-h --help --ctx-size export"; files=1 ;;
  COMPREPLY=($(compgen -W "$words -h --help --json --address" -- "$word"))
"""


class Commands(unittest.TestCase):
    def complaints(self, text):
        return list(check_commands.complaints(text, check_commands.Program(COMPLETION)))

    def in_a_block(self, *lines):
        return self.complaints("```console\n" + "".join(f"{line}\n" for line in lines) + "```\n")

    def test_commands_that_there_are_are_fine(self):
        self.assertEqual(self.in_a_block("$ dgxmm ps --all", "$ dgxmm logs -f NAME", "an answer"), [])
        self.assertEqual(self.in_a_block("$ dgxmm scenario export MODEL --ctx-size 32768 > case.json"), [])
        self.assertEqual(self.complaints("see `dgxmm ps --json`\n"), [])

    def test_a_command_that_there_is_not_is_named_with_its_line(self):
        self.assertEqual(self.in_a_block("$ dgxmm list"), [(2, "there is no dgxmm list")])
        self.assertEqual(self.complaints("see `dgxmm list`\n"), [(1, "there is no dgxmm list")])

    def test_a_flag_that_there_is_not_is_named(self):
        self.assertEqual(self.in_a_block("$ dgxmm ps --everything"), [(2, "dgxmm ps knows no --everything")])
        self.assertEqual(self.in_a_block("$ dgxmm scenario export M --all"), [(2, "dgxmm scenario knows no --all")])
        self.assertEqual(self.in_a_block("$ dgxmm --nowhere ps"), [(2, "dgxmm knows no --nowhere")])

    def test_flags_of_the_whole_program_may_come_first_or_last(self):
        self.assertEqual(self.in_a_block("$ dgxmm --address 127.0.0.1:1 ps", "$ dgxmm ps --address=127.0.0.1:1"), [])

    def test_what_follows_in_the_shell_is_not_asked_for(self):
        self.assertEqual(self.in_a_block("$ dgxmm ps --all | grep --count x", "$ dgxmm ps    # lists --nothing"), [])

    def test_blocks_of_answers_are_not_commands(self):
        self.assertEqual(self.in_a_block("dgxmm is ready", "  start it: dgxmm list"), [])


if __name__ == "__main__":
    unittest.main()
