#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two packs that gpemu profile measure wrote, of a real GPU and of the same GPU emulated:
step time, free-running step and peak memory of every batch that both have, where memory ends, and
the worst rows with the phase that is to blame.

Errors are emulated / measured - 1; means are of their absolute values. A step that takes at most
1.25 times the step of the smallest batch shows the host that launches (h), not the GPU.

Usage: scripts/claims/compare_measured.py MEASURED EMULATED [--worst N] [--rows FILE.csv]
"""

import argparse
import csv
import pathlib
import statistics
import sys

PHASES = ("forward", "backward", "optimizer")
HOST_BOUND = 1.25
QUANTITIES = ("step", "free_step", "peak")


def read_steps(pack):
    path = pack / "raw/steps.csv"
    if not path.exists():
        sys.exit(f"compare_measured: there is no {path}")
    with path.open(encoding="ascii", newline="") as file:
        return {(row["model"], row["precision"], int(row["batch"])): row
                for row in csv.DictReader(file)}


def values_of(row):
    """Returns the values to compare for a batch that ran."""
    values = {phase: float(row[f"{phase}_ms"]) for phase in PHASES}
    return {**values, "step": sum(values.values()), "free_step": float(row["free_step_ms"]),
            "peak": float(row["peak_allocated_mib"])}


def compare(measured, emulated):
    """Returns a row of numbers for each batch that ran in both."""
    smallest = {}
    for key, row in sorted(measured.items()):
        if row["outcome"] == "ok":
            smallest.setdefault(key[:2], values_of(row)["step"])
    rows = []
    for key in sorted(measured.keys() & emulated.keys()):
        if measured[key]["outcome"] != "ok" or emulated[key]["outcome"] != "ok":
            continue
        real, other = values_of(measured[key]), values_of(emulated[key])
        result = dict(zip(("model", "precision", "batch"), key))
        for name in QUANTITIES:
            result |= {f"{name}_measured": real[name], f"{name}_emulated": other[name],
                       f"{name}_error": other[name] / real[name] - 1}
        result["host_bound"] = real["step"] <= HOST_BOUND * smallest[key[:2]]
        result["worst_phase"] = max(PHASES, key=lambda phase: abs(other[phase] - real[phase]))
        rows.append(result)
    return rows


def limits(steps):
    """Returns (largest batch that ran, whether a larger one was out of memory) of each model."""
    largest, ended = {}, set()
    for (model, precision, batch), row in steps.items():
        if row["outcome"] == "ok":
            largest[model, precision] = max(batch, largest.get((model, precision), 0))
        else:
            ended.add((model, precision))
    return {key: batch for key, batch in largest.items() if key in ended}


def mean_error(rows, name):
    return statistics.fmean(abs(row[f"{name}_error"]) for row in rows)


def print_summary(rows):
    print(f"{'precision':10} {'rows':>5} {'models':>6}   mean error of: {'step':>6} "
          f"{'free-running':>12} {'peak memory':>11}   {'step, GPU-bound':>15}")
    for precision in (*sorted({row["precision"] for row in rows}), "all"):
        chosen = [row for row in rows if precision in (row["precision"], "all")]
        bound = [row for row in chosen if not row["host_bound"]]
        of_bound = f"{mean_error(bound, 'step'):.1%} of {len(bound)}" if bound else "none"
        print(f"{precision:10} {len(chosen):5} {len({row['model'] for row in chosen}):6} "
              f"{'':16} {mean_error(chosen, 'step'):6.1%} {mean_error(chosen, 'free_step'):12.1%} "
              f"{mean_error(chosen, 'peak'):11.1%}   {of_bound:>15}")


def print_worst(rows, count):
    for name, unit in (("step", "ms"), ("peak", "MiB")):
        print(f"\nworst {name}: measured, emulated {unit}, error")
        ordered = sorted(rows, key=lambda row: -abs(row[f"{name}_error"]))
        for row in ordered[:count]:
            note = f"  {row['worst_phase']}{' h' if row['host_bound'] else ''}" * (name == "step")
            print(f"  {row['model']:20} {row['precision']:9} {row['batch']:7} "
                  f"{row[f'{name}_measured']:10.3f} {row[f'{name}_emulated']:10.3f} "
                  f"{row[f'{name}_error']:+7.1%}{note}")


def print_limits(measured, emulated):
    real, other = limits(measured), limits(emulated)
    both = sorted(real.keys() & other.keys())
    if both:
        errors = [abs(other[key] / real[key] - 1) for key in both]
        print(f"\nlargest batch that runs: {len(both)} pairs of model and precision, mean error "
              f"{statistics.fmean(errors):.1%}, largest {max(errors):.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("measured", type=pathlib.Path)
    parser.add_argument("emulated", type=pathlib.Path)
    parser.add_argument("--worst", type=int, default=10, metavar="N")
    parser.add_argument("--rows", type=pathlib.Path, metavar="FILE.csv", help="write every row")
    options = parser.parse_args()
    measured, emulated = read_steps(options.measured), read_steps(options.emulated)
    rows = compare(measured, emulated)
    if not rows:
        sys.exit("compare_measured: no batch of a model ran in both")
    print_summary(rows)
    print_worst(rows, options.worst)
    print_limits(measured, emulated)
    if options.rows:
        with options.rows.open("w", encoding="ascii", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: f"{value:.5g}" if isinstance(value, float) else value
                              for name, value in row.items()} for row in rows)


if __name__ == "__main__":
    main()
