#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that processes which always have work share an emulated GPU fairly: unmodified PyTorch
programs, each of which queues kernels ahead and asks afterwards when they ended.

For each number of processes: how much of one second of the GPU's time each got, and how much was
lost to context switches. Expected: 1/n each, less a loss of switch / (slice + switch) in all; one
process alone loses nothing, and with MPS nobody does. Exits with 1 when a share is off by more than
0.01 or the loss by more than 0.005.

Usage: scripts/claims/check_sharing.py --python PYTHON [--gpemu COMMAND] [--processes N]...
       [--sharing time-slices|mps] [--seconds S] [--time-slice MS] [--context-switch MS]
       [--clock real|virtual] [--json FILE]
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU = "V100-PCIE-32GB"
CYCLES = 138_000  # of a kernel: 0.1 ms at the V100's clock.
AHEAD = 1000  # So many kernels each process queues ahead: for longer than its thread ever sleeps.


def event():
    import torch

    made = torch.cuda.Event(enable_timing=True)
    made.record()
    return made


def measure():
    """Prints how long a kernel takes, in seconds, alone on the GPU."""
    import torch

    tries = []
    for _ in range(100):
        first = event()
        for _ in range(10):
            torch.cuda._sleep(CYCLES)
        last = event()
        last.synchronize()
        tries.append(first.elapsed_time(last) / 1000 / 10)
    print(min(tries))  # In the others, the GPU waited for the host.


def work(start, seconds):
    """Queues kernels from `start` on, and prints how many ended within so many seconds."""
    import torch

    torch.cuda.synchronize()
    while time.monotonic() < start:
        time.sleep(0.001)
    base = event()
    base.synchronize()
    began = time.monotonic()
    ends = []
    while time.monotonic() < start + seconds + 0.5:
        torch.cuda._sleep(CYCLES)
        ends.append(event())
        if len(ends) > AHEAD:
            ends[-AHEAD].synchronize()
    torch.cuda.synchronize()
    first, last = start + 0.3, start + 0.3 + seconds
    times = [began + base.elapsed_time(end) / 1000 for end in ends]
    print(sum(first < end <= last for end in times))


def launch(processes, seconds):
    """Starts the processes and prints the share of the GPU that each got, as a list."""
    kernel = float(subprocess.check_output([sys.executable, __file__, "--measure"]))
    start = time.monotonic() + 4 + 2 * processes
    words = [sys.executable, __file__, "--work", str(start), "--seconds", str(seconds)]
    children = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
                for _ in range(processes)]
    print(json.dumps([int(child.communicate()[0]) * kernel / seconds for child in children]))


def run(options, processes):
    """Returns the share of the GPU's time that each process got."""
    words = [options.gpemu, "run", "--quiet", "--gpu", GPU, "--clock", options.clock,
             "--sharing", options.sharing, "--time-slice", str(options.time_slice),
             "--context-switch", str(options.context_switch), "--", options.python, __file__,
             "--launch", str(processes), "--seconds", str(options.seconds)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--gpemu", default=str(ROOT / "build/release/tools/gpemu"))
    parser.add_argument("--processes", type=int, action="append")
    parser.add_argument("--sharing", choices=["time-slices", "mps"], default="time-slices")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--time-slice", type=float, default=2.0)
    parser.add_argument("--context-switch", type=float, default=0.145)
    parser.add_argument("--clock", choices=["real", "virtual"], default="real")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--launch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--work", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure()
    if options.work is not None:
        return work(options.work, options.seconds)
    if options.launch is not None:
        return launch(options.launch, options.seconds)

    switch = options.context_switch if options.sharing == "time-slices" else 0
    results = []
    print("processes  expected  least   most    loss    expected")
    for processes in options.processes or [1, 2, 4, 8]:
        loss = switch / (options.time_slice + switch) if processes > 1 else 0
        shares = run(options, processes)
        lost = 1 - sum(shares)
        off = max(abs(share - (1 - lost) / processes) for share in shares)
        good = off <= 0.01 and abs(lost - loss) <= 0.005
        results.append({"processes": processes, "shares": shares, "lost": lost, "good": good})
        print(f"{processes:9d}  {(1 - loss) / processes:8.4f}  {min(shares):.4f}  "
              f"{max(shares):.4f}  {lost:.4f}  {loss:.4f}  {'ok' if good else 'MISSED'}",
              flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if all(result["good"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
