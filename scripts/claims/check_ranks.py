#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures in real time how well the ranks of a PyTorch program keep up with emulated GPUs, and
what a collective call costs the host.

Prints, with the limits in brackets:

  steps    by how much the ends of a step differ between ranks, as each rank sees them [0.2 ms],
           beside the same for ranks that only sleep until a common time and compute as much as
           the step does: that is this machine's scheduler [or 0.2 ms more than that]. With a pause
           after each step, and without. Each rank is bound to a core: otherwise, the kernel often
           leaves a core idle while several ranks wait for another one
  calls    the processor time of ncclAllReduce [10 us], queued ten in a row: of a bucket of DDP, and
           of 8 bytes, which are really added
  phantoms the same for the only rank that runs of 64 (--ranks-for-real 1) [10 us]

The exit code is 1 if a limit is exceeded.

Usage: scripts/claims/check_ranks.py --python PYTHON [--gpemu COMMAND] [--ranks N]
       (PyTorch 2.8 as scripts/build/install_torch.sh 2.8.0 installs it; an idle machine; 2 minutes)
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

PROGRAM = pathlib.Path(__file__).with_name("rank_program.py")
GPU = "A100-SXM4-40GB"
MOST_SPREAD_US = 200
MOST_CALL_US = 10
STEPS, CALLS = 100, 2000
BUCKET = 25 << 20


def run(options, ranks, words, real=None):
    """Returns what rank 0 prints."""
    own = ["--topology", "dgx-a100", "--ranks-for-real", str(real)] if real else ["--gpu",
                                                                                 f"{GPU}:{ranks}"]
    command = [options.gpemu, "run", "--quiet", *own, "--", options.python, "-m",
               "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
               str(PROGRAM), *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"check_ranks: {' '.join(command)}: {done.stderr.strip()}")
    return json.loads(lines[-1])


def text_of(values):
    ordered = sorted(values)
    return (f"median {statistics.median(ordered):5.0f} us, 90 % at most "
            f"{ordered[int(len(ordered) * 0.9)]:5.0f} us")


def check_steps(options, ranks, pause_ms):
    found = run(options, ranks, ("steps", STEPS, pause_ms))
    steps, sleeps = (statistics.median(found[name]) for name in ("steps_us", "sleeps_us"))
    good = steps <= MOST_SPREAD_US or steps - sleeps <= MOST_SPREAD_US
    print(f"steps    {ranks} ranks, pause of {pause_ms} ms: {text_of(found['steps_us'])}; sleeps: "
          f"{text_of(found['sleeps_us'])}; {found['work_us']:.0f} us of work  "
          f"{'yes' if good else 'NO'}",
          flush=True)
    return good


def check_calls(options, ranks, size, real=None):
    found = run(options, ranks, ("calls", CALLS, size), real)
    used = found["processor_us"]
    good = used <= MOST_CALL_US
    print(f"{'phantoms' if real else 'calls':8} {ranks} ranks, {size} bytes: processor time "
          f"{used:4.1f} us on average, {found['passed_us']:4.1f} us pass in the median  "
          f"{'yes' if good else 'NO'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpemu", default="gpemu", help="the gpemu command")
    parser.add_argument("--python", required=True, help="a Python with PyTorch")
    parser.add_argument("--ranks", type=int, default=8, help="ranks that run (default: 8)")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f}, {options.ranks} ranks")
    numbers = tuple(dict.fromkeys((min(cores, options.ranks), options.ranks)))
    good = [check_steps(options, ranks, pause) for ranks in numbers for pause in (5, 0)]
    for size in (BUCKET, 8):
        good += [check_calls(options, ranks, size) for ranks in numbers]
        good.append(check_calls(options, 64, size, real=1))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
