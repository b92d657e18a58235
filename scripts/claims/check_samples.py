#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the CUDA C++ samples on two emulated GPUs and checks their times.

Each sample prints what it measured beside what the GPU's specification implies, and fails when they
disagree. This script runs all of them on both GPUs, on the virtual clock, so that a busy machine
changes nothing, prints one table, and checks besides that what depends on the GPU alone reaches the
same share of the specification on both.

Usage: scripts/claims/check_samples.py [--gpemu COMMAND] [--samples FOLDER] [GPU GPU]
       (default: what scripts/build/build_samples.sh built, on V100-PCIE-32GB and A100-PCIE-40GB)
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINE = re.compile(r"^(\S.*?) +(-?[\d.]+) (\S*) +\((\S+) to (\S+)\) (ok|OUTSIDE)$")
# It compares the host's clock with the GPU's.
ON_REAL_CLOCK = {"events"}
# The specification alone gives these; tiles of products fill GPUs unequally.
ALIKE = {"bandwidth": 1.1, "time between the events": 1.1, "FP32 product": 1.4}


def run(gpemu, gpu, sample):
    """Returns the status and the measured lines (name, value, unit, low, high) of one sample."""
    clock = "real" if sample.name in ON_REAL_CLOCK else "gpu-only"
    command = [gpemu, "run", "--quiet", "--clock", clock, "--gpu", gpu, "--", sample]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{sample.name} on {gpu} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    matches = (LINE.match(line) for line in done.stdout.splitlines())
    return done.returncode == 0, [
        (match[1], float(match[2]), match[3], float(match[4]), float(match[5]))
        for match in matches if match]


def text_of(measured):
    _, value, unit, low, high = measured
    return f"{value:10.2f} {unit:4} ({low:.2f} to {high:.2f})"


def compare(sample, gpus, results):
    """Prints a sample's lines for both GPUs; returns whether they are alike where they must be."""
    good = True
    for first, second in zip(*results):
        name = first[0]
        print(f"{sample:16} {name:30} {text_of(first):42} {text_of(second)}")
        if name in ALIKE:
            # Of the same lower limit in terms of the specification.
            ratio = (first[1] / first[3]) / (second[1] / second[3])
            if not 1 / ALIKE[name] <= ratio <= ALIKE[name]:
                print(f"{sample}: {name}: {ratio:.2f} times nearer to what {gpus[0]} allows")
                good = False
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpus", nargs="*", default=["V100-PCIE-32GB", "A100-PCIE-40GB"])
    parser.add_argument("--gpemu", default=ROOT / "build/dev/tools/gpemu")
    parser.add_argument("--samples", type=pathlib.Path, default=ROOT / "build/samples")
    arguments = parser.parse_args()
    if len(arguments.gpus) != 2:
        parser.error("name two GPUs")
    sources = sorted(ROOT.glob("examples/cuda/*.cu"))
    samples = [arguments.samples / source.stem for source in sources]
    missing = [str(sample) for sample in samples if not sample.exists()]
    if missing:
        sys.exit(f"not built, see scripts/build/build_samples.sh: {', '.join(missing)}")
    print(f"{'sample':16} {'quantity':30} {arguments.gpus[0]:42} {arguments.gpus[1]}")
    good = True
    for sample in samples:
        outcomes = [run(arguments.gpemu, gpu, sample) for gpu in arguments.gpus]
        good &= all(succeeded for succeeded, _ in outcomes)
        good &= compare(sample.name, arguments.gpus, [lines for _, lines in outcomes])
    print("all in line with the specifications" if good else "NOT in line")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
