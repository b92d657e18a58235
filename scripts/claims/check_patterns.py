#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the patterns of data stalls that Mohan et al. measured on real GPUs (VLDB 2021): a heavy
network on an old GPU never waits, a light one on a new GPU mostly waits for preprocessing, and
throughput over workers is min(workers * rate of one, rate of the GPU) up to the cores of the host.

Compares runs with each other and with the profile, never with a time of one machine. Prints a
table; exits with 1 when a line misses its bar. Meant for an idle machine: other load takes the
workers' time.

Usage: scripts/claims/check_patterns.py [--gpemu COMMAND] [--data FOLDER] [--seconds S]
       [--json FILE]
"""

import argparse
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = 1500
BATCH = 64
HEAVY = ("resnet50", "M40")
MEDIUM = ("resnet18", "V100-PCIE-32GB")
LIGHT = ("alexnet", "A100-SXM4-40GB")
MOST_STALL_OF_HEAVY = 0.03
LEAST_STALL_OF_LIGHT = 0.70
MOST_ERROR = 0.10


def physical_cores():
    """Returns how many cores this process may use, counting the threads of one core once."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings.read_text() if siblings.exists() else cpu)
    return len(cores)


class Checks:
    """Runs gpemu and collects its output."""

    def __init__(self, options, data, scratch):
        self.options = options
        self.data = data
        self.output = scratch / "run.json"
        self.rows = []

    def train(self, model, gpu, workers, steps):
        subprocess.run([self.options.gpemu, "train", "files", self.data, "--gpu", gpu, "--model",
                        model, "--batch", str(BATCH), "--workers", str(workers), "--epochs",
                        "1000000", "--steps", str(steps), "--quiet", "--json", self.output,
                        *self.options.pin], check=True)
        return json.loads(self.output.read_text())

    def steps_for(self, step_s):
        return max(10, math.ceil(self.options.seconds / step_s))

    def add(self, what, value, bar, holds):
        self.rows.append({"check": what, "value": value, "bar": bar, "pass": holds})
        print(f"{'ok  ' if holds else 'MISS'}  {what:58} {value:>22}   {bar}", flush=True)


def stalled(result):
    return result["steady_share"]["fetch_wait"] + result["steady_share"]["prep_wait"]


def check_stalls(checks):
    """The two ends of the scale, each with one worker."""
    heavy = checks.train(*HEAVY, 1, checks.steps_for(0.56))
    checks.add("ResNet-50 on M40, 1 worker: stall", f"{stalled(heavy):.1%}",
               f"at most {MOST_STALL_OF_HEAVY:.0%}", stalled(heavy) <= MOST_STALL_OF_HEAVY)
    light = checks.train(*LIGHT, 1, checks.steps_for(0.15))
    prep = light["steady_share"]["prep_wait"]
    checks.add("AlexNet on A100, 1 worker: prep stall", f"{prep:.1%}",
               f"at least {LEAST_STALL_OF_LIGHT:.0%}", prep >= LEAST_STALL_OF_LIGHT)
    return light


def check_workers(checks, one_worker):
    rate = one_worker["images_per_s"]
    for model, gpu in (LIGHT, MEDIUM, HEAVY):
        for workers in range(1, physical_cores() + 1):
            if (model, gpu) == LIGHT and workers == 1:
                continue  # The rate comes from that run.
            step_s = BATCH / rate / workers
            result = checks.train(model, gpu, workers, checks.steps_for(step_s))
            ceiling = BATCH * 1000 / result["profile_step_ms"]["total"]
            expected = min(workers * rate, ceiling)
            measured = result["images_per_s"]
            checks.add(f"{model} on {gpu}, {workers} workers: images/s",
                       f"{measured:.0f}, rule says {expected:.0f}", f"within {MOST_ERROR:.0%}",
                       abs(measured / expected - 1) <= MOST_ERROR)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpemu", default=ROOT / "build/release/tools/gpemu", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, help="use this data set, make none")
    parser.add_argument("--seconds", type=float, default=10, help="length of each run (10)")
    parser.add_argument("--no-pin-memory", action="store_const", dest="pin", default=[],
                        const=["--no-pin-memory"], help="where locked memory is limited")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows")
    options = parser.parse_args()
    if shutil.which(options.gpemu) is None:
        sys.exit(f"there is no {options.gpemu}; build it, or name one with --gpemu")

    with tempfile.TemporaryDirectory(prefix="gpemu_patterns_") as folder:
        scratch = pathlib.Path(folder)
        data = options.data or scratch / "data"
        if not options.data:
            subprocess.run([options.gpemu, "data", "make", data, "--images", str(IMAGES)],
                           check=True, stdout=subprocess.DEVNULL)
        checks = Checks(options, data, scratch)
        checks.train(*LIGHT, len(os.sched_getaffinity(0)), IMAGES // BATCH)  # Fills the page cache.
        print(f"load average before: {os.getloadavg()[0]:.2f}; {physical_cores()} cores\n")
        check_workers(checks, check_stalls(checks))
    if options.json:
        options.json.write_text(json.dumps(checks.rows, indent=2) + "\n")
    return 0 if all(row["pass"] for row in checks.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
