#!/usr/bin/env python3
"""Compares every #include under src/ with src/LAYERS and names those that it does not allow, as file:line."""

import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def covers(place, path):
    """Is `path` the file or in the folder `place`? "base/log" is also "base/log.h"."""
    return place == "*" or path == place or path.startswith((place + "/", place + "."))


class Layers:
    """The rules of the file LAYERS: {place: places it may include}, {outside prefix: places that may include it}."""

    def __init__(self, text):
        self.inside, self.outside = {}, {}
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            place, colon, allowed = line.partition(":")
            if not colon:
                raise SystemExit(f"LAYERS:{number}: no colon")
            rules = self.outside if place.startswith("<") else self.inside
            rules[place.strip().lstrip("<")] = allowed.split()

    def place_of(self, file):
        """The most particular place that a file lies in."""
        return max((place for place in self.inside if covers(place, file)), key=len, default=None)

    def complaint(self, file, kind, name, exists):
        """What is wrong with an include of `name` in `file`; None when it is allowed."""
        if kind == "<":
            for prefix, places in self.outside.items():
                if name.startswith(prefix) and not any(covers(place, file) for place in places):
                    return f"<{name}> belongs to {' '.join(places)} only"
            return None
        place = self.place_of(file)
        if not exists:
            return f'"{name}" is not a path from src/'
        if any(covers(allowed, name) for allowed in [place, *self.inside[place]]):
            return None
        return f'{place} may not include "{name}"'


def complaints(source, layers):
    for path in sorted(p for p in source.rglob("*") if p.suffix in (".h", ".cpp")):
        file = path.relative_to(source).as_posix()
        if layers.place_of(file) is None:
            yield f"{path}:1: this file lies in no folder that LAYERS names"
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match:
                complaint = layers.complaint(file, *match.groups(), exists=(source / match[2]).is_file())
                if complaint:
                    yield f"{path}:{number}: {complaint}"


def main(source):
    found = list(complaints(source, Layers((source / "LAYERS").read_text())))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1] / "src"))
