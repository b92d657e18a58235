#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults of GPUs (gpemu run --faults) as CUDA, NCCL, NVML and the report show them: two ranks on
the skipping clock.

Usage: gpu_faults_test.py GPEMU_COMMAND
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
GPU = "A100-SXM4-80GB"
UNKNOWN, LOST, UNHANDLED_CUDA_ERROR, REMOTE_ERROR, TIMEOUT = 999, 15, 1, 6, 10

BEGIN = """
import ctypes, os, sys, time
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
SIZE = ctypes.c_size_t(256 << 20)
from_zero, to_one = os.pipe()
child = os.fork()
number = 0 if child else 1
cuda, nccl = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libnccl.so.2")
nvml = ctypes.CDLL("libnvidia-ml.so.1")
assert cuda.cudaSetDevice(number) == 0
unique = Id()
if number == 0:
    assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
    os.write(to_one, bytes(unique))
else:
    unique = Id.from_buffer_copy(os.read(from_zero, 128))
comm = ctypes.c_void_p()
assert nccl.ncclCommInitRank(ctypes.byref(comm), 2, unique, number) == 0
stream, memory = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
assert cuda.cudaMalloc(ctypes.byref(memory), SIZE) == 0
def clear():
    return cuda.cudaMemsetAsync(memory, 0, SIZE, stream)
def reduce():
    return nccl.ncclAllReduce(memory, memory, ctypes.c_size_t(1 << 20), 7, 0, comm, stream)
def wait():
    return cuda.cudaStreamSynchronize(stream)
def is_done_within(seconds):
    for _ in range(int(10 * seconds)):
        if cuda.cudaStreamQuery(stream) == 0:
            return True
        time.sleep(0.1)
    return False
def handle(index):
    found = ctypes.c_void_p()
    return nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(found)), found
def say(*words):
    os.write(1, (" ".join(map(str, (f"rank {number}:", *words))) + "\\n").encode())
"""

END = """
if number == 0:
    say("the other one ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os._exit(0)
"""

STEPS = """
for _ in range(10):
    # Long enough (0.1 s more on the slow GPU) that what the host is late makes no difference.
    for _ in range(1000):
        assert clear() == 0
    assert reduce() == 0
assert wait() == 0
if number == 1:
    assert nvml.nvmlInit_v2() == 0
    reasons, clocks = ctypes.c_uint64(), []
    for gpu in (handle(0)[1], handle(1)[1]):
        clock = ctypes.c_uint()
        assert nvml.nvmlDeviceGetClockInfo(gpu, 1, ctypes.byref(clock)) == 0
        assert nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu, ctypes.byref(reasons)) == 0
        clocks.append((clock.value, reasons.value))
    say("clocks", clocks)
"""

UNTIL_IT_FAILS = """
for step in range(1, 100):
    status = reduce()
    if status != 0:
        say("step", step, "fails with", status)
        break
    if not is_done_within(5):
        say("step", step, "does not end; the next call returns", reduce())
        break
"""

AFTER_THE_LOSS = """
count = ctypes.c_int()
if number == 1:
    say("CUDA", clear(), wait(), cuda.cudaSetDevice(1), cuda.cudaDeviceSynchronize(),
        cuda.cudaMalloc(ctypes.byref(memory), SIZE), cuda.cudaGetDeviceCount(ctypes.byref(count)),
        cuda.cudaSetDevice(0))
    assert nvml.nvmlInit_v2() == 0
    say("NVML", handle(0)[0], handle(1)[0])
else:
    assert nccl.ncclCommAbort(comm) == 0
    say("CUDA", wait(), clear(), wait())
"""

AFTER_THE_RETURN = """
import subprocess
NEW = "import ctypes; cuda = ctypes.CDLL('libcudart.so.12'); print(cuda.cudaSetDevice(1), end='')"
def new_process():
    return subprocess.run([sys.executable, "-c", NEW], capture_output=True, text=True).stdout
assert nvml.nvmlInit_v2() == 0
if number == 1:
    time.sleep(6)
    say("lost", clear(), handle(1)[0], new_process())
    time.sleep(10)
    say("returned", clear(), handle(1)[0], new_process())
"""

LONG_WORK = """
for _ in range(10_000_000 // 100):
    if clear() != 0:
        break
start = time.monotonic()
status = wait()
say("waited", status)
"""


WATCH = """
class Event(ctypes.Structure):
    _fields_ = [("device", ctypes.c_void_p), ("type", ctypes.c_uint64), ("data", ctypes.c_uint64),
                ("instances", ctypes.c_uint * 2)]
events, first_version, event = ctypes.c_void_p(), ctypes.c_void_p(), Event()
def next_xid(seconds):
    status = nvml.nvmlEventSetWait_v2(events, ctypes.byref(event), int(1000 * seconds))
    return (status, event.type, event.data, event.device) if status == 0 else status
assert nvml.nvmlInit_v2() == 0
gpus = [handle(0)[1], handle(1)[1]]
for one in (events, first_version):
    assert nvml.nvmlEventSetCreate(ctypes.byref(one)) == 0
    for gpu in gpus:
        assert nvml.nvmlDeviceRegisterEvents(gpu, ctypes.c_uint64(8), one) == 0
say("first", next_xid(0.1))
"""

AFTER_THE_BREAK = """
say("xid", *[(xid[:3], xid[3] == gpus[0].value) for xid in (next_xid(5),)], next_xid(0.1))
event = Event(instances=(7, 7))
say("first version", nvml.nvmlEventSetWait(first_version, ctypes.byref(event), 5000),
    event.type, event.data, event.device == gpus[0].value, *event.instances)
active = ctypes.c_uint()
states = []
for gpu in gpus:
    assert nvml.nvmlDeviceGetNvLinkState(gpu, 0, ctypes.byref(active)) == 0
    states.append(active.value)
say("links", states)
if number == 1:
    assert nccl.ncclCommAbort(comm) == 0
    other = ctypes.c_void_p()
    assert cuda.cudaSetDevice(0) == cuda.cudaMalloc(ctypes.byref(other), SIZE) == 0
    host = ctypes.create_string_buffer(8)
    say("copies", cuda.cudaMemcpy(memory, other, 8, 3), cuda.cudaMemcpy(host, memory, 8, 2))
    assert nvml.nvmlEventSetFree(events) == 0
    say("freed", nvml.nvmlEventSetFree(events))
"""

BIG_REDUCTION = """
host = ctypes.create_string_buffer(SIZE.value)
assert cuda.cudaMemcpy(memory, host, SIZE, 1) == 0
count = ctypes.c_size_t(SIZE.value // 4)
assert nccl.ncclAllReduce(memory, memory, count, 7, 0, comm, stream) == 0
assert wait() == 0
"""


class GpuFaults(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write_faults(self, *faults):
        path = self.folder / "faults.toml"
        path.write_text("".join(f"[[fault]]\n{fault}\n" for fault in faults), encoding="ascii")
        return path

    def run_ranks(self, program, *faults):
        """Returns what the ranks said and the summary, and keeps the messages."""
        (self.folder / "program.py").write_text(BEGIN + program + END, encoding="utf-8")
        done = subprocess.run(
            (COMMAND, "run", "--gpu", f"{GPU}:2", "--clock", "virtual", "--faults",
             self.write_faults(*faults), "--json", self.folder / "json", "--", sys.executable,
             self.folder / "program.py"),
            capture_output=True, text=True, timeout=120, check=False)
        self.messages = done.stderr
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.splitlines(), json.loads((self.folder / "json").read_text())

    def test_a_slow_gpu_makes_the_others_wait(self):
        said, summary = self.run_ranks(STEPS, 'kind = "slow"\ngpu = 1\nclock = 0.5\nat_s = 0')
        self.assertTrue(summary["faults"].endswith("faults.toml"))
        busy = {device["index"]: device for device in summary["devices"]}
        self.assertEqual(summary["communication"]["waited_for"][0]["rank"], 1)
        waits = {index: device["collectives"]["waiting_ns"] for index, device in busy.items()}
        self.assertGreater(waits[0], 0)
        self.assertIn("made the others wait", self.messages)
        clocks = next(line for line in said if "clocks" in line)
        (fast, usual), (slow, why) = eval(clocks.split("clocks ")[1])  # pylint: disable=eval-used
        self.assertAlmostEqual(slow, fast / 2, delta=1)
        self.assertEqual((usual & 8, why), (0, 8))

    def test_the_same_faults_give_the_same_times(self):
        """All work is queued at once, so the host makes no difference."""
        times = []
        for clock in ("0.5", "0.5", "0.25"):
            _, summary = self.run_ranks(
                "assert clear() == 0\nassert wait() == 0\n",
                f'kind = "slow"\ngpu = 0\nclock = {clock}\nat_s = 0')
            times.append({device["index"]: device["busy_ns"] for device in summary["devices"]})
        self.assertEqual(times[0], times[1])
        self.assertEqual(times[0][0], 2 * times[0][1])
        self.assertEqual(times[2][0], 4 * times[2][1])

    def test_a_rank_is_killed_at_its_collective(self):
        said, _ = self.run_ranks(UNTIL_IT_FAILS, 'kind = "kill"\ngpu = 1\nat_collective = 7')
        self.assertIn("rank 0: the other one ended with -9", said)
        self.assertTrue(
            f"rank 0: step 7 does not end; the next call returns {REMOTE_ERROR}" in said
            or f"rank 0: step 7 fails with {REMOTE_ERROR}" in said, said)

    def test_a_rank_is_killed_at_a_time(self):
        said, _ = self.run_ranks(
            "for second in range(100):\n  say('second', second)\n  time.sleep(1)\n",
            'kind = "kill"\ngpu = 1\nat_s = 50')
        self.assertIn("rank 0: the other one ended with -9", said)
        seconds = {rank: sum(line.startswith(f"rank {rank}: second") for line in said)
                   for rank in (0, 1)}
        self.assertEqual(seconds[0], 100)
        self.assertGreater(seconds[1], 0)
        self.assertLessEqual(seconds[1], 50)

    def test_a_lost_gpu_fails_and_its_peer_waits(self):
        said, _ = self.run_ranks(UNTIL_IT_FAILS + AFTER_THE_LOSS,
                                 'kind = "lost"\ngpu = 1\nat_collective = 4')
        self.assertIn(f"rank 1: step 4 fails with {UNHANDLED_CUDA_ERROR}", said)
        u = UNKNOWN
        self.assertIn(f"rank 1: CUDA {u} {u} {u} {u} {u} 0 0", said)
        self.assertIn(f"rank 1: NVML 0 {LOST}", said)
        self.assertTrue(any(line.startswith("rank 0: step 4 ") for line in said), said)
        self.assertIn("rank 0: CUDA 0 0 0", said)
        self.assertEqual(self.messages.count("79, GPU 1 of node"), 1, self.messages)

    def test_a_gpu_that_comes_back_serves_new_processes_only(self):
        said, _ = self.run_ranks(AFTER_THE_RETURN,
                                 'kind = "lost"\ngpu = 1\nat_s = 5\nfor_s = 10')
        self.assertIn(f"rank 1: lost {UNKNOWN} {LOST} {UNKNOWN}", said)
        self.assertIn(f"rank 1: returned {UNKNOWN} 0 0", said)

    def test_a_wait_ends_when_the_gpu_is_lost(self):
        said, summary = self.run_ranks(LONG_WORK, 'kind = "lost"\ngpu = 1\nat_s = 5')
        self.assertIn("rank 0: waited 0", said)
        self.assertIn(f"rank 1: waited {UNKNOWN}", said)
        times = {device["index"]: device["busy_ns"] for device in summary["devices"]}
        self.assertLess(times[1], 5 * 10**9)
        self.assertGreater(times[0], times[1])

    def test_slow_links_make_copies_and_collectives_longer(self):
        times = []
        for rate in ("0.1", "0.2"):
            _, summary = self.run_ranks(
                BIG_REDUCTION, f'kind = "slow-link"\ngpu = 1\nlink = "nvlink"\nrate = {rate}\n'
                'at_s = 0', f'kind = "slow-link"\ngpu = 0\nlink = "pcie"\nrate = {rate}\nat_s = 0')
            copies = next(one for one in summary["classes"] if one["name"] == "copy")
            times.append((summary["communication"]["kinds"][0]["moving_ns"], copies["time_ns"]))
        for slow, faster in zip(*times):
            self.assertGreater(slow, 1.8 * faster)
            self.assertLess(slow, 2.001 * faster)

    def test_a_broken_nvlink_fails_what_crosses_it_and_nvml_reports_it(self):
        said, _ = self.run_ranks(
            WATCH + UNTIL_IT_FAILS + AFTER_THE_BREAK,
            'kind = "broken-link"\ngpu = 0\nlink = "nvlink"\nat_collective = 3')
        self.assertIn(f"rank 0: step 3 fails with {UNHANDLED_CUDA_ERROR}", said)
        self.assertTrue(
            f"rank 1: step 3 does not end; the next call returns {UNHANDLED_CUDA_ERROR}" in said
            or f"rank 1: step 3 fails with {UNHANDLED_CUDA_ERROR}" in said, said)
        for rank in (0, 1):
            self.assertIn(f"rank {rank}: first {TIMEOUT}", said)
            self.assertIn(f"rank {rank}: xid ((0, 8, 74), True) {TIMEOUT}", said)
            self.assertIn(f"rank {rank}: first version 0 8 74 True 7 7", said)
            self.assertIn(f"rank {rank}: links [0, 1]", said)
        self.assertIn("rank 1: copies 220 0", said)
        self.assertIn("rank 1: freed 2", said)
        self.assertIn("74, the NVLink of GPU 0 of node", self.messages)

    def test_nvml_reports_that_a_gpu_is_lost(self):
        said, _ = self.run_ranks(WATCH + "say('xid', next_xid(100)[:3], next_xid(0.1))\n",
                                 'kind = "lost"\ngpu = 1\nat_s = 50')
        for rank in (0, 1):
            self.assertIn(f"rank {rank}: xid (0, 8, 79) {TIMEOUT}", said)

    def refuse(self, *arguments):
        done = subprocess.run((COMMAND, *arguments), capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_mistakes_are_named(self):
        path = self.write_faults('kind = "slow"\ngpu = 2\nat_s = 0\nclock = 0.5')
        program = ("--", "true")
        self.assertIn(f"{path}:3: fault: gpu: expected a whole number from 0 to 1",
                      self.refuse("run", "--gpu", f"{GPU}:2", "--faults", path, *program))
        self.assertIn(f"{path}:3: fault: gpu:",
                      self.refuse("node", "create", "n", "--gpu", GPU, "--faults", path))
        self.assertIn("no-such.toml",
                      self.refuse("run", "--gpu", GPU, "--faults", "no-such.toml", *program))
        self.assertIn("--faults needs --gpu or --topology",
                      self.refuse("run", "--faults", path, *program))
        self.assertIn("--clock gpu-only has no node",
                      self.refuse("run", "--gpu", GPU, "--clock", "gpu-only", "--faults", path,
                                  *program))


if __name__ == "__main__":
    unittest.main()
