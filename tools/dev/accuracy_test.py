#!/usr/bin/env python3
"""Tests of accuracy.py; ctest runs them."""

import pathlib
import tempfile
import unittest

import accuracy

HEAD = "engine,model,architecture,kind,configuration,quantity,measured_bytes,rounding_bytes,ours_bytes,remark,source\n"


def line(model="m", kind="GQA", quantity="kv", measured=100, rounding=0, ours=100, remark="", source="llamacpp.csv:3"):
    return f"engine 1,{model},a,{kind},c=1,{quantity},{measured},{rounding},{ours},{remark},{source}\n"


class Table(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def rows(self, *lines, name="rows"):
        (self.path / f"{name}.csv").write_text(HEAD + "".join(lines))
        return accuracy.read_rows(self.path)

    def test_rows_of_all_files_are_read(self):
        self.rows(line(), name="one")
        self.assertEqual(len(self.rows(line(), line(), name="two")), 3)

    def test_no_rows_no_table(self):
        self.assertEqual(accuracy.read_rows(self.path), [])

    def test_an_exact_value_that_is_off_is_shown_as_wrong(self):
        text = "\n".join(accuracy.table(self.rows(line(), line(model="bad", measured=200, ours=210))))
        self.assertIn("WRONG: 1 exact values; worst bad kv by 10 B (5.00 %)", text)

    def test_an_exact_table_is_not_wrong(self):
        self.assertNotIn("WRONG", "\n".join(accuracy.table(self.rows(line()))))

    def test_the_rounding_of_a_measure_is_no_error(self):
        rows = self.rows(line(measured=100, rounding=5, ours=104), line(measured=100, rounding=5, ours=94))
        self.assertEqual([accuracy.error_of(row) for row in rows], [0, 1])

    def test_ratios_are_of_bounds_only_and_loose_ones_are_counted(self):
        s = accuracy.summary_of(self.rows(
            line(quantity="compute_device", measured=100, ours=110),
            line(quantity="compute_host", measured=100, ours=150, remark="why"),
            line(quantity="compute_host", measured=100, ours=120),
            line(quantity="compute_host", measured=0, ours=0),
            line(quantity="kv", measured=1, ours=9)))
        self.assertEqual(s["ratios"], (1.1, 1.2, 1.5))
        self.assertEqual(s["most_above"], 50)
        self.assertEqual(s["loose"], 1)
        self.assertEqual(s["errors"], {"weights": None, "kv": 8, "state": None, "output": None})

    def test_what_was_not_estimated_is_counted_by_reason_and_is_no_value(self):
        s = accuracy.summary_of(self.rows(line(), line(ours="", remark="draft_context")))
        self.assertEqual(s["values"], 1)
        self.assertEqual(s["left_out"], {"draft_context": 1})

    def test_the_rows_of_the_truth_that_are_missing_show(self):
        (self.path / "truth").mkdir()
        (self.path / "truth" / "llamacpp.csv").write_text("# about\nhead\nrow\nrow\n")
        (self.path / "truth" / "vllm_vectors.csv").write_text("head\nrow\n")
        self.assertEqual(accuracy.truth_lines(self.path / "truth"),
                         {"llamacpp.csv:3", "llamacpp.csv:4", "vllm_vectors.csv:2"})
        text = "\n".join(accuracy.table(self.rows(line()), self.path / "truth"))
        self.assertIn("1 of 3 rows of tests/truth", text)

    def test_the_table_stays_within_25_lines_of_100_columns(self):
        lines = [line(kind=f"kind {i}", ours=99, model="m" * 90, measured=10**15) for i in range(40)]
        lines += [line(ours="", remark="a_long_reason_" * 4 + str(i)) for i in range(9)]
        table = accuracy.table(self.rows(*lines))
        self.assertLessEqual(len(table), 25)
        self.assertLessEqual(max(map(len, table)), 100)


if __name__ == "__main__":
    unittest.main()
