#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that share a GPU with classes (GPEMU_GPU_PRIORITY), and under AntMan, TGS and Orion.

Two programs multiply matrices through cuBLAS, on the clock that skips waiting: one with pauses, the
other one all the time.

Usage: policies_test.py GPEMU_COMMAND
"""

import ctypes
import json
import os
import subprocess
import sys
import time

# How long steps count, in seconds, and from when: AntMan and TGS first measure the urgent program,
# for 25 s. Then TGS tries out what it can take, in periods of 5 s.
COUNTED = 20
FROM = {"antman": 30, "tgs": 60}
# Of a matrix product, which takes 1.3 ms on a V100. TGS always lets one kernel pass per 50 ms.
SIZE = 2048


def prepare():
    """Returns CUDA's library and a function that launches a matrix product; nothing without a
    GPU."""
    cuda, blas = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libcublas.so.12")
    memory, handle, one = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float(1)
    matrix = 4 * SIZE * SIZE
    if cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(3 * matrix)) != 0:
        return None
    assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
    a, b, c = (ctypes.c_void_p(memory.value + i * matrix) for i in range(3))

    def multiply():
        assert blas.cublasSgemm_v2(handle, 0, 0, SIZE, SIZE, SIZE, ctypes.byref(one), a, SIZE, b,
                                   SIZE, ctypes.byref(one), c, SIZE) == 0
    return cuda, multiply


def work(kernels, pause_s, from_s):
    """Multiplies, waits and pauses; prints how many steps ended in the time that counts."""
    prepared = prepare()
    if prepared is None:
        return 1
    cuda, multiply = prepared
    began = time.monotonic()
    steps = 0
    while (now := time.monotonic() - began) < from_s + COUNTED:
        for _ in range(kernels):
            multiply()
        assert cuda.cudaDeviceSynchronize() == 0
        steps += now >= from_s
        time.sleep(pause_s)
    print(json.dumps(steps), flush=True)
    return 0


def queue(kernels):
    """Launches kernels, says so, and waits for them."""
    cuda, multiply = prepare()
    for _ in range(kernels):
        multiply()
    print("queued", flush=True)
    assert cuda.cudaDeviceSynchronize() == 0
    return 0


def launch(from_s, priorities):
    """Starts a program for each class that is named: the first pauses, the second does not."""
    programs = [subprocess.Popen([sys.executable, __file__, "--work", kernels, pause, from_s],
                                 env={**os.environ, "GPEMU_GPU_PRIORITY": priority},
                                 stdout=subprocess.PIPE, text=True)
                for priority, kernels, pause in zip(priorities, ("150", "40"), ("0.2", "0"))]
    print(json.dumps([int(program.communicate()[0]) for program in programs]))


def run(gpemu, sharing, *priorities):
    done = subprocess.run([gpemu, "run", "--quiet", "--gpu", "V100-PCIE-32GB", "--clock", "virtual",
                           "--sharing", sharing, "--", sys.executable, __file__, "--launch",
                           str(FROM.get(sharing, 5)), *priorities],
                          stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def check_policies(gpemu):
    alone = run(gpemu, "time-slices", "normal")[0]
    equal = run(gpemu, "time-slices", "normal", "normal")
    assert equal[0] < 0.8 * alone, (equal, alone)
    for sharing, urgent, other in (("time-slices", "high", "normal"), ("mps", "normal", "low"),
                                   ("antman", "normal", "low"), ("tgs", "normal", "low"),
                                   ("orion", "normal", "low")):
        both = run(gpemu, sharing, urgent, other)
        assert both[0] >= (0.88 if sharing == "tgs" else 0.93) * alone, (sharing, both, alone)
        assert 0 < both[1] < equal[1] * 1.3, (sharing, both, equal)
        print(f"{sharing}: {both[0]} steps of {alone}, beside {both[1]}", flush=True)


def check_death(gpemu):
    """A program that is held back goes on when the one for which it waits is killed."""
    node = f"policies-{os.getpid()}"
    subprocess.run([gpemu, "node", "create", node, "--gpu", "V100-PCIE-32GB", "--sharing", "orion"],
                   check=True, stdout=subprocess.DEVNULL)
    try:
        words = [gpemu, "run", "--quiet", "--node", node, "--", sys.executable, __file__]
        # 78 s of the GPU, queued at once.
        first = subprocess.Popen([*words, "--queue", "60000"], stdout=subprocess.PIPE, text=True)
        assert first.stdout.readline() == "queued\n"
        other = subprocess.Popen([*words, "--queue", "1"], stdout=subprocess.PIPE, text=True,
                                 env={**os.environ, "GPEMU_GPU_PRIORITY": "low"})
        time.sleep(1)
        assert other.poll() is None, "it was not held back"
        first.kill()
        first.wait()
        assert other.communicate(timeout=30)[0] == "queued\n" and other.returncode == 0
    finally:
        subprocess.run([gpemu, "node", "remove", node, "--force"], check=True)


def check_messages(gpemu):
    done = subprocess.run([gpemu, "run", "--quiet", "--gpu", "V100-PCIE-32GB", "--", sys.executable,
                           __file__, "--work", "1", "0", "0"],
                          env={**os.environ, "GPEMU_GPU_PRIORITY": "urgent"},
                          stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1, done
    assert 'GPEMU_GPU_PRIORITY is "urgent", not a priority' in done.stderr, done.stderr


def main():
    if sys.argv[1] == "--work":
        return work(int(sys.argv[2]), *map(float, sys.argv[3:]))
    if sys.argv[1] == "--queue":
        return queue(int(sys.argv[2]))
    if sys.argv[1] == "--launch":
        return launch(sys.argv[2], sys.argv[3:])
    check_messages(sys.argv[1])
    check_death(sys.argv[1])
    check_policies(sys.argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
