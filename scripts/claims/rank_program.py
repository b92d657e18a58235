# SPDX-License-Identifier: Apache-2.0
"""A rank of scripts/claims/check_ranks.py, which starts it with torchrun:

    rank_program.py steps COUNT PAUSE_MS   trains steps, and prints when each ended
    rank_program.py calls COUNT BYTES      calls NCCL itself, and prints the host's time of a call

Both print a line of JSON. The first one also sleeps until common times, without a GPU, and computes
as long in between as a step takes the host.
"""

import ctypes
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
AHEAD = 10  # Calls in a row without waiting for the GPU.
BUCKET = 25 << 20  # DDP's, in bytes.


def sleep_until(libc, ns):
    """Waits as a program without a GPU does: absolutely, on the monotonic clock."""
    deadline = (ctypes.c_long * 2)(ns // 10**9, ns % 10**9)
    libc.clock_nanosleep(time.CLOCK_MONOTONIC, 1, deadline, None)


def spread_of(ends, device):
    """Returns by how many us the ends of each step differ between ranks."""
    own = torch.tensor(ends, device=device)
    all_ends = [torch.zeros_like(own) for _ in range(WORLD)]
    dist.all_gather(all_ends, own)
    return [(max(step) - min(step)) / 1e3 for step in zip(*(e.tolist() for e in all_ends))]


def compute(seconds):
    """Uses the processor for so long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def run_steps(device, count, pause_s):
    matrix = torch.empty(8192, 8192, device=device, dtype=torch.half)
    bucket = torch.empty(BUCKET, device=device, dtype=torch.uint8)
    ends, used = [], []
    for _ in range(count + 2):
        used.append(time.thread_time())
        for _ in range(4):
            torch.mm(matrix, matrix)
        dist.all_reduce(bucket)
        torch.cuda.synchronize()
        ends.append(time.monotonic_ns())
        time.sleep(pause_s)
    work = statistics.median(after - before for before, after in zip(used, used[1:]))
    steps = spread_of(ends[2:], device)  # The first steps load libraries.
    start = torch.tensor([time.monotonic_ns()], device=device)
    dist.broadcast(start, 0)
    begin, libc, ends = start.item() + 200_000_000, ctypes.CDLL("libc.so.6"), []
    for i in range(count):
        sleep_until(libc, begin + i * 15_000_000)
        ends.append(time.monotonic_ns())
        time.sleep(pause_s)
        compute(work)
    return {"steps_us": steps, "sleeps_us": spread_of(ends, device), "work_us": work * 1e6}


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def communicator(nccl):
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), WORLD, False)
    unique_id = UniqueId()
    if RANK == 0:
        nccl.ncclGetUniqueId(ctypes.byref(unique_id))
        store.set("id", ctypes.string_at(ctypes.byref(unique_id), 128))
    ctypes.memmove(ctypes.byref(unique_id), store.get("id"), 128)
    found = ctypes.c_void_p()
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    status = nccl.ncclCommInitRank(ctypes.byref(found), WORLD, unique_id, RANK)
    if status != 0:
        sys.exit(f"rank_program: ncclCommInitRank: {status}")
    return found


def time_calls(count, stream, call):
    """Returns the mean processor time and the median time that passes during a call, in us."""
    used, passed = [], []
    for _ in range(count // AHEAD):
        for _ in range(AHEAD):
            before = time.perf_counter_ns(), time.thread_time_ns()
            status = call()
            after = time.thread_time_ns(), time.perf_counter_ns()
            if status != 0:
                sys.exit(f"rank_program: a call failed: {status}")
            used.append((after[0] - before[1]) / 1e3)
            passed.append((after[1] - before[0]) / 1e3)
        stream.synchronize()
    return statistics.mean(used), statistics.median(passed)


def run_calls(device, count, size):
    nccl = ctypes.CDLL("libnccl.so.2")
    nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                                   ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    found, stream = communicator(nccl), torch.cuda.Stream(device)
    memory = torch.zeros(size, device=device, dtype=torch.uint8)
    torch.cuda.synchronize()
    handle, address = ctypes.c_void_p(stream.cuda_stream), ctypes.c_void_p(memory.data_ptr())
    arguments = (address, address, size, 0, 0, found, handle)
    version = ctypes.c_int()
    reference = ctypes.byref(version)
    time_calls(count // 10, stream, lambda: nccl.ncclAllReduce(*arguments))
    all_reduce = time_calls(count, stream, lambda: nccl.ncclAllReduce(*arguments))
    nothing = time_calls(count, stream, lambda: nccl.ncclGetVersion(reference))
    nccl.ncclCommDestroy(found)
    return {"processor_us": all_reduce[0] - nothing[0], "passed_us": all_reduce[1] - nothing[1]}


def bind():
    """Keeps the rank on one of the cores, in turn, as mpirun --bind-to core does."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[RANK % len(cores)]})


def main():
    bind()
    torch.set_num_threads(1)
    mode, count, number = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    if mode == "steps":
        dist.init_process_group("nccl", device_id=device)
        found = run_steps(device, count, number / 1e3)
        dist.destroy_process_group()
    else:
        found = run_calls(device, count, int(number))
    if RANK == 0:
        print(json.dumps(found), flush=True)


main()
