#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares how gpemu train scales to several GPUs with published steps of PyTorch's
DistributedDataParallel (evidence/published/scaling/README.md).

The efficiency of N GPUs is the time of a step on one GPU divided by that on N, with the same batch
per GPU. The error is the difference of the predicted and the measured efficiency, in points (one
hundredth). The exit code is 1 if a mean error misses its target.

Usage: scripts/claims/check_scaling.py [--gpemu COMMAND] [--json FILE]
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "evidence/published/scaling"
# The most that the mean error may be, in points.
TARGETS = {"NVLink": 3, "PCIe": 8, "between nodes": 10}


def read_rows():
    with (FOLDER / "resnet50.csv").open(newline="", encoding="utf-8") as file:
        return [{**row, **{name: int(row[name]) for name in ("gpus", "nodes", "batch_per_gpu")},
                 "step_ms": float(row["step_ms"])} for row in csv.DictReader(file)]


def link_of(row):
    if row["nodes"] > 1:
        return "between nodes"
    return "NVLink" if row["machine"].startswith("dgx") else "PCIe"


def predicted_ms(gpemu, row):
    """Returns the time of a step of gpemu train, and how much of its exchanges is exposed."""
    command = [gpemu, "train", "synthetic", "--model", "resnet50", "--gpu", row["gpu"], "--gpus",
               str(row["gpus"]), "--batch", str(row["gpus"] * row["batch_per_gpu"]), "--steps", "3",
               "--clock", "virtual", "--json", "-", "--topology", row["machine"]]
    if row["nodes"] > 1:
        # The published steps with several nodes ran over TCP.
        command += ["--nodes", str(row["nodes"]), "--network", "socket"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"check_scaling: {' '.join(command)}: {done.stderr.strip()}")
    profile = json.loads(done.stdout)["profile_step_ms"]
    return profile["total"], profile["communication"]


def compare(gpemu, rows):
    """Returns a result for each row with several GPUs."""
    results = []
    for row in rows:
        if row["gpus"] == 1:
            one, (one_predicted, _) = row, predicted_ms(gpemu, row)
            continue
        step, exposed = predicted_ms(gpemu, row)
        measured = one["step_ms"] / row["step_ms"]
        results.append({**row, "link": link_of(row), "measured": measured,
                        "predicted": one_predicted / step, "predicted_step_ms": step,
                        "exposed_ms": exposed, "error": one_predicted / step - measured})
    return results


def print_results(results):
    print(f"{'machine':14} {'GPUs':>4} {'nodes':>5} {'batch':>5} {'measured':>9} {'predicted':>9} "
          f"{'error / points':>14}")
    for one in results:
        print(f"{one['machine']:14} {one['gpus']:4} {one['nodes']:5} {one['batch_per_gpu']:5} "
              f"{one['measured']:9.3f} {one['predicted']:9.3f} {100 * one['error']:+14.1f}")
    print()
    missed = False
    for link, target in TARGETS.items():
        errors = [100 * abs(one["error"]) for one in results if one["link"] == link]
        mean = sum(errors) / len(errors)
        missed = missed or mean > target
        print(f"{link:14} {len(errors):3} rows, mean error {mean:4.1f} points, "
              f"target {target}: {'missed' if mean > target else 'met'}")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpemu", default="gpemu", help="the gpemu command")
    parser.add_argument("--json", type=pathlib.Path, help="write the results here too")
    options = parser.parse_args()
    results = compare(options.gpemu, read_rows())
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if print_results(results) else 0


if __name__ == "__main__":
    sys.exit(main())
