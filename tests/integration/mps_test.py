#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MPS: its programs, what clients may use, faults, and sudden deaths.

Usage: mps_test.py GPEMU_COMMAND SHARE_DEVICE_PROGRAM [--kills N]
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

GIB, MIB = 2**30, 2**20
NODE = "mps"
SUCCESS, OUT_OF_MEMORY, NOT_READY, ILLEGAL_ADDRESS = 0, 2, 600, 700
CONNECTION_FAILED, RPC_FAILURE, SERVER_NOT_READY, MAX_CLIENTS, TERMINATED = 805, 806, 807, 808, 810
# Of a V100-PCIE-32GB. Source: catalog/gpus/V100-PCIE-32GB.toml.
MULTIPROCESSORS = 80
# The kernel that uses an illegal address. Tests of faults count the kernels before it.
FAULTS = """
[[fault]]
kind = "illegal-address"
gpu = 1
at_kernel = 3
"""

# The kernels begin when all are queued, so that a busy host leaves no gaps between them. The first
# one is not measured: the end of the host function may be noticed late.
MEASURE = """
import ctypes, threading
cuda, blas = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libcublas.so.12")
count = ctypes.c_int()
assert cuda.cudaDeviceGetAttribute(ctypes.byref(count), 16, 0) == 0
SIZE = 4096
memory, handle, one = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float(1)
begin, end = ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(3 * 4 * SIZE * SIZE)) == 0
assert blas.cublasCreate_v2(ctypes.byref(handle)) == 0
for event in (begin, end):
    assert cuda.cudaEventCreate(ctypes.byref(event)) == 0
a, b, c = (ctypes.c_void_p(memory.value + i * 4 * SIZE * SIZE) for i in range(3))
queued = threading.Event()
wait = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: queued.wait() and None)
assert cuda.cudaLaunchHostFunc(None, wait, None) == 0
for i in range(11):
    assert blas.cublasSgemm_v2(handle, 0, 0, SIZE, SIZE, SIZE, ctypes.byref(one), a, SIZE, b, SIZE,
                               ctypes.byref(one), c, SIZE) == 0
    if i == 0:
        assert cuda.cudaEventRecord(begin, None) == 0
assert cuda.cudaEventRecord(end, None) == 0
queued.set()
assert cuda.cudaEventSynchronize(end) == 0
took = ctypes.c_float()
assert cuda.cudaEventElapsedTime(ctypes.byref(took), begin, end) == 0
print(count.value, took.value)
"""

PROCESSES = """
import ctypes, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")
class Info(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong),
                ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]
assert nvml.nvmlInit_v2() == 0
device = ctypes.c_void_p()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
for kind in ("MPSCompute", "Compute"):
    count, infos = ctypes.c_uint(100), (Info * 100)()
    function = getattr(nvml, f"nvmlDeviceGet{kind}RunningProcesses_v3")
    assert function(device, ctypes.byref(count), infos) == 0
    print(*(infos[i].pid for i in range(count.value)))
"""


class Program:
    """A running CUDA program that is told what to do."""

    path = ""

    def __init__(self, **variables):
        self.process = subprocess.Popen(
            [Program.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {name: str(value) for name, value in variables.items()},
        )
        self.pid = self.process.pid

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

    def status_of(self, *words):
        return self.tell(*words)[0]

    def fails_with(self, status):
        """Returns whether calls fail with a status, soon."""
        return eventually(lambda: self.status_of("synchronize") == status)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


def eventually(condition, seconds=20):
    """Returns whether a condition holds within a time. Only a failure takes that long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def control(*commands, code=0):
    """Gives the daemon commands and returns its answers."""
    done = subprocess.run(
        ["nvidia-cuda-mps-control"], input="\n".join(commands) + "\n", text=True,
        capture_output=True, check=False,
    )
    assert done.returncode == code, (commands, done)
    return done.stdout


@contextlib.contextmanager
def daemon():
    """A control daemon, which ends in the end."""
    subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True)
    try:
        yield
    finally:
        # It may have ended already.
        subprocess.run(["nvidia-cuda-mps-control"], input="quit -t 1\n", text=True, check=False,
                       stderr=subprocess.DEVNULL)


def server():
    """Returns the pid of the server."""
    assert eventually(lambda: control("get_server_list").split()), "no server"
    return control("get_server_list").split()[0]


def status():
    return control(f"get_server_status {server()}").strip()


def measure(**variables):
    """Returns how many multiprocessors a process sees, and how long its kernels take."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], check=True, capture_output=True, text=True,
        env=os.environ | {name: str(value) for name, value in variables.items()},
    )
    count, took = done.stdout.split()
    return int(count), float(took)


def test_without_a_daemon_nothing_changes():
    done = subprocess.run(
        ["nvidia-cuda-mps-control"], input="get_server_list\n", text=True, capture_output=True,
        check=False,
    )
    assert done.returncode == 1 and "Cannot find MPS control daemon process" in done.stderr, done
    assert measure(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=10)[0] == MULTIPROCESSORS


def test_the_daemon_starts_a_server_for_the_first_client():
    pipe = pathlib.Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
    with daemon():
        assert int((pipe / "nvidia-cuda-mps-control.pid").read_text()) > 0
        again = subprocess.run(
            ["nvidia-cuda-mps-control", "-d"], capture_output=True, text=True, check=False)
        assert again.returncode == 1 and "already running" in again.stderr, again
        assert control("get_server_list") == ""
        first, second = Program(), Program()
        first.do("info")
        second.do("info")
        assert status() == "ACTIVE"
        pids = {str(first.pid), str(second.pid)}
        assert set(control(f"get_client_list {server()}").split()) == pids
        lines = control("ps").splitlines()
        assert lines[0].split() == ["PID", "ID", "SERVER", "DEVICE", "NAMESPACE", "COMMAND"]
        assert {line.split()[0] for line in lines[1:]} == pids, lines
        assert all(line.split()[2] == server() for line in lines[1:]), lines
        device, *users = control("get_device_client_list").splitlines()
        assert device.startswith("[0] 00:00.0, ") and set(users) == {f"{pid}.1" for pid in pids}
        third = Program()
        shown = subprocess.run(
            [sys.executable, "-c", PROCESSES], capture_output=True, text=True, check=True)
        clients, others = (set(line.split()) for line in shown.stdout.splitlines())
        assert clients == pids and not others, (shown.stdout, pids)
        first.kill()
        assert eventually(lambda: set(control(f"get_client_list {server()}").split())
                          == {str(second.pid)}), "the server does not notice a death"
        second.do("alloc", MIB)
        second.do("work", 1)
        second.end()
        third.end()
    assert not (pipe / "control").exists()
    logs = pathlib.Path(os.environ["CUDA_MPS_LOG_DIRECTORY"])
    assert "Starting new server" in (logs / "control.log").read_text()
    assert "Server has started" in (logs / "server.log").read_text()


def test_commands_that_are_wrong_say_so():
    with daemon():
        for wrong in ("sing", "get_server_status", "get_server_status 1", "start_server",
                      "start_server -uid x", "set_default_active_thread_percentage 0",
                      "set_default_active_thread_percentage 101", "quit -t soon",
                      "set_default_device_pinned_mem_limit 0 much", "sm_partition add x 1",
                      "lspart"):
            assert control(wrong, code=1).strip(), wrong
        assert "terminate_client" in control("help")
    for option in ("-S", "-x"):
        done = subprocess.run(
            ["nvidia-cuda-mps-control", option], capture_output=True, text=True, check=False)
        assert done.returncode == 1 and done.stderr, done
    done = subprocess.run(["nvidia-cuda-mps-server"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "nvidia-cuda-mps-control" in done.stderr, done


def test_percentages_limit_multiprocessors():
    whole = measure()
    assert whole[0] == MULTIPROCESSORS
    with daemon():
        for percentage in (10, 12.5, 33, 50, 99, 100):
            count, took = measure(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=percentage)
            assert count == int(MULTIPROCESSORS * percentage / 100) // 2 * 2, (percentage, count)
            # By the speed of its kernels, a client has as many.
            assert abs(whole[1] / took * MULTIPROCESSORS - count) <= 2, (percentage, took)
        assert control("get_default_active_thread_percentage") == "100.0\n"
        running = server()
        assert control(f"set_active_thread_percentage {running} 50") == "50.0\n"
        assert control(f"get_active_thread_percentage {running}") == "50.0\n"
        assert measure()[0] == MULTIPROCESSORS // 2
        wider = measure(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=80)
        assert wider[0] == MULTIPROCESSORS // 2, "only tighter"
        control("set_default_active_thread_percentage 25")
        assert measure()[0] == MULTIPROCESSORS // 2, "of the next server only"
    with daemon():
        control("set_default_active_thread_percentage 25")
        assert measure()[0] == MULTIPROCESSORS // 4 // 2 * 2, "in pairs"
        wrong = Program(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="half")
        assert wrong.status_of("info") != SUCCESS, "a value that is none"
        wrong.end()


def test_clients_run_side_by_side():
    alone = measure()[1]
    # As long as all that begin together run together.
    count = 2
    with daemon():
        half = measure(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50)[1]
        variables = os.environ | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}
        both = [subprocess.Popen([sys.executable, "-c", MEASURE], stdout=subprocess.PIPE, text=True,
                                 env=variables) for _ in range(count)]
        for process in both:
            took = float(process.communicate()[0].split()[1])
            assert abs(took / half - 1) < 1e-3, "two halves of a GPU do not disturb each other"
    assert half > 1.9 * alone


def test_memory_is_limited():
    with daemon():
        limited, other = Program(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=2G"), Program()
        free, total = map(int, limited.do("info"))
        assert total > 30 * GIB, "the limit shows in what is free"
        assert 2 * GIB - free > 100 * MIB, "CUDA's own memory counts"
        assert limited.status_of("alloc", free + MIB) == OUT_OF_MEMORY
        limited.do("alloc", free)
        assert int(limited.do("info")[0]) == 0
        assert int(other.do("info")[1]) > 30 * GIB
        other.do("alloc", 10 * GIB)
        assert control(f"set_device_pinned_mem_limit {server()} 0 1G") == ""
        assert control(f"get_device_pinned_mem_limit {server()} 0") == "1024M\n"
        third = Program(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=2G")
        assert GIB / 2 < int(third.do("info")[0]) < GIB, "the stricter one"
        for program in (limited, other, third):
            program.end()


def test_sixty_clients_and_no_more():
    with daemon():
        clients = [Program() for _ in range(60)]
        for client in clients:
            client.do("info")
        last = Program()
        assert last.status_of("info") == MAX_CLIENTS
        clients.pop().end()
        assert eventually(lambda: last.status_of("info") == SUCCESS), "a client has ended"
        for client in [*clients, last]:
            client.do("alloc", MIB)
            client.do("work", 1)
        for client in [*clients, last]:
            client.do("synchronize")
            client.end()


def test_a_fault_of_one_client_ends_all_on_its_gpu():
    with daemon():
        first, second, other = Program(), Program(), Program()
        for program in (first, second):
            program.do("device", 1)
            program.do("alloc", MIB)
            program.do("work", 1)
            program.do("synchronize")
        other.do("alloc", MIB)
        first.do("work", 1)
        assert first.fails_with(ILLEGAL_ADDRESS)
        assert second.fails_with(ILLEGAL_ADDRESS), "it shares the GPU"
        other.do("work", 1)
        other.do("synchronize")
        assert status() == "FAULT"
        late = Program()
        assert late.status_of("info") == SERVER_NOT_READY
        first.kill()
        assert late.status_of("info") == SERVER_NOT_READY, "one that the fault has reached is left"
        second.end()
        assert eventually(lambda: status() == "ACTIVE")
        late.do("info")
        late.end()
        other.end()


def test_a_client_can_be_terminated():
    with daemon():
        victim, other = Program(), Program()
        for program in (victim, other):
            program.do("alloc", GIB)
        victim.do("work", 100_000)
        assert control(f"terminate_client {server()} {victim.pid}") == ""
        assert victim.fails_with(TERMINATED)
        other.do("work", 1)
        other.do("synchronize")
        assert status() == "ACTIVE"
        assert control(f"terminate_client {server()} 1", code=1)
        victim.end()
        other.end()


def test_servers_and_daemons_may_die():
    with daemon():
        client, other = Program(), Program()
        client.do("alloc", GIB)
        client.do("work", 100_000)
        os.kill(int(server()), signal.SIGKILL)
        assert client.fails_with(RPC_FAILURE)
        other.do("info")  # On a new server.
        pid = int(pathlib.Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"],
                               "nvidia-cuda-mps-control.pid").read_text())
        os.kill(pid, signal.SIGKILL)
        other.do("alloc", MIB)
        other.do("work", 1)
        other.do("synchronize")
        client.kill()
        plain = Program(CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=2G")
        assert int(plain.do("info")[1]) > 30 * GIB, "there is no daemon any more"
        plain.end()
        other.end()
    with daemon():
        assert control("get_server_list") == "", "one can start in the same folder"


def test_quit_waits_for_clients_unless_told_otherwise():
    with daemon():
        client = Program()
        client.do("info")
        quitting = subprocess.Popen(["nvidia-cuda-mps-control"], stdin=subprocess.PIPE, text=True)
        print("quit", file=quitting.stdin, flush=True)
        late = Program()
        assert eventually(lambda: late.status_of("info") in (SERVER_NOT_READY, SUCCESS))
        late.end()
        client.do("alloc", MIB)
        client.do("work", 1)
        client.do("synchronize")
        client.end()
        quitting.stdin.close()
        assert quitting.wait() == 0
    with daemon():
        client = Program()
        client.do("info")
        control("quit -t 0")
        assert client.fails_with(RPC_FAILURE)
        client.end()


def test_strange_messages_do_no_harm():
    path = os.environ["CUDA_MPS_PIPE_DIRECTORY"] + "/control"

    def connect():
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(path)
        return connection

    with daemon():
        random = os.urandom(1000)
        for text in (b"x", b"hello\n\n", random, b"hello\nmachine x\n\n", b"command\n\n",
                     b"client\npid 1\n\n", b"command\n\nps " + b"x" * 60_000):
            with connect() as connection:
                connection.send(text)
        silent = [connect() for _ in range(600)]
        client = Program()
        client.do("info")
        # A stopped server delays nobody who computes.
        os.kill(int(server()), signal.SIGSTOP)
        assert "does not answer" in control(f"get_client_list {server()}", code=1)
        client.do("alloc", MIB)
        client.do("work", 1)
        client.do("synchronize")
        os.kill(int(server()), signal.SIGCONT)
        assert eventually(lambda: control(f"get_client_list {server()}") == f"{client.pid}\n")
        client.end()
        for connection in silent:
            connection.close()
        assert status() == "ACTIVE"


def test_a_stopped_server_does_not_stop_the_daemon():
    path = os.environ["CUDA_MPS_PIPE_DIRECTORY"] + "/control"
    with daemon():
        client = Program()
        client.do("info")
        first = server()
        os.kill(int(first), signal.SIGSTOP)
        # As the first message of a client of this node. More than the server's socket takes.
        node = os.stat(pathlib.Path(os.environ["GPEMU_NODE_DIR"], NODE))
        hello = f"hello\nmachine {node.st_dev}:{node.st_ino}:\n\n".encode()
        connections = []
        for _ in range(400):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.connect(path)
            connection.settimeout(60)
            connection.send(hello)
            connections.append(connection)
        answers = [connection.recv(4096) for connection in connections[-100:]]
        for answer in answers:
            assert answer == f"refused\nstatus {SERVER_NOT_READY}\n\n".encode(), answer
        assert control("get_server_list").split() == [first]
        assert "does not answer" in control(f"get_client_list {first}", code=1)
        for connection in connections:
            connection.close()
        control("quit -t 1")
        assert not pathlib.Path("/proc", first).exists()
        client.kill()


def test_a_stopped_daemon_is_not_waited_for():
    with daemon():
        pid = int(pathlib.Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"],
                               "nvidia-cuda-mps-control.pid").read_text())
        os.kill(pid, signal.SIGSTOP)
        done = subprocess.run(["nvidia-cuda-mps-control"], input="ps\n", text=True, check=False,
                              capture_output=True)
        os.kill(pid, signal.SIGCONT)
        assert done.returncode == 1 and "is it stopped?" in done.stderr, done


def test_kills_leave_nothing(kills):
    with daemon():
        survivor = Program()
        before = int(survivor.do("info")[0])
        survivor.do("alloc", GIB)
        for i in range(kills):
            victim = Program()
            if i % 4 > 0:
                victim.do("alloc", (1 + i % 7) * 64 * MIB)
            if i % 4 > 1:
                victim.do("work", 100_000)
            victim.kill()
            survivor.do("work", 1)
            survivor.do("synchronize")
        assert eventually(lambda: control(f"get_client_list {server()}").split()
                          == [str(survivor.pid)])
        survivor.do("free")
        assert int(survivor.do("info")[0]) == before
        survivor.end()


def run_tests(kills, chosen):
    """Inside `gpemu run`: the programs inherit the shims."""
    failed = 0
    for name, test in sorted(globals().items()):
        if not name.startswith("test_") or not re.search(chosen, name):
            continue
        try:
            test(kills) if name == "test_kills_leave_nothing" else test()
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
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only", default="", help="a pattern of the tests' names")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        Program.path = arguments.program
        return run_tests(arguments.kills, arguments.only)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["GPEMU_NODE_DIR"] = str(folder / "nodes")
        os.environ["CUDA_MPS_PIPE_DIRECTORY"] = str(folder / "pipe")
        os.environ["CUDA_MPS_LOG_DIRECTORY"] = str(folder / "log")
        (folder / "faults.toml").write_text(FAULTS)
        gpemu = [arguments.command]
        subprocess.run(
            gpemu + ["node", "create", NODE, "--gpu", "V100-PCIE-32GB:2", "--faults",
                     folder / "faults.toml"],
            check=True, stdout=subprocess.DEVNULL,
        )
        inside = [sys.executable, __file__, *sys.argv[1:], "--inside"]
        code = subprocess.run(
            gpemu + ["run", "--quiet", "--node", NODE, "--", *inside], check=False
        ).returncode
        shown = subprocess.run(
            gpemu + ["node", "show", NODE, "--json"], check=True, capture_output=True, text=True
        )
        for device in json.loads(shown.stdout)["devices"]:
            if device["memory_used_mib"] != 0 or device["processes"]:
                sys.exit(f"left behind: {device}")
    return code


if __name__ == "__main__":
    sys.exit(main())
