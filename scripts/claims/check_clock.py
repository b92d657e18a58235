#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that `gpemu run --clock virtual` tells the times of the real clock, and sooner.

Four processes of PyTorch, each with a GPU of its own, put work of 100 ms on it, wait for it, and
meet in a barrier of gloo. On the real clock for some steps, on the virtual one for 1,000: the
median step must be the same within 1 %, and 100 seconds of steps must take less than 20 of the
host's. Wants an idle machine.

Usage: check_clock.py [--gpemu COMMAND] [--python PYTHON] [--steps N] [--real-steps N]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

GPU = "V100-PCIE-32GB"
RANKS = 4
WORK_MS = 100
# A kernel of PyTorch that waits for a number of cycles.
CYCLES = WORK_MS * 1_380_000


def host_time():
    """The host's time, which no library changes."""
    return float(pathlib.Path("/proc/uptime").read_text(encoding="ascii").split()[0])


def work(rank, steps, port, result):
    """One rank."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.cuda.set_device(rank)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                            world_size=RANKS)
    dist.barrier()
    begin, times = host_time(), [time.perf_counter()]
    for _ in range(steps):
        torch.cuda._sleep(CYCLES)
        torch.cuda.synchronize()
        dist.barrier()
        times.append(time.perf_counter())
    if rank == 0:
        lasted = [after - before for before, after in zip(times, times[1:])]
        pathlib.Path(result).write_text(json.dumps(
            {"steps_s": lasted, "host_s": host_time() - begin}), encoding="ascii")
    dist.destroy_process_group()


def measure(options, clock, steps):
    """Returns the steps and the host's time of a run."""
    with tempfile.NamedTemporaryFile() as result:
        subprocess.run(
            [options.gpemu, "run", "--quiet", "--clock", clock, "--gpu", f"{GPU}:{RANKS}", "--",
             options.python, __file__, "--ranks", str(steps), result.name],
            check=True)
        return json.loads(pathlib.Path(result.name).read_text(encoding="ascii"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpemu", default="build/release/tools/gpemu")
    parser.add_argument("--python", default=os.path.expanduser(
        "~/.cache/gpemu/torch-2.8.0/bin/python"))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--real-steps", type=int, default=200)
    parser.add_argument("--ranks", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ranks:
        import torch.multiprocessing

        steps, result = options.ranks
        torch.multiprocessing.spawn(work, (int(steps), 29_400 + os.getpid() % 1000, result), RANKS)
        return 0
    real = measure(options, "real", options.real_steps)
    virtual = measure(options, "virtual", options.steps)
    medians = [statistics.median(run["steps_s"]) for run in (real, virtual)]
    emulated = sum(virtual["steps_s"])
    difference = medians[1] / medians[0] - 1
    for name, run in (("real", real), ("virtual", virtual)):
        steps = sorted(run["steps_s"])
        print(f"{name:8} {len(steps):5} steps of {1e3 * statistics.median(steps):8.3f} ms "
              f"(median), {1e3 * statistics.mean(steps):8.3f} (mean), {1e3 * steps[0]:8.3f} to "
              f"{1e3 * steps[-1]:8.3f}; {sum(steps):7.2f} s took {run['host_s']:7.2f} s")
    print(f"the median step differs by {100 * difference:+.2f} %; "
          f"{emulated / virtual['host_s']:.1f} times as fast")
    good = abs(difference) <= 0.01 and virtual["host_s"] * 5 < emulated
    print("passed" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
