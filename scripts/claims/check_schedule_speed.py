#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how the time and the memory of `gpemu schedule` grow with the number of jobs.

    scripts/claims/check_schedule_speed.py --gpemu build/release/tools/gpemu

Random jobs (`gpemu jobs make`) that ask for 0.8 of the GPUs. Times are processor times, which other
programs on the machine change little. It fails if twice the jobs take more than 2.2 times as long,
or 100,000 jobs more than 1 GB.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

# Policy, servers with 8 GPUs each, and jobs per hour: a job has 2.1 GPUs and 5,544 s on average.
SETTINGS = [("fifo", 1250, 2470), ("srtf", 63, 125)]
JOBS = [10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000]
MOST_GROWTH = 2.2
MOST_BYTES_OF_100_000 = 1e9


def measure(gpemu, table, servers, policy):
    """Returns the processor time in seconds and the most memory in bytes of one simulation."""
    with open(os.devnull, "wb") as nothing:
        with subprocess.Popen([gpemu, "schedule", table, "--servers", str(servers), "--gpus", "8",
                               "--policy", policy, "--quiet"], stdout=nothing) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"gpemu schedule failed with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--gpemu", default="gpemu", help="the program to measure")
    gpemu = parser.parse_args().gpemu
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        for policy, servers, rate in SETTINGS:
            print(f"{policy} on {8 * servers} GPUs: jobs, s, s per 100,000 jobs, MB")
            times = {}
            for jobs in JOBS:
                table = str(pathlib.Path(folder) / "jobs.csv")
                subprocess.run([gpemu, "jobs", "make", table, "--jobs", str(jobs), "--per-hour",
                                str(rate), "--seed", "1", "--quiet"], check=True)
                times[jobs], memory = measure(gpemu, table, servers, policy)
                print(f"{jobs:9,} {times[jobs]:8.2f} {1e5 * times[jobs] / jobs:8.3f} "
                      f"{memory / 1e6:8.0f}", flush=True)
                if jobs == 100_000 and memory > MOST_BYTES_OF_100_000:
                    faults.append(f"{policy}: 100,000 jobs take {memory / 1e6:.0f} MB")
                half = times.get(jobs // 2)
                if half and times[jobs] > MOST_GROWTH * half:
                    faults.append(f"{policy}: {jobs:,} jobs take {times[jobs] / half:.2f} times "
                                  "as long as half of them")
    for fault in faults:
        print(f"missed: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
