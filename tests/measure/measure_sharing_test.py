#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what tools/measure/measure_sharing.py does without a GPU: options, the analysis of when a
process had the GPU, and workers that fail.

Usage: measure_sharing_test.py
"""

import contextlib
import importlib.util
import io
import json
import pathlib
import struct
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools/measure/measure_sharing.py"


def load_script():
    spec = importlib.util.spec_from_file_location("measure_sharing", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


measure_sharing = load_script()


class OptionsTest(unittest.TestCase):
    def test_an_output_is_required(self):
        told = io.StringIO()
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(told):
            measure_sharing.parse_options([])
        self.assertIn("--output", told.getvalue())

    def test_help_has_examples(self):
        told = io.StringIO()
        with self.assertRaises(SystemExit), contextlib.redirect_stdout(told):
            measure_sharing.parse_options(["--help"])
        self.assertIn("measure_sharing.py --output sharing", told.getvalue())


@unittest.skipIf(measure_sharing.np is None, "there is no numpy")
class AnalysisTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="measure_sharing.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def log(self, kernels, stops):
        """A worker's log, as read from its file. Times in us."""
        path = self.folder / "log"
        numbers = [len(kernels), len(stops), 0]
        for first, last in kernels + stops:
            numbers += [first * 1000, last * 1000]
        path.write_bytes(struct.pack(f"={len(numbers)}q", *numbers))
        return measure_sharing.read_loop(path)

    def test_a_stop_that_two_blocks_notice_counts_once(self):
        _, stops, _ = self.log([(0, 9000)], [(2000, 4505), (2003, 4500), (7000, 8000)])
        self.assertEqual(stops.tolist(), [[2003000, 4500000], [7000000, 8000000]])

    def test_processes_that_alternate_are_seen_to(self):
        # 2050 us each, 228 us in between; the kernels are not interrupted.
        logs = {}
        for number, name in enumerate(("p0", "p1")):
            begins = [i * 4556 + number * 2278 for i in range(20)]
            logs[name] = self.log([(begin, begin + 2050) for begin in begins], [])
        measure_sharing.slices_csv = type("Rows", (), {"writerow": staticmethod(lambda row: None)})
        answer = measure_sharing.analyse("alternate", logs, {"p0": 2050, "p1": 2050})
        self.assertEqual(answer["switch_gap_us"]["p50"], 228)
        self.assertEqual(answer["p0"]["slice_us"]["p50"], 2050)
        self.assertEqual(answer["overlap_share"], 0)
        self.assertAlmostEqual(answer["p0"]["speed_against_alone"], 0.45, delta=0.02)

    def test_a_kernel_that_is_stopped_is_cut_there(self):
        kernels, stops, _ = self.log([(0, 6000)], [(2050, 4560)])
        parts = measure_sharing.stretches(kernels, stops)
        self.assertEqual(parts.tolist(), [[0, 2050000], [4560000, 6000000]])

    def test_a_worker_that_fails_is_told_of(self):
        output = self.folder / "out"
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            status = measure_sharing.main(
                ["--output", str(output), "--program", "/bin/false", "--steps", "timer"])
        self.assertEqual(status, 1)
        self.assertIn("timer", told.getvalue())
        self.assertIn("failed", json.loads((output / "results.json").read_text())["steps"]["timer"])


if __name__ == "__main__":
    sys.exit(unittest.main())
