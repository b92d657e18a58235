#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that an emulated second is a second: steps of 184 ms and 2 ms on an idle machine, and of
10 ms beside four busy processes per core. Beside each, the same loop with Python's time.sleep, as
emulators that sleep do it: forward, then backward, step by step.

Prints a table; exits with 1 when a line of gpemu misses its bar. Meant for an idle machine.

Usage: scripts/claims/check_fidelity.py [--gpemu COMMAND] [--steps N] [--json FILE]
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU = "V100-PCIE-32GB"
BUSY_PER_CORE = 4

# (what, step in ms, busy machine, bar on |mean / profile - 1|)
CASES = [("184 ms", 184.0, False, 0.001),
         ("2 ms", 2.0, False, 0.005),
         ("10 ms, busy", 10.0, True, 0.01)]


def write_pack(folder, steps_ms):
    """Writes a pack with one model per step time: no measured model has a step of 2 ms."""
    tables = folder / GPU / "fp32"
    tables.mkdir(parents=True)
    (folder / "pack.toml").write_text(
        'format = 1\nname = "fidelity"\ntitle = "Steps of round durations"\n'
        'citation = "none: made by scripts/claims/check_fidelity.py"\nurl = "https://example.org"\n'
        'licence = "none"\nmethod = "made up, to test the emulator itself"\nframework = "none"\n'
        'host = "none"\nsamples = 1\n')
    names = {f"steps{ms:06.1f}": ms for ms in steps_ms}
    rows = sorted(names.items())
    header = "model,parameters,channels,height,width\n"
    (folder / "models.csv").write_text(header + "".join(f"{n},1000,3,224,224\n" for n, _ in rows))
    # A third of the step is forward, as it is for common networks.
    values = {"forward": ("forward_ms", lambda ms: ms / 3),
              "backward_optimizer": ("backward_optimizer_ms", lambda ms: ms * 2 / 3),
              "input_copy_pageable": ("input_copy_pageable_ms", lambda ms: ms / 100),
              "peak_memory": ("peak_memory_mib", lambda ms: 100),
              "persistent_memory": ("persistent_memory_mib", lambda ms: 50)}
    curves = "model,quantity,measured_rows,mean_error_percent,p90_error_percent," \
             "p95_error_percent,max_error_percent\n"
    curves += "".join(f"{n},{q},2,0,0,0,0\n" for n, _ in rows for q in values)
    (tables / "curves.csv").write_text(curves)
    for quantity, (column, value) in values.items():
        points = "".join(f"{n},{batch},{value(ms) * scale:.6f}\n"
                         for n, ms in rows for batch, scale in ((8, 1), (16, 2)))
        (tables / f"{quantity}.csv").write_text(f"model,batch,{column}\n" + points)
    (tables / "limits.csv").write_text("model,largest_batch_measured,first_batch_out_of_memory\n"
                                       + "".join(f"{n},16,\n" for n, _ in rows))
    return names


def emulate(gpemu, model, steps, environment):
    """Returns the mean step and the profile's, in ms, and the 99th percentile."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "run.json"
        subprocess.run([gpemu, "train", "synthetic", "--gpu", GPU, "--model", model, "--batch", "8",
                        "--steps", str(steps), "--quiet", "--json", output],
                       env=environment, check=True)
        result = json.loads(output.read_text())
    return result["step_ms"]["mean"], result["profile_step_ms"]["total"], result["step_ms"]["p99"]


def sleep(step_ms, steps):
    """Returns mean and 99th percentile of steps that sleep forward and then backward, in ms."""
    ends = []
    for _ in range(steps):
        time.sleep(step_ms / 3 / 1000)
        time.sleep(step_ms * 2 / 3 / 1000)
        ends.append(time.perf_counter())
    durations = sorted((b - a) * 1000 for a, b in zip(ends, ends[1:]))
    return (ends[-1] - ends[0]) * 1000 / (steps - 1), durations[len(durations) * 99 // 100]


class BusyProcesses:
    """Keeps the machine busy while a `with` block runs."""

    def __init__(self, count):
        self.count = count
        self.processes = []

    def __enter__(self):
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                          for _ in range(self.count)]
        time.sleep(0.5)

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def run_case(case, model, options, environment):
    what, step_ms, busy, bar = case
    with BusyProcesses(BUSY_PER_CORE * len(os.sched_getaffinity(0)) if busy else 0):
        mean, profile, p99 = emulate(options.gpemu, model, options.steps, environment)
        sleep_mean, sleep_p99 = sleep(step_ms, options.steps)
    return {"case": what, "profile_ms": profile, "mean_ms": mean, "p99_ms": p99,
            "error": mean / profile - 1, "bar": bar, "pass": abs(mean / profile - 1) <= bar,
            "sleep_mean_ms": sleep_mean, "sleep_p99_ms": sleep_p99,
            "sleep_error": sleep_mean / step_ms - 1}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpemu", default=ROOT / "build/release/tools/gpemu", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--json", type=pathlib.Path, help="write the rows")
    options = parser.parse_args()
    if shutil.which(options.gpemu) is None:
        sys.exit(f"there is no {options.gpemu}; build it, or name one with --gpemu")

    rows = []
    with tempfile.TemporaryDirectory(prefix="gpemu_fidelity_") as scratch:
        folder = pathlib.Path(scratch)
        names = write_pack(folder / "fidelity", [case[1] for case in CASES])
        environment = {**os.environ, "XDG_DATA_HOME": str(folder / "user")}
        subprocess.run([options.gpemu, "profile", "add", folder / "fidelity"], env=environment,
                       check=True, stdout=subprocess.DEVNULL)
        print(f"load average before: {os.getloadavg()[0]:.2f}; {options.steps} steps each\n")
        print(f"{'step':12} {'profile':>9} {'gpemu mean':>11} {'error':>9} {'bar':>7} {'p99':>9}"
              f" {'':5} {'sleep mean':>11} {'error':>9} {'p99':>9}")
        for case in CASES:
            model = next(name for name, ms in names.items() if ms == case[1])
            row = run_case(case, model, options, environment)
            rows.append(row)
            print(f"{row['case']:12} {row['profile_ms']:9.3f} {row['mean_ms']:11.3f}"
                  f" {row['error']:9.3%} {row['bar']:7.1%} {row['p99_ms']:9.3f}"
                  f" {'ok' if row['pass'] else 'MISS':5} {row['sleep_mean_ms']:11.3f}"
                  f" {row['sleep_error']:9.2%} {row['sleep_p99_ms']:9.3f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0 if all(row["pass"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
