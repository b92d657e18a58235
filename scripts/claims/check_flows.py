#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares copies that run at the same time and share links with what others measured
(evidence/published/copies/README.md): a program under gpemu run copies on all flows at once, and
the sum of their rates is compared. Times are the devices' own, so a busy machine changes nothing.

The exit code is 1 if the mean error of several flows misses its target.

Usage: scripts/claims/check_flows.py [--gpemu COMMAND]
"""

import argparse
import csv
import ctypes
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "evidence/published/copies"
GPUS = 8
MIB = 1 << 20
SIZE, ROUNDS = 64 * MIB, 8
WAIT = 5000  # Times that the memory is set before the first copy.
# The most that the mean error may be, in percent.
MOST_PERCENT = 15


def check(status):
    assert status == 0, status


def program(flows):
    """Copies on all flows at once, and prints the sum of their rates in GB/s."""
    cuda = ctypes.CDLL("libcudart.so.12")
    size = ctypes.c_size_t(SIZE)

    def handle(function, *arguments):
        made = ctypes.c_void_p()
        check(function(ctypes.byref(made), *arguments))
        return made

    memory = {}
    for gpu in range(GPUS):
        check(cuda.cudaSetDevice(gpu))
        memory[gpu] = handle(cuda.cudaMalloc, size)
    memory["host"] = handle(cuda.cudaMallocHost, size)
    # All begin at the same time, after the host has asked for all.
    check(cuda.cudaSetDevice(0))
    start = handle(cuda.cudaEventCreate)
    for _ in range(WAIT):
        check(cuda.cudaMemsetAsync(memory[0], 0, size, None))
    check(cuda.cudaEventRecord(start, None))
    begun = []
    for source, target in flows:
        check(cuda.cudaSetDevice(target if source == "host" else source))
        stream = handle(cuda.cudaStreamCreateWithFlags, 1)
        begin, end = handle(cuda.cudaEventCreate), handle(cuda.cudaEventCreate)
        check(cuda.cudaStreamWaitEvent(stream, start, 0))
        check(cuda.cudaEventRecord(begin, stream))
        begun.append((source, target, stream, begin, end))
    for _ in range(ROUNDS):
        for source, target, stream, _, _ in begun:
            if "host" in (source, target):
                check(cuda.cudaMemcpyAsync(memory[target], memory[source], size, 4, stream))
            else:
                check(cuda.cudaMemcpyPeerAsync(memory[target], target, memory[source], source, size,
                                               stream))
    longest = 0
    for source, target, stream, begin, end in begun:
        check(cuda.cudaSetDevice(target if source == "host" else source))
        check(cuda.cudaEventRecord(end, stream))
        check(cuda.cudaEventSynchronize(end))
        elapsed_ms = ctypes.c_float()
        check(cuda.cudaEventElapsedTime(ctypes.byref(elapsed_ms), begin, end))
        longest = max(longest, elapsed_ms.value)
    print(len(flows) * ROUNDS * SIZE / longest / 1e6)


def flows_of(text):
    def end(part):
        return part if part == "host" else int(part)

    return [[end(part) for part in flow.split(">")] for flow in text.split()]


def emulated(gpemu, row):
    command = [gpemu, "run", "--quiet", "--clock", "virtual", "--drop-data", "--gpu",
               f"{FOLDER / 'rtx-pro-6000.toml'}:{GPUS}", "--topology",
               FOLDER / f"{row['machine']}.toml", "--", sys.executable, __file__, "--flows",
               row["flows"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"check_flows: {row['machine']}, {row['what']}: {done.stderr.strip()}")
    return float(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpemu", default="gpemu", help="the gpemu command")
    parser.add_argument("--flows", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.flows:
        program(flows_of(options.flows))
        return 0
    print(f"{'machine':16} {'flows':>5}  {'what':38} {'measured':>8} {'gpemu':>6} {'error / %':>9}")
    errors = {"one flow": [], "several flows": []}
    with (FOLDER / "flows.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            count, measured = len(flows_of(row["flows"])), float(row["gb_per_s"])
            found = emulated(options.gpemu, row)
            error = 100 * (found / measured - 1)
            errors["one flow" if count == 1 else "several flows"].append(abs(error))
            print(f"{row['machine']:16} {count:5}  {row['what']:38} {measured:8.1f} {found:6.1f} "
                  f"{error:+9.1f}")
    print()
    for name, found in errors.items():
        print(f"{name:14} {len(found):3} rows, mean error {statistics.fmean(found):4.1f} %, "
              f"largest {max(found):4.1f} %")
    return 1 if statistics.fmean(errors["several flows"]) > MOST_PERCENT else 0


if __name__ == "__main__":
    sys.exit(main())
