#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the scaling that gpemu predict --gpus gives for examples/pytorch/train_ddp.py with
published steps of ResNet-50 on the GPUs of one machine (evidence/published/scaling/README.md).

The exit code is 1 if a published efficiency lies outside its predicted interval.

Usage: scripts/claims/check_predicted_scaling.py --python PYTHON [--gpemu COMMAND]
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "evidence/published/scaling"


def read_groups():
    """Returns the published steps of one node, by machine, GPU and batch, and number of GPUs."""
    groups = {}
    with (FOLDER / "resnet50.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["nodes"] == "1":
                key = (row["machine"], row["gpu"], int(row["batch_per_gpu"]))
                groups.setdefault(key, {})[int(row["gpus"])] = float(row["step_ms"])
    return groups


def predict(options, machine, gpu, batch, gpus):
    command = [options.gpemu, "predict", "--gpu", gpu, "--topology", machine,
               "--gpus", ",".join(map(str, gpus)),
               "--batch", str(batch), "--json", "-", "--", options.python,
               str(ROOT / "examples/pytorch/train_ddp.py"), "--batch", "{batch}", "--steps", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"check_predicted_scaling: {' '.join(command)}: {done.stderr.strip()}")
    return {answer["gpus"]: answer for answer in json.loads(done.stdout)["answers"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpemu", default="gpemu", help="the gpemu command")
    parser.add_argument("--python", required=True, help="a Python with PyTorch and torchvision")
    options = parser.parse_args()
    print(f"{'machine':14} {'batch':>5} {'GPUs':>4} {'published':>9} {'predicted':>9} "
          f"{'from':>6} {'to':>6}  within  seconds")
    outside = 0
    for (machine, gpu, batch), published in read_groups().items():
        begin = time.monotonic()
        answers = predict(options, machine, gpu, batch, sorted(published))
        seconds = time.monotonic() - begin
        for gpus, step_ms in published.items():
            if gpus == 1:
                continue
            measured = published[1] / step_ms
            answer = answers[gpus]
            low, high = answer["efficiency_low"], answer["efficiency_high"]
            within = low <= measured <= high
            outside += not within
            print(f"{machine:14} {batch:5} {gpus:4} {measured:9.3f} {answer['efficiency']:9.3f} "
                  f"{low:6.3f} {high:6.3f}  {'yes' if within else 'no':6} {seconds:8.0f}")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
