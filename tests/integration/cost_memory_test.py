#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the memory of the shipped recordings with the measured peaks by gpemu cost eval.

Usage: cost_memory_test.py GPEMU_COMMAND
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest

GPEMU = ""
ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "evidence/packs/gpemu-vldb25/operations"
MEAN, WORST = 0.01, 0.03  # The bars of the claim; docs/how-to/check-the-claims.md.


def evaluate(folder, *options):
    return subprocess.run([GPEMU, "cost", "eval", str(folder), "--memory", *options], text=True,
                          timeout=60, capture_output=True, check=False)


class CostMemoryTest(unittest.TestCase):
    def test_peaks_are_those_measured_on_the_a100(self):
        result = evaluate(RECORDINGS, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [row for row in json.loads(result.stdout) if row["gpu"] == "A100-SXM4-40GB"]
        self.assertEqual(len({row["model"] for row in rows}), 36)
        for row in rows:
            self.assertAlmostEqual(row["predicted_mib"] / row["measured_mib"] - 1, row["error"])
        errors = [abs(row["error"]) for row in rows]
        self.assertLess(statistics.fmean(errors), MEAN)
        self.assertLess(max(errors), WORST)
        table = evaluate(RECORDINGS).stdout
        self.assertIn(f"{100 * statistics.fmean(errors):.2f}", table)

    def test_says_that_no_memory_is_known(self):
        recording = json.loads((RECORDINGS / "alexnet.json").read_text())
        del recording["memory"]
        with tempfile.TemporaryDirectory(prefix="gpemu_cost_memory.") as folder:
            (pathlib.Path(folder) / "alexnet.json").write_text(json.dumps(recording))
            result = evaluate(folder)
        self.assertEqual(result.returncode, 3)
        self.assertIn("no recording has memory that is both known", result.stderr)


if __name__ == "__main__":
    GPEMU = sys.argv.pop(1)
    unittest.main()
