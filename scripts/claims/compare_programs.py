#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what tools/measure/programs.py wrote on a GPU with what it wrote under gpemu: the
memory of each program, and the time between its steps.

Usage: scripts/claims/compare_programs.py MEASURED.jsonl EMULATED.jsonl
       (EMULATED: gpemu run --quiet --gpu GPU --clock gpu-only -- python tools/measure/programs.py
       --output EMULATED.jsonl; times are without the host then)
"""

import argparse
import json
import pathlib
import statistics
import sys

ROWS = {"allocated at most": lambda row: row["memory_mib"]["allocated_peak"],
        "reserved at most": lambda row: row["memory_mib"]["reserved_peak"],
        "used of the device": lambda row: row["memory_mib"]["device_used"],
        "step": lambda row: row["step_ms"]["median"]}


def read(path):
    rows = {}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                if row["outcome"] == "ok":
                    rows[row["name"]] = row
            except (ValueError, KeyError, TypeError):
                sys.exit(f"compare_programs: {path}:{number}: not a line of "
                         "tools/measure/programs.py")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("measured", type=pathlib.Path)
    parser.add_argument("emulated", type=pathlib.Path)
    options = parser.parse_args()
    for path in (options.measured, options.emulated):
        if not path.exists():
            parser.error(f"{path}: no such file")
    measured, emulated = read(options.measured), read(options.emulated)
    names = [name for name in measured if name in emulated]
    if not names:
        sys.exit("compare_programs: the files have no program in common")
    print(f"{len(names)} programs; errors in percent")
    print(f"{'':20} {'mean':>6} {'median':>7} {'worst':>7}  program")
    for title, value in ROWS.items():
        errors = [100 * (value(emulated[name]) / value(measured[name]) - 1) for name in names]
        worst = max(range(len(names)), key=lambda i: abs(errors[i]))
        sizes = [abs(error) for error in errors]
        print(f"{title:20} {statistics.mean(sizes):6.2f} {statistics.median(sizes):7.3f} "
              f"{errors[worst]:+7.1f}  {names[worst]}")


if __name__ == "__main__":
    main()
