#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs FGD's experiments again, and compares how full the fleet becomes with what its authors
published (evidence/published/schedulers/fgd/README.md): 17 workloads, six placements, ten seeds.
Nothing is measured, so a busy machine changes only how long it takes.

The exit code is 1 if a mean over the seeds of the workload "default" is off by more than 0.3
points, if the order of the placements is another one in more than one workload, or if it took
longer than 30 minutes.

Usage: scripts/claims/check_placements.py [--gpemu COMMAND] [--quick] [--threads COUNT]
"""

import argparse
import csv
import gzip
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "evidence/published/schedulers/fgd"
FIRST_SEED, SEEDS, QUICK_SEEDS = 42, 10, 2
# The most by which a mean may be off, in points; and the least that must have the same order.
MOST_POINTS = 0.3
MOST_OTHER_ORDERS = 1
MOST_MINUTES = 30


def published():
    """The published allocation at the full load, by workload, placement and seed."""
    with gzip.open(FOLDER / "published.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return {(row["workload"], row["placement"], int(row["seed"])): float(row["allocated_130"])
                for row in csv.DictReader(file)}


def ours(gpemu, workloads, seeds, threads):
    command = [gpemu, "place", *(FOLDER / f"{name}.csv.gz" for name in workloads), "--fleet",
               FOLDER / "servers.csv.gz", "--seed", str(FIRST_SEED), "--seeds", str(seeds),
               "--threads", str(threads), "--quiet", "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"check_placements: {done.stderr.strip()}")
    found = {}
    for run in json.loads(done.stdout)["results"]:
        workload = pathlib.Path(run["table"]).name.removesuffix(".csv.gz")
        found[workload, run["placement"], run["seed"]] = run["allocated_percent"][-1]
    return found


def means(values, workload, placements, seeds):
    return {name: statistics.fmean(values[workload, name, FIRST_SEED + i] for i in range(seeds))
            for name in placements}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpemu", default="gpemu", help="the gpemu command")
    parser.add_argument("--quick", action="store_true",
                        help=f"the workload default alone, with {QUICK_SEEDS} seeds")
    parser.add_argument("--threads", type=int, default=2, help="runs at once (default: 2)")
    options = parser.parse_args()
    theirs = published()
    placements = sorted({name for _, name, _ in theirs})
    workloads = ["default"] if options.quick else sorted({name for name, _, _ in theirs})
    seeds = QUICK_SEEDS if options.quick else SEEDS
    begun = time.monotonic()
    found = ours(options.gpemu, workloads, seeds, options.threads)
    minutes = (time.monotonic() - begun) / 60
    print("allocated GPUs at the full load, in %: the paper's and ours")
    print(f"{'workload':12}", *(f"{name:>15}" for name in placements), " order")
    other_orders, worst = 0, 0
    for workload in workloads:
        paper, here = (means(values, workload, placements, seeds) for values in (theirs, found))
        same = sorted(placements, key=paper.get) == sorted(placements, key=here.get)
        other_orders += not same
        if workload == "default":
            worst = max(abs(paper[name] - here[name]) for name in placements)
        print(f"{workload:12}", *(f"{paper[name]:7.2f} {here[name]:7.2f}" for name in placements),
              " same" if same else " another")
    exact = sum(abs(value - theirs[run]) <= 0.01 for run, value in found.items())
    print(f"\n{len(found)} runs in {minutes:.1f} minutes, {exact} of them as published to 0.01 "
          "points")
    checks = [(f"default: means within {MOST_POINTS} points (largest {worst:.2f})",
               worst <= MOST_POINTS),
              (f"another order in {MOST_OTHER_ORDERS} workload at most ({other_orders})",
               other_orders <= MOST_OTHER_ORDERS),
              (f"{MOST_MINUTES} minutes at most", minutes <= MOST_MINUTES)]
    for text, met in checks:
        print("met:" if met else "missed:", text)
    return 0 if all(met for _, met in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
