#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tools/measure/measure_gpu.py, unmodified, on an emulated GPU, and checks that it measures
what the emulator says, on the virtual clock:

  time     each phase of a step takes what the operations in its range take, as --ops has them
  memory   the device holds what the allocator reserved, and NVML counts the context too
  copies   pinned copies take what the GPU's specification says
  limits   memory ends, within 5 % of batch sizes, and the program goes on
  resume   a run that was interrupted goes on, and the pack is whole before and after
  pack     gpemu profile check finds no fault, and gpemu cost answers from it

Usage: scripts/claims/check_measure.py [--gpu GPU] [--gpemu COMMAND] [--python PYTHON]
       (PyTorch 2.8 as scripts/build/install_torch.sh 2.8.0 installs it; two minutes)
"""

import argparse
import collections
import csv
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools/measure/measure_gpu.py"
MODELS = ("resnet18", "vit_b_16", "bert_base", "lstm_lm", "dlrm")
BATCHES = (1, 8)
PHASES = ("forward", "backward", "optimizer")
# A PyTorch event reports milliseconds as a 32-bit float.
EVENT_RESOLUTION = 1e-6


class Checks:
    """The findings, as they are printed."""

    def __init__(self):
        self.good = True

    def tell(self, name, good, text):
        print(f"{name:8} {'ok' if good else 'WRONG':5} {text}", flush=True)
        self.good = self.good and good


def read_table(path):
    with path.open(encoding="ascii", newline="") as file:
        return list(csv.DictReader(file))


class Program:
    """Runs the script under gpemu run."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.operations, self.summary = folder / "ops.jsonl", folder / "summary.json"

    def command(self, output, *words):
        return list(map(str, (
            self.options.gpemu, "run", "--quiet", "--gpu", self.options.gpu, "--clock", "gpu-only",
            "--ops", self.operations, "--json", self.summary, "--", self.options.python, SCRIPT,
            "--output", self.folder / output, *words)))

    def run(self, output, *words, expect=0):
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        done = subprocess.run(self.command(output, *words), capture_output=True, text=True,
                              env=environment, check=False)
        if done.returncode != expect:
            sys.exit(f"check_measure: ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return self.folder / output

    def gpemu(self, *words):
        environment = {**os.environ, "XDG_DATA_HOME": str(self.folder / "home")}
        return subprocess.run([self.options.gpemu, *map(str, words)], capture_output=True,
                              text=True, env=environment, check=False)


def range_times(path):
    """Returns the times from the first operation's begin to the last one's end in each range."""
    spans, ranges = collections.defaultdict(list), []
    with path.open(encoding="utf-8") as file:
        for line in map(json.loads, file):
            if line.get("mark") == "push":
                ranges.append((line["text"], []))
            elif line.get("mark") == "pop":
                name, operations = ranges.pop()
                if operations:
                    begin = min(operation["start_ns"] for operation in operations)
                    end = max(operation["end_ns"] for operation in operations)
                    spans[name].append((end - begin) / 1e6)
            elif "op" in line:
                for _, operations in ranges:
                    operations.append(line)
    return spans


def check_times(checks, program):
    words = ("--sections", "models", "--models", ",".join(MODELS), "--precisions", "fp32",
             "--batches", ",".join(map(str, BATCHES)))
    folder = program.run("times", *words)
    spans = range_times(program.operations)
    worst, phases = (0.0, ""), 0
    for row in read_table(folder / "raw/steps.csv"):
        for phase in PHASES:
            name = f"{row['model']} {row['precision']} {row['batch']} {phase}"
            emulated = statistics.median(spans[name])
            phases += 1
            worst = max(worst, (abs(float(row[f"{phase}_ms"]) / emulated - 1), name))
    expected = len(MODELS) * len(BATCHES) * len(PHASES)
    # Tables have six digits.
    checks.tell("time", worst[0] < 1e-5 and phases == expected,
                f"{phases} phases of {len(MODELS)} models; largest difference from the emulator's "
                f"operations {worst[0]:.1e} ({worst[1] or 'none'})")
    return folder


def check_memory(checks, program):
    folder = program.run("memory", "--sections", "models", "--models", "resnet18", "--precisions",
                         "fp32", "--batches", "16")
    (row,) = read_table(folder / "raw/steps.csv")
    summary = json.loads(program.summary.read_text())
    (device,) = summary["devices"]
    peak = device["peak_memory_bytes"] / 2**20
    reserved, used = float(row["peak_reserved_mib"]), float(row["device_used_mib"])
    checks.tell("memory", reserved == peak,
                f"the allocator reserved {reserved} MiB; the emulator gave {peak} MiB")
    checks.tell("memory", used > reserved, f"NVML counts {used} MiB: {used - reserved} MiB of "
                "context on top")


def check_copies(checks, program):
    folder = program.run("copies", "--sections", "copies,launch")
    times = {(row["direction"], row["host_memory"], int(row["bytes"])): float(row["time_us"])
             for row in read_table(folder / "raw/copies.csv")}
    large, small = times["host_to_device", "pinned", 2**30], \
        times["host_to_device", "pinned", 2**28]
    rate = (2**30 - 2**28) / (large - small) / 1e3
    specification = (ROOT / f"catalog/gpus/{program.options.gpu}.toml").read_text(encoding="utf-8")
    stated = float(re.search(r"^pinned_copy_gb_per_s = { value = ([\d.]+)", specification, re.M)[1])
    checks.tell("copies", len(times) == 55 and abs(rate / stated - 1) < 1e-3,
                f"{len(times)} of 55; pinned ones at {rate:.3f} GB/s, specified {stated} GB/s")
    launches = read_table(folder / "raw/launches.csv")
    checks.tell("launch", len(launches) == 5, f"{len(launches)} of 5 kinds")


def check_limits(checks, program):
    words = ("--sections", "models", "--models", "llama_100m,lstm_lm", "--precisions", "fp32",
             "--batches", "1,16,32,64,128,256")
    folder = program.run("limits", *words)
    rows = [row for row in read_table(folder / "raw/steps.csv") if row["model"] == "llama_100m"]
    ran = [int(row["batch"]) for row in rows if row["outcome"] == "ok"]
    too_many = [int(row["batch"]) for row in rows if row["outcome"] == "out_of_memory"]
    good, bad = max(ran), min(too_many, default=None)
    checks.tell("limits", bad is not None and good < bad and bad - good <= max(1, good // 20),
                f"llama_100m ran at batch {good}, and was out of memory at {bad}")
    alone = [read_table(program.run(f"alone{batch}", *words[:2], "--models", "llama_100m",
                                    "--precisions", "fp32", "--batches", batch) / "raw/steps.csv")
             [0]["outcome"] for batch in (good, bad)]
    checks.tell("limits", alone == ["ok", "out_of_memory"],
                f"in processes of their own these two are {' and '.join(alone)}")
    after = [row for row in read_table(folder / "raw/steps.csv") if row["model"] == "lstm_lm"]
    checks.tell("limits", len(after) == 6, f"{len(after)} of 6 batches of the model behind it")


def check_resume(checks, program):
    words = ("--sections", "models", "--models", "resnet18,resnet34", "--precisions", "fp32",
             "--batches", "1,2,4,8")
    process = subprocess.Popen(program.command("resume", *words), stderr=subprocess.PIPE, text=True,
                               env={"OMP_NUM_THREADS": "1", **os.environ})
    for line in process.stderr:
        if "resnet18 fp32 batch 2" in line:
            process.send_signal(signal.SIGINT)
            break
    process.stderr.read()
    code = process.wait()
    folder = program.folder / "resume"
    before = (folder / "raw/steps.csv").read_text(encoding="ascii")
    whole = program.gpemu("profile", "check", folder).returncode == 0
    checks.tell("resume", code == 130 and whole, f"interrupted after {before.count(chr(10)) - 1} "
                f"of 8 batches: exit code {code}, {'no' if whole else 'A'} fault in the pack")
    program.run("resume", *words)
    after = (folder / "raw/steps.csv").read_text(encoding="ascii")
    checks.tell("resume", after.startswith(before) and after.count("\n") == 9,
                f"the same command again: {after.count(chr(10)) - 1} of 8, those kept")
    began = time.monotonic()
    program.run("resume", *words)
    again = (folder / "raw/steps.csv").read_text(encoding="ascii")
    checks.tell("resume", again == after, "and again: nothing is measured twice "
                f"({time.monotonic() - began:.0f} s)")


def check_pack(checks, program, folder):
    done = program.gpemu("profile", "check", folder)
    checks.tell("pack", done.returncode == 0, done.stdout.strip() + done.stderr.strip())
    program.gpemu("profile", "add", folder)
    answers = [model for model in MODELS if program.gpemu(
        "cost", "--gpu", program.options.gpu, "--model", model, "--precision", "fp32", "--batch",
        "1,4,8", "--json").returncode == 0]
    checks.tell("pack", len(answers) == len(MODELS),
                f"gpemu cost answers for {len(answers)} of {len(MODELS)} models")


def parse_arguments():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="V100-PCIE-32GB")
    parser.add_argument("--gpemu", default=ROOT / "build/release/tools/gpemu", type=pathlib.Path)
    parser.add_argument("--python", default=cache / "gpemu/torch-2.8.0/bin/python",
                        type=pathlib.Path)
    options = parser.parse_args()
    for needed in (options.gpemu, options.python):
        if not needed.exists():
            parser.error(f"there is no {needed}")
    return options


def main():
    options = parse_arguments()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="gpemu_measure.") as folder:
        program = Program(options, pathlib.Path(folder))
        measured = check_times(checks, program)
        check_pack(checks, program, measured)
        check_memory(checks, program)
        check_copies(checks, program)
        check_limits(checks, program)
        check_resume(checks, program)
    return 0 if checks.good else 1


if __name__ == "__main__":
    sys.exit(main())
