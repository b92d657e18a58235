#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that an emulated GPU runs out of memory where the real one did.

Takes the flat tables that gpemu-vldb25 is derived from, one CSV per GPU, in which rows that were
not measured are marked. The first of those is the first batch that ran out of memory. For each
pair of model and GPU with such a batch it runs one emulated step (virtual time) at the last batch
that fits and at the first that does not, and looks for the emulator's own boundary. Exits with 1
when one of them is off.

Usage: scripts/claims/check_memory.py RAW_FOLDER [--gpemu COMMAND]
"""

import argparse
import csv
import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT_OF_MEMORY = 4  # the exit code
LARGEST_MISS = 0.03  # of the batch size


def boundaries(folder):
    """Yields (gpu, model, largest batch that was measured, first that was not)."""
    tables = sorted(folder.glob("*.csv"))
    if not tables:
        sys.exit(f"there are no tables (*.csv) in {folder}")
    for table in tables:
        last = {}
        with table.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                batch, model = int(row["batch"]), row["model"]
                if row["compute_measured"] == "1":
                    last[model] = max(last.get(model, 0), batch)
                elif batch == last.get(model, 0) + 1:
                    yield table.stem, model, batch - 1, batch


def runs(gpemu, gpu, model, batch):
    """Returns whether one emulated step of the batch runs."""
    command = [gpemu, "train", "synthetic", "--gpu", gpu, "--model", model, "--batch", str(batch)]
    options = ["--clock", "virtual", "--steps", "1", "--quiet"]
    result = subprocess.run(command + options, capture_output=True, text=True, check=False)
    if result.returncode not in (0, OUT_OF_MEMORY):
        sys.exit(f"{' '.join(map(str, command))}: {result.stderr}")
    return result.returncode == 0


def largest_batch(gpemu, gpu, model):
    command = [gpemu, "cost", "--gpu", gpu, "--model", model, "--batch", "1", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)["largest_batch"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", type=pathlib.Path, help="folder of the raw tables")
    parser.add_argument("--gpemu", default=ROOT / "build/release/tools/gpemu", type=pathlib.Path)
    options = parser.parse_args()
    if shutil.which(options.gpemu) is None:
        sys.exit(f"there is no {options.gpemu}; build it, or name one with --gpemu")

    pairs = good = exact = 0
    for gpu, model, fits, refused in boundaries(options.tables):
        own = largest_batch(options.gpemu, gpu, model)
        accepts = runs(options.gpemu, gpu, model, fits)
        refuses = not runs(options.gpemu, gpu, model, refused)
        miss = abs(own - fits) / fits
        pairs += 1
        exact += accepts and refuses
        good += miss <= LARGEST_MISS
        if not (accepts and refuses):
            print(f"{gpu} {model}: {fits} fits, {refused} does not; emulated: {own} is the largest")
    if pairs == 0:
        sys.exit(f"no pair in {options.tables} ran out of memory")
    print(f"{pairs} pairs of model and GPU with a known boundary")
    print(f"{exact} ({exact / pairs:.1%}) accept the largest batch that fits and refuse the next")
    print(f"{good} ({good / pairs:.1%}) have their boundary within {LARGEST_MISS:.0%} of it")
    return 0 if exact == pairs else 1


if __name__ == "__main__":
    sys.exit(main())
