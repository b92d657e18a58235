#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks of a build and prints one table with the facts that the figures depend on.

Usage: scripts/claims/bench_table.py BUILD_FOLDER JSON_FILE [NAME...]
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

REPETITIONS = 5
MIN_TIME_S = 0.2
UNIT_NS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}

# The most that these may take, in ns: the emulator must cost the host less than the driver that it
# replaces. docs/how-to/benchmarks.md has the reasons.
TARGETS_NS = {
    "BM_EnqueueKernel": 150,
    "BM_EnqueueCopy": 150,
    "BM_RecordEvent": 100,
    "BM_StepCostLookup": 1e3,
    "BM_PriceConvolution": 300,
    "BM_PriceKernel": 300,
    "BM_PriceStep": 50e6,
    "BM_CudaLaunchKernel": 300,
    "BM_CudaEventRecord": 300,
    "BM_CudaMemcpyAsync": 300,
    "BM_OpenDatabase": 20e6,
}
# These ask the cost model for a time like this benchmark; its time is subtracted from theirs.
PRICE = "BM_PriceKernel"
PRICED = {"BM_CudaLaunchKernel", "BM_CudaMemcpyAsync"}
# Fields of a result that are not counters of the benchmark.
STANDARD_FIELDS = {
    "name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions",
    "repetition_index", "threads", "iterations", "real_time", "cpu_time", "time_unit",
    "items_per_second", "bytes_per_second", "label", "error_occurred", "error_message"}


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def facts(build):
    """Returns the facts on which the figures depend, one per line."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                if line.startswith("model name")), "unknown")
    cache = (build / "CMakeCache.txt").read_text()
    compiler = next(line.split("=")[1] for line in cache.splitlines()
                    if line.startswith("CMAKE_CXX_COMPILER:"))
    commit = output_of("git", "describe", "--always", "--dirty", "--exclude=*") or "unknown"
    return {
        "cpu": f"{cpu}, {len(os.sched_getaffinity(0))} cores",
        "kernel": os.uname().release,
        "compiler": output_of(compiler, "--version").splitlines()[0],
        "build": f"{build.name}, commit {commit}",
        "load": f"{os.getloadavg()[0]:.1f} before the first benchmark",
    }


def run(executable):
    """Returns the results of one executable, a list for each of its benchmarks."""
    command = [executable, "--benchmark_format=json", f"--benchmark_repetitions={REPETITIONS}",
               f"--benchmark_min_time={MIN_TIME_S}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"bench: {executable} ended with {done.returncode}")
    groups = {}
    for result in json.loads(done.stdout)["benchmarks"]:
        if result["run_type"] == "iteration":
            groups.setdefault(result["run_name"], []).append(result)
    return groups


def short(value, units):
    """Returns a number in the largest of `units` (name, size) that leaves it at 1 or more."""
    name, size = next(((n, s) for n, s in units if abs(value) >= s), units[-1])
    return f"{value / size:.3g} {name}".rstrip()


def time_text(ns):
    return short(ns, [("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1)])


def target_of(name, median, price):
    """Returns whether a benchmark met its target; `price` is what PRICE took, or None."""
    limit = TARGETS_NS.get(name)
    if limit is None:
        return ""
    beyond = ""
    if name in PRICED and price is not None:
        median -= price
        beyond = f" beyond {PRICE}"
    return f"at most {time_text(limit)}{beyond}: {'met' if median <= limit else 'MISSED'}"


def median_of(results):
    """Returns the median of a benchmark's repetitions in ns."""
    return statistics.median(r["real_time"] * UNIT_NS[r["time_unit"]] for r in results)


def row_of(results, price):
    """Returns a table row for the repetitions of one benchmark."""
    first = results[0]
    failed = [r["error_message"] for r in results if r.get("error_occurred")]
    if failed:
        return [first["run_name"], "failed", "", "", failed[0]]
    times = [r["real_time"] * UNIT_NS[r["time_unit"]] for r in results]
    median = median_of(results)
    spread = f"{(max(times) - min(times)) / median:.1%}" if len(times) > 1 else ""
    target = target_of(first["run_name"].split("/")[0], median, price)
    notes = [first["label"]] if first.get("label") else []
    decimal = [("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1)]
    for key, unit in (("items_per_second", "/s"), ("bytes_per_second", "B/s")):
        if key in first:
            notes.append(short(statistics.median(r[key] for r in results), decimal) + unit)
    for key in first.keys() - STANDARD_FIELDS:
        notes.append(f"{key} {short(statistics.median(r[key] for r in results), decimal)}")
    return [first["run_name"], time_text(median), spread, target, ", ".join(sorted(notes))]


def print_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build = pathlib.Path(sys.argv[1])
    wanted = sys.argv[3:]
    host = facts(build)
    groups = {}
    for executable in (build / "benches.txt").read_text().split():
        name = pathlib.Path(executable).name
        if not wanted or any(text in name for text in wanted):
            print(f"bench: {name}", file=sys.stderr)
            groups.update(run(executable))
    for name, fact in host.items():
        print(f"{name + ':':10}{fact}")
    print(f"{'time:':10}median of {REPETITIONS} repetitions; spread: (max - min) / median\n")
    price = median_of(groups[PRICE]) if PRICE in groups else None
    print_table([["benchmark", "time", "spread", "target", "rates and counters"],
                 *(row_of(results, price) for results in groups.values())])
    pathlib.Path(sys.argv[2]).write_text(
        json.dumps({"facts": host, "results": groups}, indent=1) + "\n")


if __name__ == "__main__":
    main()
