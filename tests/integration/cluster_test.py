#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clusters of emulated hosts: their names, network and GPUs, NCCL across them, and what is left.

Needs root and network namespaces; ends with 77 where they are missing, which CTest calls skipped.

Usage: cluster_test.py GPEMU_COMMAND NCCL CUDART
"""

import ctypes
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
NAME = f"test-{os.getpid()}"
HOSTS, GPUS = 2, 2
SECONDS = 120  # that anything may take
BYTES = int(os.environ.get("TEST_BYTES", 64 << 20))  # that ranks reduce
FLOAT32, SUM, REMOTE_ERROR = 7, 0, 6  # of NCCL
NOT_READY = 600  # of the CUDA runtime


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def checked(status, what):
    assert status == 0, f"{what}: {status}"


# ---- Programs that run on each host


def say(line):
    """Prints a line at once, so that it is not mixed with another host's."""
    os.write(1, f"{line}\n".encode())


def exchanged_id(nccl, host, hosts):
    """The unique id, which the first host makes."""
    identity = Id()
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if host == 0:
        checked(nccl.ncclGetUniqueId(ctypes.byref(identity)), "id")
        with socket.create_server(address) as server:
            for _ in range(hosts - 1):
                with server.accept()[0] as other:
                    other.sendall(bytes(identity))
        return identity
    while True:
        try:
            with socket.create_connection(address) as first:
                return Id.from_buffer_copy(first.recv(128, socket.MSG_WAITALL))
        except ConnectionRefusedError:
            time.sleep(0.01)


def moved_bytes():
    """What the host's interface has received and sent."""
    lines = pathlib.Path("/proc/net/dev").read_text().splitlines()
    (counts,) = [line.split(":")[1] for line in lines if line.strip().startswith("eth0:")]
    numbers = [int(number) for number in counts.split()]
    return numbers[0], numbers[8]


def sent_bytes():
    return moved_bytes()[1]


def rank_program(nccl, runtime):
    """A rank on each GPU of the host, in one process.

    Prints the microseconds of an all-reduce, and the bytes that the host sent meanwhile.
    """
    host, hosts = int(os.environ["GPEMU_HOST_RANK"]), int(os.environ["GPEMU_HOSTS"])
    nccl, runtime = ctypes.CDLL(nccl), ctypes.CDLL(runtime)
    count = ctypes.c_int()
    checked(runtime.cudaGetDeviceCount(ctypes.byref(count)), "count")
    assert count.value == GPUS, count
    identity = exchanged_id(nccl, host, hosts)
    comms = [ctypes.c_void_p() for _ in range(GPUS)]
    streams = [ctypes.c_void_p() for _ in range(GPUS)]
    buffers = [ctypes.c_void_p() for _ in range(GPUS)]
    words = [ctypes.c_void_p() for _ in range(GPUS)]
    checked(nccl.ncclGroupStart(), "group")
    for gpu in range(GPUS):
        checked(runtime.cudaSetDevice(gpu), "device")
        rank = host * GPUS + gpu
        checked(
            nccl.ncclCommInitRank(ctypes.byref(comms[gpu]), hosts * GPUS, identity, rank), "init"
        )
    checked(nccl.ncclGroupEnd(), "group")
    for gpu in range(GPUS):
        checked(runtime.cudaSetDevice(gpu), "device")
        checked(runtime.cudaStreamCreate(ctypes.byref(streams[gpu])), "stream")
        checked(runtime.cudaMalloc(ctypes.byref(buffers[gpu]), ctypes.c_size_t(BYTES)), "malloc")
        checked(runtime.cudaMalloc(ctypes.byref(words[gpu]), ctypes.c_size_t(4)), "malloc")
        number = ctypes.c_int(10 ** (host * GPUS + gpu))
        checked(runtime.cudaMemcpy(words[gpu], ctypes.byref(number), ctypes.c_size_t(4), 1), "copy")
    events = [ctypes.c_void_p(), ctypes.c_void_p()]
    checked(runtime.cudaSetDevice(0), "device")
    for event in events:
        checked(runtime.cudaEventCreate(ctypes.byref(event)), "event")

    def all_reduce(where, count, data_type):
        checked(nccl.ncclGroupStart(), "group")
        for gpu in range(GPUS):
            checked(
                nccl.ncclAllReduce(
                    where[gpu], where[gpu], ctypes.c_size_t(count), data_type, SUM, comms[gpu],
                    streams[gpu],
                ),
                "all-reduce",
            )
        checked(nccl.ncclGroupEnd(), "group")

    all_reduce(words, 1, 2)
    sent = sent_bytes()
    checked(runtime.cudaEventRecord(events[0], streams[0]), "record")
    all_reduce(buffers, BYTES // 4, FLOAT32)
    checked(runtime.cudaEventRecord(events[1], streams[0]), "record")
    for gpu in range(GPUS):
        checked(runtime.cudaSetDevice(gpu), "device")
        checked(runtime.cudaStreamSynchronize(streams[gpu]), "wait")
        number = ctypes.c_int()
        checked(runtime.cudaMemcpy(ctypes.byref(number), words[gpu], ctypes.c_size_t(4), 2), "copy")
        assert number.value == 1111, number
    say(f"sent {sent_bytes() - sent}")
    took = ctypes.c_float()
    checked(runtime.cudaEventElapsedTime(ctypes.byref(took), *events), "elapsed")
    say(f"took {took.value * 1000:.3f}")
    for comm in comms:
        checked(nccl.ncclCommDestroy(comm), "destroy")


def transfer_program(count):
    """The first host receives bytes from the second one, and prints how long that takes."""
    address = (os.environ["MASTER_ADDR"], 5001)
    if os.environ["GPEMU_HOST_RANK"] == "0":
        with socket.create_server(address) as server, server.accept()[0] as other:
            start = time.monotonic()
            left = count
            while left > 0:
                left -= len(other.recv(1 << 16))
            say(f"took {time.monotonic() - start:.6f}")
        return
    while True:
        try:
            with socket.create_connection(address) as first:
                assert first.getsockname()[0] == "10.77.0.2", first.getsockname()
                first.sendall(bytes(count))
            return
        except ConnectionRefusedError:
            time.sleep(0.01)


def rank_and_transfer_program(nccl, runtime):
    """A rank program while the second host sends to the first one."""
    download = subprocess.Popen(
        [sys.executable, __file__, "--transfer", str(100_000_000)], stdout=subprocess.DEVNULL
    )
    while max(moved_bytes()) < 1 << 20:
        time.sleep(0.01)
    rank_program(nccl, runtime)
    # It has not ended yet: it takes 8 s alone.
    assert download.poll() is None
    download.kill()
    download.wait()


def lonely_program(nccl, runtime):
    """The second host ends in the middle of an all-reduce; the first one gets an error, aborts and
    then waits for nothing."""
    nccl, runtime = ctypes.CDLL(nccl), ctypes.CDLL(runtime)
    host, hosts = int(os.environ["GPEMU_HOST_RANK"]), int(os.environ["GPEMU_HOSTS"])
    identity = exchanged_id(nccl, host, hosts)
    comm, stream, buffer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    checked(nccl.ncclCommInitRank(ctypes.byref(comm), hosts, identity, host), "init")
    checked(runtime.cudaStreamCreate(ctypes.byref(stream)), "stream")
    checked(runtime.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(BYTES)), "malloc")
    before = sent_bytes()
    checked(
        nccl.ncclAllReduce(
            buffer, buffer, ctypes.c_size_t(BYTES // 4), FLOAT32, SUM, comm, stream
        ),
        "all-reduce",
    )
    if host == 1:
        # 64 MiB take more than 5 s.
        while sent_bytes() < before + (1 << 20):
            time.sleep(0.01)
        os._exit(0)
    error = ctypes.c_int()
    while error.value == 0:
        checked(nccl.ncclCommGetAsyncError(comm, ctypes.byref(error)), "error")
        time.sleep(0.01)
    assert error.value == REMOTE_ERROR, error
    assert runtime.cudaStreamQuery(stream) == NOT_READY
    checked(nccl.ncclCommAbort(comm), "abort")
    checked(runtime.cudaStreamSynchronize(stream), "wait")
    say("told")


# ---- The test


class Test:
    def __init__(self, command, nccl, runtime, folder):
        self.command, self.nccl, self.runtime = command, nccl, runtime
        self.environment = {**os.environ, "GPEMU_NODE_DIR": str(folder / "nodes")}

    def gpemu(self, *words, expected=0, **environment):
        done = subprocess.run(
            [self.command, *words],
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == expected, f"{words}: {done.returncode}\n{done.stderr}"
        return done.stdout

    def up(self, *words):
        return self.gpemu(
            "cluster", "up", "--name", NAME, "--nodes", str(HOSTS), "--gpu",
            f"A100-SXM4-80GB:{GPUS}", *words,
        )

    def run(self, *words, expected=0, **environment):
        return self.gpemu(
            "cluster", "run", "--name", NAME, "--quiet", "--", *words, expected=expected,
            **environment,
        )

    def down(self):
        self.gpemu("cluster", "down", "--name", NAME)
        spaces = pathlib.Path("/run/netns")
        left = [*spaces.glob(f"gpemu-{NAME}*")] if spaces.exists() else []
        left += [*pathlib.Path("/run/gpemu").glob(f"{NAME}.*")]
        left += [*pathlib.Path(self.environment["GPEMU_NODE_DIR"]).glob("*")]
        assert not left, left

    def printed(self, name, *words, **environment):
        """The numbers after a name in what a program of this file prints."""
        text = self.run(sys.executable, __file__, *words, **environment)
        return [float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} ")]

    def took(self, *words, **environment):
        return self.printed("took", *words, **environment)

    # ---- Cases

    def hosts_have_names_and_gpus(self):
        self.up("--network", "rdma:200gbit")
        names = self.run("hostname").split()
        assert sorted(names) == [f"{NAME}-{host}" for host in range(HOSTS)], names
        text = self.run("sh", "-c", 'echo "$GPEMU_HOST_RANK $GPEMU_DEVICES"')
        assert sorted(text.splitlines()) == ["0 0-1", "1 2-3"], text
        # They know each other's names, and nothing else is there.
        other = f'ping_ok=$(getent hosts {NAME}-1) && echo "$ping_ok"'
        assert self.run("sh", "-c", other).split().count("10.77.0.2") == HOSTS
        # The exit code of the host that fails.
        self.run("sh", "-c", "exit $((3 * GPEMU_HOST_RANK))", expected=3)
        self.down()

    def nccl_takes_the_network_between_hosts(self):
        program = ("--rank", self.nccl, self.runtime)
        times = {}
        for network in ("rdma:200gbit", "tcp:10gbit"):
            self.up("--network", network)
            times[network] = self.took(*program)
            if network == "tcp:10gbit":
                # The same four ranks on one host, as far as NCCL knows.
                times["inside"] = self.took(*program, NCCL_HOSTID="one")
            self.down()
        # The last host that arrives does not wait for another one.
        for name, took in times.items():
            assert len(took) == HOSTS, (name, took)
            times[name] = min(took)
        # An all-reduce is as fast as what joins the ranks.
        assert times["inside"] < times["rdma:200gbit"] < times["tcp:10gbit"], times
        # Whatever the algorithm, each of two hosts sends as many bytes as there are to reduce.
        assert times["tcp:10gbit"] >= BYTES * 8 / 10e3, times
        print(f"all-reduce of {BYTES >> 20} MiB, in us: {times}")

    def the_real_network_is_as_slow_as_asked(self):
        self.up("--network", "rdma:200gbit", "--rate", "100mbit")
        (took,) = self.took("--transfer", str(5_000_000))
        # What the bucket holds passes at once.
        assert took >= (5_000_000 - 2 * 400_000) * 8 / 100e6, took
        print(f"5 MB over 100 mbit: {took:.2f} s")
        self.down()

    def collectives_cross_the_real_network(self):
        program = ("--rank", self.nccl, self.runtime)
        small = {"TEST_BYTES": str(4 << 20)}
        sent = {}
        for network in ("tcp:100mbit", "real"):
            self.up("--network", network, "--rate", "100mbit")
            text = self.run(sys.executable, __file__, *program, **small)
            lines = [line.split() for line in text.splitlines()]
            sent[network] = [float(number) for name, number in lines if name == "sent"]
            took = [float(number) for name, number in lines if name == "took"]
            if network == "real":
                # Ranks that NCCL takes to be on one host do not use it.
                sent["inside"] = self.printed("sent", *program, NCCL_HOSTID="one", **small)
            self.down()
        # Whatever the algorithm, each of two hosts sends as many bytes as there are to reduce.
        assert len(took) == HOSTS and len(sent["real"]) == HOSTS, (took, sent)
        assert min(sent["real"]) >= 4 << 20, sent
        for network in ("tcp:100mbit", "inside"):
            assert max(sent[network]) < 1 << 20, sent
        # What the buckets of sender and receiver hold passes at once.
        assert min(took) >= ((4 << 20) - 2 * 400_000) * 8 / 100, took
        print(f"4 MiB over 100 mbit, in us: {took}; bytes sent: {sent}")

    def others_share_the_real_network(self):
        """A download beside a collective: what both send takes its time."""
        self.up("--network", "real", "--rate", "100mbit")
        lines = {}
        for program in ("--rank", "--rank-and-transfer"):
            text = self.run(
                sys.executable, __file__, program, self.nccl, self.runtime,
                TEST_BYTES=str(8 << 20),
            )
            lines[program] = sorted(text.splitlines())
        self.down()
        numbers = {
            program: [float(line.split()[1]) for line in lines[program]] for program in lines
        }
        # Two lines with what hosts have sent, and two with what the collective took.
        alone, both = (max(numbers[program][:HOSTS]) for program in numbers)
        took = min(numbers["--rank-and-transfer"][HOSTS:])
        assert both > alone + 20_000, numbers
        assert took >= (both - 2 * 400_000) * 8 / 100, numbers
        print(f"8 MiB over 100 mbit, alone and beside a download: {lines}")

    def a_host_that_dies_is_noticed(self):
        self.up("--network", "real", "--rate", "100mbit")
        text = self.run(sys.executable, __file__, "--lonely", self.nccl, self.runtime)
        self.down()
        assert text.splitlines() == ["told"], text

    def a_delay_is_real_or_refused(self):
        words = ("--network", "real", "--delay", "20ms")
        made = subprocess.run(
            [
                self.command, "cluster", "up", "--name", NAME, "--nodes", str(HOSTS), "--gpu",
                "T4:1", *words,
            ],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            assert "--delay needs netem" in made.stderr, made.stderr
            assert not [*pathlib.Path("/run/netns").glob(f"gpemu-{NAME}*")]
            print("this kernel has no netem")
            return
        (took,) = self.took("--transfer", "1")
        assert took >= 0.02, took
        self.down()

    def nothing_is_left_of_a_killed_run(self):
        self.up("--network", "rdma:200gbit")
        run = subprocess.Popen(
            [self.command, "cluster", "run", "--name", NAME, "--quiet", "--", "sleep", "1234.5"],
            env=self.environment,
        )

        def sleeping():
            found = subprocess.run(
                ["pgrep", "-fc", "^sleep 1234.5"], capture_output=True, check=False
            )
            return int(found.stdout)

        self.wait_until(lambda: sleeping() == HOSTS)
        run.send_signal(signal.SIGKILL)
        run.wait()
        self.wait_until(lambda: sleeping() == 0)
        # `down` ends what still runs, too.
        run = subprocess.Popen(
            [self.command, "cluster", "run", "--name", NAME, "--quiet", "--", "sleep", "1234.5"],
            env=self.environment,
        )
        self.wait_until(lambda: sleeping() == HOSTS)
        self.down()
        assert run.wait(SECONDS) == 128 + signal.SIGTERM, run.returncode
        assert sleeping() == 0

    @staticmethod
    def wait_until(condition):
        end = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.02)


def can_make_namespaces():
    if os.geteuid() != 0:
        return False
    tried = subprocess.run(
        ["unshare", "--net", "--uts", "--mount", "sh", "-c", "ip link add type veth && hostname x"],
        capture_output=True,
        check=False,
    )
    return tried.returncode == 0


def main():
    if sys.argv[1] == "--rank":
        return rank_program(*sys.argv[2:])
    if sys.argv[1] == "--transfer":
        return transfer_program(int(sys.argv[2]))
    if sys.argv[1] == "--rank-and-transfer":
        return rank_and_transfer_program(*sys.argv[2:])
    if sys.argv[1] == "--lonely":
        return lonely_program(*sys.argv[2:])
    if not can_make_namespaces():
        print("this machine lets nobody make network namespaces")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        test = Test(*sys.argv[1:4], pathlib.Path(folder))
        try:
            for case in (
                test.hosts_have_names_and_gpus,
                test.nccl_takes_the_network_between_hosts,
                test.the_real_network_is_as_slow_as_asked,
                test.collectives_cross_the_real_network,
                test.others_share_the_real_network,
                test.a_host_that_dies_is_noticed,
                test.a_delay_is_real_or_refused,
                test.nothing_is_left_of_a_killed_run,
            ):
                case()
                print(f"ok {case.__name__}", flush=True)
        finally:
            subprocess.run(
                [test.command, "cluster", "down", "--name", NAME],
                env=test.environment,
                capture_output=True,
                check=False,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
