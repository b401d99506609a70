#!/usr/bin/env python3
"""check_commands.py DGXMM: compares the commands in README.md and docs/*.md with the help of the program itself.

Read are lines that begin with `$ dgxmm` in fenced blocks, and code spans that begin with `dgxmm`. Each has to name a command
of the program, and only flags that its help knows."""

import pathlib
import re
import shlex
import subprocess
import sys

SPAN = re.compile(r"`(dgxmm [^`]+)`")
FLAG = re.compile(r"^--?[a-z][\w-]*")
COMMAND = re.compile(r"^[a-z][a-z-]*$")
ENDS = re.compile(r"\s(?:[|>&;#]|…).*| {2,}.*")  # what a shell, or a reader, takes for something else


def documented(text):
    """(line, words after "dgxmm")."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
            continue
        prompt = re.match(r"\s*\$ (dgxmm .*)", line)
        for command in ([prompt[1]] if prompt else []) if fenced else SPAN.findall(line):
            yield number, shlex.split(ENDS.sub("", command).rstrip("\\"))[1:]


class Program:
    def __init__(self, path):
        self.path, self.known = path, {}

    def help(self, *command):
        """None for a command that the program does not have."""
        if command not in self.known:
            done = subprocess.run([self.path, *command, "--help"], capture_output=True, text=True, check=False)
            self.known[command] = done.stdout if done.returncode == 0 else None
        return self.known[command]


def complaint(words, program):
    """What is wrong with a command; None when it is one."""
    everywhere = flags_of(program.help())
    words = [word.split("=")[0] for word in words]
    while words and words[0].startswith("-"):  # before the command: those of the whole program, some with a value
        if words[0] not in everywhere:
            return f"dgxmm knows no {words[0]}"
        words = words[2:] if len(words) > 1 and not words[1].startswith("-") and not COMMAND.match(words[1]) else words[1:]
    if not words or not COMMAND.match(words[0]):
        return None
    command = [words.pop(0)]
    if words and COMMAND.match(words[0]) and program.help(*command, words[0]) != program.help(*command):
        command += [words.pop(0)] if program.help(*command, words[0]) else []
    text = program.help(*command)
    if text is None:
        return f"there is no dgxmm {' '.join(command)}"
    known = everywhere | flags_of(text)
    for word in words:
        flag = FLAG.match(word)
        if flag and flag[0] not in known:
            return f"dgxmm {' '.join(command)} knows no {flag[0]}"
    return None


def flags_of(text):
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text or ""))


def complaints(text, program):
    for number, words in documented(text):
        found = complaint(words, program)
        if found:
            yield number, found


def main(path):
    root = pathlib.Path(__file__).parents[1]
    program, failed, seen = Program(path), False, 0
    for file in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        text = file.read_text()
        seen += sum(1 for _ in documented(text))
        for number, found in complaints(text, program):
            print(f"{file.relative_to(root)}:{number}: {found}")
            failed = True
    print(f"{seen} commands")
    return 1 if failed or not seen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
