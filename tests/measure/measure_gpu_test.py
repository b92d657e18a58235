#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what tools/measure/measure_gpu.py does without PyTorch: options, batches, statistics,
resuming, the pack that it writes. With the gpemu command, that pack is checked and used.

Usage: measure_gpu_test.py [GPEMU_COMMAND]
"""

import contextlib
import csv
import importlib.util
import io
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools/measure/measure_gpu.py"
GPEMU = ""


def load_script():
    """Imports the script as if there were no PyTorch, with which it would take seconds."""
    spec = importlib.util.spec_from_file_location("measure_gpu", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {"torch": None}):
        spec.loader.exec_module(module)
    return module


measure_gpu = load_script()
FACTS = {"format": measure_gpu.RAW_FORMAT, "gpu": "V100-PCIE-32GB",
         "product_name": "Tesla V100-PCIE-32GB", "emulated": False, "pytorch": "2.9.0",
         "torchvision": "0.24.0", "cuda": "13.0", "cudnn": "9.13.0", "driver": "580.1",
         "cpu": "Some \"CPU\" \\ 1", "cores": 8, "host_memory_mib": 65536, "kernel": "6.1",
         "runs": [{"began": "2026-01-02T03:04:05+00:00"}, {"began": "2026-01-03T03:04:05+00:00"}]}


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="measure_gpu.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "my-pack"
        self.raw = measure_gpu.Raw(self.folder / "raw")


def put_step(raw, model, batch, *, precision="fp32", forward=1.0, peak=100.0, copy=0.5, **changed):
    """Adds a batch that ran, with numbers that tell their columns apart."""
    values = {"outcome": "ok", "samples": 10, "forward_ms": forward, "backward_ms": 2 * forward,
              "optimizer_ms": 0.25, "step_ms": 4 * forward, "free_step_ms": 3 * forward,
              "input_copy_pageable_ms": copy, "peak_allocated_mib": peak,
              "persistent_mib": 40.0, **changed}
    columns = raw.steps.columns[3:]
    raw.steps.put(model, precision, batch, *(values.get(column) for column in columns))
    if (model,) not in raw.models:
        raw.models.put(model, 1000, 3, 224, 224, "SGD", "image")


class OptionsTest(unittest.TestCase):
    def parse(self, *arguments):
        return measure_gpu.parse_options(["--output", "some/pack", *arguments])

    def refused(self, *arguments):
        with contextlib.redirect_stderr(io.StringIO()) as told, \
                self.assertRaises(SystemExit) as end:
            self.parse(*arguments)
        self.assertEqual(end.exception.code, 2)
        return told.getvalue()

    def test_defaults_measure_everything(self):
        options = self.parse()
        self.assertEqual(options.sections, list(measure_gpu.SECTIONS))
        self.assertEqual(options.precisions, ["fp32", "tf32", "bf16-amp"])
        self.assertEqual(options.batches[:5], [1, 2, 4, 8, 16])
        self.assertGreater(options.batches[-1], 1_000_000)
        self.assertEqual(options.budget, math.inf)
        self.assertTrue(options.output.is_absolute())

    def test_lists_come_in_the_program_s_order(self):
        options = self.parse("--sections", "models,copies", "--precisions", "bf16-amp,fp32")
        self.assertEqual(options.sections, ["copies", "models"])
        self.assertEqual(options.precisions, ["fp32", "bf16-amp"])

    def test_batches_are_sorted_and_end_at_the_largest(self):
        options = self.parse("--batches", "64,1,8,8", "--max-batch", "32")
        self.assertEqual(options.batches, [1, 8])
        self.assertEqual(self.parse("--max-batch", "7", "--per-doubling", "2").batches,
                         [1, 2, 3, 4, 6])

    def test_refuses_what_makes_no_sense(self):
        self.assertIn("there is no power", self.refused("--sections", "power"))
        self.assertIn("there is no fp8", self.refused("--precisions", "fp8"))
        for batches in ("0", "1,x", "", "99999999"):
            self.assertIn("list of batches", self.refused("--batches", batches))
        for option in ("--max-batch", "--samples", "--budget", "--per-doubling"):
            self.assertIn("positive", self.refused(option, "0"))
        self.assertIn("positive", self.refused("--budget", "nan"))
        for option in ("--sections", "--precisions"):
            for nothing in ("", ","):
                self.assertIn("choose from", self.refused(option, nothing))
        self.assertIn("is at most 4", self.refused("--batches", "8,16", "--max-batch", "4"))
        self.assertIn("use letters", self.refused("--gpu", "my gpu"))
        self.assertIn("use letters", self.refused("--output", "my pack"))

    def test_output_is_needed(self):
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            measure_gpu.parse_options([])

    def test_help_has_examples_and_needs_no_pytorch(self):
        with contextlib.redirect_stdout(io.StringIO()) as told, \
                self.assertRaises(SystemExit) as end:
            measure_gpu.parse_options(["--help"])
        self.assertEqual(end.exception.code, 0)
        self.assertIn("measure_gpu.py --output", told.getvalue())

    def test_models_are_chosen_by_patterns(self):
        self.assertEqual(measure_gpu.choose_models(["gpt2*", "resnet1?"]),
                         ["gpt2_124m", "resnet18"])
        with self.assertRaisesRegex(measure_gpu.Stop, "no model resnet19"):
            measure_gpu.choose_models(["resnet18", "resnet19"])

    def test_without_pytorch_says_so(self):
        with contextlib.redirect_stderr(io.StringIO()) as told:
            self.assertEqual(measure_gpu.main(["--output", "nowhere"]), 1)
        self.assertIn("there is no PyTorch", told.getvalue())
        self.assertFalse(pathlib.Path("nowhere").exists())


class CatalogueTest(unittest.TestCase):
    def test_holds_gpemu_s_models_and_a_dozen_more(self):
        with (ROOT / "evidence/packs/gpemu-vldb25/models.csv").open(encoding="ascii") as file:
            published = {row["model"] for row in csv.DictReader(file)}
        names = measure_gpu.catalogue()
        self.assertLessEqual(published, set(names))
        self.assertGreaterEqual(len(names), 36 + 12)

    def test_inputs_have_as_many_bytes_as_a_sample(self):
        entries = measure_gpu.catalogue()
        self.assertEqual(entries["resnet50"].shape, (3, 224, 224))
        self.assertEqual(entries["efficientnet_b4"].shape, (3, 380, 380))
        self.assertEqual(math.prod(entries["gpt2_124m"].shape) * 4, 1024 * 8)
        self.assertEqual(math.prod(entries["dlrm"].shape) * 4, 13 * 4 + 26 * 8)

    def test_names_gpus_as_gpemu_does(self):
        known = {}
        for path in (ROOT / "catalog/gpus").glob("*.toml"):
            text = path.read_text(encoding="utf-8")
            known[re.search(r'^product_name = "(.*)"', text, re.M)[1]] = path.stem
        self.assertEqual(measure_gpu.GPU_NAMES, known)


class NumbersTest(unittest.TestCase):
    def test_batches_are_log_spaced(self):
        self.assertEqual(measure_gpu.log_spaced(1), [1])
        self.assertEqual(measure_gpu.log_spaced(100), [1, 2, 4, 8, 16, 32, 64])
        self.assertEqual(measure_gpu.log_spaced(16, 2), [1, 2, 3, 4, 6, 8, 11, 16])

    def test_summary_is_median_and_nearest_ranks(self):
        self.assertEqual(measure_gpu.summary(list(range(1, 11))), [5.5, 1, 9])
        self.assertEqual(measure_gpu.summary([7.0]), [7, 7, 7])
        self.assertEqual(measure_gpu.summary([3, 1, 2]), [2, 1, 3])

    def test_trims_only_what_later_points_fall_below(self):
        rows = [(1, 30.0), (2, 10.0), (4, 12.0), (8, 50.0), (16, 24.0), (32, 40.0)]
        self.assertEqual(measure_gpu.trim_falls(rows, 0.5),
                         [(2, 10.0), (4, 12.0), (16, 24.0), (32, 40.0)])
        self.assertEqual(measure_gpu.trim_falls(rows[1:3], 0.5), rows[1:3])
        self.assertEqual(measure_gpu.trim_falls([], 0.5), [])

    def test_errors_between_points_come_from_leaving_points_out(self):
        straight = [(1, 3.0), (2, 4.0), (8, 10.0), (16, 18.0)]
        self.assertEqual(measure_gpu.errors_between(straight), [0, 0, 0, 0])
        # At 2 the line says 16 instead of 10, at 4 it says 30 instead of 28.
        self.assertEqual(measure_gpu.errors_between([(1, 10.0), (2, 10.0), (4, 28.0), (6, 50.0)]),
                         [round(60 * (0.6 + 2 / 28) / 2, 3), 36, 36, 36])
        self.assertEqual(measure_gpu.errors_between([(1, 1.0), (2, 1.0), (3, 1000.0)])[3], 100)

    def search(self, batches, first_too_many, most=1000):
        tried = []

        def outcome(batch):
            if len(tried) == most:
                return None
            tried.append(batch)
            return batch < first_too_many
        measure_gpu.search_limit(batches, outcome)
        return tried

    def test_search_closes_in_on_the_first_batch_that_does_not_fit(self):
        tried = self.search([1, 2, 4, 8, 16, 32, 64, 128], 101)
        good = max(batch for batch in tried if batch < 101)
        bad = min(batch for batch in tried if batch >= 101)
        self.assertEqual(tried[:8], [1, 2, 4, 8, 16, 32, 64, 128])
        self.assertLessEqual(bad - good, good // 20)
        self.assertLessEqual(len(tried), 8 + 5)
        self.assertEqual(len(set(tried)), len(tried))

    def test_search_is_exact_for_small_batches(self):
        tried = self.search([1, 2, 4, 8, 16], 7)
        self.assertIn(6, tried)
        self.assertIn(7, tried)

    def test_search_ends_without_limit_without_time_and_without_room(self):
        self.assertEqual(self.search([1, 2, 4], 100), [1, 2, 4])
        self.assertEqual(self.search([1, 2, 4], 100, most=2), [1, 2])
        self.assertEqual(self.search([1, 2, 4], 1), [1])
        self.assertEqual(self.search([1, 16], 9, most=3), [1, 16, 8])

    def test_budgets_are_parts_of_what_is_left(self):
        now = [100.0]
        whole = measure_gpu.Budget(60, lambda: now[0])
        half = whole.part(0.5)
        self.assertFalse(half.is_spent())
        now[0] = 130.0
        self.assertTrue(half.is_spent())
        self.assertFalse(whole.is_spent())
        self.assertEqual(whole.part(0.5).end, 145)
        now[0] = 170.0
        self.assertTrue(whole.part(1).is_spent())
        self.assertFalse(measure_gpu.Budget().part(0.1).is_spent())

    def test_a_batch_that_would_take_too_long_is_not_begun(self):
        now, tried = [0.0], []
        options = mock.Mock(batches=[1, 2, 4, 8, 16], budget=math.inf)
        raw = mock.Mock(steps={}, failures={})
        measurement = measure_gpu.Measurement(options, raw, None)

        def measure_step(_, batch, __):
            tried.append(batch)
            now[0] += 10 * batch
            return True
        measurement.measure_step = measure_step
        # 1, 2 and 4 take 70 s; 8 would take 80 more.
        measurement.measure_model("toy", "fp32", measure_gpu.Budget(149, lambda: now[0]))
        self.assertEqual(tried, [1, 2, 4])

    def test_a_failure_is_written_down_and_the_next_model_measured(self):
        options = mock.Mock(batches=[1, 2], budget=math.inf, models=["a", "b"],
                            precisions=["fp32"])
        with tempfile.TemporaryDirectory() as folder:
            raw = measure_gpu.Raw(pathlib.Path(folder) / "raw")
            measurement = measure_gpu.Measurement(options, raw, None)
            tried = []

            def measure_step(name, batch, _):
                tried.append((name, batch))
                if name == "a":
                    raise RuntimeError("no\nkernel image")
                return True
            measurement.measure_step = measure_step
            with mock.patch.object(measure_gpu, "torch"), \
                    contextlib.redirect_stderr(io.StringIO()) as told:
                measurement.models()
                measurement.models()
        self.assertEqual(tried, [("a", 1), ("b", 1), ("b", 2), ("b", 1), ("b", 2)])
        self.assertEqual(list(raw.failures.rows.values()),
                         [["models", "a fp32 1", "RuntimeError: no"]])
        self.assertIn("a fp32 1: RuntimeError: no", told.getvalue())

    def test_out_of_memory_counts_for_a_model_just_built(self):
        with tempfile.TemporaryDirectory() as folder:
            raw = measure_gpu.Raw(pathlib.Path(folder) / "raw")
            measurement = measure_gpu.Measurement(mock.Mock(budget=math.inf), raw, None)
            built = []

            class Training:
                def __init__(self, name, _):
                    self.name, self.is_used = name, False
                    built.append(self)

            def step_row(training, batch, _):
                if batch > 8 or (batch == 8 and training.is_used):
                    raise RuntimeError("CUDA out of memory")
                training.is_used = True
                return ["ok", *[1.0] * (len(raw.steps.columns) - 4)]
            measurement.step_row = step_row
            with mock.patch.object(measure_gpu, "torch") as torch, \
                    mock.patch.object(measure_gpu, "Training", Training), \
                    mock.patch.object(measure_gpu, "catalogue", lambda: {"toy": None}), \
                    contextlib.redirect_stderr(io.StringIO()):
                torch.cuda.OutOfMemoryError = MemoryError
                fits = [measurement.measure_step("toy", batch, "fp32") for batch in (4, 8, 9)]
        self.assertEqual(fits, [True, True, False])
        self.assertEqual(len(built), 3)
        self.assertEqual(raw.steps.get(("toy", "fp32", 9), "outcome"), "out_of_memory")

    def test_a_gpu_that_does_not_answer_ends_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            raw = measure_gpu.Raw(pathlib.Path(folder) / "raw")
            measurement = measure_gpu.Measurement(mock.Mock(budget=math.inf), raw, None)
            with mock.patch.object(measure_gpu, "torch") as torch, \
                    contextlib.redirect_stderr(io.StringIO()), \
                    self.assertRaisesRegex(measure_gpu.Stop, "does not answer"):
                torch.cuda.synchronize.side_effect = RuntimeError("illegal memory access")
                with measurement.reporting("models", "a fp32 1"):
                    raise RuntimeError("illegal memory access")
            self.assertIn(("models", "a fp32 1"), raw.failures)

    def test_kernels_of_a_trace_add_up(self):
        def event(name, duration, grid=(2, 1, 1)):
            return {"cat": "kernel", "name": name, "dur": duration,
                    "args": {"grid": list(grid), "block": [128, 1, 1]}}
        rows = measure_gpu.kernel_rows([
            event("a", 3), event("b", 10), event("a", 5), event("a", 1, (4, 1, 1)),
            {"cat": "cpu_op", "name": "a", "dur": 100}, {"ph": "M", "name": "process_name"}])
        self.assertEqual(rows, [(("b", "2x1x1", "128x1x1"), (1, 10, 10, 10)),
                                (("a", "2x1x1", "128x1x1"), (2, 8, 3, 5)),
                                (("a", "4x1x1", "128x1x1"), (1, 1, 1, 1))])


class RawTest(FolderTest):
    def test_what_was_measured_is_known_to_the_next_run(self):
        put_step(self.raw, "resnet18", 8)
        again = measure_gpu.Raw(self.folder / "raw")
        self.assertIn(("resnet18", "fp32", 8), again.steps)
        self.assertNotIn(("resnet18", "fp32", 16), again.steps)
        self.assertNotIn(("resnet18", "tf32", 8), again.steps)
        self.assertEqual(again.steps.get(("resnet18", "fp32", 8), "backward_ms"), "2")
        self.assertEqual(again.failures.rows, {})

    def test_names_of_kernels_are_numbered_once(self):
        def kernel(name, time):
            return (name, "1x1x1", "32x1x1"), (1, time, time, time)
        self.raw.put_kernels(("resnet18", "fp32", 8), [kernel('k<int, "x">', 3), kernel("b", 2)])
        again = measure_gpu.Raw(self.folder / "raw")
        again.put_kernels(("resnet18", "tf32", 8), [kernel("c", 3), kernel('k<int, "x">', 2)])
        names = {row["kernel"]: row["name"] for row in again.kernel_names.dictionaries()}
        self.assertEqual(names, {"0": 'k<int, "x">', "1": "b", "2": "c"})
        self.assertEqual([(row["precision"], names[row["kernel"]], row["total_us"])
                          for row in measure_gpu.Raw(self.folder / "raw").kernels.dictionaries()],
                         [("fp32", 'k<int, "x">', "3"), ("fp32", "b", "2"), ("tf32", "c", "3"),
                          ("tf32", 'k<int, "x">', "2")])

    def test_a_row_replaces_the_one_of_the_same_key(self):
        put_step(self.raw, "resnet18", 8, forward=1.0)
        put_step(self.raw, "resnet18", 8, forward=2.0)
        self.assertEqual([row["forward_ms"] for row in self.raw.steps.dictionaries()], ["2"])

    def test_an_interrupted_write_leaves_the_table_whole(self):
        put_step(self.raw, "resnet18", 8)
        before = self.raw.steps.path.read_bytes()
        with mock.patch("os.fsync", side_effect=KeyboardInterrupt), \
                self.assertRaises(KeyboardInterrupt):
            put_step(self.raw, "resnet18", 16)
        self.assertEqual(self.raw.steps.path.read_bytes(), before)
        self.assertEqual(list(self.folder.rglob("*.tmp")), [])

    def test_what_a_killed_run_left_over_goes(self):
        put_step(self.raw, "resnet18", 8)
        (self.folder / "raw/steps.csv.tmp").write_text("half")
        self.assertEqual(len(measure_gpu.Raw(self.folder / "raw").steps.rows), 1)
        self.assertEqual(list(self.folder.rglob("*.tmp")), [])

    def test_tables_of_another_version_are_refused(self):
        (self.folder / "raw").mkdir(parents=True)
        (self.folder / "raw/steps.csv").write_text("model,batch\n")
        with self.assertRaisesRegex(measure_gpu.Stop, "columns other"):
            measure_gpu.Raw(self.folder / "raw")
        (self.folder / "raw/steps.csv").unlink()
        (self.folder / "raw/facts.json").write_text('{"format": "else"}')
        with self.assertRaisesRegex(measure_gpu.Stop, "format"):
            measure_gpu.Raw(self.folder / "raw")

    def test_measurements_of_two_gpus_do_not_mix(self):
        measure_gpu.adopt_facts(self.raw, FACTS)
        self.raw.save_facts()
        again = measure_gpu.Raw(self.folder / "raw")
        measure_gpu.adopt_facts(again, {**FACTS, "cores": 4})
        for name in ("gpu", "pytorch", "emulated"):
            with self.assertRaisesRegex(measure_gpu.Stop, f"with {name} "):
                measure_gpu.adopt_facts(again, {**FACTS, name: "other"})

    def test_a_row_must_fit_its_table(self):
        with self.assertRaises(ValueError):
            self.raw.copies.put("on_device", "none", 4, 1)


class PackTest(FolderTest):
    def write(self):
        self.raw.facts = FACTS
        return measure_gpu.write_pack(self.folder, self.raw)

    def lines(self, name):
        return (self.folder / name).read_text(encoding="ascii").splitlines()

    def gpemu(self, *words, expect=0):
        if not GPEMU:
            self.skipTest("needs the gpemu command")
        environment = {**os.environ, "XDG_DATA_HOME": str(self.folder.parent / "home")}
        done = subprocess.run([GPEMU, *map(str, words)], capture_output=True, text=True,
                              env=environment, timeout=60, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout

    def fill(self):
        for batch in (1, 2, 4):
            put_step(self.raw, "resnet18", batch, forward=1.5 * batch, peak=99.5 + batch / 3,
                     samples=10 - batch)
        self.raw.steps.put("resnet18", "fp32", 8, "out_of_memory",
                           *[None] * (len(self.raw.steps.columns) - 4))
        put_step(self.raw, "gpt2_124m", 1, precision="bf16-amp")
        self.raw.failures.put("models", "vgg11 fp32", 'RuntimeError: "no", no')
        self.raw.copies.put("on_device", "none", 4, 1, 7, 2.0, 1.0, 3.0)
        self.raw.facts = FACTS
        self.raw.save_facts()

    def test_nothing_measured_makes_no_pack(self):
        self.assertEqual(self.write(), 0)
        self.assertFalse((self.folder / "pack.toml").exists())

    def test_tables_hold_what_was_measured(self):
        self.fill()
        self.assertEqual(self.write(), 2)
        of_device = "V100-PCIE-32GB/fp32/"
        self.assertEqual(self.lines(of_device + "forward.csv"),
                         ["model,batch,forward_ms", "resnet18,1,1.5", "resnet18,2,3.0",
                          "resnet18,4,6.0"])
        self.assertEqual(self.lines(of_device + "backward_optimizer.csv")[1], "resnet18,1,3.25")
        self.assertEqual(self.lines(of_device + "peak_memory.csv")[1], "resnet18,1,99.8333")
        self.assertEqual(self.lines(of_device + "limits.csv")[1], "resnet18,4,8")
        self.assertEqual(self.lines(of_device + "curves.csv")[1], "resnet18,forward,3,0,0,0,0")
        self.assertEqual(self.lines("V100-PCIE-32GB/bf16-amp/curves.csv")[1],
                         "gpt2_124m,forward,1,2.8,7.1,10.4,100")
        self.assertEqual(self.lines("V100-PCIE-32GB/bf16-amp/limits.csv")[1], "gpt2_124m,1,")
        self.assertEqual(self.lines("models.csv")[1:], ["gpt2_124m,1000,3,224,224",
                                                        "resnet18,1000,3,224,224"])
        info = (self.folder / "pack.toml").read_text(encoding="ascii")
        self.assertIn("samples = 6\n", info)
        self.assertIn("2026-01-02 to 2026-01-03", info)
        self.assertLess(max(map(len, info.splitlines())), 100)

    def test_a_model_that_never_ran_is_not_in_the_pack(self):
        self.fill()
        self.raw.steps.put("llama_1b", "fp32", 1, "out_of_memory",
                           *[None] * (len(self.raw.steps.columns) - 4))
        self.assertEqual(self.write(), 2)
        self.assertNotIn("llama_1b", "".join(self.lines("V100-PCIE-32GB/fp32/limits.csv")))

    def test_copies_may_be_missing_for_large_batches(self):
        self.fill()
        put_step(self.raw, "resnet18", 6, forward=8.0, copy=None)
        self.write()
        self.assertEqual(len(self.lines("V100-PCIE-32GB/fp32/input_copy_pageable.csv")), 4)
        self.assertEqual(len(self.lines("V100-PCIE-32GB/fp32/forward.csv")), 5)

    def test_gpemu_finds_no_fault_in_it(self):
        self.fill()
        self.raw.facts = {**FACTS, "stated": {"note": "a \"note\" " + 30 * "long ",
                                              "citation": "A. Author"}}
        # A point that something held up: the review would refuse the fall behind it.
        put_step(self.raw, "resnet18", 3, forward=40.0, peak=200.0)
        measure_gpu.write_pack(self.folder, self.raw)
        self.assertIn("no faults", self.gpemu("profile", "check", self.folder))

    def test_gpemu_answers_from_it(self):
        self.fill()
        put_step(self.raw, "gpt2_124m", 2, precision="bf16-amp", forward=1.75, peak=150.0)
        self.write()
        self.gpemu("profile", "add", self.folder)
        cost = json.loads(self.gpemu("cost", "--gpu", "V100-PCIE-32GB", "--model", "gpt2_124m",
                                     "--precision", "bf16-amp", "--batch", 1, "--json"))
        self.assertIn("measured", json.dumps(cost))
        self.assertIn("gpt2_124m", self.gpemu(
            "train", "synthetic", "--gpu", "V100-PCIE-32GB", "--model", "gpt2_124m", "--batch", 1,
            "--precision", "bf16-amp", "--steps", 3))

    def test_packs_of_the_same_gpu_are_compared(self):
        self.fill()
        other = measure_gpu.Raw(self.folder.parent / "emulated/raw")
        put_step(other, "resnet18", 1, forward=1.5, peak=110.0)  # a step of 4.75 ms, as measured
        put_step(other, "resnet18", 4, forward=3.0)  # measured were 18.25 ms, this says 9.25
        put_step(other, "resnet18", 8, forward=9.0)  # was out of memory
        other.steps.put("resnet18", "fp32", 5, "out_of_memory",
                        *[None] * (len(other.steps.columns) - 4))
        done = subprocess.run(
            [sys.executable, ROOT / "scripts/claims/compare_measured.py", self.folder,
             other.folder.parent, "--worst", "1", "--rows", self.folder.parent / "rows.csv"],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with (self.folder.parent / "rows.csv").open(encoding="ascii") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(row["batch"], float(row["step_error"]), row["host_bound"])
                          for row in rows], [("1", 0.0, "True"), ("4", -0.49315, "False")])
        self.assertRegex(done.stdout, r"all +2 +1 +24\.7% ")
        self.assertRegex(done.stdout, r"resnet18 +fp32 +4 +18\.250 +9\.250 +-49\.3% +backward\n")
        self.assertIn("1 pairs of model and precision, mean error 100.0%", done.stdout)

    def test_gpemu_starts_the_script(self):
        self.assertIn("--budget SECONDS", self.gpemu("profile", "measure", "--", "--help"))
        self.gpemu("profile", "measure", "--", "--output", self.folder, "--budget", 0, expect=2)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        GPEMU = sys.argv.pop(1)
    unittest.main()
