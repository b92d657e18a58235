#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what a second GPU adds to a step of torch.nn.DataParallel with what GPEmu's study
measured on two P100 (docs/design/many-gpus.md).

Runs data_parallel_program.py on one and on two emulated P100, without cuDNN, as the study did. The
study measured ResNet-18 on one and on two GPUs with the same program, which waits for the GPUs
after each phase of a step. AlexNet on one GPU is from a program that does not wait in between, so
its overhead has the cost of waiting, too; here it is measured in the same way. The overhead is the
time that the second GPU adds, divided by the study's time on one GPU. It is not divided by the
emulated time, which the table shows beside it, because gpemu's P100 is fitted to programs with
cuDNN. The host's part is real, and what disturbs the host only adds, so the fastest of several
steps counts, and not the median, as in the study. The study's host, of 2014, was slower than most
are today: this one counts as slower by as much as an image took longer there, in one worker of a
DataLoader (catalog/hosts/chameleon-p100.toml; image_program.py). The exit code is 1 if an
overhead, or a part of ResNet-18's, is not what the study measured.

Usage: scripts/claims/check_data_parallel.py --python PYTHON [--gpemu COMMAND] [--steps N]
       [--runs N] [--host-slowdown FACTOR] (PyTorch 2.8 or 2.5.1 as scripts/build/install_torch.sh
       installs it; 3 minutes)
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(__file__).with_name("data_parallel_program.py")
IMAGE_PROGRAM = pathlib.Path(__file__).with_name("image_program.py")
HOST = ROOT / "catalog/hosts/chameleon-p100.toml"
# Model, images per GPU, ms of a step on one GPU, overhead of two in percent, allowed points.
# Source: github.com/mengwanguc/gpufs, branch Haoran_inter_gpu_study, medians. On two GPUs, and of
# ResNet-18 on one: emulator/inter-gpu-study/imagenette; of AlexNet on one: emulator/profile/
# imagenette. For AlexNet with 512 images, the study takes twice the time of 256.
STUDY = (("resnet18", 128, 752.4, 3.1, 1), ("alexnet", 64, 124.1, 11, 2),
         ("alexnet", 128, 239.6, 8.8, 2), ("alexnet", 256, 475.8, 6.1, 2),
         ("alexnet", 512, 951.6, 4.7, 2))
# What ResNet-18 takes longer on two GPUs, in ms, and the allowed share.
PARTS = {"scatter": 6.6, "forward": 8.2, "backward": 8.2}
PARTS_SHARE = 0.25


def output_of(*command):
    """Returns what a command prints; ends the script if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"check_data_parallel: {' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def measure_slowdown(options):
    """Returns how many times longer an image took on the study's host than on this one."""
    (loader,) = (loader for loader in tomllib.loads(HOST.read_text(encoding="utf-8"))["loader"]
                 if loader["name"] == "pytorch-pil")
    with tempfile.TemporaryDirectory() as folder:
        # Files of the sizes of the study's images, which is the default.
        output_of(options.gpemu, "data", "make", folder, "--images", 200, "--quiet")
        own_ms = float(output_of(options.gpemu, "run", "--quiet", "--gpu", "T4", "--",
                                 options.python, IMAGE_PROGRAM, folder))
    print(f"an image: {own_ms:.2f} ms here, {loader['image_ms']:.2f} ms on the study's host")
    if own_ms > loader["image_ms"]:
        print("this host is the slower one, so what the host adds will be too much")
    return max(loader["image_ms"] / own_ms, 1)


def run(options, model, batch, gpus, waits):
    """Returns the fastest time of each phase, and of a step, in ms, in some runs. `waits`: after
    each phase."""
    command = (options.gpemu, "run", "--quiet", "--drop-data", "--clock", "virtual",
               "--host-slowdown", f"{options.host_slowdown:.2f}", "--topology", "p100-x2", "--",
               options.python, "-W", "ignore", PROGRAM, "--model", model, "--batch", batch,
               "--gpus", gpus, "--steps", options.steps, *(("--phases",) if waits else ()))
    found = []
    for _ in range(options.runs):
        times = re.findall(r"(\w+) ([\d.]+)", output_of(*command))
        if not times:
            sys.exit("check_data_parallel: the program printed no times")
        found.append({name: float(ms) for name, ms in times})
    return {name: min(times[name] for times in found) for name in found[0]}


def compare_step(options, row):
    """Prints a row; returns both runs, and whether the overhead is the study's."""
    model, batch, published_ms, published, points = row
    one = run(options, model, batch, 1, waits=model == "resnet18")
    two = run(options, model, batch, 2, waits=True)
    added = two["step"] - one["step"]
    overhead = 100 * added / published_ms
    within = abs(overhead - published) <= points
    print(f"{model:9} {batch:5} {published_ms:9.1f} {one['step']:8.1f} {two['step']:8.1f} "
          f"{published_ms * published / 100:9.1f} {added:8.1f} {published:+9.1f} {overhead:+8.1f}  "
          f"{'yes' if within else 'no'}", flush=True)
    return one, two, within


def compare_parts(one, two):
    """Prints the parts of ResNet-18's overhead; returns how many are not the study's."""
    added = {"scatter": two["scatter"],
             "forward": two["forward"] - one["forward"] - two["scatter"],
             "backward": two["backward"] - one["backward"]}
    missed = 0
    for part, published in PARTS.items():
        within = abs(added[part] / published - 1) <= PARTS_SHARE
        missed += not within
        print(f"{part:9} {published:9.1f} {added[part]:8.1f}  {'yes' if within else 'no'}")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpemu", default="gpemu", help="the gpemu command")
    parser.add_argument("--python", required=True, help="a Python with PyTorch and torchvision")
    parser.add_argument("--steps", type=int, default=10, help="steps of each run")
    parser.add_argument("--runs", type=int, default=3, help="the fastest of so many runs counts")
    parser.add_argument("--host-slowdown", type=float,
                        help="how many times slower the study's host is; default: measured")
    options = parser.parse_args()
    if options.host_slowdown is None:
        options.host_slowdown = measure_slowdown(options)
    print(f"this host counts as {options.host_slowdown:.2f} times slower\n")
    print("                 one GPU, ms        two, ms   added, ms          overhead, %\n"
          "model     batch published emulated emulated published emulated published emulated  "
          "within")
    missed = 0
    for row in STUDY:
        one, two, within = compare_step(options, row)
        missed += not within
        if row[0] == "resnet18":
            resnet = one, two
    print("\nResNet-18: ms that are added\npart      published emulated  within")
    missed += compare_parts(*resnet)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
