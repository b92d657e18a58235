#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that copies keep their bytes and cost the program little.

The first part copies 256 MiB from a GPU to pinned memory and back with asynchronous calls: the call
returns in under 50 us (median of the rounds), both directions together take less time than one
after the other, and the bytes are equal.

The second part, with --python, trains ResNet-50 on real JPEG files with a DataLoader, in pairs of
runs that keep and that drop what copies bring, in alternating order: keeping loses less than 3 %
of the images per second (median of the pairs).

Times are the host's: run it on two cores that nobody else uses.

    scripts/claims/check_copies.py [--python $(scripts/build/install_torch.sh 2.8.0)]
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU = "V100-PCIE-32GB"
MOST_CALL_US = 50
MOST_OF_SUM = 0.9
MOST_LOSS_PERCENT = 3.0

COPIES = """
import ctypes, json, sys, time
cuda = ctypes.CDLL("libcudart.so.12")
rounds = int(sys.argv[1])
size = 256 << 20
count = ctypes.c_size_t(size)
there, back, first, second = (ctypes.c_void_p() for _ in range(4))
for pinned in (there, back):
    assert cuda.cudaMallocHost(ctypes.byref(pinned), count) == 0
for memory in (first, second):
    assert cuda.cudaMalloc(ctypes.byref(memory), count) == 0
streams = [ctypes.c_void_p() for _ in range(2)]
for stream in streams:
    assert cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
data = bytes(range(251)) * (size // 251 + 1)
ctypes.memmove(there, data, size)
for memory in (first, second):
    assert cuda.cudaMemcpyAsync(memory, there, count, 1, streams[0]) == 0
assert cuda.cudaDeviceSynchronize() == 0
to_host = (back, first, count, 2, streams[0])
to_device = (second, there, count, 1, streams[1])

def timed(*copies):
    calls = []
    start = time.perf_counter()
    for copy in copies:
        before = time.perf_counter()
        assert cuda.cudaMemcpyAsync(*copy) == 0
        calls.append(time.perf_counter() - before)
    assert cuda.cudaDeviceSynchronize() == 0
    return calls, time.perf_counter() - start

timed(to_host, to_device)  # Starts the threads.
result = {"call_s": [], "to_host_s": [], "to_device_s": [], "both_s": []}
for _ in range(rounds):
    calls, passed = timed(to_host)
    result["call_s"] += calls
    result["to_host_s"].append(passed)
    result["to_device_s"].append(timed(to_device)[1])
    result["both_s"].append(timed(to_host, to_device)[1])
result["equal"] = ctypes.string_at(back, size) == data[:size]
print(json.dumps(result))
"""


def gpemu(arguments, options, words):
    """Runs a program under gpemu; returns what it printed and the summary."""
    with tempfile.TemporaryDirectory(prefix="gpemu_check_copies_") as folder:
        summary = pathlib.Path(folder) / "summary.json"
        process = subprocess.run(
            [arguments.gpemu, "run", "--gpu", GPU, "--quiet", "--json", str(summary), *options,
             "--", *map(str, words)], check=False, capture_output=True, text=True)
        if process.returncode != 0:
            sys.exit(f"check_copies: {words[0]} ended with {process.returncode}:\n{process.stderr}")
        return process.stdout, json.loads(summary.read_text())


def check(holds, text):
    print(("holds  " if holds else "FAILS  ") + text, flush=True)
    return holds


def check_calls(arguments):
    output, summary = gpemu(arguments, (), (sys.executable, "-c", COPIES, arguments.rounds))
    result = json.loads(output)
    median = {name: statistics.median(times) for name, times in result.items() if name != "equal"}
    copies = summary["copies"]
    rate = copies["moved_bytes"] / max(copies["moving_ns"], 1)
    print(f"256 MiB, {arguments.rounds} rounds: to the host {median['to_host_s'] * 1e3:.1f} ms, to "
          f"the device {median['to_device_s'] * 1e3:.1f} ms, both {median['both_s'] * 1e3:.1f} ms; "
          f"each moved at {rate:.1f} GB/s")
    of_sum = statistics.median(
        both / (one + other) for one, other, both in
        zip(result["to_host_s"], result["to_device_s"], result["both_s"]))
    return [
        check(median["call_s"] * 1e6 < MOST_CALL_US,
              f"the call returns in {median['call_s'] * 1e6:.1f} us (median; "
              f"under {MOST_CALL_US})"),
        check(of_sum < MOST_OF_SUM, f"both directions together take {of_sum:.2f} of one after the "
                                    f"other (median; under {MOST_OF_SUM})"),
        check(result["equal"], "the bytes are equal"),
    ]


def throughput(arguments, data, options):
    words = (arguments.python, ROOT / "examples/pytorch/train_resnet50.py", "--data", data,
             "--steps", arguments.steps)
    output, summary = gpemu(arguments, options, words)
    return float(re.search(r"([0-9.]+) images/s", output).group(1)), summary["copies"]


def check_training(arguments):
    losses = []
    with tempfile.TemporaryDirectory(prefix="gpemu_check_copies_") as folder:
        data = pathlib.Path(folder) / "images"
        subprocess.run([arguments.gpemu, "data", "make", str(data), "--classes", "4", "--images",
                        "400"], check=True, capture_output=True)
        for pair in range(arguments.pairs):
            order = (True, False) if pair % 2 == 0 else (False, True)
            rates = {}
            for keeps in order:
                options = () if keeps else ("--drop-data",)
                rates[keeps], copies = throughput(arguments, data, options)
                if keeps:
                    kept = copies
            losses.append(100 * (1 - rates[True] / rates[False]))
            print(f"pair {pair + 1}: {rates[True]:.1f} images/s kept, {rates[False]:.1f} dropped: "
                  f"{losses[-1]:+.1f} % lost; {kept['moved_bytes'] / 1e6:.0f} MB moved in "
                  f"{kept['moving_ns'] / 1e6:.0f} ms, waited {kept['late_wait_ns'] / 1e6:.1f} ms",
                  flush=True)
    loss = statistics.median(losses)
    return [check(loss < MOST_LOSS_PERCENT,
                  f"ResNet-50 loses {loss:+.1f} % (median; under {MOST_LOSS_PERCENT} %)")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpemu", default=str(ROOT / "build/dev/tools/gpemu"))
    parser.add_argument("--python", help="a Python with PyTorch; without, no training")
    parser.add_argument("--rounds", type=int, default=15, help="of copies")
    parser.add_argument("--pairs", type=int, default=5, help="of training runs")
    parser.add_argument("--steps", type=int, default=20, help="of a training run")
    arguments = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 2:
        os.sched_setaffinity(0, cores[:2])
    results = check_calls(arguments)
    if arguments.python:
        results += check_training(arguments)
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
