#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs gpemu train and gpemu analyze over a small data set and checks what they wrote: that figures
agree with each other and with the profile, whatever the speed of this machine.

Usage: train_test.py GPEMU_COMMAND
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
GPU, MODEL = "V100-PCIE-32GB", "resnet18"
IMAGES, BATCH = 48, 8


class TrainTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="gpemu_train_")
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.data = cls.folder / "data"
        cls.call("data", "make", cls.data, "--images", IMAGES, "--classes", 2, "--seed", 1)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def call(cls, *arguments):
        environment = {**os.environ, "GPEMU_NODE_DIR": str(cls.folder / "nodes")}
        return subprocess.run([COMMAND, *map(str, arguments)], env=environment, check=True,
                              capture_output=True, text=True).stdout

    def run_json(self, *words):
        output = self.folder / "run.json"
        self.call(*words, "--gpu", GPU, "--model", MODEL, "--batch", BATCH, "--json", output,
                  "--quiet")
        return json.loads(output.read_text())

    def train(self, *arguments):
        """Trains over the data set from pageable memory, which needs no limit to be raised."""
        return self.run_json("train", "files", self.data, "--workers", 2, "--no-pin-memory",
                             *arguments)

    def check_sums(self, result):
        for time in (result["time_s"], *result["gpu_time_s"]):
            self.assertAlmostEqual(sum(time.values()), result["elapsed_s"], places=9)
        self.assertAlmostEqual(sum(result["steady_share"].values()), 1)
        self.assertAlmostEqual(sum(v for k, v in result["evidence"].items()
                                   if k != "compute_relative_error"), 1)
        profile = result["profile_step_ms"]
        # Several GPUs compute more than one does, e.g. they copy gradients to buckets.
        compute_ms = (profile["total"] - profile["copy"] - profile["communication"]
                      if result["gpus"] > 1 else
                      profile["forward"] + profile["backward_optimizer"])
        self.assertAlmostEqual(result["time_s"]["compute"], compute_ms * result["steps"] / 1000,
                               places=9)

    def test_accounts_for_two_epochs_of_real_data(self):
        result = self.train("--epochs", 2)
        self.assertEqual(result["steps"], 2 * IMAGES // BATCH)
        self.assertEqual([e["images"] for e in result["epochs"]], [IMAGES, IMAGES])
        self.assertEqual(result["corrupt_images"], 0)
        self.assertEqual(result["data"]["bytes_read"], 2 * result["data"]["bytes"])
        self.assertLessEqual(result["memory_mib"]["peak"], result["memory_mib"]["capacity"])
        self.check_sums(result)

    def test_overtakes_the_profile_never(self):
        result = self.train()
        self.assertGreaterEqual(result["timeline_step_ms"]["mean"],
                                result["profile_step_ms"]["total"] * (1 - 1e-9))

    def test_ends_in_real_time_when_a_rank_is_killed(self):
        file = self.folder / "kill.toml"
        file.write_text('[[fault]]\nkind = "kill"\ngpu = 1\nat_s = 0\n')
        environment = {**os.environ, "GPEMU_NODE_DIR": str(self.folder / "nodes")}
        done = subprocess.run(
            [COMMAND, "train", "synthetic", "--gpu", GPU, "--gpus", "2", "--model", MODEL,
             "--batch", str(BATCH), "--faults", file, "--json", "-", "--quiet"],
            env=environment, check=False, capture_output=True, text=True)
        self.assertEqual(done.returncode, 9, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["steps"], 0)
        self.assertEqual(result["failure"]["gpu"], 1)
        self.assertIn("GPU 1 was killed at 0.000 s", done.stderr)

    def test_repeats_the_profile_in_virtual_time(self):
        result = self.run_json("train", "synthetic", "--steps", 1000, "--clock", "virtual")
        self.assertAlmostEqual(result["step_ms"]["mean"], result["profile_step_ms"]["total"],
                               places=6)
        self.assertEqual(result["step_ms"]["p99"], result["step_ms"]["p50"])
        self.assertAlmostEqual(result["steady_share"]["compute"], 1)
        self.check_sums(result)

    def test_exchanges_gradients_on_several_gpus(self):
        result = self.run_json("train", "synthetic", "--gpus", 4, "--clock", "virtual")
        self.assertEqual(len(result["gpu_time_s"]), 4)
        profile = result["profile_step_ms"]
        self.assertAlmostEqual(result["time_s"]["communication"],
                               profile["communication"] * result["steps"] / 1000, places=9)
        self.assertAlmostEqual(result["hidden_communication_s"],
                               profile["hidden_communication"] * result["steps"] / 1000, places=9)
        self.assertGreater(profile["hidden_communication"], 0)
        self.assertGreater(result["evidence"]["transferred"], 0)
        self.check_sums(result)

    def test_writes_a_trace_whose_engines_do_one_thing_at_a_time(self):
        trace = self.folder / "trace.json"
        self.train("--trace", trace)
        whole = json.loads(trace.read_text())
        self.assertIn("--trace", whole["otherData"]["run"]["command"])
        events = whole["traceEvents"]
        tracks = {}
        for event in events:
            if event["ph"] == "X":
                tracks.setdefault((event["pid"], event["tid"]), []).append(event)
        named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
        self.assertEqual(set(tracks), named)
        for track in tracks.values():
            track.sort(key=lambda event: event["ts"])
            for before, after in zip(track, track[1:]):
                self.assertLessEqual(before["ts"] + before["dur"], after["ts"] + 0.0015)

    def test_writes_a_page_that_fetches_nothing(self):
        page = self.folder / "report.html"
        self.train("--report", page)
        text = page.read_text()
        self.assertEqual(text.count("<figure"), 4)
        for word in ("<script ", "<link", "src=", "href=", "url("):
            self.assertNotIn(word, text)

    def test_prints_the_stall_table(self):
        text = self.call("train", "synthetic", "--gpu", GPU, "--model", MODEL, "--batch", BATCH,
                         "--clock", "virtual")
        for word in ("images/s", "compute", "waiting for storage", "waiting for preprocessing",
                     "limited by the GPU"):
            self.assertIn(word, text)

    def test_warns_where_others_take_the_cores(self):
        """Three others share the only core that the runs may use."""
        core = {min(os.sched_getaffinity(0))}
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, core)  # What is started inherits it.
        self.addCleanup(os.sched_setaffinity, 0, allowed)
        for _ in range(3):
            other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            self.addCleanup(other.wait)
            self.addCleanup(other.kill)
        output = self.folder / "busy.json"
        text = self.call("train", "files", self.data, "--gpu", GPU, "--model", MODEL, "--batch",
                         BATCH, "--workers", 1, "--no-pin-memory", "--json", output)
        host = json.loads(output.read_text())["host"]
        self.assertEqual(host["cores"], 1)
        self.assertTrue(host["load"]["too_busy"], host["load"])
        self.assertIn("warning: the host was too busy", text)
        self.assertIn("warning: the host was too busy for a reliable measure of how fast it loads",
                      self.call("data", "bench", self.data, "--epochs", 10))

    def test_analyzes_stalls_by_differences_of_passes(self):
        result = self.run_json("analyze", "files", self.data, "--workers", 2, "--no-pin-memory")
        step = {name: one["step_ms"] for name, one in result["passes"].items()}
        self.assertLess(step["ingestion"], step["copying"])
        self.assertLessEqual(step["copying"], step["cached"] * (1 + 1e-9))
        self.assertAlmostEqual(result["copy_share"],
                               (step["copying"] - step["ingestion"]) / step["copying"])
        self.assertAlmostEqual(result["prep_stall"],
                               max(0, (step["cached"] - step["copying"]) / step["cached"]))
        self.assertAlmostEqual(result["fetch_stall"],
                               max(0, (step["cold"] - step["cached"]) / step["cold"]))


if __name__ == "__main__":
    unittest.main()
