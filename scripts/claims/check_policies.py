#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repeats the headline pattern of three papers on policies for sharing a GPU, each in one setting:
AntMan (OSDI 2020), TGS (NSDI 2023) and Orion (EuroSys 2024).

Prints, for each, what the paper says, what gpemu's policy of that name gives, and what differs and
why. Exits with 1 if a value leaves its band, which the script states. The jobs are described below
by their kernels; they run on the virtual clock, in tests/integration/shared_jobs.cpp. So the same
numbers come out on every machine, in about a minute.

Usage: scripts/claims/check_policies.py [--jobs PROGRAM] [--json FILE]
"""

import argparse
import json
import math
import pathlib
import random
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Of a V100: each class of kernels with its number, mean length in us, share of the memory's rate
# and part of the multiprocessors. Numbers, lengths and parts are sums over Orion's own profiles
# (github.com/eth-easl/orion, benchmarking/model_kernels, MIT licence). Assumed: a kernel that they
# call bound by memory uses 80 % of its rate, one that is bound by compute 20 %, any other one half.
MOBILENET_INFERENCE = [(34, 30.7, 0.2, 0.19), (82, 11.3, 0.8, 0.79), (36, 8.1, 0.5, 0.78)]
RESNET_TRAINING = [(158, 389.4, 0.2, 0.96), (569, 57.9, 0.8, 0.83), (219, 3.7, 0.5, 0.20)]
MOBILENET_TRAINING = [(85, 236.8, 0.2, 0.84), (592, 91.4, 0.8, 0.75), (213, 3.0, 0.5, 0.04)]
# Between two launches of PyTorch. Assumed; less than the mean kernel, so the GPU rarely waits.
HOST_US = 6

# An opportunistic job that always has work: ResNet-50, 20 ms a step. Assumed: kernels of 0.2 ms.
OPPORTUNISTIC = ["ahead 1", "kernels 100 200000 0.3 1 0"]
OPPORTUNISTIC_PER_S = 50


def kernels(classes, seed):
    """Returns lines for kernels of these classes in a random order."""
    each = [kernel for kernel in classes for _ in range(kernel[0])]
    random.Random(seed).shuffle(each)
    return [f"kernels 1 {round(length_us * 1000)} {memory} {part} {HOST_US * 1000}"
            for _, length_us, memory, part in each]


class Jobs:
    def __init__(self, program):
        self.program = program

    def run(self, policy, seconds, *jobs):
        """Lets jobs share a GPU for some time, and returns what came of it. A job: its name, class,
        part of the multiprocessors, and lines."""
        lines = [f"share {policy}", "slices 2000 145", "run {} {}".format(*seconds)]
        for name, priority, part, does in jobs:
            lines += [f"job {name} {priority} {part}", *does]
        done = subprocess.run([self.program], input="\n".join(lines), text=True,
                              stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)


class Table:
    def __init__(self):
        self.rows = []
        self.good = True

    def add(self, paper, what, published, value, low, high, text="{:.2f}"):
        """`low`, `high`: the band, in which the value shows the paper's pattern."""
        fits = low <= value <= high
        self.good = self.good and fits
        band = f"{low:g} to {high:g}" if high < math.inf else f"at least {low:g}"
        if low == -math.inf:
            band = f"at most {high:g}"
        print(f"{what:58} {published:28} {text.format(value):>7}  {band:14} "
              f"{'ok' if fits else 'MISSED'}")
        self.rows.append({"paper": paper, "what": what, "published": published, "value": value,
                          "low": low if low > -math.inf else None,
                          "high": high if high < math.inf else None})


def heading(title, setting, differs):
    print(f"\n{title}")
    for name, text in (("setting", setting), ("differs", differs)):
        print(textwrap.fill(f"{name}: {text}", 100, initial_indent="  ", subsequent_indent="    "))
    print()
    print(f"{'':58} {'paper':28} {'gpemu':>7}  band")


def antman(jobs, table):
    heading("AntMan: an opportunistic job uses what the guaranteed job leaves",
            "a guaranteed job that computes for 200 ms and then prepares data for 200 ms, "
            "beside ResNet-50, as in the paper ESPnet beside ResNet-50; the lengths are "
            "assumed",
            "the paper's +34 % is that of a cluster, and not of one GPU. AntMan moves "
            "tensors to the host when memory is short: not emulated")
    job = ["ahead 0", "pause 200000000", "kernels 100 2000000 0.3 1 0"]
    solo = jobs.run("antman", (5, 25), ("job", "normal", 1, job))["job"]["per_s"]
    packed = jobs.run("time-slices", (2, 12), ("job", "normal", 1, job),
                      ("other", "normal", 1, OPPORTUNISTIC))
    shared = jobs.run("antman", (100, 200), ("job", "normal", 1, job),
                      ("other", "low", 1, OPPORTUNISTIC))
    table.add("AntMan", "guaranteed job, to alone, under time slices", "-",
              packed["job"]["per_s"] / solo, -math.inf, 0.85)
    table.add("AntMan", "guaranteed job, to alone, under AntMan", "1 (its goal)",
              shared["job"]["per_s"] / solo, 0.97, 1.01)
    other = shared["other"]["per_s"] / OPPORTUNISTIC_PER_S
    table.add("AntMan", "opportunistic job, to alone (the GPU is idle for 0.5)", "spare time",
              other, 0.4, 0.51)
    busy = shared["job"]["per_s"] * 0.2 + other
    table.add("AntMan", "GPU time that is used, more than alone", "+34 % (mean of a cluster)",
              busy / (solo * 0.2) - 1, 0.34, math.inf)


def tgs(jobs, table):
    heading("TGS: an opportunistic job's rate follows the production job's",
            "a production job that waits for its own launches (a kernel of 0.1 ms each 0.17 "
            "ms, 150 a step, as ResNet-50 with 4 images in the paper's artifact), beside "
            "ResNet-50; the lengths are assumed",
            "the paper's 15 is the most of all its pairs, with memory that is "
            "oversubscribed, which is not emulated. gpemu's clients of MPS disturb each "
            "other only by multiprocessors, so its MPS is better than a real one. TGS "
            "counts blocks, gpemu the time of kernels")
    job = ["ahead 0", "kernels 150 100000 0.3 1 170000"]
    production = ("job", "normal", 1, job)
    solo = jobs.run("tgs", (5, 25), production)["job"]["per_s"]
    packed = jobs.run("time-slices", (2, 12), production, ("other", "normal", 1, OPPORTUNISTIC))
    shared = jobs.run("tgs", (200, 300), production, ("other", "low", 1, OPPORTUNISTIC))
    idle = jobs.run("antman", (200, 300), production, ("other", "low", 1, OPPORTUNISTIC))
    limited = jobs.run("mps", (2, 12), production, ("other", "normal", 0.05, OPPORTUNISTIC))
    table.add("TGS", "production job, to alone, under time slices", "-",
              packed["job"]["per_s"] / solo, -math.inf, 0.85)
    table.add("TGS", "production job, to alone, under TGS", "little impact",
              shared["job"]["per_s"] / solo, 0.95, 1.01)
    table.add("TGS", "opportunistic job, to itself under AntMan", "similar",
              shared["other"]["per_s"] / idle["other"]["per_s"], 0.5, 1.5)
    table.add("TGS", "production job, to alone, MPS with 5 % for the other one", "-",
              limited["job"]["per_s"] / solo, 0.95, 1.01)
    table.add("TGS", "opportunistic job, to itself under that MPS", "up to 15",
              shared["other"]["per_s"] / limited["other"]["per_s"], 2, 15)


def orion(jobs, table):
    heading("Orion: best-effort kernels beside a high-priority client's",
            "MobileNetV2 answers 40 requests of 4 images per second, at random times, "
            "beside ResNet-50 that trains on 32 images a step: a pair of the paper's figure "
            "7, with its kernels. Then ResNet-50 trains beside MobileNetV2, which trains on "
            "64 images",
            "an urgent kernel takes multiprocessors from others at once, and not when "
            "blocks end; caches are not emulated, which would make both jobs slower. 1.49 "
            "is the best of the paper's pairs; for the latency of this pair, it has a plot "
            "and no number")
    client = ("client", "normal", 1,
              ["ahead 0", "arrive 40 7", *kernels(MOBILENET_INFERENCE, 1)])
    does = ["ahead 0", *kernels(RESNET_TRAINING, 2)]
    solo = jobs.run("orion", (1, 21), client)["client"]
    trains = jobs.run("orion", (1, 21), ("trains", "normal", 1, does))["trains"]
    results = {policy: jobs.run(policy, (1, 21), client, ("trains", priority, 1, does))
               for policy, priority in (("time-slices", "normal"), ("mps", "normal"),
                                        ("orion", "low"))}
    latency = {policy: result["client"]["p99_ms"] / solo["p99_ms"]
               for policy, result in results.items()}
    rate = {policy: result["trains"]["per_s"] / trains["per_s"]
            for policy, result in results.items()}
    table.add("Orion", "99th percentile of the latency, to alone, time slices", "worse than Orion",
              latency["time-slices"], 2, math.inf)
    table.add("Orion", "the same under MPS", "worse than Orion",
              latency["mps"], 1.5, math.inf)
    table.add("Orion", "the same under Orion", "better than baselines", latency["orion"], 1, 1.25)
    table.add("Orion", "training, to alone, under Orion", "-", rate["orion"], 0.7, 1)
    first = ("first", "normal", 1, does)
    other = ["ahead 0", *kernels(MOBILENET_TRAINING, 3)]
    alone = jobs.run("orion", (1, 11), ("second", "normal", 1, other))
    both = jobs.run("orion", (1, 11), first, ("second", "low", 1, other))
    keeps = both["first"]["per_s"] / trains["per_s"]
    table.add("Orion", "two trainings: the urgent one, to alone", "-", keeps, 0.85, 1)
    table.add("Orion", "two trainings on one GPU: how much cheaper than on two", "up to 1.49",
              keeps + both["second"]["per_s"] / alone["second"]["per_s"], 1.2, 1.65)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    program = ROOT / "build/dev/tests/integration/gpemu_shared_jobs"
    parser.add_argument("--jobs", default=str(program),
                        help="the program made of tests/integration/shared_jobs.cpp")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    jobs, table = Jobs(options.jobs), Table()
    for paper in (antman, tgs, orion):
        paper(jobs, table)
    if options.json:
        options.json.write_text(json.dumps({"rows": table.rows}) + "\n")
    return 0 if table.good else 1


if __name__ == "__main__":
    sys.exit(main())
