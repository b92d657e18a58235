#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NCCL with several ranks: programs of one process each on the GPUs of one node, and one program
with all of them.

Usage: nccl_test.py GPEMU_COMMAND NCCL CUDART [--only NAME] [--measure RANKS]
"""

import argparse
import ctypes
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

NODE = "ranks"
SECONDS = 60  # that a scenario may take
SUCCESS, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, IN_PROGRESS = 0, 4, 5, 6, 7
NOT_READY = 600  # of CUDA
SHRINK_ABORT = 1
HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3
SUM, PROD, MAX, MIN, AVG = range(5)
INT8, INT32, FLOAT32 = 0, 2, 7


def tiny_real(value, exponent_bits):
    """An FP8 number. Requires: it has one, that is at least 2^-6."""
    fraction_bits = 7 - exponent_bits
    exponent = 0
    while value >= 2 ** (exponent + 1):
        exponent += 1
    while value < 2**exponent:
        exponent -= 1
    steps = (value / 2**exponent - 1) * 2**fraction_bits
    assert steps == int(steps), value
    bias = 2 ** (exponent_bits - 1) - 1
    return struct.pack("B", (exponent + bias << fraction_bits) + int(steps))


# Each type by its number in ncclDataType_t, and how to pack a number.
TYPES = {
    0: lambda value: struct.pack("b", value),
    1: lambda value: struct.pack("B", value),
    2: lambda value: struct.pack("i", value),
    3: lambda value: struct.pack("I", value),
    4: lambda value: struct.pack("q", value),
    5: lambda value: struct.pack("Q", value),
    6: lambda value: struct.pack("e", value),
    7: lambda value: struct.pack("f", value),
    8: lambda value: struct.pack("d", value),
    9: lambda value: struct.pack("f", value)[2:],
    10: lambda value: tiny_real(value, 4),
    11: lambda value: tiny_real(value, 5),
}


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


class Config(ctypes.Structure):
    """ncclConfig_t up to the field that matters here."""
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                ("blocking", ctypes.c_int)]

    def __init__(self, blocking):
        super().__init__(ctypes.sizeof(Config), 0xcafebeef, 23007, blocking)


class Libraries:
    def __init__(self, nccl, runtime):
        self.runtime = ctypes.CDLL(runtime)
        self.nccl = ctypes.CDLL(nccl)
        self.gpemu = self.nccl
        self.gpemu.gpemu_cuda_not_computed_bytes.restype = ctypes.c_uint64

    def cuda(self, name, *arguments, expected=SUCCESS):
        status = getattr(self.runtime, "cuda" + name)(*arguments)
        assert status == expected, f"cuda{name}: {status}"

    def call(self, name, *arguments, expected=SUCCESS):
        status = getattr(self.nccl, "nccl" + name)(*arguments)
        assert status == expected, f"nccl{name}: {status}"


    def wait_for(self, comm):
        """Waits until a nonblocking call on a communicator has ended, and returns its status."""
        status = ctypes.c_int(IN_PROGRESS)
        while status.value == IN_PROGRESS:
            self.call("CommGetAsyncError", comm, ctypes.byref(status))
            time.sleep(0.001)
        return status.value


class Rank:
    """A rank of this process, with the current device's memory and a stream."""

    def __init__(self, libraries, comm, rank, ranks):
        self.libraries = libraries
        self.comm, self.rank, self.ranks = comm, rank, ranks
        self.stream = ctypes.c_void_p()
        libraries.cuda("StreamCreate", ctypes.byref(self.stream))

    def memory(self, content):
        """Returns device memory that holds bytes."""
        address = ctypes.c_void_p()
        self.libraries.cuda("Malloc", ctypes.byref(address), ctypes.c_size_t(len(content)))
        self.libraries.cuda(
            "Memcpy", address, content, ctypes.c_size_t(len(content)), HOST_TO_DEVICE
        )
        return address

    def wait(self):
        self.libraries.cuda("StreamSynchronize", self.stream)

    def read(self, address, size):
        content = ctypes.create_string_buffer(size)
        self.libraries.cuda("Memcpy", content, address, ctypes.c_size_t(size), DEVICE_TO_HOST)
        return content.raw

    def call(self, name, *arguments, expected=SUCCESS):
        """Calls a function that ends with a communicator and a stream."""
        counts = [ctypes.c_size_t(a) if i == self.count_at(name) else a for i, a in
                  enumerate(arguments)]
        self.libraries.call(name, *counts, self.comm, self.stream, expected=expected)

    @staticmethod
    def count_at(name):
        return 1 if name in ("Send", "Recv", "Bcast") else 2

    def expect(self, address, expected, what):
        self.wait()
        actual = self.read(address, len(expected))
        assert actual == expected, f"{what}, rank {self.rank}: {actual[:32]} is not {expected[:32]}"


# ---- Scenarios: each runs on every rank


def pack(data_type, values):
    return b"".join(TYPES[data_type](value) for value in values)


def reduced(data_type, reduction, values):
    if reduction == SUM:
        return sum(values)
    if reduction == PROD:
        product = 1
        for value in values:
            product *= value
        return product
    if reduction == AVG:
        whole = data_type <= 5
        return sum(values) // len(values) if whole else sum(values) / len(values)
    return max(values) if reduction == MAX else min(values)


def reductions(own):
    ranks, rank = own.ranks, own.rank
    everyone = range(1, ranks + 1)
    for data_type in TYPES:
        for reduction in range(5):
            what = f"type {data_type}, reduction {reduction}"
            result = pack(data_type, [reduced(data_type, reduction, everyone), 1])
            source = own.memory(pack(data_type, [rank + 1, 1]))
            if reduction == SUM:
                result = pack(data_type, [sum(everyone), ranks])
            target = own.memory(bytes(len(result)))
            own.call("AllReduce", source, target, 2, data_type, reduction)
            own.expect(target, result, "AllReduce, " + what)
            kept = own.memory(bytes(len(result)))
            own.call("Reduce", source, kept, 2, data_type, reduction, ranks - 1)
            own.expect(kept, result if rank == ranks - 1 else bytes(len(result)), "Reduce, " + what)
            own.call("AllReduce", source, source, 2, data_type, reduction)
            own.expect(source, result, "AllReduce in place, " + what)
            # Element r of rank q is q + 1, and one more for odd r, where FP8 has all the sums.
            odd = 0 if data_type in (10, 11) else 1
            parts = own.memory(pack(data_type, [rank + 1 + odd * (r % 2) for r in range(ranks)]))
            part = own.memory(bytes(len(result) // 2))
            own.call("ReduceScatter", parts, part, 1, data_type, reduction)
            values = [q + 1 + odd * (rank % 2) for q in range(ranks)]
            own.expect(part, pack(data_type, [reduced(data_type, reduction, values)]),
                       "ReduceScatter, " + what)


def moves(own):
    ranks, rank = own.ranks, own.rank
    for size in (3, 70_000, 3 << 20):
        def piece(sender, receiver=0):
            pattern = struct.pack("HH", 1000 * sender + receiver + 1, size & 0xFFFF)
            return (pattern * (size // 4 + 1))[:size]

        everyone = range(ranks)
        root = ranks - 1
        source = own.memory(piece(rank))
        target = own.memory(bytes(size))
        all_of = own.memory(bytes(size * ranks))
        own.call("Broadcast", source, target, size, INT8, root)
        own.expect(target, piece(root), f"Broadcast of {size}")
        own.call("AllGather", source, all_of, size, INT8)
        own.expect(all_of, b"".join(piece(q) for q in everyone), f"AllGather of {size}")
        gathered = own.memory(bytes(size * ranks))
        own.call("Gather", source, gathered, size, INT8, root)
        expected = b"".join(piece(q) for q in everyone) if rank == root else bytes(size * ranks)
        own.expect(gathered, expected, f"Gather of {size}")
        sources = own.memory(b"".join(piece(rank, q) for q in everyone))
        own.call("AlltoAll", sources, all_of, size, INT8)
        own.expect(all_of, b"".join(piece(q, rank) for q in everyone), f"AlltoAll of {size}")
        own.call("Scatter", sources, target, size, INT8, root)
        own.expect(target, piece(root, rank), f"Scatter of {size}")
        own.call("Bcast", source, size, INT8, root)
        own.expect(source, piece(root), f"Bcast of {size}")
        # In place: the own part is already where it belongs.
        mine = bytes(size * rank) + piece(rank) + bytes(size * (ranks - 1 - rank))
        in_place = own.memory(mine)
        own.call("AllGather", ctypes.c_void_p(in_place.value + size * rank), in_place, size, INT8)
        own.expect(in_place, b"".join(piece(q) for q in everyone), f"AllGather in place of {size}")
        # What is written to the source afterwards does not reach the others.
        own.call("AllGather", sources, all_of, size, INT8)
        own.libraries.cuda("MemsetAsync", sources, 7, ctypes.c_size_t(size), own.stream)
        own.expect(all_of, b"".join(piece(q, 0) for q in everyone), f"AllGather before a change")


def uncomputed(own):
    """Large results and those of unknown content read as zeros and are reported."""
    count = 65537
    before = own.libraries.gpemu.gpemu_cuda_not_computed_bytes()
    source = own.memory(b"\1" * count)
    target = own.memory(b"\2" * count)
    own.call("AllReduce", source, target, count, INT8, SUM)
    own.expect(target, bytes(count), "a large AllReduce")
    own.call("AllGather", target, own.memory(bytes(count * own.ranks)), count, INT8)
    own.wait()
    assert own.libraries.gpemu.gpemu_cuda_not_computed_bytes() == before + count
    # One rank does not know its elements: nobody gets them.
    own_source = target if own.rank == 1 else source
    small = own.memory(b"\2" * 4)
    own.call("AllReduce", own_source, small, 4, INT8, SUM)
    own.expect(small, bytes(4), "AllReduce of what one rank does not know")
    # Its part of a gather is not known; the others' are.
    gathered = own.memory(b"\2" * (4 * own.ranks))
    own.call("AllGather", own_source, gathered, 4, INT8)
    own.expect(
        gathered,
        b"".join(bytes(4) if q == 1 else b"\1" * 4 for q in range(own.ranks)),
        "AllGather of what one rank does not know",
    )


def transfers(own):
    """A ring, all to all, and a pipeline, with sends and receives."""
    ranks, rank, nccl = own.ranks, own.rank, own.libraries
    following, previous = (rank + 1) % ranks, (rank - 1) % ranks
    for size in (4, 2 << 20):
        source, target = own.memory(bytes([rank + 1]) * size), own.memory(bytes(size))
        for _ in range(3):
            nccl.call("GroupStart")
            own.call("Send", source, size, INT8, following)
            own.call("Recv", target, size, INT8, previous)
            nccl.call("GroupEnd")
        own.expect(target, bytes([previous + 1]) * size, "a ring")
        sources = own.memory(b"".join(bytes([16 * rank + q]) * size for q in range(ranks)))
        targets = own.memory(bytes(size * ranks))
        nccl.call("GroupStart")
        for q in range(ranks):
            own.call("Recv", ctypes.c_void_p(targets.value + q * size), size, INT8, q)
            own.call("Send", ctypes.c_void_p(sources.value + q * size), size, INT8, q)
        nccl.call("GroupEnd")
        own.expect(
            targets, b"".join(bytes([16 * q + rank]) * size for q in range(ranks)), "all to all"
        )
        if rank > 0:
            own.call("Recv", target, size, INT8, previous)
        if rank < ranks - 1:
            own.call("Send", target if rank > 0 else source, size, INT8, following)
        own.expect(target, bytes([1 if rank > 0 else ranks]) * size, "a pipeline")
    own.call("Send", source, 1, INT8, ranks, expected=INVALID_ARGUMENT)
    own.call("Send", source, 1, INT8, rank, expected=INVALID_USAGE)


def scaled(own):
    """Sums of sources that each rank multiplies by its own number, from the host or the device."""
    nccl, source, target = own.libraries, own.memory(struct.pack("f", 2)), own.memory(bytes(4))
    scale = ctypes.c_float(own.rank + 0.5)
    on_device = own.memory(struct.pack("f", own.rank + 0.5))
    for scalar, residence in ((ctypes.byref(scale), 1), (on_device, 0)):
        reduction = ctypes.c_int()
        nccl.call("RedOpCreatePreMulSum", ctypes.byref(reduction), scalar, FLOAT32, residence,
                  own.comm)
        own.call("AllReduce", source, target, 1, FLOAT32, reduction)
        nccl.call("RedOpDestroy", reduction, own.comm)
        own.expect(target, struct.pack("f", sum(2 * (q + 0.5) for q in range(own.ranks))), "scaled")


def grouped(own):
    """Collectives of a group are all done after it."""
    source, target = own.memory(struct.pack("i", own.rank + 1)), own.memory(bytes(8))
    own.libraries.call("GroupStart")
    own.call("AllReduce", source, target, 1, INT32, SUM)
    own.call("AllReduce", source, ctypes.c_void_p(target.value + 4), 1, INT32, MAX)
    own.libraries.call("GroupEnd")
    total = sum(range(1, own.ranks + 1))
    own.expect(target, struct.pack("ii", total, own.ranks), "a group")


def mismatched(own):
    """Ranks that reduce in different ways end, with results that mean nothing."""
    source, target = own.memory(b"\1" * 16), own.memory(b"\2" * 16)
    own.call("AllReduce", source, target, 2, INT32, SUM if own.rank == 0 else MAX)
    own.expect(target, bytes(8) + b"\2" * 8, "calls that do not match")
    own.wait()
    # The next calls match.
    own.call("AllReduce", source, target, 1, INT8, SUM)
    own.expect(target, bytes([own.ranks]) + bytes(7), "calls that match again")


MIB = 1 << 20
LARGE = 16 * MIB  # elements, which take another protocol than 4 KiB.


class Unequal:
    """Calls that do not match. Each case is what rank 0 calls, what the others call, and for whom
    it ends: "all", "none", or "first" or "others"."""

    def __init__(self, own):
        self.own = own
        self.known = own.memory(bytes(3 * MIB))
        self.large = ctypes.c_void_p()  # The largest call's.
        own.libraries.cuda("Malloc", ctypes.byref(self.large), ctypes.c_size_t(4 * LARGE * 4))
        self.flag = own.memory(bytes(4))

    def perform(self, comm, name, *arguments):
        """Makes a call in a stream of its own, and returns the stream."""
        rank = Rank(self.own.libraries, comm, self.own.rank, self.own.ranks)
        count, data_type = arguments[:2]
        needed = count * len(pack(data_type, [0])) * (self.own.ranks if "Gather" in name or
                                                      "Scatter" in name else 1)
        memory = self.known if needed <= 3 * MIB else self.large
        buffers = [memory] if name in ("Send", "Recv") else [memory, memory]
        rank.call(name, *buffers, *arguments)
        return rank.stream

    def meet(self):
        """Waits until all ranks have come."""
        self.own.call("AllReduce", self.flag, self.flag, 1, INT32, SUM)
        self.own.wait()

    def check(self, first, others, ends):
        own, comm = self.own, ctypes.c_void_p()
        own.libraries.call("CommSplit", own.comm, 0, own.rank, ctypes.byref(comm), None)
        called = first if own.rank == 0 else others
        stream = self.perform(comm, *called) if called else own.stream
        self.meet()
        if called and ends in ("all", "first" if own.rank == 0 else "others"):
            own.libraries.cuda("StreamSynchronize", stream)
        elif called:
            time.sleep(0.01)
            status = own.libraries.runtime.cudaStreamQuery(stream)
            assert status == NOT_READY, (first, others, ends, status)
        self.meet()
        own.libraries.call("CommAbort", comm)
        if called:
            own.libraries.cuda("StreamSynchronize", stream)
            own.libraries.cuda("StreamDestroy", stream)


def unequal_calls(ranks):
    """What NCCL does with two calls. Numbers of elements with a source are from reports of hangs,
    or of programs that ended; the others follow from the protocol: LL moves lines of 8 bytes."""
    reduce = lambda count, data_type=FLOAT32: ("AllReduce", count, data_type, SUM)
    yield reduce(1), reduce(2), "all"
    yield reduce(2), reduce(3), "first"
    yield reduce(3), reduce(2), "others"
    # https://github.com/NVIDIA/nccl/issues/1394: 1 x 2560 and 2 x 2560.
    yield reduce(2560), reduce(5120), "none"
    # https://github.com/NVIDIA/nccl/issues/1417
    yield reduce(409600), reduce(409598), "all"
    if ranks == 2:  # Both are of Simple; with four, one of LL128, whose lines differ.
        yield reduce(256000), reduce(512000), "all"
        yield reduce(409600), reduce(32768000), "first"
    # The same bytes.
    yield reduce(8, INT32), reduce(8, FLOAT32), "all"
    yield reduce(8, INT8), reduce(2, INT32), "all"
    yield reduce(8), ("AllReduce", 8, FLOAT32, MAX), "all"
    # Something else, another root, another order, and nothing.
    yield reduce(8), ("AllGather", 8, FLOAT32), "none"
    yield ("Broadcast", 8, FLOAT32, 0), ("Reduce", 8, FLOAT32, SUM, 0), "none"
    # https://github.com/pytorch/pytorch/issues/39706
    yield ("Reduce", 3, FLOAT32, SUM, 0), ("Reduce", 3, FLOAT32, SUM, 1), "none"
    yield ("Broadcast", 2 * MIB, INT8, 0), ("Broadcast", 2 * MIB, INT8, 1), "none"
    yield ("Broadcast", 2 * MIB, INT8, 0), ("Broadcast", 3 * MIB, INT8, 0), "all"  # one step
    yield ("ReduceScatter", 100, INT32, SUM), ("ReduceScatter", 99, INT32, SUM), "others"
    yield reduce(8), None, "none"


def unequal(own):
    """Calls that do not match end for the ranks that NCCL would let end."""
    cases = Unequal(own)
    for case in unequal_calls(own.ranks):
        cases.check(*case)
    if own.ranks > 2:
        return
    # https://github.com/pytorch/pytorch/issues/113376, https://github.com/NVIDIA/nccl/issues/1938
    for sent, received, ends in ((3, 4, "all"), (3, 5, "first"), (5, 3, "all"),
                                 (30000, 50000, "all"),
                                 (100000, 300000, "first"), (300000, 100000, "all")):
        cases.check(("Send", sent, FLOAT32, 1), ("Recv", received, FLOAT32, 0), ends)
    draw = random.Random(45)
    for _ in range(100):
        cases.check(*random_mismatch(draw))


def random_mismatch(draw):
    """Returns two calls of at most 4 KiB, which take one channel and LL, or of 16 MiB and more."""
    kinds = [("AllReduce", SUM), ("AllReduce", MAX), ("Reduce", SUM, 0), ("Reduce", SUM, 1),
             ("Broadcast", 0), ("Broadcast", 1), ("AllGather",), ("ReduceScatter", SUM)]
    sizes = {INT8: 1, INT32: 4, FLOAT32: 4}
    calls, whole = [], []
    kind = draw.choice(kinds)
    for _ in range(2):
        kind = draw.choice((kind, draw.choice(kinds)))
        data_type = draw.choice(list(sizes))
        parts = 2 if kind[0] in ("AllGather", "ReduceScatter") else 1
        few = 4096 // parts // sizes[data_type] - 1
        count = draw.choice((draw.randint(1, few), draw.randint(1, 8), LARGE))
        calls.append((kind[0], count, data_type, *kind[1:]))
        whole.append(count * sizes[data_type] * parts)
    function = lambda call: (call[0], call[-1] if call[0] in ("Broadcast", "Reduce") else 0)
    lines = [-(-size // 8) for size in whole]
    large = [size > 4096 for size in whole]
    if function(calls[0]) != function(calls[1]) or large[0] != large[1]:
        ends = "none"
    elif large[0] and whole[0] != whole[1]:
        return random_mismatch(draw)  # It depends on the protocol of each.
    elif whole[0] == whole[1] or lines[0] == lines[1]:
        ends = "all"
    else:
        ends = "first" if lines[0] < lines[1] else "others"
    return *calls, ends


def late(own):
    """All wait for the last rank."""
    source = own.memory(b"\1" * 4)
    own.call("AllReduce", source, source, 1, INT32, SUM)
    own.wait()
    start = time.monotonic()
    if own.rank == 0:
        time.sleep(0.3)
    own.call("AllReduce", source, source, 1, INT32, SUM)
    queued = time.monotonic() - start
    own.wait()
    took = time.monotonic() - start
    if own.rank != 0:
        assert queued < 0.2 and took > 0.2, (queued, took)


def divided(own):
    """Even and odd ranks, in reverse order; the last rank takes no part."""
    nccl = own.libraries
    color = own.rank % 2 if own.rank < own.ranks - 1 or own.ranks == 2 else -1
    comm = ctypes.c_void_p()
    nccl.call("CommSplit", own.comm, color, -own.rank, ctypes.byref(comm), None)
    if color < 0:
        assert comm.value is None
        return
    members = [q for q in range(own.ranks) if q % 2 == color and (q < own.ranks - 1 or
                                                                 own.ranks == 2)]
    count, place = ctypes.c_int(), ctypes.c_int()
    nccl.call("CommCount", comm, ctypes.byref(count))
    nccl.call("CommUserRank", comm, ctypes.byref(place))
    assert count.value == len(members), (count.value, members)
    assert place.value == sorted(members, reverse=True).index(own.rank), place.value
    part = Rank(nccl, comm, place.value, count.value)
    source, target = part.memory(struct.pack("i", 10 + own.rank)), part.memory(bytes(4))
    part.call("AllReduce", source, target, 1, INT32, SUM)
    part.expect(target, struct.pack("i", sum(10 + q for q in members)), "a part")
    nccl.call("CommFinalize", comm)
    nccl.call("CommDestroy", comm)


def check_sum(part, expected, what):
    """Adds up 1 << rank of the ranks of a communicator, given the bits of those it has."""
    own_bit = part.memory(struct.pack("i", 1 << part.rank))
    total = part.memory(bytes(4))
    part.call("AllReduce", own_bit, total, 1, INT32, SUM)
    part.expect(total, struct.pack("i", expected), what)


def shrink(own, excluded, flags=0):
    """Returns a rank of a communicator without some ranks."""
    comm, ranks = ctypes.c_void_p(), (ctypes.c_int * len(excluded))(*excluded)
    own.libraries.call("CommShrink", own.comm, ranks, len(excluded), ctypes.byref(comm), None,
                       flags)
    rank, count = ctypes.c_int(), ctypes.c_int()
    own.libraries.call("CommUserRank", comm, ctypes.byref(rank))
    own.libraries.call("CommCount", comm, ctypes.byref(count))
    expected = [q for q in range(own.ranks) if q not in excluded]
    assert (count.value, expected[rank.value]) == (len(expected), own.rank), (rank, count)
    return Rank(own.libraries, comm, rank.value, count.value)


def shrunk(own):
    """Ranks that take no part do not call; the communicator stays as it is."""
    for excluded in ([own.ranks - 1], [0], [0]):
        if own.rank not in excluded:
            part = shrink(own, excluded)
            check_sum(part, (1 << part.ranks) - 1, f"without {excluded}")
            own.libraries.call("CommDestroy", part.comm)
    check_sum(own, (1 << own.ranks) - 1, "the communicator itself")
    comm = ctypes.c_void_p()
    for wrong in ([own.rank], [own.ranks], [-1]):
        own.libraries.call("CommShrink", own.comm, (ctypes.c_int * 1)(*wrong), 1,
                           ctypes.byref(comm), None, 0, expected=INVALID_ARGUMENT)
    own.libraries.call("CommShrink", own.comm, None, 0, ctypes.byref(comm), None, 0,
                       expected=INVALID_ARGUMENT)


def first_killed(own):
    """The process that made the unique id dies in a collective; the others go on without it, and
    divide what they have."""
    source = own.memory(b"\1" * 4)
    own.call("AllReduce", source, source, 1, INT32, SUM)
    own.wait()
    if own.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    own.call("AllReduce", source, source, 1, INT32, SUM)
    part = shrink(own, [0], SHRINK_ABORT)
    own.wait()
    check_sum(part, (1 << part.ranks) - 1, "those that are left")
    comm = ctypes.c_void_p()
    own.libraries.call("CommSplit", part.comm, 0, 0, ctypes.byref(comm), None)
    half = Rank(own.libraries, comm, part.rank, part.ranks)
    check_sum(half, (1 << part.ranks) - 1, "a division of those")
    for one in (half, part):
        own.libraries.call("CommDestroy", one.comm)
    own.libraries.call("CommAbort", own.comm)
    own.comm = None


def nonblocking(own):
    """Calls that would wait for others return at once, and the communicator is in progress."""
    nccl, config, comm = own.libraries, Config(blocking=0), ctypes.c_void_p()
    # The parent blocks, so the division does.
    nccl.call("CommSplit", own.comm, 0, 0, ctypes.byref(comm), ctypes.byref(config))
    part = Rank(nccl, comm, own.rank, own.ranks)
    check_sum(part, (1 << own.ranks) - 1, "a nonblocking communicator")
    half = ctypes.c_void_p()
    if own.rank == 0:
        check_sum(own, (1 << own.ranks) - 1, "before rank 0 divides")
    nccl.call("CommSplit", comm, 0, -own.rank, ctypes.byref(half), None, expected=IN_PROGRESS)
    if own.rank != 0:
        source = part.memory(bytes(4))
        part.call("AllReduce", source, source, 1, INT32, SUM, expected=INVALID_ARGUMENT)
        nccl.call("CommDestroy", comm, expected=INVALID_ARGUMENT)
        assert half.value is None
        check_sum(own, (1 << own.ranks) - 1, "before rank 0 divides")
    assert nccl.wait_for(comm) == SUCCESS
    check_sum(Rank(nccl, half, own.ranks - 1 - own.rank, own.ranks), (1 << own.ranks) - 1,
              "its division")
    source, target = part.memory(bytes([own.rank])), part.memory(b"\7")
    for name in ("Send", "Recv") if own.rank % 2 == 0 else ("Recv", "Send"):
        peer = (own.rank + (1 if name == "Send" else -1)) % own.ranks
        part.call(name, source if name == "Send" else target, 1, INT8, peer, expected=IN_PROGRESS)
        assert nccl.wait_for(comm) == SUCCESS
    part.expect(target, bytes([(own.rank - 1) % own.ranks]), "a nonblocking transfer")
    nccl.call("CommDestroy", half)
    nccl.call("CommFinalize", comm, expected=IN_PROGRESS)
    assert nccl.wait_for(comm) == SUCCESS
    nccl.call("CommFinalize", comm, expected=INVALID_ARGUMENT)
    nccl.call("CommDestroy", comm)


def nonblocking_aborted(own):
    """A division to which a rank never comes is freed by an abort."""
    nccl, config, comm = own.libraries, Config(blocking=0), ctypes.c_void_p()
    nccl.call("CommSplit", own.comm, 0, 0, ctypes.byref(comm), ctypes.byref(config))
    half = ctypes.c_void_p()
    if own.rank == 0:
        nccl.call("CommSplit", comm, 0, 0, ctypes.byref(half), None, expected=IN_PROGRESS)
        status = ctypes.c_int()
        nccl.call("CommGetAsyncError", comm, ctypes.byref(status))
        assert status.value == IN_PROGRESS, status.value
    nccl.call("CommAbort", comm)
    assert half.value is None


def simulated(own):
    """A simulated group runs nothing; NCCL's tuner expects more of more bytes."""
    class Info(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint),
                    ("version", ctypes.c_uint), ("time", ctypes.c_float)]

    nccl, count = own.libraries, 1 << 20
    memory, times = own.memory(b"\1" * (4 * count)), []
    for size in (1, count):
        info = Info(ctypes.sizeof(Info), 0x74685283, 23007, -1)
        nccl.call("GroupStart")
        own.call("AllReduce", memory, memory, size, INT32, SUM)
        nccl.call("GroupSimulateEnd", ctypes.byref(info))
        times.append(info.time)
    assert 0 < times[0] < times[1], times
    assert own.read(memory, 4) == b"\1" * 4
    nccl.call("GroupStart")
    info = Info(ctypes.sizeof(Info), 0, 23007, -1)
    nccl.call("GroupSimulateEnd", ctypes.byref(info), expected=INVALID_ARGUMENT)
    nccl.call("GroupSimulateEnd", ctypes.byref(info), expected=INVALID_USAGE)


def named(own):
    """Ranks meet at the address in NCCL_COMM_ID, whichever process is rank 0, early or late."""
    nccl = own.libraries
    check_sum(own, (1 << own.ranks) - 1, "a named address")
    for turn in (1, 2):
        unique_id, comm = Id(), ctypes.c_void_p()
        nccl.call("GetUniqueId", ctypes.byref(unique_id))
        rank = (own.rank + turn) % own.ranks
        if rank == 0:
            time.sleep(0.3)
        nccl.call("CommInitRank", ctypes.byref(comm), own.ranks, unique_id, rank)
        part = Rank(nccl, comm, rank, own.ranks)
        check_sum(part, (1 << own.ranks) - 1, f"a named address, turn {turn}")
        target = part.memory(bytes(1))
        nccl.call("GroupStart")
        part.call("Send", part.memory(bytes([rank])), 1, INT8, (rank + 1) % own.ranks)
        part.call("Recv", target, 1, INT8, (rank - 1) % own.ranks)
        nccl.call("GroupEnd")
        part.expect(target, bytes([(rank - 1) % own.ranks]), f"its transfers, turn {turn}")
        nccl.call("CommDestroy", comm)


def captured(own):
    """A graph queues its collectives and transfers at each launch."""
    cuda, graph, launchable = own.libraries.cuda, ctypes.c_void_p(), ctypes.c_void_p()
    value = own.memory(struct.pack("i", 1 + own.rank))
    sent, received = own.memory(bytes(4)), own.memory(bytes(4))
    cuda("StreamBeginCapture", own.stream, 2)
    own.call("AllReduce", value, value, 1, INT32, SUM)
    cuda("MemcpyAsync", sent, value, 4, DEVICE_TO_DEVICE, own.stream)
    own.libraries.call("GroupStart")
    own.call("Send", sent, 1, INT32, (own.rank + 1) % own.ranks)
    own.call("Recv", received, 1, INT32, (own.rank - 1) % own.ranks)
    own.libraries.call("GroupEnd")
    cuda("StreamEndCapture", own.stream, ctypes.byref(graph))
    cuda("GraphInstantiate", ctypes.byref(launchable), graph, 0)
    own.expect(value, struct.pack("i", 1 + own.rank), "a captured AllReduce")
    total = own.ranks * (own.ranks + 1) // 2
    for launch in range(3):
        cuda("GraphLaunch", launchable, own.stream)
        expected = struct.pack("i", total * own.ranks**launch)
        own.expect(value, expected, f"AllReduce, launch {launch}")
        own.expect(received, expected, f"Recv, launch {launch}")
    cuda("GraphExecDestroy", launchable)
    cuda("GraphDestroy", graph)


def aborted(own):
    """A rank that waits for one that does not come is freed by an abort."""
    source = own.memory(b"\1" * 4)
    target = own.memory(b"\2" * 4)
    if own.rank == 0:
        own.call("AllReduce", source, target, 1, INT32, SUM)
        aborter = threading.Timer(0.3, lambda: own.libraries.call("CommAbort", own.comm))
        aborter.start()
        start = time.monotonic()
        own.expect(target, bytes(4), "an aborted AllReduce")
        assert time.monotonic() - start > 0.2
        aborter.join()
        own.call("AllReduce", source, target, 1, INT32, SUM, expected=INVALID_ARGUMENT)
        own.comm = None
    else:
        time.sleep(1)
        own.libraries.call("CommAbort", own.comm)
        own.comm = None


def aborted_first(own):
    """A receive from a rank that never sends is freed by an abort, also if it is the first."""
    target = own.memory(b"\2" * 4)
    if own.rank == 0:
        aborter = threading.Timer(0.3, lambda: own.libraries.call("CommAbort", own.comm))
        aborter.start()
        own.call("Recv", target, 4, INT8, 1, expected=INVALID_USAGE)
        aborter.join()
    else:
        time.sleep(1)
        own.libraries.call("CommAbort", own.comm)
    own.comm = None


def aborted_transfer(own):
    """The same for a later one."""
    source, target = own.memory(b"\1" * 4), own.memory(b"\2" * 4)
    if own.rank == 0:
        own.call("Recv", target, 4, INT8, 1)
        own.expect(target, b"\1" * 4, "a transfer")
        own.call("Recv", target, 4, INT8, 1)
        aborter = threading.Timer(0.3, lambda: own.libraries.call("CommAbort", own.comm))
        aborter.start()
        own.expect(target, bytes(4), "an aborted transfer")
        aborter.join()
    else:
        if own.rank == 1:
            own.call("Send", source, 4, INT8, 0)
            own.wait()
        time.sleep(1)
        own.libraries.call("CommAbort", own.comm)
    own.comm = None


def killed(own):
    """The others wait for a rank that has died until they abort."""
    source = own.memory(b"\1" * 4)
    own.call("AllReduce", source, source, 1, INT32, SUM)
    own.wait()
    if own.rank == own.ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    own.call("AllReduce", source, source, 1, INT32, SUM)
    time.sleep(0.5)
    status = own.libraries.runtime.cudaStreamQuery(own.stream)
    assert status == 600, status
    error = ctypes.c_int(-1)
    own.libraries.call("CommGetAsyncError", own.comm, ctypes.byref(error))
    assert error.value == SUCCESS, error.value
    own.call("AllReduce", source, source, 1, INT32, SUM, expected=REMOTE_ERROR)
    own.libraries.call("CommGetAsyncError", own.comm, ctypes.byref(error))
    assert error.value == REMOTE_ERROR, error.value
    own.libraries.call("CommAbort", own.comm)
    own.comm = None
    own.wait()


def many(own):
    """The host runs far ahead, and results depend on those before."""
    rounds = 3000
    source = own.memory(struct.pack("q", own.rank + 1))
    for _ in range(rounds):
        own.call("AllReduce", source, source, 1, 4, MAX)
    own.call("AllReduce", source, source, 1, 4, SUM)
    own.expect(source, struct.pack("q", own.ranks**2), "many rounds")


def mixed(own):
    """Random calls on the same memory, which every rank repeats for all ranks in Python."""
    random_for_all, random_for_one = random.Random(7), random.Random(own.rank)
    ranks, rank, nccl, width = own.ranks, own.rank, own.libraries, 6
    # Of each rank, buffers of one part per rank; a part has numbers of 8 bits.
    state = [[[16 * q + 3 * b + i for i in range(width * ranks)] for b in range(3)]
             for q in range(ranks)]
    buffers = [own.memory(bytes(state[rank][b])) for b in range(3)]

    def at(buffer, part=0):
        return ctypes.c_void_p(buffers[buffer].value + part * width)

    def parts(numbers):
        return [numbers[q * width:(q + 1) * width] for q in range(ranks)]

    for step in range(400):
        kind = random_for_all.choice(["reduce", "gather", "scatter", "cast", "shift", "all", "copy",
                                      "set", "group"])
        a, b = random_for_all.sample(range(3), 2)
        root = random_for_all.randrange(ranks)
        old = [[list(buffer) for buffer in one] for one in state]
        whole = [max(column) for column in zip(*(one[a] for one in old))]
        if kind == "reduce":
            own.call("AllReduce", at(a), at(b), width * ranks, 1, MAX)
            for one in state:
                one[b] = list(whole)
        elif kind == "scatter":
            own.call("ReduceScatter", at(a), at(b), width, 1, MAX)
            for q in range(ranks):
                state[q][b][:width] = parts(whole)[q]
        elif kind == "gather":
            own.call("AllGather", at(a), at(b), width, 1)
            for one in state:
                one[b] = sum((other[a][:width] for other in old), [])
        elif kind == "cast":
            own.call("Broadcast", at(a), at(b), width * ranks, 1, root)
            for one in state:
                one[b] = list(old[root][a])
        elif kind == "shift":
            nccl.call("GroupStart")
            own.call("Send", at(a), width, 1, (rank + 1) % ranks)
            own.call("Recv", at(b), width, 1, (rank - 1) % ranks)
            nccl.call("GroupEnd")
            for q in range(ranks):
                state[q][b][:width] = old[(q - 1) % ranks][a][:width]
        elif kind == "all":
            own.call("AlltoAll", at(a), at(b), width, 1)
            for q in range(ranks):
                state[q][b] = sum((parts(other[a])[q] for other in old), [])
        elif kind == "group":
            nccl.call("GroupStart")
            own.call("Bcast", at(a), width, 1, root)
            own.call("AllReduce", at(b), at(b), width, 1, MIN)
            nccl.call("GroupEnd")
            for one in state:
                one[a][:width] = old[root][a][:width]
                one[b][:width] = [min(column) for column in zip(*(o[b][:width] for o in old))]
        elif kind == "set":
            nccl.cuda("MemsetAsync", at(a, rank), step % 50, ctypes.c_size_t(width), own.stream)
            for q in range(ranks):
                state[q][a][q * width:(q + 1) * width] = [step % 50] * width
        else:
            size = ctypes.c_size_t(width * ranks)
            nccl.cuda("MemcpyAsync", at(b), at(a), size, DEVICE_TO_DEVICE, own.stream)
            for one, before in zip(state, old):
                one[b] = list(before[a])
        if random_for_one.random() < 0.05:
            time.sleep(random_for_one.random() * 0.005)
        if random_for_one.random() < 0.05:
            own.wait()
        if random_for_one.random() < 0.05:
            own.expect(buffers[b], bytes(state[rank][b]), f"step {step}, {kind}")
    for b in range(3):
        own.expect(buffers[b], bytes(state[rank][b]), "the end")


def measured(own):
    """Prints how long the host takes to queue all-reduces: of one element, and of a bucket of
    gradients that are not computed."""
    rounds = 20000
    for count in (1, 25 * 2**18):
        source, target = ctypes.c_void_p(), ctypes.c_void_p()
        for memory in (source, target):
            own.libraries.cuda("Malloc", ctypes.byref(memory), ctypes.c_size_t(4 * count))
        call, arguments = own.libraries.nccl.ncclAllReduce, (
            source, target, ctypes.c_size_t(count), FLOAT32, SUM, own.comm, own.stream)
        call(*arguments)
        own.wait()
        wall, start = time.monotonic(), time.thread_time()
        for i in range(rounds):
            call(*arguments)
            if i % 100 == 99:
                own.wait()
        queued = time.thread_time() - start
        own.wait()
        print(
            f"rank {own.rank} of {own.ranks}, {count} elements: {1e6 * queued / rounds:.1f} us of "
            f"the calling thread, {1e6 * (time.monotonic() - wall) / rounds:.1f} us elapsed"
        )


SCENARIOS = [reductions, moves, uncomputed, transfers, scaled, grouped, mismatched, unequal,
             late, divided, captured, aborted, aborted_first, aborted_transfer, killed, shrunk,
             first_killed, nonblocking, nonblocking_aborted, simulated, named, many, mixed,
             measured]
# The scenarios in which a rank is killed, and which.
KILLED = {"killed": -1, "first_killed": 0}


def run_rank(arguments):
    """One process with one rank."""
    libraries = Libraries(arguments.nccl, arguments.runtime)
    libraries.cuda("SetDevice", arguments.rank)
    unique_id, path = Id(), pathlib.Path(arguments.folder) / "id"
    is_named = "NCCL_COMM_ID" in os.environ  # Then the id is the same in all processes.
    if is_named or arguments.rank == 0:
        libraries.call("GetUniqueId", ctypes.byref(unique_id))
    if not is_named:
        if arguments.rank == 0:
            path.with_suffix(".new").write_bytes(bytes(unique_id))
            path.with_suffix(".new").rename(path)
        while not path.exists():
            time.sleep(0.005)
        unique_id = Id.from_buffer_copy(path.read_bytes())
    comm = ctypes.c_void_p()
    libraries.call(
        "CommInitRank", ctypes.byref(comm), arguments.ranks, unique_id, arguments.rank
    )
    own = Rank(libraries, comm, arguments.rank, arguments.ranks)
    next(one for one in SCENARIOS if one.__name__ == arguments.scenario)(own)
    if own.comm is not None:
        libraries.call("CommDestroy", own.comm)


def run_one_by_one(libraries, count):
    """Makes the ranks of a nonblocking communicator one after the other, without a group."""
    unique_id, comms, config = Id(), (ctypes.c_void_p * count)(), Config(blocking=0)
    libraries.call("GetUniqueId", ctypes.byref(unique_id))
    for rank in range(count):
        libraries.cuda("SetDevice", rank)
        place = ctypes.byref(comms, rank * ctypes.sizeof(ctypes.c_void_p))
        libraries.call("CommInitRankConfig", place, count, unique_id, rank, ctypes.byref(config),
                       expected=IN_PROGRESS)
    ranks = []
    for rank in range(count):
        libraries.cuda("SetDevice", rank)
        assert libraries.wait_for(ctypes.c_void_p(comms[rank])) == SUCCESS
        ranks.append(Rank(libraries, ctypes.c_void_p(comms[rank]), rank, count))
    memories = [own.memory(struct.pack("i", 1 << own.rank)) for own in ranks]
    for own, memory in zip(ranks, memories):
        own.call("AllReduce", memory, memory, 1, INT32, SUM)
    for own, memory in zip(ranks, memories):
        own.expect(memory, struct.pack("i", (1 << count) - 1), "one by one")
    for own in ranks:
        libraries.call("CommDestroy", own.comm)
    alone = ctypes.c_void_p()
    libraries.call("CommInitRankConfig", ctypes.byref(alone), 2, unique_id, 0,
                   ctypes.byref(config), expected=IN_PROGRESS)
    libraries.call("CommAbort", alone)
    wrong = Config(blocking=2)
    libraries.call("CommInitRankConfig", ctypes.byref(alone), 2, unique_id, 0, ctypes.byref(wrong),
                   expected=INVALID_ARGUMENT)


def run_single(arguments):
    """One process with all ranks, one of which each call of a group serves."""
    libraries = Libraries(arguments.nccl, arguments.runtime)
    count = arguments.ranks
    by_all, by_group = (ctypes.c_void_p * count)(), (ctypes.c_void_p * count)()
    libraries.call("CommInitAll", by_all, count, None)
    unique_id = Id()
    libraries.call("GetUniqueId", ctypes.byref(unique_id))
    libraries.call("GroupStart")
    for rank in range(count):
        libraries.cuda("SetDevice", rank)
        place = ctypes.byref(by_group, rank * ctypes.sizeof(ctypes.c_void_p))
        libraries.call("CommInitRank", place, count, unique_id, rank)
    libraries.call("GroupEnd")
    for comms in (by_all, by_group):
        ranks = []
        for rank in range(count):
            libraries.cuda("SetDevice", rank)
            ranks.append(Rank(libraries, ctypes.c_void_p(comms[rank]), rank, count))
        memories = [(own.memory(struct.pack("i", own.rank + 1)), own.memory(bytes(4 * count)))
                    for own in ranks]
        libraries.call("GroupStart")
        for own, (source, target) in zip(ranks, memories):
            own.call("AllGather", source, target, 1, INT32)
        libraries.call("GroupEnd")
        for own, (_, target) in zip(ranks, memories):
            own.expect(target, struct.pack(f"{count}i", *range(1, count + 1)), "one process")
        libraries.call("GroupStart")
        for own, (source, target) in zip(ranks, memories):
            own.call("Send", source, 1, INT32, (own.rank + 1) % count)
            own.call("Recv", target, 1, INT32, (own.rank - 1) % count)
        libraries.call("GroupEnd")
        for own, (_, target) in zip(ranks, memories):
            own.expect(target, struct.pack("i", (own.rank - 1) % count + 1), "one process, a ring")
        parts = (ctypes.c_void_p * count)()
        libraries.call("GroupStart")
        for own in ranks:
            place = ctypes.byref(parts, own.rank * ctypes.sizeof(ctypes.c_void_p))
            libraries.call("CommSplit", own.comm, 0, -own.rank, place, None)
        libraries.call("GroupEnd")
        for own in ranks:
            place = ctypes.c_int()
            libraries.call("CommUserRank", ctypes.c_void_p(parts[own.rank]), ctypes.byref(place))
            assert place.value == count - 1 - own.rank
            libraries.call("CommDestroy", ctypes.c_void_p(parts[own.rank]))
        for own in ranks:
            libraries.call("CommDestroy", own.comm)
    run_one_by_one(libraries, count)
    same = (ctypes.c_int * 2)(0, 0)
    libraries.call("CommInitAll", by_all, 2, same, expected=INVALID_USAGE)
    last_error = libraries.nccl.ncclGetLastError
    last_error.restype = ctypes.c_char_p
    text = b"Duplicate GPU detected : rank %d and rank %d both on CUDA device 1000"
    assert last_error(None) in (text % (0, 1), text % (1, 0)), last_error(None)


# ---- The processes


def start(arguments, scenario, rank, ranks, folder):
    command = [sys.executable, __file__, arguments.command, arguments.nccl, arguments.runtime]
    command += ["--scenario", scenario, "--rank", str(rank), "--ranks", str(ranks)]
    return subprocess.Popen(
        command + ["--folder", folder], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def run_scenario(arguments, scenario, ranks, processes):
    began = time.monotonic()
    os.environ.pop("NCCL_COMM_ID", None)
    if scenario == "named":
        with socket.create_server(("127.0.0.1", 0)) as server:
            os.environ["NCCL_COMM_ID"] = f"127.0.0.1:{server.getsockname()[1]}"
    with tempfile.TemporaryDirectory() as folder:
        started = [start(arguments, scenario, rank, ranks, folder) for rank in range(processes)]
        said, failed = [], []
        for rank, process in enumerate(started):
            try:
                out, errors = process.communicate(
                    timeout=max(1.0, SECONDS - (time.monotonic() - began)))
            except subprocess.TimeoutExpired:
                process.kill()
                out, errors = process.communicate()
                errors += "it did not end in time"
            said.append(errors)
            dies = scenario in KILLED and rank == KILLED[scenario] % ranks
            if process.returncode != (-signal.SIGKILL if dies else 0):
                failed.append(f"rank {rank}: {process.returncode}\n{errors}")
            if out:
                print(out, end="")
        assert not failed, f"{scenario} with {ranks} ranks:\n" + "\n".join(failed)
        if scenario == "mismatched":
            assert any("results mean nothing" in errors for errors in said), said
        if scenario == "unequal":
            for result in ("both end, but", "all its ranks wait", "rank 0 ends,"):
                assert any("called ncclAllReduce of" in errors and result in errors
                           for errors in said), said
        if scenario == "killed":
            assert "is gone" in said[0], said[0]
    print(f"{scenario}, {ranks} ranks in {processes} processes: "
          f"{time.monotonic() - began:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command")
    parser.add_argument("nccl")
    parser.add_argument("runtime")
    parser.add_argument("--scenario")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--folder")
    parser.add_argument("--only")
    parser.add_argument("--measure", type=int)
    arguments = parser.parse_args()
    if arguments.scenario == "single":
        return run_single(arguments)
    if arguments.scenario is not None:
        return run_rank(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GPEMU_NODE_DIR"] = folder
        os.environ["GPEMU_NODE"] = NODE
        os.environ.pop("GPEMU_STRICT", None)
        gpus = f"A100-SXM4-40GB:{arguments.measure or 4}"
        subprocess.run(
            [arguments.command, "node", "create", NODE, "--gpu", gpus],
            check=True, stdout=subprocess.DEVNULL,
        )
        if arguments.measure:
            return run_scenario(arguments, "measured", arguments.measure, arguments.measure)
        names = [one.__name__ for one in SCENARIOS if one is not measured]
        for ranks in (2, 4):
            for name in names:
                if arguments.only in (None, name):
                    run_scenario(arguments, name, ranks, ranks)
            if arguments.only in (None, "single"):
                run_scenario(arguments, "single", ranks, 1)
    return None


if __name__ == "__main__":
    main()
