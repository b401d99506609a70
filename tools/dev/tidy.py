#!/usr/bin/env python3
"""tidy.py COMPILE_COMMANDS FOLDER JOBS

Runs clang-tidy on every source of the project named in COMPILE_COMMANDS, JOBS at a time. A file found clean is not
looked at again until its text, that of a project header it includes, its command or the settings change; FOLDER
remembers that. Prints what was found; exit code 1 when anything was.
"""

import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

CLANG_TIDY = "clang-tidy-19"
ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
FINDING = re.compile(r"^(?=/[^\n]+:\d+:\d+: (?:error|warning): )", re.MULTILINE)
SEARCHED = [ROOT / "src", ROOT / "tests"]
# A precompiled header is only read by the very compiler that wrote it, and it may not be built yet: clang-tidy gets
# the text instead, which CMake includes as well.
PRECOMPILED = re.compile(r"-Xclang -include-pch -Xclang \S+|-Winvalid-pch")


def command_of(entry):
    command = PRECOMPILED.sub("", entry["command"])
    words = shlex.split(command)
    first = next(i for i, word in enumerate(words) if re.search(r"(clang|g)\+\+(-\d+)?$", word))  # after the launcher
    return words[first:]


@functools.cache
def headers_of(file):
    """The project's headers that a file includes itself."""
    found = []
    for name in INCLUDE.findall(file.read_bytes()):
        for folder in [file.parent, *SEARCHED]:
            path = folder / os.fsdecode(name)
            if path.is_file():
                found.append(path.resolve())
                break
    return found


def with_headers(file):
    seen, open_files = {file}, [file]
    while open_files:
        for header in headers_of(open_files.pop()):
            if header not in seen:
                seen.add(header)
                open_files.append(header)
    return sorted(seen)


def settings_of(file):
    return [folder / ".clang-tidy" for folder in file.parents if (folder / ".clang-tidy").is_file()]


def key_of(file, command, version):
    digest = hashlib.sha256(version + "\0".join(command).encode())
    for path in [*with_headers(file), *settings_of(file)]:
        digest.update(b"\0" + os.fsencode(path) + b"\0" + path.read_bytes())
    return digest.hexdigest()


def check(file, folder):
    run = subprocess.run(
        [CLANG_TIDY, "--quiet", "-p", folder, "--extra-arg=-Wno-unknown-warning-option", file],
        capture_output=True, text=True, errors="replace")
    return run.returncode == 0, FINDING.split(run.stdout or run.stderr)


def main(database, folder, jobs):
    folder = pathlib.Path(folder)
    clean = folder / "clean"
    clean.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([CLANG_TIDY, "--version"], capture_output=True, check=True).stdout

    commands = {}
    for entry in json.loads(pathlib.Path(database).read_text()):
        file = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if file.is_relative_to(ROOT / "src") or file.is_relative_to(ROOT / "tests"):
            commands[file] = {"directory": entry["directory"], "file": str(file), "arguments": command_of(entry)}
    (folder / "compile_commands.json").write_text(json.dumps(list(commands.values()), indent=1))

    keys = {file: key_of(file, command["arguments"], version) for file, command in commands.items()}
    for stamp in clean.iterdir():
        if stamp.name not in keys.values():
            stamp.unlink()
    todo = [file for file, key in keys.items() if not (clean / key).exists()]
    # The longest first, so that the last one to end is a short one.
    todo.sort(key=lambda file: -file.stat().st_size)
    print(f"{len(todo)} of {len(keys)} files", flush=True)

    dirty, said = 0, set()
    with concurrent.futures.ThreadPoolExecutor(int(jobs)) as pool:
        for file, (ok, findings) in zip(todo, pool.map(lambda f: check(f, folder), todo)):
            if ok:
                (clean / keys[file]).touch()
                continue
            dirty += 1
            for finding in findings:  # one in a header is found through every file that includes it
                if finding.strip() and finding not in said:
                    said.add(finding)
                    print(finding.rstrip(), flush=True)
    print(f"{dirty} files with findings")
    return 1 if dirty else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
