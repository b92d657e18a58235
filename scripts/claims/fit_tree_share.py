#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits what trees reach over TCP between two nodes (kTreeOverSockets in src/topology)
to published steps of BERT on two nodes with RTX 2080 Ti (evidence/published/scaling/README.md).

How long gradients are exchanged after the backward pass decreases with the time of a step on one
GPU, which hides a share of the exchange. A line through the batches gives the exchange of a step
that hides nothing. With one GPU per node, NCCL uses a ring, and with more a tree; bus bandwidths
are compared.

Usage: scripts/claims/fit_tree_share.py
"""

import csv
import pathlib
import statistics
import sys

STEPS = pathlib.Path(__file__).resolve().parents[2] / "evidence/published/scaling/two-nodes.csv"


def read_steps():
    """Returns the rows by number of GPUs, each by batch, of one node with one GPU and of two."""
    steps = {}
    with STEPS.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            steps.setdefault(int(row["gpus"]), {})[int(row["batch_per_gpu"])] = row
    return steps


def exchange_ms(steps, alone):
    """Returns the exchange of a step that takes no time on one GPU."""
    points = [(float(alone[batch]["step_ms"]), float(row["sync_ms"]))
              for batch, row in steps.items()]
    line = statistics.linear_regression(*zip(*points))
    return line.intercept


def main():
    steps = read_steps()
    alone = steps.pop(1)
    ring = exchange_ms(steps.pop(2), alone)  # Bus bandwidth: bytes / time for two ranks.
    print(f" 2 GPUs: {ring:4.0f} ms")
    shares = []
    for gpus, rows in steps.items():
        time = exchange_ms(rows, alone)
        shares.append(2 * (gpus - 1) / gpus * ring / time)
        print(f"{gpus:2} GPUs: {time:4.0f} ms, {shares[-1]:.2f} of the ring's bus bandwidth")
    print(f"mean {statistics.mean(shares):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
