#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks how well gpemu predicts the speeds of two jobs that share a GPU.

Random thirds of the measured pairs of evidence/published/sharing/pairs.csv are left out and
predicted from the others of the same GPU, with five seeds. Expected: a mean error of at most 8 % on
the K80 and the P100 (that on the V100 is reported), and error bars that contain 85 to 95 % of the
speeds.

With --lucid, also pairs of which only NVML's utilization of each job alone is known, for example
those of Lucid (ASPLOS 2023, github.com/S-Lab-System-Group/Lucid, for non-commercial use, so gpemu
does not have them): a mean error of at most 7.8 %, and the same of the bars. No constant of the
model was fitted to them. The file has the columns of evidence/published/sharing/README.md, with
util_a, memutil_a, util_b and memutil_b.

With --python as well, a Python that has PyTorch, `gpemu predict --with` records three networks at
three batches for an RTX 3090, and the speeds that it predicts are compared with those of Lucid's
pairs of these jobs. Expected: bars that contain 85 % or more; the error is reported. This takes
minutes. Exits with 1 when something is missed.

Usage: scripts/claims/check_interference.py [--gpemu COMMAND] [--lucid FILE [--python PYTHON]]
       [--json FILE]
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = range(1, 6)
MOST_ERROR = {"K80": 0.08, "P100": 0.08}
MOST_ERROR_OF_LOADS = 0.078
LEAST_WITHIN, MOST_WITHIN = 0.85, 0.95
# The models of cifar_program.py, as Lucid names them.
PROGRAMS = {"ResNet18": "resnet18", "MobileNetV2": "mobilenet_v2", "VGG": "vgg16_bn"}
BATCHES = [32, 64, 128]


def errors(gpemu, *options):
    """Returns the groups of speeds whose errors `gpemu cost pairs` tells."""
    done = subprocess.run([gpemu, "cost", "pairs", "--json", *map(str, options)],
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)["errors"]


def mean_of(groups):
    """Returns a group whose figures are the means of those of several runs."""
    return {key: sum(group[key] for group in groups) / len(groups)
            if isinstance(groups[0][key], (int, float)) else groups[0][key] for key in groups[0]}


def recorded(gpemu, python, lucid):
    """Returns the errors of the speeds that `gpemu predict --with` expects, as a group."""
    measured = {}
    with open(lucid, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            jobs = [(row[f"model_{i}"], row[f"batch_{i}"]) for i in "ab"]
            if row["precision_a"] != "fp32" or row["precision_b"] != "fp32" or not row["speed_a"]:
                continue
            measured[jobs[0], jobs[1]] = float(row["speed_a"])
            measured[jobs[1], jobs[0]] = float(row["speed_b"])
    program = ROOT / "scripts/claims/cifar_program.py"
    speeds = {}
    for index, (name, model) in enumerate(PROGRAMS.items()):
        for other in list(PROGRAMS)[index:]:
            for batch in BATCHES:
                beside = f"env GPEMU_BATCH={batch} {python} {program} {PROGRAMS[other]}"
                words = [gpemu, "predict", "--gpu", "RTX-3090", "--batch",
                         ",".join(map(str, BATCHES)), "--with", beside, "--json", "-", "--",
                         python, program, model]
                done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                      text=True, check=True)
                for answer in json.loads(done.stdout)["answers"]:
                    first, second = answer["programs"]
                    jobs = (name, str(first["batch"])), (other, str(batch))
                    speeds[jobs] = first["together"]
                    speeds[jobs[1], jobs[0]] = second["together"]
    errors_of, bars, within = [], [], 0
    for jobs, true in measured.items():
        if jobs not in speeds:
            continue
        speed, bar = speeds[jobs]["speed"], speeds[jobs]["speed_relative_error"]
        errors_of.append(speed / true - 1)
        bars.append(bar)
        within += max(speed / true, true / speed) <= 1 + bar
    return {"gpu": "RTX 3090", "speeds": len(bars), "mean_bar": sum(bars) / len(bars),
            "mean_error": sum(map(abs, errors_of)) / len(bars),
            "bias": sum(errors_of) / len(bars), "within_bar": within / len(bars)}


def check(group, what, most, most_within=MOST_WITHIN):
    """Prints a group and returns whether its error and its bar are as expected."""
    good = group["mean_error"] <= most and LEAST_WITHIN <= group["within_bar"] <= most_within
    limit = f"{100 * most:5.1f}" if most < 1 else "    -"
    print(f"{group['gpu']:9}  {what:28}  {group['speeds']:6.0f}  {100 * group['mean_error']:6.2f}  "
          f"{limit}  {100 * group['mean_bar']:4.0f}  {100 * group['within_bar']:6.1f}  "
          f"{'ok' if good else 'MISSED'}", flush=True)
    return {**group, "good": good}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gpemu", default=str(ROOT / "build/release/tools/gpemu"))
    parser.add_argument("--lucid", type=pathlib.Path)
    parser.add_argument("--python")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    print(f"{'gpu':9}  {'predicted from':28}  speeds  error%   most   bar  within%")
    runs = [errors(options.gpemu, "--eval", "--seed", seed) for seed in SEEDS]
    results = []
    for same in zip(*runs):
        group = mean_of(same)
        if group["left out"] == "a third of the pairs":
            results.append(check(group, "the other two thirds", MOST_ERROR.get(group["gpu"], 1)))
        else:
            results.append(check(group, "pairs of other models", 1))
    if options.lucid:
        for group in errors(options.gpemu, "--pairs", options.lucid):
            results.append(check(group, f"{group['evidence']}: utilization alone",
                                 MOST_ERROR_OF_LOADS))
    if options.python and options.lucid:
        group = recorded(options.gpemu, options.python, options.lucid)
        results.append(check(group, "recorded programs", 1, 1))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if all(result["good"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
