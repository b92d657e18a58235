#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how well processes keep up with rounds of a rendezvous while they compute in Python.

Usage: scripts/claims/check_rendezvous.py [--processes N] [--rounds N] [--json]

Starts the processes on one node. Each queues rounds ahead of its main thread, which computes in
Python all the time. Programs: rounds that follow each other without a break; a kernel before
each round; and as that, but a different kernel in each process. It prints for each

  same ends    whether each round ended at the same time of the node's clock in all processes
  late         for how long after the end of a round nobody could tell it, because a process had
               not published its arrival: the median over rounds, of the worst process
  host         the CPU time of the thread that settles rounds, for each round and process
"""

import argparse
import json
import multiprocessing
import os
import sys
import time

import gpemu

US = 1000
PROGRAMS = {
    # Name: costs of the kernel and of the round in ns, as functions of seat and round.
    "rounds of 20 us in a row": (lambda seat, index: 0, 20 * US),
    "rounds of 1 ms in a row": (lambda seat, index: 0, 1000 * US),
    "a kernel of 500 us, a round of 100 us": (lambda seat, index: 500 * US, 100 * US),
    "kernels of 500 to 700 us, a round of 1 ms": (
        lambda seat, index: 500 * US + (seat * 7919 + index * 104729) % 200 * US,
        1000 * US,
    ),
}
AHEAD = 50  # Rounds that are queued before the events of the first of them are read.


def compute(stop: float) -> int:
    """Computes in Python until that time of the host's clock."""
    total = 0
    while time.monotonic() < stop:
        for i in range(1000):
            total += i * i % 7
    return total


def party(node_name, group, seat, program, rounds, barrier, results) -> None:
    kernel, cost = PROGRAMS[program]
    node = gpemu.Node.open(node_name)
    device = node.device(seat)
    stream = device.stream()
    rendezvous = node.join(group, seat)
    barrier.wait()
    began = node.now()
    ends = []
    for start in range(0, rounds, AHEAD):
        events = []
        for index in range(start, min(start + AHEAD, rounds)):
            if duration := kernel(seat, index):
                stream.launch(duration)
            events.append(gpemu.Event())
            rendezvous.arrive(stream, cost, end=events[-1])
        while not stream.query():
            compute(time.monotonic() + 0.002)
        ends += [event.time() for event in events]
    results.put((seat, began, node.now(), ends, rendezvous.statistics()))
    barrier.wait()


def measure(program: str, processes: int, rounds: int) -> dict:
    spawn = multiprocessing.get_context("spawn")
    node = gpemu.Node("A100-SXM4-40GB", processes, name=f"rendezvous-{os.getpid()}")
    group = node.create_group(processes)
    barrier, results = spawn.Barrier(processes), spawn.Queue()
    name = f"rendezvous-{os.getpid()}"
    parties = [
        spawn.Process(target=party, args=(name, group, seat, program, rounds, barrier, results))
        for seat in range(processes)
    ]
    for process in parties:
        process.start()
    seen = sorted(results.get() for _ in parties)
    for process in parties:
        process.join()
    statistics = [entry[4] for entry in seen]
    return {
        "program": program,
        "same_ends": all(entry[3] == seen[0][3] for entry in seen),
        "late_us": max(entry.median_late_ns for entry in statistics) / 1e3,
        "latest_us": max(entry.latest_ns for entry in statistics) / 1e3,
        "host_us": sum(entry.settling_cpu_ns for entry in statistics) / 1e3 / rounds / processes,
        "rounds": min(entry.rounds for entry in statistics),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    found = [measure(program, options.processes, options.rounds) for program in PROGRAMS]
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for row in found:
            print(
                f"{row['program']:42} same ends: {'yes' if row['same_ends'] else 'NO '}"
                f"  late {row['late_us']:6.0f} us (latest {row['latest_us']:8.0f})"
                f"  host {row['host_us']:5.1f} us a round"
            )
    return 0 if all(row["same_ends"] for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
