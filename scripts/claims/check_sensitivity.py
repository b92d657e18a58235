#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares how fast Synergy's models train with how many cores and how much memory, computed from a
described host, with the published table (evidence/published/schedulers/synergy/README.md).

    scripts/claims/check_sensitivity.py --gpemu build/release/tools/gpemu

Rows without memory are left out: they are no measurements. It fails if the mean error exceeds 15 %.
"""

import argparse
import csv
import io
import pathlib
import subprocess
import sys

PROJECT = pathlib.Path(__file__).resolve().parents[2]
PUBLISHED = PROJECT / "evidence/published/schedulers/synergy/sensitivity.csv"
CORES = range(1, 10)
MEMORY = ["62.5", "125", "187.5", "250"]
MOST_MEAN_ERROR = 0.15


def published():
    """Returns throughputs by model, cores and memory."""
    with open(PUBLISHED, encoding="utf-8") as file:
        return {(row["model"], int(row["cores"]), float(row["memory_gib"])):
                float(row["throughput"]) for row in csv.DictReader(file)
                if float(row["memory_gib"]) > 0}


def computed(gpemu):
    """Returns the same from the described host."""
    text = subprocess.run(
        [gpemu, "experiment", "speeds", "synergy-sensitivity", "--quiet", "--cores",
         *map(str, CORES), "--memory", *MEMORY, "--base-cores", "3", "--base-memory", MEMORY[0]],
        check=True, capture_output=True, text=True).stdout
    return {(row["model"], int(row["cores"]), float(row["memory_gib"])): float(row["speed"])
            for row in csv.DictReader(io.StringIO(text))}


def mean(numbers):
    numbers = list(numbers)
    return sum(numbers) / len(numbers)


def show(paper, ours):
    print("model         error   by cores with the most memory: paper's, ours")
    models = sorted({key[0] for key in paper}, key=lambda model: -paper[model, 9, 250])
    for model in models:
        error = mean(abs(ours[key] / paper[key] - 1) for key in paper if key[0] == model)
        for name, table in (("paper", paper), ("ours", ours)):
            speeds = " ".join(f"{table[model, cores, 250]:5.2f}" for cores in CORES)
            head = f"{model:<12}{100 * error:5.1f} %" if table is paper else " " * 19
            print(f"{head}  {name:<6}{speeds}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--gpemu", default="gpemu", help="the program to ask")
    paper, ours = published(), computed(parser.parse_args().gpemu)
    show(paper, ours)
    error = mean(abs(ours[key] / paper[key] - 1) for key in paper)
    print(f"mean error of {len(paper)} speeds: {100 * error:.1f} % "
          f"(at most {100 * MOST_MEAN_ERROR:.0f} %)")
    return 0 if error <= MOST_MEAN_ERROR else 1


if __name__ == "__main__":
    sys.exit(main())
