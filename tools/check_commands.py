#!/usr/bin/env python3
"""check_commands.py DGXMM: compares the commands in README.md and docs/*.md with the program's own completion script.

Read are lines that begin with `$ dgxmm` in fenced blocks, and code spans that begin with `dgxmm`. Each has to name a command
of the program, and only flags that it takes."""

import pathlib
import re
import shlex
import subprocess
import sys

SPAN = re.compile(r"`(dgxmm [^`]+)`")
FLAG = re.compile(r"^--?[a-z][\w-]*")
COMMAND = re.compile(r"^[a-z][a-z-]*$")
OFFERED = re.compile(r"^ *'?([a-z-]+)'?\) words=\"([^\"]*)\"", re.MULTILINE)
EVERYWHERE = re.compile(r'compgen -W "\$words ([^"]*)"')
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
    def __init__(self, completion):
        """`completion`: the script for bash, which has every command with its flags, and the flags of the whole program."""
        self.commands = {name: set(words.split()) for name, words in OFFERED.findall(completion)}
        self.flags = set(EVERYWHERE.search(completion)[1].split())


def complaint(words, program):
    """What is wrong with a command; None when it is one."""
    words = [word.split("=")[0] for word in words]
    while words and words[0].startswith("-"):  # before the command; some have a value
        flag = words.pop(0)
        if flag not in program.flags:
            return f"dgxmm knows no {flag}"
        if words and words[0] not in program.commands and not words[0].startswith("-"):
            words.pop(0)
    if not words or not COMMAND.match(words[0]):
        return None
    command = words.pop(0)
    if command not in program.commands:
        return f"there is no dgxmm {command}"
    for word in words:
        flag = FLAG.match(word)
        if flag and flag[0] not in program.flags | program.commands[command]:
            return f"dgxmm {command} knows no {flag[0]}"
    return None


def complaints(text, program):
    for number, words in documented(text):
        found = complaint(words, program)
        if found:
            yield number, found


def main(path):
    root = pathlib.Path(__file__).parents[1]
    script = subprocess.run([path, "completion", "bash"], capture_output=True, text=True, check=True).stdout
    program, failed, seen = Program(script), False, 0
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
