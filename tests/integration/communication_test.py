#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gpemu run reports of NCCL's collectives: two ranks, one of which comes 30 s late once.

On the skipping clock, this takes no time. All figures are compared with each other, to the
nanosecond: the summary, the operations and the trace.

Usage: communication_test.py GPEMU_COMMAND
"""

import collections
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
GPU = "A100-SXM4-80GB"
DELAY_NS = 30 * 10**9

BEGIN = """
import ctypes, os, sys, time
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
SIZE = ctypes.c_size_t(4 << 20)
from_zero, to_one = os.pipe()
number = 0 if os.fork() else 1
cuda, nccl = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libnccl.so.2")
assert cuda.cudaSetDevice(number) == 0
unique = Id()
if number == 0:
    assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
    os.write(to_one, bytes(unique))
else:
    unique = Id.from_buffer_copy(os.read(from_zero, 128))
comm = ctypes.c_void_p()
assert nccl.ncclCommInitRank(ctypes.byref(comm), 2, unique, number) == 0
streams = [ctypes.c_void_p() for _ in range(2)]
for stream in streams:
    assert cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
memory = ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(memory), SIZE) == 0
def reduce():
    count = ctypes.c_size_t(1 << 20)
    assert nccl.ncclAllReduce(memory, memory, count, 7, 0, comm, streams[0]) == 0
def clear(stream):
    assert cuda.cudaMemsetAsync(memory, 0, SIZE, stream) == 0
def wait():
    assert cuda.cudaDeviceSynchronize() == 0
"""

# The other stream's work overlaps with the collectives; work in the same stream follows them.
LATE = """
for step in range(10):
    if number == 1 and step == 5:
        time.sleep(30)
    for _ in range(20):
        clear(streams[1])
    for _ in range(5):
        reduce()
        clear(streams[0])
    wait()
"""

TRANSFERS = """
reduce()
for _ in range(3):
    assert nccl.ncclGroupStart() == 0
    peer = 1 - number
    assert nccl.ncclSend(memory, SIZE, 0, peer, comm, streams[0]) == 0
    assert nccl.ncclRecv(memory, SIZE, 0, peer, comm, streams[0]) == 0
    assert nccl.ncclGroupEnd() == 0
wait()
"""

STUCK = """
reduce()
wait()
if number == 0:
    reduce()
    time.sleep(1)
    os._exit(0)
time.sleep(2)
os._exit(0)
"""

END = """
if number == 1:
    os._exit(0)
os.wait()
"""

# Once both ranks have ended: what each GPU has sent and received over each of its NVLinks.
COUNTERS = """
nvml = ctypes.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0
counts = []
for index in range(2):
    gpu = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(gpu)) == 0
    counts.append([])
    for link in range(12):
        received, sent = ctypes.c_uint64(), ctypes.c_uint64()
        assert nvml.nvmlDeviceGetNvLinkUtilizationCounter(
            gpu, link, 0, ctypes.byref(received), ctypes.byref(sent)) == 0
        counts[-1].append((sent.value, received.value))
print(counts)
"""


def union(intervals):
    """Returns disjoint intervals that cover the same times."""
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def length(intervals):
    return sum(end - start for start, end in union(intervals))


class Communication(unittest.TestCase):
    def run_ranks(self, program, after=""):
        """Sets the summary, the text, the trace's events, and each process's lines."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "program.py").write_text(BEGIN + program + END + after, encoding="utf-8")
            done = subprocess.run(
                (COMMAND, "run", "--gpu", f"{GPU}:2", "--clock", "virtual", "--json",
                 folder / "json", "--ops", folder / "ops", "--trace", folder / "trace", "--report",
                 folder / "page", "--", sys.executable, folder / "program.py"),
                capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.text = done.stderr
            self.output = done.stdout
            self.summary = json.loads((folder / "json").read_text())
            self.events = json.loads((folder / "trace").read_text())["traceEvents"]
            self.page = (folder / "page").read_text()
            self.lines = collections.defaultdict(list)
            for line in (folder / "ops").read_text().splitlines()[1:]:
                line = json.loads(line)
                if "process" in line:
                    process = line["process"]
                    expected = line["lines"]
                else:
                    self.lines[process].append(line)
                    expected -= 1
            self.assertEqual(expected, 0, "the lines of the last process")
        self.ranks = sorted((device for device in self.summary["devices"]),
                            key=lambda device: device["index"])

    def test_links_count_what_went_over_them(self):
        self.run_ranks(TRANSFERS, COUNTERS)
        # Of two ranks, each sends half of the buffer twice in an all-reduce, and all of it in a
        # transfer.
        for links in json.loads(self.output.replace("(", "[").replace(")", "]")):
            for way in range(2):
                bytes_of_links = [link[way] for link in links]
                self.assertEqual(sum(bytes_of_links), (1 + 3) * (4 << 20))
                self.assertLessEqual(max(bytes_of_links) - min(bytes_of_links), 4)

    def collectives(self, pid):
        return [line for line in self.lines[pid] if "collective" in line]

    def kernels(self, pid):
        return [line for line in self.lines[pid] if line.get("op") == "set"]

    def check_each_rank(self):
        """The summary of a rank is what its lines add up to."""
        for rank, device in enumerate(self.ranks):
            ended = [line for line in self.collectives(device["pid"]) if "end_ns" in line]
            totals = device["collectives"]
            progress = [(line["arrived_ns"], line["end_ns"]) for line in ended]
            motion = [(line["start_ns"], line["end_ns"]) for line in ended]
            kernels = [(line["start_ns"], line["end_ns"]) for line in self.kernels(device["pid"])]
            both = length(progress) + length(kernels) - length(progress + kernels)
            self.assertEqual(totals["rank"], rank)
            self.assertEqual(totals["time_ns"], length(progress))
            self.assertEqual(totals["moving_ns"], length(motion))
            self.assertEqual(totals["waiting_ns"], length(progress) - length(motion))
            self.assertEqual(totals["hidden_ns"], both)
            self.assertEqual(totals["exposed_ns"], length(progress) - both)
            self.assertEqual(totals["bytes"], sum(line["bytes"] for line in ended))
            for line in ended:
                self.assertLessEqual(line["asked_ns"], line["arrived_ns"])
                self.assertLessEqual(line["arrived_ns"], line["start_ns"])
                self.assertLess(line["start_ns"], line["end_ns"])

    def test_finds_the_rank_that_came_late(self):
        self.run_ranks(LATE)
        self.check_each_rank()
        first, second = (self.collectives(device["pid"]) for device in self.ranks)
        self.assertEqual(len(first), 50)
        waited_ns = [0, 0]
        for one, other in zip(first, second, strict=True):
            for field in ("communicator", "number", "bytes", "start_ns", "end_ns"):
                self.assertEqual(one[field], other[field], field)
            self.assertEqual(one["start_ns"], max(one["arrived_ns"], other["arrived_ns"]))
            # Each waited for the other one.
            for line, rank in ((one, 1), (other, 0)):
                waited_ns[rank] += line["start_ns"] - line["arrived_ns"]
                if line["start_ns"] > line["arrived_ns"]:
                    self.assertEqual(line["waited_for"], rank)
        waited_for = {entry["rank"]: entry for entry in
                      self.summary["communication"]["waited_for"]}
        for rank in range(2):
            known = waited_for.get(rank, {"time_ns": 0})
            self.assertEqual(known["time_ns"], waited_ns[rank])
        slowest = self.summary["communication"]["waited_for"][0]
        self.assertEqual(slowest["rank"], 1)
        self.assertEqual(slowest["pid"], self.ranks[1]["pid"])
        # The others may ask late, too.
        self.assertGreater(slowest["time_ns"], DELAY_NS - 10**9)
        self.assertLess(slowest["time_ns"], DELAY_NS + 60 * 10**9)
        self.assertIn(f"rank 1 (GPU 1, process {self.ranks[1]['pid']}) made the others wait",
                      self.text)
        self.assertIn("made the others wait", self.page)
        self.assertGreater(min(rank["collectives"]["hidden_ns"] for rank in self.ranks), 0)

    def test_work_after_a_collective_runs_after_it(self):
        self.run_ranks(LATE)
        for device in self.ranks:
            lines = self.lines[device["pid"]]
            stream = self.collectives(device["pid"])[0]["stream"]
            work = [line for line in lines if line.get("stream") == stream and "end_ns" in line]
            self.assertEqual(len(work), 100)
            for before, after in zip(work, work[1:]):
                self.assertGreaterEqual(after["start_ns"], before["end_ns"])

    def test_counts_each_kind(self):
        self.run_ranks(LATE)
        kind, = self.summary["communication"]["kinds"]
        lines = [line for device in self.ranks for line in self.collectives(device["pid"])]
        self.assertEqual((kind["name"], kind["ranks"], kind["count"]), ("ncclAllReduce", 2, 100))
        self.assertEqual(kind["bytes"], 100 << 22)
        moving_ns = sum(line["end_ns"] - line["start_ns"] for line in lines)
        self.assertEqual(kind["moving_ns"], moving_ns)
        self.assertEqual(kind["waiting_ns"],
                         sum(line["start_ns"] - line["arrived_ns"] for line in lines))
        self.assertAlmostEqual(kind["algorithm_bytes_per_s"] / (1e9 * kind["bytes"] / moving_ns), 1)
        self.assertEqual(kind["bus_bytes_per_s"], kind["algorithm_bytes_per_s"], "of two ranks")

    def test_shows_them_in_the_trace(self):
        self.run_ranks(LATE)
        names = {event["pid"]: event["args"]["name"] for event in self.events
                 if event["name"] == "process_name"}
        shown = [event for event in self.events if event.get("cat") == "collective"]
        for rank, device in enumerate(self.ranks):
            row, = (row for row, name in names.items()
                    if name == f"GPU {rank} {GPU}, process {device['pid']}, rank {rank} of 2")
            of_rank = [event for event in shown
                       if event["pid"] == row and event["name"] == "ncclAllReduce"]
            self.assertEqual([(event["ts"], event["args"]["SeqNum"]) for event in of_rank],
                             [(line["arrived_ns"] / 1e3, line["number"])
                              for line in self.collectives(device["pid"])])
        longest = max((event for event in shown if event["name"] == "waiting for other ranks"),
                      key=lambda event: event["dur"])
        self.assertGreater(longest["dur"], 29e6)  # Rank 0 may arrive a little later.
        self.assertEqual(longest["args"], {"last GPU": 1})

    def test_sends_and_receives_run_side_by_side(self):
        self.run_ranks(TRANSFERS)
        self.check_each_rank()
        kinds = {kind["name"]: kind["count"] for kind in self.summary["communication"]["kinds"]}
        self.assertEqual(kinds, {"ncclAllReduce": 2, "ncclSend": 6, "ncclRecv": 6})
        # A send and its receive are one transfer, with one number for both ranks.
        ends = collections.defaultdict(set)
        for device in self.ranks:
            for line in self.collectives(device["pid"]):
                if "peer" in line:
                    times = line["start_ns"], line["end_ns"]
                    ends[line["communicator"], line["number"]].add(times)
        self.assertEqual([len(times) for times in ends.values()], [1] * 6)

    def test_says_which_did_not_end(self):
        self.run_ranks(STUCK)
        self.assertEqual([rank["collectives"]["not_ended"] for rank in self.ranks], [1, 0])
        self.assertIn("; 1 did not end", self.text)
        self.assertIn("ncclAllReduce that did not end", [event["name"] for event in self.events])
        self.assertNotIn("end_ns", self.collectives(self.ranks[0]["pid"])[-1])


if __name__ == "__main__":
    unittest.main()
