#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares schedules of Muri's eight traces with the figures that its authors published: the
average time from arrival to end (JCT), the makespan, and the 99th percentile of the JCT, by policy.

Runs `gpemu schedule` once for each policy and trace, two at once, and prints each published figure
beside ours, and how long it took. Exits with 1 if one is off by more than 1e-6 of it, except those
of Themis, whose published figures the published code does not give
(evidence/published/schedulers/muri/README.md).

Usage: scripts/claims/check_schedules.py [--gpemu PROGRAM] [--quick] [--json FILE]
"""

import concurrent.futures
import contextlib
import csv
import json
import os
import pathlib
import platform
import resource
import subprocess
import sys
import time

import claim_options

FOLDER = claim_options.ROOT / "evidence/published/schedulers/muri"
# As published.csv calls them. The last ones take the longest.
POLICIES = {"SRTF": "srtf", "SRSF": "srsf", "Tiresias": "tiresias", "AntMan": "antman",
            "Themis": "themis", "Muri-L": "muri-l", "Muri-S": "muri-s"}
NOT_REPRODUCED = {"Themis"}
AT_ONCE = 2
TRACES = [f"trace{number}{kind}" for number in range(1, 5) for kind in ("", "_pr")]
QUICK_TRACES = ["trace3", "trace3_pr"]
FIGURES = {"average_jct_s": "average JCT", "makespan_s": "makespan", "p99_jct_s": "p99 of JCT"}
# Published from a run in which Muri's simulator split groups that are slower together than in turn.
OF_SPLIT_RUNS = {("Muri-L", "trace3", "average_jct_s"): "muri-l-split"}
TOLERANCE = 1e-6


def published_figures():
    with open(FOLDER / "published.csv", newline="") as file:
        return {(row["policy"], row["trace"], row["metric"]): float(row["value"])
                for row in csv.DictReader(file)}


def run(gpemu, policy, trace):
    """Returns the figures of a policy on a trace, and how much time of a processor the run took in
    seconds."""
    process = subprocess.Popen(
        [gpemu, "schedule", FOLDER / f"{trace}.csv.gz", "--servers", "8", "--gpus", "8",
         "--policy", policy, "--accounting", "muri", "--restarts", FOLDER / "restarts.csv",
         "--quiet", "--json", "-"],
        stdout=subprocess.PIPE)
    with process.stdout:
        text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return json.loads(text)["results"][0], usage.ru_utime + usage.ru_stime


def machine():
    """Returns what the processor is called, and how many cores there are."""
    name = platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        name = next((line.partition(":")[2].strip() for line in file
                     if line.startswith("model name")), name)
    return f"{name}, {os.cpu_count()} cores"


def build_type(gpemu):
    """Returns how the program was built, if it lies in its build folder."""
    cache = pathlib.Path(gpemu).resolve().parents[1] / "CMakeCache.txt"
    with contextlib.suppress(OSError):
        for line in cache.read_text().splitlines():
            if line.startswith("CMAKE_BUILD_TYPE:"):
                return line.partition("=")[2]
    return "unknown"


def run_all(gpemu, traces):
    """Returns what run() does, by policy and trace."""
    wanted = [(policy, trace) for policy in POLICIES.values() for trace in traces]
    wanted += [(policy, trace) for (_, trace, _), policy in OF_SPLIT_RUNS.items()
               if trace in traces]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        runs = {key: pool.submit(run, gpemu, *key) for key in reversed(wanted)}
        return {key: future.result() for key, future in runs.items()}


def compared(runs, traces):
    """Returns a row for each policy and trace: both names, the time of a processor, and by figure
    the published one, ours, and the difference relative to the published one."""
    published = published_figures()
    rows = []
    for label, policy in POLICIES.items():
        for trace in traces:
            row = {"policy": label, "trace": trace, "run_s": runs[policy, trace][1], "figures": {}}
            for figure in FIGURES:
                of_run = OF_SPLIT_RUNS.get((label, trace, figure), policy)
                ours = runs[of_run, trace][0][figure]
                theirs = published[label, trace, figure]
                row["figures"][figure] = {"published": theirs, "gpemu": ours,
                                          "difference": ours / theirs - 1}
            rows.append(row)
    return rows


def print_table(rows):
    print(f"{'':9} {'':10}" + "".join(f"{title + ' (s)':>38}" for title in FIGURES.values()))
    print(f"{'policy':9} {'trace':10}" +
          f"{'published':>14} {'gpemu':>13} {'off':>9}" * len(FIGURES) + f"{'run (s)':>9}")
    for row in rows:
        cells = "".join(f"{figure['published']:14.1f} {figure['gpemu']:13.1f} "
                        f"{figure['difference']:+9.0e}" for figure in row["figures"].values())
        print(f"{row['policy']:9} {row['trace']:10}{cells}{row['run_s']:9.1f}")


def main():
    parser = claim_options.parser_of(__doc__)
    parser.add_argument("--quick", action="store_true", help="only " + " and ".join(QUICK_TRACES))
    parser.add_argument("--json", type=pathlib.Path, help="write the table there, too")
    options = claim_options.parse(parser)
    traces = QUICK_TRACES if options.quick else TRACES
    begin = time.monotonic()
    rows = compared(run_all(options.gpemu, traces), traces)
    took_s = time.monotonic() - begin
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = usage.ru_utime + usage.ru_stime
    print_table(rows)
    same = [abs(figure["difference"]) for row in rows if row["policy"] not in NOT_REPRODUCED
            for figure in row["figures"].values()]
    worst = max(same)
    print(f"\n{len(same)} figures, without {', '.join(NOT_REPRODUCED)}'s, off by at most "
          f"{worst:.0e}\n{took_s:.1f} s, two runs at once; time of processors: {used_s:.1f} s "
          f"({build_type(options.gpemu)} build; {machine()})")
    for policy in POLICIES:
        print(f"  {policy}: {sum(row['run_s'] for row in rows if row['policy'] == policy):.1f} s")
    if options.json is not None:
        table = {"took_s": took_s, "used_s": used_s, "rows": rows,
                 "build": build_type(options.gpemu), "machine": machine()}
        options.json.write_text(json.dumps(table, indent=1) + "\n")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
