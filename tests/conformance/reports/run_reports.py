#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of public reports, each on the GPU that its report is about, and compares what
they show with what the report shows.

Usage: run_reports.py [--gpemu COMMAND] [--python PYTHON] [--jobs COUNT] [PROGRAM...]   all without

A program's docstring begins with the address of its report. Its last paragraph says, a line each:

  GPU: NAME[:COUNT]       the GPUs
  Ranks: COUNT            if torchrun starts it
  Ends: 0, 1, error       its exit code; error: any but 0; 0 without
  Shows: REGEX            what its output contains, one after the other
  Within TOLERANCE: TEXT  the same, for a text whose first number may differ by so much
  Never: REGEX            what its output does not contain
"""

import argparse
import ast
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent
GPEMU = FOLDER.parents[2] / "build/dev/tools/gpemu"
TIME_LIMIT_S = 300
KEYS = ("GPU", "Ranks", "Ends", "Shows", "Within", "Never")


class Report:
    """What a program's docstring says."""

    def __init__(self, path):
        self.path = path
        self.expected = []  # pairs of key and text, in order
        self.gpu, self.ranks, self.ends = "", 0, "0"
        text = ast.get_docstring(ast.parse(path.read_text("utf-8")))
        for line in text.split("\n\n")[-1].splitlines():
            key, _, value = line.partition(": ")
            if key.split()[0] not in KEYS:
                sys.exit(f"{path}: {line!r} is none of {', '.join(KEYS)}")
            if key in ("GPU", "Ends"):
                setattr(self, key.lower(), value)
            elif key == "Ranks":
                self.ranks = int(value)
            else:
                self.expected.append((key, value))

    def command(self, gpemu, python):
        starts = [python]
        if self.ranks:
            starts += ["-m", "torch.distributed.run", "--standalone",
                       f"--nproc-per-node={self.ranks}"]
        return [gpemu, "run", "--quiet", "--gpu", self.gpu, "--", *starts, str(self.path)]


def find_number(text, tolerance, output, start):
    """Returns where a text ends in the output whose first number may differ; or -1."""
    number = re.findall(r"\d+(?:\.\d+)?", text)[0]
    before, after = (re.escape(part) for part in text.split(number, 1))
    for found in re.compile(before + r"(\d+(?:\.\d+)?)" + after).finditer(output, start):
        if abs(float(found[1]) - float(number)) <= tolerance + 1e-9:
            return found.end()
    return -1


def judge(report, code, output):
    """Returns why what a program showed is not what its report shows; "" if it is."""
    if (code == 0) if report.ends == "error" else (code != int(report.ends)):
        return f"exit code {code}, not {report.ends}"
    position = 0
    for key, text in report.expected:
        if key == "Never":
            if re.search(text, output):
                return f"shows {text!r}"
            continue
        if key == "Shows":
            found = re.compile(text).search(output, position)
            end = found.end() if found else -1
        else:
            end = find_number(text, float(key.split()[1]), output, position)
        if end < 0:
            return f"does not show {text!r}" + (f" ({key})" if key != "Shows" else "")
        position = end
    return ""


def run(report, gpemu, python):
    """Returns the exit code and the output."""
    command = report.command(gpemu, python)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="backslashreplace", check=False, env=environment,
                              timeout=TIME_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        return -1, f"{error.stdout or ''}\nno end within {TIME_LIMIT_S} s"
    return done.returncode, done.stdout


def check(name, arguments):
    """Runs a program. Returns whether it behaves as reported, and what is to be printed."""
    report = Report(FOLDER / name)
    start = time.monotonic()
    code, output = run(report, arguments.gpemu, arguments.python)
    reason = judge(report, code, output)
    seconds = time.monotonic() - start
    if not reason:
        return True, f"ok {name} ({seconds:.1f} s)"
    return False, f"{output}FAILED {name} ({seconds:.1f} s): {reason}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", help="e.g. nccl_on_one_gpu.py; all without")
    parser.add_argument("--gpemu", default=str(GPEMU))
    parser.add_argument("--python", default=sys.executable, help="one that has PyTorch")
    parser.add_argument("--jobs", type=int, default=4, help="that run at a time; 4 without")
    arguments = parser.parse_args()
    names = arguments.programs or sorted(
        path.name for path in FOLDER.glob("*.py") if path != pathlib.Path(__file__).resolve()
    )
    good = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for is_good, text in pool.map(lambda name: check(name, arguments), names):
            good += is_good
            print(text, flush=True)
    print(f"{good} of {len(names)} behave as reported")
    sys.exit(0 if good == len(names) else 1)


if __name__ == "__main__":
    main()
