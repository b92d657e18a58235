#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts CUDA programs with gpemu predict and checks what it tells, and that nothing is left of a
program, however it or the command ends.

Needs no package: the programs call the runtime and NVTX with ctypes.

Usage: predict_test.py GPEMU_COMMAND
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
V100, A100, H100 = "V100-PCIE-32GB", "A100-SXM4-80GB", "H100-SXM5-80GB"

# Endless steps on a batch given by an argument or a variable; a child that never ends. A step
# copies 1 MiB, sets 16 MiB an item, and waits.
ENDLESS = """
import ctypes, os, subprocess, sys
cuda = ctypes.CDLL("libcudart.so.12")
nvtx = ctypes.CDLL("libnvToolsExt.so.1")
subprocess.Popen(["sleep", "1000"], env={**os.environ, "CHILD_OF": os.environ["TEST_FOLDER"]})
batch = int(sys.argv[1]) if len(sys.argv) > 1 else int(os.environ.get("GPEMU_BATCH", "1"))
device, host = ctypes.c_void_p(), ctypes.create_string_buffer(1 << 20)
assert cuda.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(batch << 30)) == 0
step = 0
while True:
    nvtx.nvtxRangePushA(b"step %d" % step)
    assert cuda.cudaMemcpy(device, host, ctypes.c_size_t(len(host)), 1) == 0
    assert cuda.cudaMemsetAsync(device, 0, ctypes.c_size_t(batch << 24), None) == 0
    assert cuda.cudaDeviceSynchronize() == 0
    nvtx.nvtxRangePop()
    step += 1
"""

# Runs on capability 8 and later.
PARTICULAR = """
import ctypes
cuda = ctypes.CDLL("libcudart.so.12")
major = ctypes.c_int()
assert cuda.cudaDeviceGetAttribute(ctypes.byref(major), 75, 0) == 0
if major.value < 8:
    print("ValueError: no kernel for this GPU\\nsee elsewhere")
    raise SystemExit(1)
device = ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(1 << 20)) == 0
for step in range(4):
    for size in (1 << 20, 1 << 10, 1 << 15):
        assert cuda.cudaMemset(device, 0, ctypes.c_size_t(size)) == 0
"""

# Keeps what it frees, as PyTorch's allocator does, until none is left: 4 GiB a step, up to 32.
CACHING = """
import ctypes
cuda = ctypes.CDLL("libcudart.so.12")
nvtx = ctypes.CDLL("libnvToolsExt.so.1")
kept = []
def allocate():
    if len(kept) == 8:
        return kept[0]
    block = ctypes.c_void_p()
    status = cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(4 << 30))
    if status == 2 and kept:
        while kept:
            assert cuda.cudaFree(kept.pop()) == 0
        return allocate()
    assert status == 0
    kept.append(block)
    return block
for step in range(20):
    nvtx.nvtxRangePushA(b"step")
    assert cuda.cudaMemsetAsync(allocate(), 0, ctypes.c_size_t(1 << 20), None) == 0
    assert cuda.cudaDeviceSynchronize() == 0
    nvtx.nvtxRangePop()
"""


class PredictTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="gpemu_predict_test_")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "tmp").mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.folder / "tmp"),
                            "TEST_FOLDER": str(self.folder)}
        self.environment.pop("GPEMU_BATCH", None)

    def start(self, program, *words, options=()):
        return subprocess.Popen([COMMAND, "predict", *options, "--", sys.executable, "-c", program,
                                 *words], env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def predict(self, program, *words, options=(), expect=0):
        """Returns its output or, for a failure, its error message."""
        process = self.start(program, *words, options=options)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, expect, errors)
        self.check_nothing_left()
        return output if expect == 0 else errors

    def check_nothing_left(self):
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        mark = f"CHILD_OF={self.folder}".encode()
        for entry in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                self.assertNotIn(mark, entry.read_bytes().split(b"\0"), entry)
            except OSError:
                continue  # It has ended, or is another user's.

    def answers(self, *arguments, **options):
        options["options"] = ("--json", "-", *options.get("options", ()))
        document = json.loads(self.predict(*arguments, **options))
        self.assertEqual(document["format"], "gpemu-predict-1")
        return document["answers"]

    def test_answers_for_each_gpu_and_batch(self):
        plot, file = self.folder / "plot.svg", self.folder / "answers.json"
        table = self.predict(ENDLESS, "{batch}", options=(
            "--gpu", f"{V100},{A100}", "--batch", "2,40", "--plot", plot, "--json", file))
        answers = json.loads(file.read_text())["answers"]
        self.assertEqual([(a["gpu"], a["batch"], a["fits"]) for a in answers],
                         [(V100, 2, True), (V100, 40, False), (A100, 2, True), (A100, 40, True)])
        for answer in answers:
            self.assertEqual(answer["recorded_on"], answer["gpu"])
            self.assertEqual(answer["memory_mib"]["peak"], 1024 * answer["batch"])
            self.assertEqual((answer["steps"], answer["steps_by"], answer["operations"]),
                             (7, "NVTX ranges", 2))
            step = answer["step"]
            if not answer["fits"]:
                self.assertIsNone(step)
                continue
            self.assertAlmostEqual(sum(step["parts_ms"].values()), step["ms"], places=5)
            self.assertAlmostEqual(step["samples_per_s"], 1000 / step["ms"] * answer["batch"],
                                   places=3)
            self.assertEqual({c["name"]: c["operations"] for c in step["classes"]},
                             {"copy": 1, "set": 1})
        busy = {a["gpu"]: a["step"]["busy_ms"] for a in answers if a["batch"] == 2}
        self.assertLess(busy[A100], busy[V100])  # Its memory is faster.
        for word in (V100, A100, "samples/s", "40960", "Data loading is not modelled"):
            self.assertIn(word, table)
        self.assertEqual(plot.read_text().count("<svg"), 1)

    def test_a_program_that_gives_memory_back_fits(self):
        [t4, a100] = self.answers(CACHING, options=("--gpu", f"T4,{A100}"))
        self.assertTrue(t4["fits"])
        self.assertLess(t4["memory_mib"]["peak"], t4["memory_mib"]["capacity"])
        self.assertGreater(t4["memory_mib"]["asked_for"], t4["memory_mib"]["capacity"])
        self.assertGreater(t4["step"]["ms"], 0)
        self.assertEqual((a100["fits"], a100["memory_mib"]["asked_for"]), (True, 0))
        table = self.predict(CACHING, options=("--gpu", "T4"))
        self.assertIn("recorded with this GPU's", table)

    def test_takes_the_batch_from_the_variable(self):
        [one, three] = self.answers(ENDLESS, options=("--gpu", A100, "--batch", "1,3"))
        self.assertEqual((one["memory_mib"]["peak"], three["memory_mib"]["peak"]), (1024, 3072))
        [unknown] = self.answers(ENDLESS, options=("--gpu", A100))
        self.assertEqual((unknown["batch"], unknown["step"]["samples_per_s"]), (None, None))
        self.assertEqual(unknown["step"]["ms"], one["step"]["ms"])

    def test_refuses_batches_that_change_nothing(self):
        errors = self.predict(ENDLESS, "7", options=("--gpu", A100, "--batch", "1,3"), expect=2)
        self.assertIn("does the same work at batches 1 and 3", errors)
        self.assertIn("GPEMU_BATCH", errors)

    def test_takes_the_answer_of_a_newer_gpu_where_the_program_does_not_run(self):
        for gpus in ((V100, H100, A100), (V100,)):
            answers = self.answers(PARTICULAR, options=("--gpu", ",".join(gpus)))
            self.assertEqual([a["gpu"] for a in answers], list(gpus))
            self.assertEqual(answers[0]["recorded_on"], A100)  # The nearest.
            self.assertIn("capability 7.0: ValueError: no kernel for this GPU",
                          answers[0]["why_other"])
            self.assertIn("recurs", answers[0]["steps_by"])
            self.assertEqual(answers[0]["operations"], 3)
            self.assertTrue(all(a["why_other"] == "" for a in answers[1:]))

    def test_tells_what_a_program_printed_that_fails(self):
        errors = self.predict("print('begins'); raise SystemExit('fails\\nat last')",
                              options=("--gpu", V100), expect=3)
        self.assertIn("ended with exit code 1 without using the GPU", errors)
        for line in ("begins", "fails", "at last"):
            self.assertIn(f"\n  | {line}\n", errors)

    def test_takes_no_layers_for_steps_where_a_program_fails(self):
        errors = self.predict(PARTICULAR + "raise SystemExit('not enough')", expect=3,
                              options=("--gpu", A100))
        self.assertIn("ended with exit code 1 before its second step", errors)
        self.assertIn("not enough", errors)

    def test_refuses_a_program_without_steps(self):
        program = PARTICULAR.replace("range(4)", "range(1)")
        errors = self.predict(program, options=("--gpu", A100), expect=3)
        self.assertIn("no training steps found in 3 operations", errors)
        errors = self.predict(ENDLESS.replace("while True", "while step < 9"),
                              options=("--gpu", A100, "--step-pattern", "gemm"), expect=3)
        self.assertIn("--step-pattern matches 0 operations", errors)

    def test_finds_steps_by_a_pattern(self):
        [answer] = self.answers(ENDLESS, options=("--gpu", A100, "--step-pattern", "Memset|set"))
        self.assertEqual((answer["steps_by"], answer["operations"]), ("the given pattern", 2))

    def test_ends_the_program_when_it_is_interrupted(self):
        program = ENDLESS.replace("while True", "import time; time.sleep(1000)\nwhile True")
        process = self.start(program, options=("--gpu", A100))
        folder = self.folder / "tmp"
        while not any(folder.glob("*/*.record")):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, output), (130, ""), errors)
        self.assertIn("the program was ended", errors)
        self.check_nothing_left()

    def test_refuses_options_that_are_wrong(self):
        for code, text, options in (
                (3, "there is no GPU", ("--gpu", "V100-PCIE-33GB")),
                (2, "--step-pattern (", ("--gpu", V100, "--step-pattern", "(")),
                (2, "must end in .svg", ("--gpu", V100, "--plot", "x.png")),
                (2, "--gpu is required", ())):
            errors = self.predict("", options=options, expect=code)
            self.assertIn(text, errors)
            self.assertEqual(errors.count("\n"), 1, errors)

    def test_wants_a_folder_for_records(self):
        self.environment["TMPDIR"] = str(self.folder / "nowhere")
        errors = self.predict("", options=("--gpu", V100), expect=7)
        self.assertIn("TMPDIR must name a folder", errors)


if __name__ == "__main__":
    unittest.main()
