#!/usr/bin/env python3
"""Reads the JUnit files that ctest wrote.

test_results.py FILE             says in one line how that run went, and shows the output of what failed.
test_results.py --total FILE...  names what failed, then says "N passed, N failed" (", N skipped"); exit code 1 on a
                                 failure, or when no test ran.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree as ET

FIRST_LINES, LAST_LINES = 40, 30
# What GoogleTest and the sanitizers print around the news.
NOISE = re.compile(r"^(Running main\(\) from|Note: Google Test filter|\[(==|--)|\[  PASSED  \] 0|Shadow bytes| *1 FAILED TEST)")


def outcome(case):
    """passed, skipped or failed. A test whose program is missing counts as failed, though ctest says "notrun"."""
    status = case.get("status")
    if status == "run":
        return "passed"
    if status == "disabled":
        return "skipped"
    skipped = case.find("skipped")
    if skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        return "skipped"
    return "failed"


def read(files):
    results = {"passed": [], "failed": [], "skipped": []}
    for file in files:
        if not pathlib.Path(file).exists():  # ctest writes none when no test was selected
            continue
        for case in ET.parse(file).getroot().iter("testcase"):
            results[outcome(case)].append((pathlib.Path(file).stem, case))
    return results


def show_failure(case):
    print(f"--- failed: {case.get('name')}")
    for element in case.iter():
        if element.tag in ("failure", "skipped") and element.get("message"):
            print(element.get("message"))
    output = [line for line in (case.findtext("system-out") or "").splitlines() if line.strip() and not NOISE.match(line)]
    left_out = len(output) - FIRST_LINES - LAST_LINES
    if left_out > 1:
        output[FIRST_LINES:-LAST_LINES] = [f"({left_out} lines left out)"]
    print("\n".join(output))


def counts(results):
    text = f"{len(results['passed'])} passed, {len(results['failed'])} failed"
    return text + (f", {len(results['skipped'])} skipped" if results["skipped"] else "")


def main(arguments):
    if arguments[0] != "--total":
        results = read(arguments)
        for _, case in results["failed"]:
            show_failure(case)
        print(f"  {counts(results)}" if any(results.values()) else "  none")
        return 0
    results = read(arguments[1:])
    for run, case in results["failed"]:
        print(f"FAILED {case.get('name')} ({run})")
    if not results["passed"] and not results["failed"]:
        print("no test ran")
    print(counts(results))
    return 0 if results["passed"] and not results["failed"] else 1


sys.exit(main(sys.argv[1:]))
