#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs torchvision's models as unmodified PyTorch programs on emulated GPUs, and compares what they
measure there with what GPEmu (VLDB 2025) measured on the real ones.

TABLES is the folder of the flat raw tables, one CSV per GPU. Three checks, all unless --check
names some:

  memory  the most memory that is allocated, at batch 8, 16 and 32 on an A100
  limit   the first batch that runs out of memory, on P100 and V100, with a context as large as
          the other models of the GPU's table left room for
  time    a step, forward plus backward with the optimizer, at batch 32 and 64 on V100 and A100:
          the GPU's time under gpemu run, and what the host adds on which the GPU was measured, as
          gpemu cost recorded tells it. This machine's host counts only with --clock real, apart

Models, batches and GPUs can be chosen. Only rows count that were measured. The exit code is 1 when
a check misses its bar.

Usage: scripts/claims/check_models.py TABLES [--check CHECK]... [--gpu GPU]... [--batch N]...
       [--model MODEL]... [--clock gpu-only|real] [--gpemu COMMAND] [--python PYTHON] [--json FILE]
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples/pytorch/measure_models.py"
A100, V100, P100 = "A100-SXM4-40GB", "V100-PCIE-32GB", "P100-PCIE-16GB"
GPUS = {"memory": [A100], "limit": [P100, V100], "time": [V100, A100]}
BATCHES = {"memory": [8, 16, 32], "limit": [None], "time": [32, 64]}

MEMORY_MEAN, MEMORY_WORST = 0.02, 0.05
LIMIT_MISS, LIMIT_MODELS = 0.05, 10
TIME_MEAN = 0.10
PHASES = ("forward", "backward")
# If the measuring host adds no more to a step, the GPU limits it.
HOST_SHARE = 0.02


def read_tables(folder):
    """Returns {gpu: {model: {batch: row}}}."""
    tables = {}
    for path in sorted(folder.glob("*.csv")):
        models = tables.setdefault(path.stem, {})
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                models.setdefault(row["model"], {})[int(row["batch"])] = row
    if not tables:
        sys.exit(f"check_models: there are no tables (*.csv) in {folder}")
    return tables


def first_out_of_memory(rows):
    """Returns the first batch of a model that was not measured, for want of memory; or None."""
    return next((batch for batch in sorted(rows) if rows[batch]["compute_measured"] == "0"), None)


def least_left(gpu, tables, apart_from):
    """Returns the MiB that were left on a GPU by the model that filled it most before it ran out of
    memory, one model left out; None if there is no other. The context took no more: it, with the
    kernels that its libraries loaded, is what no tensor can have. Memory rows are continued as
    straight lines to the last batch that ran."""
    with (ROOT / f"catalog/gpus/{gpu}.toml").open("rb") as file:
        capacity = tomllib.load(file)["memory"]["capacity_mib"]["value"]
    left = []
    for model, rows in tables[gpu].items():
        too_many = first_out_of_memory(rows)
        if model == apart_from or too_many is None:
            continue
        peaks = [(batch, float(row["peak_mib"])) for batch, row in sorted(rows.items())
                 if row["memory_measured"] == "1" and batch <= too_many]
        if len(peaks) >= 2:
            (x0, y0), (x1, y1) = peaks[-2:]
            left.append(capacity - (y1 + (y1 - y0) / (x1 - x0) * (too_many - 1 - x1)))
    return round(min(left)) if left else None


def jobs_of(check, gpu, options, tables):
    """Yields (model, batch) for each row that was measured; for 'limit' the first too many."""
    for model in options.models or sorted(tables[gpu]):
        rows = tables[gpu].get(model)
        if rows is None:
            sys.exit(f"check_models: there is no model {model} in the table of {gpu}")
        if check == "limit":
            batch = first_out_of_memory(rows)
            if batch is not None:
                yield model, batch
            continue
        for batch in options.batches or BATCHES[check]:
            measured = "memory_measured" if check == "memory" else "compute_measured"
            if rows.get(batch, {}).get(measured) == "1":
                yield model, batch


def run_program(check, gpu, jobs, context, clock, options):
    """Runs the PyTorch program for all jobs of a GPU; returns its lines."""
    command = [options.gpemu, "run", "--quiet", "--gpu", gpu, "--clock", clock]
    if context is not None:
        command += ["--context", context]
    command += ["--", options.python, "-W", "ignore", PROGRAM, check,
                *(f"{m}:{b}" for m, b in jobs)]
    # The measured PyTorch 1.8 kept cuBLAS's workspace outside of its allocator.
    environment = {"CUBLAS_WORKSPACE_CONFIG": ":0:0", "CUBLASLT_WORKSPACE_SIZE": "0",
                   "OMP_NUM_THREADS": "1", **os.environ}
    result = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True,
                            env=environment, check=False)
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    if result.returncode != 0 or len(lines) != len(jobs):
        sys.exit(f"check_models: the program ended with {result.returncode} after {len(lines)} of "
                 f"{len(jobs)} jobs on {gpu}")
    return [{**line, "context_mib": context} for line in lines] if context else lines


def run_jobs(check, gpu, clock, options, tables):
    """Runs a GPU's jobs: one program for those that want the same context."""
    jobs = {}
    for model, batch in jobs_of(check, gpu, options, tables):
        context = least_left(gpu, tables, model) if check == "limit" else None
        jobs.setdefault(context, []).append((model, batch))
    return [line for context, some in jobs.items()
            for line in run_program(check, gpu, some, context, clock, options)]


def with_hosts(gpu, lines, options, tables):
    """Adds to each line of the time check what hosts take: that on which the GPU was measured, and
    with --clock real this machine's."""
    batches = ",".join(str(batch) for batch in sorted({line["batch"] for line in lines}))
    command = [options.gpemu, "cost", "recorded", options.recordings, "--gpu", gpu, "--batch",
               batches, "--json"]
    result = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True)
    recorded = {(row["model"], row["batch"]): row for row in json.loads(result.stdout)}
    real = run_jobs("time", gpu, "real", options, tables) if options.clock == "real" else lines
    for line, real_line in zip(lines, real):
        row = recorded.get((line["model"], line["batch"]))
        if row is None:
            sys.exit(f"check_models: there is no recording of {line['model']}")
        for phase in PHASES:
            gpu_ms, costs = line[f"{phase}_ms"], row[phase]
            line[f"{phase}_this_host_ms"] = real_line[f"{phase}_ms"] - gpu_ms
            line[f"{phase}_recorded_ms"] = costs["device_ms"]
            line[f"{phase}_host_ms"] = costs["with_host_ms"] - costs["device_ms"]
    return lines


def summary(errors):
    return {"rows": len(errors), "mean": statistics.fmean(map(abs, errors)),
            "worst": max(errors, key=abs), "bias": statistics.fmean(errors)}


def told(name, figures):
    return (f"{name}: {figures['rows']} rows, mean error {figures['mean']:.1%}, "
            f"worst {figures['worst']:+.1%}, bias {figures['bias']:+.1%}")


def compare_memory(gpu, line, tables):
    """Beside the row of the GPU stands the median of all GPUs: they allocate alike, so where a row
    differs from it, the row is odd."""
    model, batch = line["model"], line["batch"]
    measured = float(tables[gpu][model][batch]["peak_mib"])
    others = [float(table[model][batch]["peak_mib"]) for table in tables.values()
              if table.get(model, {}).get(batch, {}).get("memory_measured") == "1"]
    return {**line, "gpu": gpu, "measured_mib": measured, "median_mib": statistics.median(others),
            "error": line["peak_mib"] / measured - 1}


def print_memory(rows):
    print(f"{'GPU':15} {'model':19} {'batch':>5} {'measured':>9} {'emulated':>9} {'error':>7} "
          f"{'all GPUs':>9} {'allocator':>9}   (MiB)")
    for row in rows:
        print(f"{row['gpu']:15} {row['model']:19} {row['batch']:5} {row['measured_mib']:9.1f} "
              f"{row['peak_mib']:9.1f} {row['error']:+7.1%} {row['median_mib']:9.1f} "
              f"{row['allocator_peak_mib']:9.1f}")
    figures = summary([row["error"] for row in rows])
    print(told("memory", figures))
    usual = [row["error"] for row in rows
             if abs(row["measured_mib"] / row["median_mib"] - 1) <= MEMORY_WORST]
    if 0 < len(usual) < len(rows):
        print(told("memory, rows that agree with the other GPUs'", summary(usual)))
    passed = figures["mean"] <= MEMORY_MEAN and abs(figures["worst"]) <= MEMORY_WORST
    return passed, figures


def compare_limit(gpu, line, _):
    return {**line, "gpu": gpu, "measured": line["batch"],
            "error": line["first_out_of_memory"] / line["batch"] - 1}


def print_limit(rows):
    print(f"{'GPU':15} {'model':19} {'measured':>8} {'emulated':>8} {'error':>7} {'context':>8}"
          "   (first batch out of memory; MiB, from the other models)")
    for row in sorted(rows, key=lambda row: (row["gpu"], row["model"])):
        print(f"{row['gpu']:15} {row['model']:19} {row['measured']:8} "
              f"{row['first_out_of_memory']:8} {row['error']:+7.1%} {row['context_mib']:8}")
    figures = summary([row["error"] for row in rows])
    print(told("limit", figures))
    passed = True
    for gpu in sorted({row["gpu"] for row in rows}):
        of_gpu = [row for row in rows if row["gpu"] == gpu]
        good = sum(abs(row["error"]) <= LIMIT_MISS for row in of_gpu)
        figures[gpu] = {"models": len(of_gpu), "within": good}
        passed = passed and good >= min(LIMIT_MODELS, len(of_gpu))
        print(f"limit, {gpu}: {good} of {len(of_gpu)} models within {LIMIT_MISS:.0%}, "
              + told("all", summary([row["error"] for row in of_gpu])))
    return passed, figures


def compare_time(gpu, line, tables):
    row = {**line, "gpu": gpu}
    for phase in PHASES:
        measured = float(tables[gpu][line["model"]][line["batch"]][f"{phase}_ms"])
        row[f"measured_{phase}_ms"] = measured
        row[f"{phase}_error"] = (line[f"{phase}_ms"] + line[f"{phase}_host_ms"]) / measured - 1

    def total(name):
        return sum(row[name.format(phase)] for phase in PHASES)

    measured = total("measured_{}_ms")
    row["host_share"] = total("{}_host_ms") / measured
    row["this_host_ms"] = total("{}_this_host_ms")
    row["gpu_error"] = total("{}_ms") / measured - 1
    row["error"] = (total("{}_ms") + total("{}_host_ms")) / measured - 1
    row["recorded_differs"] = total("{}_recorded_ms") / total("{}_ms") - 1
    return row


def print_time(rows):
    print("measured, and under gpemu run the GPU's time + what the measuring host adds, in ms\n"
          f"{'GPU':15} {'model':19} {'batch':>5} {'forward':>25} {'error':>6} {'backward':>25} "
          f"{'error':>6} {'step':>6} {'this host':>9}")
    for row in rows:
        phases = " ".join(
            f"{row[f'measured_{phase}_ms']:8.2f} {row[f'{phase}_ms']:8.2f} "
            f"+{row[f'{phase}_host_ms']:7.2f} {row[f'{phase}_error']:+6.0%}" for phase in PHASES)
        print(f"{row['gpu']:15} {row['model']:19} {row['batch']:5} {phases} {row['error']:+6.0%} "
              f"{row['this_host_ms']:+9.2f}")
    figures = summary([row["error"] for row in rows])
    for gpu in sorted({row["gpu"] for row in rows}):
        print(told(f"time, {gpu}", summary([row["error"] for row in rows if row["gpu"] == gpu])))
    bound = [row["gpu_error"] for row in rows if row["host_share"] <= HOST_SHARE]
    if bound:
        figures["gpu_bound"] = summary(bound)
        print(told(f"time, the GPU's alone, steps to which the measuring host adds at most "
                   f"{HOST_SHARE:.0%}", figures["gpu_bound"]))
    print(told("time", figures))
    figures["recorded_differs"] = max((row["recorded_differs"] for row in rows), key=abs)
    print(f"time: the recordings' GPU time is off that of the runs by at most "
          f"{figures['recorded_differs']:+.1%}")
    return figures["mean"] <= TIME_MEAN, figures


CHECKS = {"memory": (compare_memory, print_memory),
          "limit": (compare_limit, print_limit),
          "time": (compare_time, print_time)}


def parse_arguments():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage="%(prog)s "
        "TABLES [options]")
    parser.add_argument("tables", type=pathlib.Path, metavar="TABLES")
    parser.add_argument("--check", action="append", choices=CHECKS, dest="checks")
    parser.add_argument("--gpu", action="append", dest="gpus", help="a GPU that has a table")
    parser.add_argument("--batch", action="append", type=int, dest="batches")
    parser.add_argument("--model", action="append", dest="models")
    parser.add_argument("--clock", choices=("gpu-only", "real"), default="gpu-only",
                        help="virtual (default): GPUs' time only; real: this machine's host, too")
    parser.add_argument("--recordings", default=ROOT / "evidence/packs/gpemu-vldb25/operations",
                        help="folder of the models' recordings")
    parser.add_argument("--gpemu", default=ROOT / "build/release/tools/gpemu", type=pathlib.Path)
    parser.add_argument("--python", type=pathlib.Path,
                        default=cache / "gpemu/torch-2.8.0/bin/python",
                        help="with PyTorch and torchvision: scripts/build/install_torch.sh 2.8.0")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows")
    options = parser.parse_args()
    for needed in (options.gpemu, options.python):
        if not needed.exists():
            parser.error(f"there is no {needed}")
    return options


def main():
    options = parse_arguments()
    tables = read_tables(options.tables)
    answer, passed = {}, True
    for check in options.checks or CHECKS:
        compare, print_rows = CHECKS[check]
        rows = []
        for gpu in options.gpus or GPUS[check]:
            if gpu not in tables:
                sys.exit(f"check_models: there is no table of {gpu}; there are {', '.join(tables)}")
            clock = "gpu-only" if check == "time" else options.clock
            lines = run_jobs(check, gpu, clock, options, tables)
            if check == "time" and lines:
                lines = with_hosts(gpu, lines, options, tables)
            rows += [compare(gpu, line, tables) for line in lines]
        if not rows:
            print(f"{check}: none of these rows was measured")
            continue
        good, figures = print_rows(rows)
        print(f"{check}: {'ok' if good else 'MISS'}\n", flush=True)
        passed = passed and good
        answer[check] = {"pass": good, **figures, "table": rows}
    if options.json:
        options.json.write_text(json.dumps(answer, indent=2) + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
