#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs gpemu cost fit over two of the shipped recordings, into copies of the GPUs' files, and gpemu
cost recorded.

Usage: cost_fit_test.py GPEMU_COMMAND
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

GPEMU = ""
ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "evidence/packs/gpemu-vldb25/operations"
MEASURED = {"A100-SXM4-40GB", "K80", "M40", "P100-PCIE-16GB", "Quadro-RTX-6000", "V100-PCIE-32GB"}


class CostFitTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpemu_cost_fit.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.recordings, self.gpus = self.folder / "recordings", self.folder / "gpus"
        self.recordings.mkdir()
        shutil.copytree(ROOT / "catalog/gpus", self.gpus)
        for model in ("alexnet", "squeezenet1_1"):
            shutil.copy(RECORDINGS / f"{model}.json", self.recordings)

    def fit(self, *options, expect=0, recordings=None):
        result = subprocess.run(
            [GPEMU, "cost", "fit", recordings or self.recordings, *options],
            text=True, timeout=60, capture_output=True, check=False)
        self.assertEqual(result.returncode == 0, expect == 0, result.stderr)
        return result.stdout if expect == 0 else result.stderr

    def files(self):
        return {path.name: path.read_text() for path in self.gpus.glob("*.toml")}

    def test_writes_the_parameters_and_nothing_else(self):
        before = self.files()
        fitted = json.loads(self.fit("--json", "--write", self.gpus))
        self.assertEqual(set(fitted), MEASURED)
        after = self.files()
        for name, text in after.items():
            if name.removesuffix(".toml") not in MEASURED:
                self.assertEqual(text, before[name])
                continue
            table = re.compile(r"\[calibration\]\n.*", re.DOTALL)
            self.assertEqual(table.sub("", text), table.sub("", before[name]))
            self.assertIn("models = 2\nsteps = 24\n", text)
            found = re.search(r"^convolution_forward = (.*)$", text, re.MULTILINE).group(1)
            exact = fitted[name.removesuffix(".toml")]["parameters"]["convolution_forward"]
            self.assertAlmostEqual(float(found) / exact, 1, delta=1e-3)
        self.fit("--write", self.gpus)
        self.assertEqual(self.files(), after, "the same measurements give the same bytes")

    def test_bars_are_kept_beside_the_parameters(self):
        self.fit("--write", self.gpus)
        subprocess.run([GPEMU, "cost", "eval", self.recordings, "--write", self.gpus], timeout=60,
                       capture_output=True, check=True)
        evaluated = self.files()
        for gpu in MEASURED:
            text = evaluated[f"{gpu}.toml"]
            bars = [float(bar) for bar in re.findall(r"^bar_\w+ = (.*)$", text, re.MULTILINE)]
            self.assertEqual(len(bars), 3, text)
            self.assertTrue(all(0 < bar < 10 for bar in bars), bars)
        self.fit("--write", self.gpus)
        self.assertEqual(self.files(), evaluated, "new parameters leave the bars there")

    def test_writes_all_files_or_none(self):
        (self.gpus / "V100-PCIE-32GB.toml").unlink()
        before = self.files()
        self.assertIn("V100-PCIE-32GB.toml", self.fit("--write", self.gpus, expect=1))
        self.assertEqual(self.files(), before)

    def recorded(self, *options):
        result = subprocess.run(
            [GPEMU, "cost", "recorded", self.recordings, *options],
            text=True, timeout=60, capture_output=True, check=False)
        self.assertEqual(result.stderr, "")
        return json.loads(result.stdout)

    def test_tells_what_recorded_models_take(self):
        rows = self.recorded("--gpu", "A100-SXM4-40GB,H100-SXM5-80GB", "--batch", "1,64,128",
                             "--json")
        self.assertEqual(len(rows), 2 * 2 * 3)
        # The least that the A100's host takes: its phases begin, and it notices their end.
        text = (ROOT / "catalog/gpus/A100-SXM4-40GB.toml").read_text()
        host = tomllib.loads(text)["calibration"]["host"]
        for phase in ("forward", "backward"):
            device = {(row["gpu"], row["model"], row["batch"]): row[phase]["device_ms"]
                      for row in rows}
            for row in rows:
                self.assertGreater(row[phase]["with_host_ms"],
                                   row[phase]["device_ms"] + 1e3 * host[f"host_{phase}"])
            for model in ("alexnet", "squeezenet1_1"):
                a100, h100 = "A100-SXM4-40GB", "H100-SXM5-80GB"
                self.assertLess(device[h100, model, 128], 0.8 * device[a100, model, 128])
                self.assertLess(1.4 * device[a100, model, 64], device[a100, model, 128])

    def test_the_profile_of_a_gpu_tells_its_parameters(self):
        shown = subprocess.run([GPEMU, "profile", "show", "--gpu", "T4"], text=True,
                               capture_output=True, check=True).stdout
        self.assertRegex(shown, r"fitted to \d+ steps of 36 models on Quadro-RTX-6000 \(pack")

    def test_says_what_is_wrong(self):
        nowhere = self.folder / "nowhere"
        self.assertIn(f"--write: there is no folder {nowhere}",
                      self.fit("--write", nowhere, expect=1))
        self.assertIn(str(nowhere), self.fit(recordings=nowhere, expect=1))
        evaluation = subprocess.run([GPEMU, "cost", "eval", self.recordings, "--write", nowhere],
                                    text=True, timeout=60, capture_output=True, check=False)
        self.assertEqual(evaluation.returncode, 3)
        self.assertEqual(evaluation.stderr, f"gpemu: --write: there is no folder {nowhere}\n")
        (self.recordings / "broken.json").write_text("{}")
        self.assertIn("broken.json", self.fit(expect=1))


if __name__ == "__main__":
    GPEMU = sys.argv.pop(1)
    unittest.main()
