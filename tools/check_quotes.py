#!/usr/bin/env python3
"""Compares the words that docs/troubleshooting.md puts into double quotes with the messages in the sources.

Numbers, paths, addresses, names in capitals and … stand for what a message fills in; every piece between them has to be
part of a message, as it stands."""

import pathlib
import re
import sys

TOKEN = re.compile(r'//[^\n]*|"((?:[^"\\\n]|\\.)*)"|[^\s/"]+|[/"]')
FILLED_IN = re.compile(r"\{[^{}]*\}")
QUOTE = re.compile(r'"([^"\n]+)"')
CODE = re.compile(r"`+[^`]*`+")
VARIABLE = re.compile(r"…|\b[A-Z]{4,}\b|/[\w./]+|\b[\w.]+:\d+|#?\b\d[\d.]*(?: ?(?:[KMG]?iB|B|%))?(?:/s)?")
SHORTEST = 4  # letters; less says nothing


def literals(source):
    """The texts of all string literals; those that follow each other are one."""
    text = None
    for token in TOKEN.finditer(source):
        if token[1] is not None:
            text = (text or "") + token[1]
        elif not token[0].startswith("//") and text is not None:
            yield text
            text = None
    if text is not None:
        yield text


def messages(source):
    """What literals say between the places where something is filled in."""
    for text in literals(source):
        text = text.replace('\\"', '"').replace("\\n", "\n")
        yield from (piece for piece in FILLED_IN.split(text) if piece)


def quotes(page):
    """(line, quote) outside fenced code; code spans are what somebody types."""
    fenced = False
    for number, line in enumerate(page.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield from ((number, quote) for quote in QUOTE.findall(CODE.sub("", line)))


def pieces(quote):
    found = (piece.strip(" ,;:.()") for piece in VARIABLE.split(quote))
    return [piece for piece in found if sum(c.isalpha() for c in piece) >= SHORTEST]


def complaints(page, sources):
    known = "\0".join(piece for source in sources for piece in messages(source))
    for number, quote in quotes(page):
        missing = [piece for piece in pieces(quote) if piece not in known]
        if missing:
            yield number, f'no message says "{missing[0]}"'


def main(root):
    sources = [path.read_text() for path in sorted((root / "src").rglob("*")) if path.suffix in (".cpp", ".h")]
    page = root / "docs" / "troubleshooting.md"
    found = [f"{page.relative_to(root)}:{number}: {text}" for number, text in complaints(page.read_text(), sources)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()))
