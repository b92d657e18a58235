#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repeats GPEmu's experiment on Salus (MLSys 2020): three equal jobs that train ResNet-50 on one
P100 and start 30 seconds apart, whose iterations share the GPU first in, first out.

Each job takes 296 steps of 128 images, 575.3 ms each, as in that experiment. GPEmu (VLDB 2025)
published the rate of each job while one, two and three of them run: 222.5 images/s, divided by
their number. Checks that the rates agree within 2 %, jobs with each other within 1 %, and the ends
(440, 498 and 514 s) within 2 %.

The jobs are gpemu train or, with --python, unmodified PyTorch programs: each has one kernel per
forward and per backward pass that takes as long. Memory is not part of that experiment: the jobs
hold little. With --clock virtual, the default, this takes seconds; with --clock real, 9 minutes.

Usage: scripts/claims/check_salus.py [--gpemu COMMAND] [--python PYTHON] [--clock virtual|real]
       [--json FILE]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU = "P100-PCIE-16GB"
BATCH, STEPS, STEP_MS = 128, 296, 575.3
STARTS = (0, 30, 60)
RATE = BATCH * 1000 / STEP_MS
ENDS = (440, 498, 514)  # Published.
CLOCK_HZ = 1.328e9  # Of the P100: cycles of torch.cuda._sleep per second.


def write_pack(folder):
    """Writes a pack with the step of that experiment: a third of it is the forward pass."""
    tables = folder / GPU / "fp32"
    tables.mkdir(parents=True)
    (folder / "pack.toml").write_text(
        'format = 1\nname = "salus"\ntitle = "The step of GPEmu\'s experiment on Salus"\n'
        'citation = "GPEmu, VLDB 2025"\nurl = "https://github.com/mengwanguc/gpemu"\n'
        'licence = "none"\nmethod = "a constant of that experiment"\nframework = "none"\n'
        'host = "none"\nsamples = 1\n')
    (folder / "models.csv").write_text("model,parameters,channels,height,width\n"
                                       "salus_job,1000,3,224,224\n")
    values = {"forward": ("forward_ms", STEP_MS / 3),
              "backward_optimizer": ("backward_optimizer_ms", STEP_MS * 2 / 3),
              "input_copy_pageable": ("input_copy_pageable_ms", 6.7),
              "peak_memory": ("peak_memory_mib", 100),
              "persistent_memory": ("persistent_memory_mib", 50)}
    (tables / "curves.csv").write_text(
        "model,quantity,measured_rows,mean_error_percent,p90_error_percent,p95_error_percent,"
        "max_error_percent\n" + "".join(f"salus_job,{name},2,0,0,0,0\n" for name in values))
    for name, (column, value) in values.items():
        (tables / f"{name}.csv").write_text(
            f"model,batch,{column}\n"
            f"salus_job,{BATCH},{value:.6f}\nsalus_job,{2 * BATCH},{2 * value:.6f}\n")
    (tables / "limits.csv").write_text("model,largest_batch_measured,first_batch_out_of_memory\n"
                                       f"salus_job,{2 * BATCH},\n")


def train(file):
    """A job in PyTorch: prints nothing, writes when each step ended, as the host sees it."""
    import torch

    ends = []
    queued = []
    for _ in range(STEPS):
        for part in (1 / 3, 2 / 3):
            torch.cuda._sleep(int(STEP_MS / 1000 * part * CLOCK_HZ))
        queued.append(torch.cuda.Event())
        queued[-1].record()
        if len(queued) > 1:
            queued.pop(0).synchronize()
            ends.append(time.monotonic())
    queued.pop().synchronize()
    ends.append(time.monotonic())
    pathlib.Path(file).write_text(json.dumps(ends))


def launch(folder, gpemu, with_torch):
    """Starts the jobs, inside `gpemu run`, and writes when they started and ended."""
    began = time.monotonic()
    jobs = []
    for number, start in enumerate(STARTS):
        time.sleep(max(0, start - (time.monotonic() - began)))
        words = [gpemu, "train", "synthetic", "--node", os.environ["GPEMU_NODE"], "--model",
                 "salus_job", "--batch", str(BATCH), "--steps", str(STEPS), "--quiet", "--trace",
                 f"{folder}/{number}.trace"]
        if with_torch:
            words = [sys.executable, __file__, "--train", f"{folder}/{number}.json"]
        jobs.append((time.monotonic() - began, subprocess.Popen(words)))
    for number, (start, job) in enumerate(jobs):
        if job.wait() != 0:
            sys.exit(f"job {number} failed")
    pathlib.Path(folder, "starts.json").write_text(json.dumps([start for start, _ in jobs]))
    pathlib.Path(folder, "began.json").write_text(json.dumps(began))


def step_ends(folder, number, start, with_torch, began):
    """Returns when the steps of a job ended, in seconds since the first job started."""
    if with_torch:
        return [end - began for end in json.loads((folder / f"{number}.json").read_text())]
    events = json.loads((folder / f"{number}.trace").read_text())["traceEvents"]
    return [start + (event["ts"] + event["dur"]) / 1e6 for event in events
            if event["name"].startswith("backward")]


def rate(ends, first, last):
    """Returns the images per second of a job between two times: of the line that fits best through
    the ends of its steps. Jobs queue two steps ahead, so their steps come in pairs."""
    inside = [end for end in ends if first <= end <= last]
    return BATCH * statistics.linear_regression(inside, range(len(inside))).slope


def intervals(ends):
    """Returns the times between which the same jobs run: (from, to, jobs)."""
    times = sorted({*STARTS, *(job[-1] for job in ends)})
    found = []
    for first, last in zip(times, times[1:]):
        jobs = [number for number, job in enumerate(ends)
                if STARTS[number] <= first and job[-1] >= last]
        found.append((first, last, jobs))
    return found


def check(ends):
    """Prints the table. Returns the rows, and whether all is within its bars."""
    rows = []
    good = True
    print("   seconds      jobs  images/s of each job          GPEmu's rate")
    for first, last, jobs in intervals(ends):
        # A program needs some time before its first step.
        first = max(first, *(ends[number][0] for number in jobs))
        rates = {number: rate(ends[number], first, last) for number in jobs}
        expected = RATE / len(jobs)
        fits = all(abs(rate / expected - 1) <= 0.02 for rate in rates.values())
        alike = max(rates.values()) <= min(rates.values()) * 1.01
        good = good and fits and alike
        rows.append({"from_s": first, "to_s": last, "images_per_s": rates, "expected": expected})
        shown = "  ".join(f"{number + 1}: {rate:6.1f}" for number, rate in rates.items())
        print(f"{first:6.1f} {last:6.1f}  {len(jobs):4d}  {shown:28}  {expected:6.1f}  "
              f"{'ok' if fits and alike else 'MISSED'}")
    for number, (job, published) in enumerate(zip(ends, ENDS)):
        fits = abs(job[-1] / published - 1) <= 0.02
        good = good and fits
        print(f"job {number + 1} ends at {job[-1]:6.1f} s; published {published} s  "
              f"{'ok' if fits else 'MISSED'}")
    return rows, good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gpemu", default=str(ROOT / "build/release/tools/gpemu"))
    parser.add_argument("--python", help="a Python that has PyTorch: run the jobs in it")
    parser.add_argument("--clock", choices=["virtual", "real"], default="virtual")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--train", help=argparse.SUPPRESS)
    parser.add_argument("--launch", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        return train(options.train)
    if options.launch:
        return launch(options.launch, options.gpemu, options.python is not None)

    with tempfile.TemporaryDirectory(prefix="gpemu_salus_") as scratch:
        folder = pathlib.Path(scratch)
        write_pack(folder / "salus")
        environment = {**os.environ, "XDG_DATA_HOME": str(folder / "user")}
        subprocess.run([options.gpemu, "profile", "add", folder / "salus"], env=environment,
                       check=True, stdout=subprocess.DEVNULL)
        words = [options.gpemu, "run", "--quiet", "--gpu", GPU, "--clock", options.clock,
                 "--sharing", "fifo", "--", options.python or sys.executable, __file__,
                 "--launch", str(folder), "--gpemu", str(pathlib.Path(options.gpemu).resolve())]
        if options.python:
            words += ["--python", options.python]
        began = time.monotonic()
        subprocess.run(words, env=environment, check=True)
        took = time.monotonic() - began
        starts = json.loads((folder / "starts.json").read_text())
        first = json.loads((folder / "began.json").read_text())
        ends = [step_ends(folder, number, start, options.python is not None, first)
                for number, start in enumerate(starts)]
    rows, good = check(ends)
    print(f"took {took:.1f} s")
    if options.json:
        options.json.write_text(json.dumps(
            {"intervals": rows, "ends_s": [job[-1] for job in ends], "took_s": took}) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
