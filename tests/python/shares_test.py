#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole processes that share a GPU get their shares: `gpemu train`, programs under `gpemu run`,
Python and GPEmu's classes, under each policy, on the clock that skips waiting.

tests/integration/shares_test.cpp has the same table inside one process, exact to the nanosecond.

Usage: shares_test.py GPEMU_COMMAND
"""

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import gpemu

COMMAND = sys.argv.pop(1) if len(sys.argv) == 2 else "gpemu"
GPU = "V100-PCIE-32GB"
KEPT = 2 / 2.145  # What context switches leave of a V100's time (docs/design/time-slices.md).
STEPS = 60
AHEAD = 6  # Of the host: on a busy machine, it is late by more than a step.
POLICIES = {"fifo": 1, "time-slices": KEPT, "mps": 1, "antman": KEPT, "tgs": KEPT, "orion": 1}


def middle_rate(ends):
    """Returns how many steps ended per second in the middle half, when all parties had work."""
    first, last = len(ends) // 4, len(ends) * 3 // 4
    return (last - first) / (ends[last] - ends[first])


def steps_ahead(launch, record, wait):
    """Queues steps, some of them ahead, and returns what `wait` says of each."""
    events, ends = [], []
    while len(ends) < STEPS:
        if len(events) < STEPS and len(events) < len(ends) + AHEAD:
            launch()
            events.append(record())
        else:
            ends.append(wait(events[len(ends)]))
    return ends


def wait_for_all(folder, parties):
    """Returns when all parties have started."""
    (folder / f"ready-{os.getpid()}").touch()
    while len(list(folder.glob("ready-*"))) < parties:
        time.sleep(0.001)


def python_party():
    """Steps of 64 ms through the Python package."""
    stream = gpemu.Node.open(os.environ["GPEMU_NODE"]).device(0).stream()

    def record():
        event = gpemu.Event()
        stream.record(event)
        return event

    def wait(event):
        event.synchronize()
        return event.time() / 1e9
    return steps_ahead(lambda: stream.launch(64_000_000), record, wait)


def gpemu_party():
    """Batches of 64 ms through GPEmu's class."""
    emulator = gpemu.GPUSharingEmulator(forward_time=0.040, backward_time=0.024)
    emulator._name = os.environ["GPEMU_NODE"]
    ends = []
    for batch in range(STEPS):
        emulator.request_gpu_time(batch)
        ends.append(time.monotonic())
    return ends


def cuda_party():
    """Steps of some 80 ms through cuBLAS."""
    size = 8192
    cuda, blas = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libcublas.so.12")
    handle, matrix, one = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float(1)
    assert cuda.cudaMalloc(ctypes.byref(matrix), ctypes.c_size_t(4 * size * size)) == 0
    assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
    base = None

    def launch():
        assert blas.cublasSgemm_v2(handle, 0, 0, size, size, size, ctypes.byref(one), matrix, size,
                                   matrix, size, ctypes.byref(one), matrix, size) == 0

    def record():
        event = ctypes.c_void_p()
        assert cuda.cudaEventCreate(ctypes.byref(event)) == 0
        assert cuda.cudaEventRecord(event, None) == 0
        return event

    def wait(event):
        assert cuda.cudaEventSynchronize(event) == 0
        elapsed = ctypes.c_float()
        assert cuda.cudaEventElapsedTime(ctypes.byref(elapsed), base, event) == 0
        return elapsed.value / 1e3
    base = record()
    return steps_ahead(launch, record, wait)


PARTIES = {"python": python_party, "gpemu": gpemu_party, "cuda": cuda_party}


class Shares(unittest.TestCase):
    def rates(self, way, policy, parties, variables=("",)):
        """Returns the steps per second of each party. Each has its setting of `variables`."""
        with tempfile.TemporaryDirectory() as folder:
            own = (f"{COMMAND} train synthetic --node $GPEMU_NODE --model resnet18 --batch 32 "
                   f"--steps {STEPS} --quiet --trace" if way == "train"
                   else f"{sys.executable} {__file__} --party {way}")
            script = "".join(f"{variables[party % len(variables)]} {own} {folder}/{party}.json "
                             f"{'' if way == 'train' else parties} & "
                             for party in range(parties)) + "wait"
            subprocess.run([COMMAND, "run", "--quiet", "--clock", "virtual", "--sharing", policy,
                            "--gpu", GPU, "--", "sh", "-c", script], check=True)
            texts = [json.loads(path.read_text())
                     for path in sorted(pathlib.Path(folder).glob("*.json"))]
        self.assertEqual(len(texts), parties)
        return [middle_rate(ends_of(text) if way == "train" else text) for text in texts]

    def check(self, way, policy):
        alone, = self.rates(way, policy, 1)
        for parties in (2, 8) if policy in ("time-slices", "mps") else (2,):
            for rate in self.rates(way, policy, parties):
                with self.subTest(way=way, policy=policy, parties=parties):
                    got = rate / alone * parties / POLICIES[policy]
                    if way == "cuda" and policy == "orion":
                        # A kernel waits for memory for a part of its time, and leaves some of the
                        # multiprocessors to the others (docs/design/launch-policies.md).
                        self.assertTrue(1 <= got < 1.05, got)
                    else:
                        self.assertAlmostEqual(got, 1, delta=0.005)

    def test_train(self):
        for policy in POLICIES:
            self.check("train", policy)

    def test_programs(self):
        for policy in POLICIES:
            self.check("cuda", policy)

    def test_python(self):
        for policy in POLICIES:
            self.check("python", policy)

    def test_gpemus_classes(self):
        # They do not queue ahead. With time slices, a party loses the rest of its slice with each
        # batch; first in, first out, it does not.
        self.check("gpemu", "fifo")

    def test_parts_of_the_time(self):
        """A part is kept by periods of 100 ms, which a step of 64 ms or more sees as an average."""
        for way in ("train", "cuda", "python"):
            alone, = self.rates(way, "time-slices", 1)
            with self.subTest(way=way):
                for variables in (("GPEMU_GPU_SHARE=0.5",) * 2, ("GPEMU_GPU_LIMIT=0.5",) * 2,
                                  ("CUDA_DEVICE_SM_LIMIT=50",) * 2):
                    for rate in self.rates(way, "time-slices", 2, variables):
                        self.assertAlmostEqual(rate / alone, 0.5, delta=0.05, msg=variables)
                rate, = self.rates(way, "time-slices", 1, ("GPEMU_GPU_SHARE=0.25",))
                self.assertAlmostEqual(rate / alone, 1, delta=0.005)
                rate, = self.rates(way, "time-slices", 1, ("GPEMU_GPU_LIMIT=0.25",))
                self.assertAlmostEqual(rate / alone, 0.25, delta=0.02)

    def test_a_tenant_has_one_part(self):
        for way in ("train", "cuda", "python"):
            alone, = self.rates(way, "time-slices", 1)
            with self.subTest(way=way):
                # One tenant has two processes and a limit of a half, the other a process and a
                # share of a half.
                both = "GPEMU_TENANT=1 GPEMU_GPU_LIMIT=0.5"
                rates = self.rates(way, "time-slices", 3,
                                   (both, both, "GPEMU_TENANT=2 GPEMU_GPU_SHARE=0.5"))
                self.assertAlmostEqual(sum(rates[:2]) / alone, 0.5, delta=0.05)
                self.assertAlmostEqual(rates[2] / alone, 0.5, delta=0.05)

    def test_a_tenant_has_one_limit_of_memory(self):
        take = ("import ctypes, sys, time; cuda = ctypes.CDLL('libcudart.so.12'); "
                "memory = ctypes.c_void_p(); size = ctypes.c_size_t(12 << 30); "
                "print(cuda.cudaMalloc(ctypes.byref(memory), size), flush=True); sys.stdin.read()")
        program = (f"import subprocess; A = [{sys.executable!r}, '-c', {take!r}]\n"
                   "held = []\n"
                   "for tenant in '112':\n"
                   "    held.append(subprocess.Popen(\n"
                   "        ['env', f'GPEMU_TENANT={tenant}', *A], stdin=-1, stdout=-1))\n"
                   "    print(held[-1].stdout.readline().decode().strip())\n"
                   "for one in held:\n"
                   "    one.communicate()\n")
        said = subprocess.run([COMMAND, "run", "--quiet", "--gpu", GPU, "--", sys.executable, "-c",
                               program], check=True, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "GPEMU_GPU_FRACTION": "0.5"}).stdout
        self.assertEqual(said.split(), ["0", "2", "0"])  # 2: cudaErrorMemoryAllocation

    def test_limits_of_memory(self):
        train = (f"{COMMAND} train synthetic --node $GPEMU_NODE --model resnet18 --batch 8 "
                 "--steps 1 --quiet --json")
        show = ("import gpemu, os; device = gpemu.Node.open(os.environ['GPEMU_NODE']).device(0); "
                "print(device.memory().total_bytes)")
        with tempfile.TemporaryDirectory() as folder:
            for name, limit in (("all", None), ("half", "0.5")):
                own = {} if limit is None else {"GPEMU_GPU_FRACTION": limit}
                subprocess.run([COMMAND, "run", "--quiet", "--gpu", GPU, "--", "sh", "-c",
                                f"{train} {folder}/{name}.json; "
                                f"{sys.executable} -c \"{show}\" > {folder}/{name}.txt"],
                               check=True, env={**os.environ, **own})
            read = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
        total = {name: json.loads(read[f"{name}.json"])["memory_mib"]["capacity"]
                 for name in ("all", "half")}
        self.assertAlmostEqual(total["half"] / total["all"], 0.5, places=4)
        self.assertAlmostEqual(int(read["half.txt"]) / int(read["all.txt"]), 0.5, places=4)

    def test_exclusive(self):
        with self.assertRaises(subprocess.CalledProcessError):
            subprocess.run([COMMAND, "run", "--quiet", "--clock", "virtual", "--sharing",
                            "exclusive", "--gpu", GPU, "--", "sh", "-c",
                            f"{sys.executable} {__file__} --party python /dev/null 1 & "
                            f"sleep 0.5; {sys.executable} {__file__} --party python /dev/null 1"],
                           check=True, stderr=subprocess.DEVNULL)


def ends_of(trace):
    """Returns when the steps of a trace ended, in seconds."""
    ends = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["name"] != "wait for step":
            step = event["args"]["step"]
            ends[step] = max(ends.get(step, 0), (event["ts"] + event["dur"]) / 1e6)
    return [ends[step] for step in sorted(ends)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--party"]:
        output = pathlib.Path(sys.argv[3])
        if output.suffix:
            wait_for_all(output.parent, int(sys.argv[4]))
        output.write_text(json.dumps(PARTIES[sys.argv[2]]()))
    else:
        unittest.main()
