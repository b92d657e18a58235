#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance programs, each in a process of its own, on the GPU that is there.

Under gpemu:  gpemu run --gpu A100-SXM4-40GB:2 -- python tests/conformance/pytorch/run_all.py
"""

import argparse
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
HELPERS = {"conformance.py", "run_all.py"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", help="e.g. memory.py; all without")
    arguments = parser.parse_args()
    names = arguments.programs or sorted(
        path.name for path in FOLDER.glob("*.py") if path.name not in HELPERS
    )
    counts = {"ok": 0, "skipped": 0, "FAILED": 0}
    broken = []
    for name in names:
        print(f"== {name}", flush=True)
        run = subprocess.run(
            [sys.executable, str(FOLDER / name)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(run.stdout, end="", flush=True)
        results = re.findall(r"^(ok|skipped|FAILED) test_", run.stdout, re.MULTILINE)
        for result in results:
            counts[result] += 1
        if run.returncode != 0 or not results:
            broken.append(f"{name} (exit code {run.returncode})")
    print(f"{counts['ok']} passed, {counts['FAILED']} failed, {counts['skipped']} skipped")
    if broken:
        sys.exit("broken: " + ", ".join(broken))


if __name__ == "__main__":
    main()
