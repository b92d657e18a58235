#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that runs of `gpemu train`, alone or beside `gpemu run`, get their shares of a GPU.

All run on one node in real time, and each always has work. The share of a run is its rate in the
middle half of its steps, divided by its rate alone; that of the program is the time of its kernels
that ended while the run beside it was in its middle half. Expected: 1/n each; with time slices,
less the share of the context switches. Exits with 1 if a share is off by more than 1 % of itself.

Usage: scripts/claims/check_shares.py [--gpemu COMMAND] [--sharing POLICY]... [--parties N]...
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time

import claim_options

GPU = "V100-PCIE-32GB"
MODEL = ["--model", "resnet50", "--batch", "16"]  # Eight of them fit.
SLICE_MS, SWITCH_MS = 2, 0.145  # What a V100 has by default (docs/design/time-slices.md).
STEPS_ALONE = 80
KERNEL = 3072  # The size of the program's products of matrices: some 4 ms each.
AHEAD = 64  # So many of them it queues ahead: for longer than its thread ever sleeps.
NODE = f"shares-{os.getpid()}"


def expected(sharing, parties):
    kept = SLICE_MS / (SLICE_MS + SWITCH_MS) if sharing == "time-slices" and parties > 1 else 1
    return kept / parties


def train(gpemu, steps, trace):
    return subprocess.Popen([gpemu, "train", "synthetic", "--node", NODE, *MODEL, "--steps",
                             str(steps), "--quiet", "--trace", trace])


def rate(trace):
    """Returns the steps per second in the middle half of a run."""
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    ends = {}
    for event in events:
        if event["ph"] == "X" and event["name"] != "wait for step":
            step = event["args"]["step"]
            ends[step] = max(ends.get(step, 0), event["ts"] + event["dur"])
    first, last = len(ends) // 4, len(ends) * 3 // 4
    return (last - first) / (ends[last] - ends[first]) * 1e6


def work():
    """Queues products of matrices until its standard input ends, and prints when each one ended."""
    cuda, blas = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libcublas.so.12")
    handle, one = ctypes.c_void_p(), ctypes.c_float(1)
    matrices = [ctypes.c_void_p() for _ in range(3)]
    assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
    for matrix in matrices:
        assert cuda.cudaMalloc(ctypes.byref(matrix), ctypes.c_size_t(4 * KERNEL * KERNEL)) == 0

    def event():
        made = ctypes.c_void_p()
        assert cuda.cudaEventCreate(ctypes.byref(made)) == 0
        assert cuda.cudaEventRecord(made, None) == 0
        return made

    a, b, c = matrices
    began = time.monotonic()
    base = event()
    assert cuda.cudaEventSynchronize(base) == 0
    events = []
    os.set_blocking(0, False)
    while sys.stdin.buffer.raw.read(1) is None:
        assert blas.cublasSgemm_v2(handle, 0, 0, KERNEL, KERNEL, KERNEL, ctypes.byref(one), a,
                                   KERNEL, b, KERNEL, ctypes.byref(one), c, KERNEL) == 0
        events.append(event())
        if len(events) > AHEAD:
            assert cuda.cudaEventSynchronize(events[-AHEAD]) == 0
    assert cuda.cudaDeviceSynchronize() == 0
    elapsed, ends = ctypes.c_float(), []
    for each in events:
        assert cuda.cudaEventElapsedTime(ctypes.byref(elapsed), base, each) == 0
        ends.append(began + elapsed.value / 1000)
    json.dump(ends, sys.stdout)


def program(gpemu):
    words = [gpemu, "run", "--quiet", "--node", NODE, "--", sys.executable, __file__, "--work"]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ends_of(process):
    return json.loads(process.communicate()[0])


def shares_of_runs(gpemu, parties, alone, folder):
    steps = max(STEPS_ALONE, 8 * parties)
    traces = [os.path.join(folder, f"{party}.json") for party in range(parties)]
    runs = [train(gpemu, steps, trace) for trace in traces]
    assert all(run.wait() == 0 for run in runs)
    return [rate(trace) / alone for trace in traces]


def shares_beside_a_program(gpemu, alone, folder):
    """Returns the shares of a run and of a program beside it."""
    lonely = program(gpemu)
    time.sleep(3)
    ends = ends_of(lonely)
    kernel_s = (ends[-1] - ends[len(ends) // 4]) / (len(ends) - 1 - len(ends) // 4)
    beside = program(gpemu)
    time.sleep(2)
    trace = os.path.join(folder, "beside.json")
    start = time.monotonic()
    assert train(gpemu, 3 * STEPS_ALONE, trace).wait() == 0
    length = time.monotonic() - start
    first, last = start + length / 4, start + length * 3 / 4
    count = sum(first < end <= last for end in ends_of(beside))
    return [rate(trace) / alone, count * kernel_s / (last - first)]


def main():
    if sys.argv[1:] == ["--work"]:
        return work()
    parser = claim_options.parser_of(__doc__)
    parser.add_argument("--sharing", choices=["time-slices", "mps", "fifo"], action="append")
    parser.add_argument("--parties", type=int, action="append")
    options = claim_options.parse(parser)
    good = True

    def show(what, sharing, shares, parties):
        nonlocal good
        share = expected(sharing, parties)
        worst = max(abs(one / share - 1) for one in shares)
        good = good and worst <= 0.01
        print(f"{sharing:12} {what:24} {share:8.4f}  {min(shares):.4f}  {max(shares):.4f}  "
              f"{'ok' if worst <= 0.01 else 'MISSED'}", flush=True)

    print(f"{'sharing':12} {'parties':24} expected  least   most")
    for sharing in options.sharing or ["time-slices", "mps", "fifo"]:
        subprocess.run([options.gpemu, "node", "create", NODE, "--gpu", GPU, "--sharing", sharing],
                       check=True, stdout=subprocess.DEVNULL)
        try:
            with tempfile.TemporaryDirectory() as folder:
                trace = os.path.join(folder, "alone.json")
                assert train(options.gpemu, STEPS_ALONE, trace).wait() == 0
                alone = rate(trace)
                for parties in options.parties or [2, 8]:
                    show(f"{parties} of gpemu train", sharing,
                         shares_of_runs(options.gpemu, parties, alone, folder), parties)
                if sharing != "fifo":  # There, who has longer kernels gets more.
                    show("gpemu train, gpemu run", sharing,
                         shares_beside_a_program(options.gpemu, alone, folder), 2)
        finally:
            subprocess.run([options.gpemu, "node", "remove", NODE, "--force"], check=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
