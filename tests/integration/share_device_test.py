#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several programs at once on the devices of one node: memory, time, sharing, and sudden death.

Usage: share_device_test.py GPEMU_COMMAND SHARE_DEVICE_PROGRAM [--kills N]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

MIB = 2**20
NODE = "shared"
SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_CONTEXT, INVALID_HANDLE = 0, 1, 2, 201, 400
NOT_READY = 600
INVALID_DEVICE, PEER_ACCESS_UNSUPPORTED = 101, 217
PEER_ACCESS_ALREADY_ENABLED, PEER_ACCESS_NOT_ENABLED = 704, 705


class Program:
    """A running CUDA program that is told what to do."""

    path = ""

    def __init__(self):
        self.process = subprocess.Popen(
            [Program.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def tell(self, *words):
        """Returns the status and the words of the answer."""
        print(*words, file=self.process.stdin, flush=True)
        status, *rest = self.process.stdout.readline().split()
        return int(status), rest

    def do(self, *words):
        """As tell, for what must succeed; returns the answer."""
        status, rest = self.tell(*words)
        assert status == SUCCESS, (words, status)
        return rest

    def free_bytes(self):
        return int(self.do("info")[0])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


def test_memory_is_seen_by_all():
    first, second = Program(), Program()
    first.free_bytes()
    before = second.free_bytes()
    first.do("alloc", 100 * MIB)
    assert before - second.free_bytes() == 100 * MIB
    assert second.free_bytes() == first.free_bytes()
    status, _ = second.tell("alloc", before - 50 * MIB)
    assert status == OUT_OF_MEMORY
    first.do("free")
    assert second.free_bytes() == before
    first.end()
    second.end()


def test_time_is_shared_in_order():
    first, second = Program(), Program()
    for program in (first, second):
        program.do("alloc", 1024 * MIB)
        program.do("event")
    # About a second of a device that writes 900 GB/s.
    first.do("work", 800)
    first.do("record")
    second.do("work", 1)
    second.do("synchronize")
    assert first.tell("query")[0] == SUCCESS, "the second's work ran before the first's"
    # Another device does not wait, for minutes of work.
    first.do("work", 100_000)
    first.do("record")
    third = Program()
    third.do("device", 1)
    third.do("alloc", MIB)
    third.do("work", 1)
    third.do("synchronize")
    busy = first.tell("query")[0] == NOT_READY
    for program in (first, second, third):
        program.end()
    assert busy, "a device of its own waited"


def test_time_is_shared_by_slices():
    first, second = Program(), Program()
    for program in (first, second):
        program.do("alloc", 1024 * MIB)
        program.do("event")
    # Minutes of work, and a millisecond, which has to wait for a time slice.
    first.do("work", 100_000)
    first.do("record")
    second.do("work", 1)
    second.do("synchronize")
    assert first.tell("query")[0] == NOT_READY, "the second's work waited for all of the first's"
    # The time of one that has died goes to the others.
    first.kill()
    second.do("work", 1)
    second.do("synchronize")
    second.end()


def test_data_centre_devices_are_peers():
    program = Program()
    assert program.tell("peer", 0)[0] == PEER_ACCESS_UNSUPPORTED, "itself"
    assert program.tell("peer", 4)[0] == INVALID_DEVICE
    assert program.tell("unpeer", 4)[0] == INVALID_DEVICE
    assert program.tell("unpeer", 1)[0] == PEER_ACCESS_NOT_ENABLED
    program.do("peer", 1)
    assert program.tell("peer", 1)[0] == PEER_ACCESS_ALREADY_ENABLED
    program.do("unpeer", 1)
    program.do("alloc", 3 * MIB)
    program.do("write", 8)
    program.do("copy_to", 1)
    assert program.do("read") == ["8", "8"]
    program.end()


def test_geforce_devices_are_no_peers_but_copy():
    program = Program()
    program.do("alloc", 3 * MIB)
    program.do("write", 8)
    program.do("copy_to", 2)
    assert program.do("read") == ["8", "8"]
    assert program.tell("peer", 3)[0] == PEER_ACCESS_UNSUPPORTED
    assert program.tell("peer", 0)[0] == PEER_ACCESS_UNSUPPORTED, "another kind"
    program.end()


def test_the_killed_leave_the_others_alone():
    survivor, victim = Program(), Program()
    survivor.do("alloc", 64 * MIB)
    survivor.do("write", 7)
    before = survivor.free_bytes()
    victim.do("alloc", 1024 * MIB)
    # Hours of work that nobody is left to wait for.
    victim.do("work", 1_000_000)
    assert survivor.free_bytes() < before - 1023 * MIB
    victim.kill()
    survivor.do("work", 1)
    survivor.do("synchronize")
    survivor.do("write", 9)
    assert survivor.do("read") == ["9", "9"]
    # All of it is there again for who needs it.
    other = Program()
    free = other.free_bytes()
    other.do("alloc", free - 4 * MIB)
    other.end()
    survivor.end()


def test_memory_of_another_process():
    owner, guest = Program(), Program()
    owner.do("alloc", 3 * MIB + 5)
    owner.do("write", 5)
    (handle,) = owner.do("export")
    assert owner.tell("open", handle, MIB)[0] == INVALID_CONTEXT, "its own"
    before = guest.free_bytes()
    guest.do("open", handle, 3 * MIB + 5)
    assert owner.free_bytes() == guest.free_bytes() == before, "it counts once"
    assert guest.do("read") == ["5", "5"]
    guest.do("write", 6)
    assert owner.do("read") == ["6", "6"]
    assert guest.tell("free")[0] == INVALID_VALUE, "not the guest's to free"
    guest.do("close")
    assert guest.tell("read")[0] != SUCCESS
    assert guest.tell("close")[0] == INVALID_VALUE
    assert guest.tell("open", "00" * 64, MIB)[0] == INVALID_HANDLE
    assert guest.tell("open", handle[:32] + "ff" * 8 + handle[48:], MIB)[0] == INVALID_HANDLE
    owner.end()
    assert guest.tell("open", handle, MIB)[0] == INVALID_HANDLE, "of a process that ended"
    guest.end()


def test_events_of_another_process():
    owner, guest = Program(), Program()
    owner.do("alloc", 1024 * MIB)
    owner.do("event")
    (handle,) = owner.do("export_event")
    guest.do("open_event", handle)
    assert guest.tell("query")[0] == SUCCESS, "never recorded"
    owner.do("work", 800)
    owner.do("record")
    status = guest.tell("query")[0]
    done = owner.tell("query")[0] == SUCCESS
    assert done or status == NOT_READY
    guest.do("device", 1)
    guest.do("wait")
    guest.do("alloc", MIB)
    guest.do("work", 1)
    guest.do("synchronize")
    assert owner.tell("query")[0] == SUCCESS, "the guest did not wait"
    guest.do("destroy_event")
    owner.do("destroy_event")
    owner.end()
    guest.end()


def test_kills_leak_nothing(kills):
    watcher = Program()
    before = watcher.free_bytes()
    for i in range(kills):
        victim = Program()
        victim.do("alloc", (1 + i % 7) * 64 * MIB)
        victim.do("write" if i % 10 == 0 else "work", 3)
        if i % 3 == 0:
            victim.do("export")
        victim.kill()
    last = Program()
    last.do("alloc", before - 600 * MIB)
    last.end()
    assert watcher.free_bytes() == before
    watcher.end()


# Tests of one way to share a device.
TEST_OF = {"fifo": "test_time_is_shared_in_order", "time-slices": "test_time_is_shared_by_slices"}


def run_tests(kills, sharing):
    """Inside `gpemu run`: the programs inherit the shims."""
    failed = 0
    for name, test in sorted(globals().items()):
        if name.startswith("test_") and (name not in TEST_OF.values() or name == TEST_OF[sharing]):
            try:
                test(kills) if name == "test_kills_leak_nothing" else test()
                print("ok", name, flush=True)
            except AssertionError as error:
                failed += 1
                line = error.__traceback__.tb_next.tb_lineno
                print(f"FAILED {name}, line {line}: {error}", flush=True)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", help="gpemu")
    parser.add_argument("program", help="share_device")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--inside", choices=sorted(TEST_OF), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        Program.path = arguments.program
        return run_tests(arguments.kills, arguments.inside)
    return max(run_policy(arguments, sharing) for sharing in sorted(TEST_OF))


def run_policy(arguments, sharing):
    print("==", sharing, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GPEMU_NODE_DIR"] = folder
        gpemu = [arguments.command]
        subprocess.run(
            gpemu + ["node", "create", NODE, "--gpu", "V100-PCIE-32GB:2", "--gpu", "RTX-4090:2",
                     "--sharing", sharing],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        inside = [sys.executable, __file__, *sys.argv[1:], "--inside", sharing]
        code = subprocess.run(
            gpemu + ["run", "--quiet", "--node", NODE, "--", *inside], check=False
        ).returncode
        shown = subprocess.run(
            gpemu + ["node", "show", NODE, "--json"], check=True, capture_output=True, text=True
        )
        for device in json.loads(shown.stdout)["devices"]:
            if device["memory_used_mib"] != 0 or device["processes"]:
                sys.exit(f"left behind: {device}")
        subprocess.run(gpemu + ["node", "rm", NODE], check=True, stdout=subprocess.DEVNULL)
        if left := list(pathlib.Path(folder).iterdir()):
            sys.exit(f"left behind: {left}")
    return code


if __name__ == "__main__":
    sys.exit(main())
