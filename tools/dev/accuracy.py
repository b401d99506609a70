#!/usr/bin/env python3
"""The table of errors: what dgxmm estimates beside what was measured.

accuracy.py FOLDER [TRUTH]   sums the rows that the truth tests wrote to FOLDER (their DGXMM_ACCURACY_DIR), at most 25
                             lines; prints nothing when there are none. TRUTH: tests/truth, to say how many of its
                             rows are among them.
"""

import collections
import csv
import pathlib
import statistics
import sys

EXACT = ("weights", "kv", "state", "output")  # the error must be 0; what is not named here is a computed bound
KINDS = ("GQA", "GQA MoE", "sliding window", "MLA", "GDN hybrid", "Mamba hybrid", "short-conv hybrid", "recurrent", "encoder")
WIDTH = 100
MOST_KINDS = 19  # lines of the table, so that head, foot and what is wrong find room in 25


def read_rows(folder):
    """Every row of every file, with numbers as numbers; `ours_bytes` is None where nothing was estimated."""
    rows = []
    for file in sorted(pathlib.Path(folder).glob("*.csv")):
        with file.open(newline="") as lines:
            for row in csv.DictReader(lines):
                for column in ("measured_bytes", "rounding_bytes"):
                    row[column] = int(row[column])
                row["ours_bytes"] = int(row["ours_bytes"]) if row["ours_bytes"] else None
                rows.append(row)
    return rows


def is_exact(row):
    return row["quantity"] in EXACT


def error_of(row):
    """Bytes beside the measure, as far as the measure itself can tell."""
    return max(0, abs(row["ours_bytes"] - row["measured_bytes"]) - row["rounding_bytes"])


def ratio_of(row):
    """Ours for 1 measured; None where nothing was measured to be there."""
    return row["ours_bytes"] / row["measured_bytes"] if row["measured_bytes"] else None


def group(rows):
    """(engine, kind) -> rows; the rows of a real start are one group an engine."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["engine"], "small models" if row["source"] == "log" else row["kind"]].append(row)
    place = {kind: i for i, kind in enumerate(KINDS)}
    return dict(sorted(groups.items(), key=lambda item: (item[0][0].lower(), place.get(item[0][1], len(place)), item[0][1])))


def summary_of(rows):
    compared = [row for row in rows if row["ours_bytes"] is not None]
    ratios = [ratio for row in compared if not is_exact(row) and (ratio := ratio_of(row)) is not None]
    errors = {quantity: [error_of(row) for row in compared if row["quantity"] == quantity] for quantity in EXACT}
    return {
        "models": len({row["model"] for row in rows}),
        "configurations": len({(row["model"], row["source"], row["configuration"]) for row in rows}),
        "values": len(compared),
        "errors": {quantity: max(values) if values else None for quantity, values in errors.items()},
        "most_above": max((row["ours_bytes"] - row["measured_bytes"] for row in compared if not is_exact(row)), default=0),
        "ratios": (min(ratios), statistics.median(ratios), max(ratios)) if ratios else None,
        "loose": sum(1 for row in compared if not is_exact(row) and row["remark"]),
        "left_out": collections.Counter(row["remark"] for row in rows if row["ours_bytes"] is None),
    }


def truth_lines(truth):
    """"file:line" of every row of the tables of measures."""
    found = set()
    for file in ("llamacpp.csv", "vllm_vectors.csv"):
        has_header = False
        for number, line in enumerate((pathlib.Path(truth) / file).read_text().splitlines(), 1):
            if line.startswith("#"):
                continue
            if has_header:
                found.add(f"{file}:{number}")
            has_header = True
    return found


def table(rows, truth=None):
    """Lines of at most 100 columns."""
    lines = ["Errors: weights, kv, state in bytes (must be 0); compute buffers: ours for 1 measured, most above"]
    head = f"{'engine':16} {'kind':17} {'config.':>7} {'weights':>7} {'kv':>5} {'state':>5}"
    lines.append(f"{head} {'min':>6} {'median':>6} {'max':>6} {'MiB above':>9} {'loose':>5}")
    groups = group(rows)
    shown = list(groups.items())[:MOST_KINDS]
    for (engine, kind), members in shown:
        s = summary_of(members)
        cells = [f"{'-' if (e := s['errors'][q]) is None else e:>{width}}" for q, width in (("weights", 7), ("kv", 5), ("state", 5))]
        ratios = " ".join(f"{r:6.2f}" for r in s["ratios"]) if s["ratios"] else f"{'-':>6} {'-':>6} {'-':>6}"
        above = f"{s['most_above'] / 2**20:9.1f}" if s["ratios"] else f"{'-':>9}"
        lines.append(f"{engine:16.16} {kind:17.17} {s['configurations']:>7} {' '.join(cells)} {ratios} {above} {s['loose']:>5}")
    if len(groups) > len(shown):
        lines.append(f"({len(groups) - len(shown)} more kinds)")
    wrong = sorted((row for row in rows if row["ours_bytes"] is not None and is_exact(row) and error_of(row) > 0),
                   key=error_of, reverse=True)
    if wrong:
        worst = wrong[0]
        percent = f" ({100 * error_of(worst) / worst['measured_bytes']:.2f} %)" if worst["measured_bytes"] else ""
        lines.append(f"WRONG: {len(wrong)} exact values; worst {worst['model']:.30} {worst['quantity']} by {error_of(worst)} B"
                     f"{percent}, {worst['source']}")
    s = summary_of(rows)
    left_out = ", ".join(f"{count} {why.replace('_', ' ')}" for why, count in sorted(s["left_out"].items()))
    foot = f"{s['values']} values of {s['configurations']} configurations"
    if truth:
        lines_of_truth = truth_lines(truth)
        foot += f"; {len(lines_of_truth & {row['source'] for row in rows})} of {len(lines_of_truth)} rows of tests/truth"
    lines.append(foot)
    if left_out:
        lines.append(f"not estimated: {left_out}")
    return [line[:WIDTH] for line in lines]


def main(arguments):
    if not 1 <= len(arguments) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    rows = read_rows(arguments[0])
    if rows:
        print("\n".join(table(rows, *arguments[1:])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
