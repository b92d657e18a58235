#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares schedules of Muri's eight traces with the figures that its authors published: the
average time from arrival to end (JCT), the makespan, and the 99th percentile of the JCT, by policy.

Runs `gpemu schedule` once for each policy and trace, as many at once as there are cores, and prints
each published figure beside ours. Exits with 1 if one is off by more than 1e-6 of it. Themis is
left out: gpemu does not have it.

Usage: scripts/claims/check_schedules.py [--gpemu PROGRAM] [--quick] [--json FILE]
"""

import concurrent.futures
import csv
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

import claim_options

FOLDER = claim_options.ROOT / "evidence/published/schedulers/muri"
# As published.csv calls them. The last ones take the longest.
POLICIES = {"SRTF": "srtf", "SRSF": "srsf", "Tiresias": "tiresias", "AntMan": "antman",
            "Muri-L": "muri-l", "Muri-S": "muri-s"}
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
    """Returns the figures of a policy on a trace, and how long the run took in seconds."""
    begin = time.monotonic()
    done = subprocess.run(
        [gpemu, "schedule", FOLDER / f"{trace}.csv.gz", "--servers", "8", "--gpus", "8",
         "--policy", policy, "--accounting", "muri", "--restarts", FOLDER / "restarts.csv",
         "--quiet", "--json", "-"],
        stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["results"][0], time.monotonic() - begin


def run_all(gpemu, traces):
    """Returns what run() does, by policy and trace."""
    wanted = [(policy, trace) for policy in POLICIES.values() for trace in traces]
    wanted += [(policy, trace) for (_, trace, _), policy in OF_SPLIT_RUNS.items()
               if trace in traces]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {key: pool.submit(run, gpemu, *key) for key in reversed(wanted)}
        return {key: future.result() for key, future in runs.items()}


def compared(runs, traces):
    """Returns a row for each policy and trace: both names, the seconds of the run, and by figure
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
    worst = max(abs(figure["difference"]) for row in rows for figure in row["figures"].values())
    print(f"\n{len(rows) * len(FIGURES)} figures, off by at most {worst:.0e}; "
          f"{took_s:.1f} s, of {os.cpu_count()} cores {used_s:.1f} s")
    if options.json is not None:
        table = {"took_s": took_s, "used_s": used_s, "rows": rows}
        options.json.write_text(json.dumps(table, indent=1) + "\n")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
