#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what sharing a GPU by time slices costs the host.

For each number of processes that always have work: the CPU time of all of them for each turn of the
GPU, while their main threads sleep; and how long it takes to launch a kernel, in the median. Exits
with 1 when a turn costs more than 5 us.

Usage: PYTHONPATH=build/dev/python scripts/claims/check_arbitration.py [--gpemu COMMAND]
       [--processes N]... [--seconds S] [--json FILE]
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import time

import gpemu

ROOT = pathlib.Path(__file__).resolve().parents[2]
MS = 10**6
TURN_S = 2.145e-3  # A time slice and a context switch.
MOST_US = 5


def share(node_name, processes, seconds, barrier, results):
    """One process: keeps the GPU busy while its main thread sleeps, then launches kernels."""
    node = gpemu.Node.open(node_name)
    stream = node.device(0).stream()
    barrier.wait()
    # Enough for the time until the others are ready, too.
    for _ in range(int((seconds + 3) * 1000 / processes)):
        stream.launch(MS)
    barrier.wait()
    time.sleep(0.2)
    before = time.process_time_ns()
    time.sleep(seconds)
    used = time.process_time_ns() - before
    barrier.wait()
    launches = []
    for _ in range(2000):
        start = time.perf_counter_ns()
        stream.launch(1000)
        launches.append(time.perf_counter_ns() - start)
    results.put((used, statistics.median(launches)))
    barrier.wait()


def measure(gpemu_command, processes, seconds):
    name = f"arbitration-{os.getpid()}"
    subprocess.run([gpemu_command, "node", "create", name, "--gpu", "V100-PCIE-32GB",
                    "--sharing", "time-slices"], check=True, stdout=subprocess.DEVNULL)
    try:
        spawn = multiprocessing.get_context("spawn")
        barrier, results = spawn.Barrier(processes), spawn.Queue()
        sharers = [spawn.Process(target=share, args=(name, processes, seconds, barrier, results))
                   for _ in range(processes)]
        for sharer in sharers:
            sharer.start()
        seen = [results.get() for _ in sharers]
        for sharer in sharers:
            sharer.join()
    finally:
        subprocess.run([gpemu_command, "node", "remove", name, "--force"], check=True)
    return {"processes": processes,
            "turn_us": sum(used for used, _ in seen) / 1e3 / (seconds / TURN_S),
            "launch_ns": statistics.median(launch for _, launch in seen)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gpemu", default=str(ROOT / "build/dev/tools/gpemu"))
    parser.add_argument("--processes", type=int, action="append")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    results = []
    print("processes  CPU a turn  launch from Python")
    for processes in options.processes or [1, 2, 4, 8]:
        results.append(measure(options.gpemu, processes, options.seconds))
        print("{processes:9d}  {turn_us:7.2f} us  {launch_ns:10.0f} ns".format(**results[-1]),
              flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any(result["turn_us"] > MOST_US for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
