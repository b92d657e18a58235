#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows what kLeastOfPrograms in tools/predict/scaling.cpp follows from: how much less than
predicted published programs gain from the GPUs of one machine whose links hide the exchange of
gradients (evidence/published/scaling/programs.csv), because of what gpemu predict leaves out,
such as loading data.

Each row's efficiency is divided by the least that gpemu predict states of a program without
exchange: the slowest of so many GPUs takes 2, 4 and 6 % longer than one (slowest_of() in
src/step/rank_slowdown.cpp, with kMostGpuVariation). The share that 19 of 20 rows reach is shown,
in which each program counts the same, and for how many rows of each program it holds that the
others' share contains them.

Usage: scripts/claims/scaling_losses.py
"""

import collections
import csv
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLOWEST = {2: 0.023, 4: 0.042, 8: 0.058}
BELOW = 0.05


def read_shares():
    """Returns the shares by program."""
    shares = collections.defaultdict(list)
    programs = ROOT / "evidence/published/scaling/programs.csv"
    with programs.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            program = "/".join(row["program"].split("/")[:2])
            slowest = SLOWEST[int(row["gpus"])]
            shares[program].append(float(row["efficiency"]) * (1 + slowest))
    return shares


def least(shares):
    """Returns the share that 19 of 20 rows reach."""
    weighted = sorted((share, 1 / len(of_program)) for of_program in shares.values()
                      for share in of_program)
    below = 0
    for share, weight in weighted:
        below += weight
        if below > BELOW * len(shares):
            return share
    raise ValueError("no shares")


def main():
    shares = read_shares()
    print(f"{'program':34} {'rows':>4} {'without':>7} {'held':>4}")
    rows = held = 0
    for program, of_program in sorted(shares.items()):
        without = least({name: other for name, other in shares.items() if name != program})
        inside = sum(share >= without for share in of_program)
        print(f"{program:34} {len(of_program):4} {without:7.2f} {inside:4}")
        rows += len(of_program)
        held += inside
    print(f"kLeastOfPrograms {least(shares):.2f}; {held} of {rows} rows ({held / rows:.0%}) reach "
          "that of the other programs")


if __name__ == "__main__":
    main()
