#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs under gpemu run --clock virtual: what they wait for takes no time, what they do
takes what it takes, and both add up to what the clocks say.

Waits last hours. A test that ends at all has skipped them. Needs no package.

Usage: shared_clock_test.py GPEMU_COMMAND
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
GPU = "V100-PCIE-32GB"

BEGIN = """
import ctypes, os, queue, select, signal, socket, subprocess, sys, threading, time
import multiprocessing
libc = ctypes.CDLL(None, use_errno=True)
HOUR = 3600
class Time(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
def in_an_hour(clock):
    end = Time()
    libc.clock_gettime(clock, ctypes.byref(end))
    end.s += HOUR
    return ctypes.byref(end)
def host_time():
    # What no library can change.
    return float(open("/proc/uptime").read().split()[0])
"""

# Each waits for an hour.
WAITS = {
    "sleep": "time.sleep(HOUR)",
    "sleep()": "assert libc.sleep(HOUR) == 0",
    "usleep": "libc.usleep(1800000000); libc.usleep(1800000000)",
    "poll": "p = select.poll(); p.register(os.pipe()[0]); assert not p.poll(HOUR * 1000)",
    "epoll": "e = select.epoll(); e.register(os.pipe()[0]); assert not e.poll(HOUR)",
    "select": "r, w = os.pipe(); assert not select.select([r], [], [], HOUR)[0]",
    "event": "assert not threading.Event().wait(HOUR)",
    "condition": ("c, m = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)\n"
                  "libc.pthread_mutex_lock(m)\n"
                  "assert libc.pthread_cond_timedwait(c, m, in_an_hour(0)) == 110"),
    "condition by clock": ("c = ctypes.create_string_buffer(64)\n"
                           "m = ctypes.create_string_buffer(64)\n"
                           "libc.pthread_mutex_lock(m)\n"
                           "assert libc.pthread_cond_clockwait(c, m, 1, in_an_hour(1)) == 110"),
    "mutex": ("m = ctypes.create_string_buffer(64)\n"
              "libc.pthread_mutex_lock(m)\n"
              "assert libc.pthread_mutex_timedlock(m, in_an_hour(0)) == 110"),
    "semaphore": "assert not multiprocessing.Semaphore(0).acquire(timeout=HOUR)",
    "queue of a child": ("q = multiprocessing.Queue()\n"
                         "def put(): time.sleep(HOUR); q.put(7)\n"
                         "c = multiprocessing.Process(target=put)\n"
                         "c.start(); assert q.get(timeout=2 * HOUR) == 7; c.join()"),
    "child": "subprocess.run(['sleep', str(HOUR)], check=True)",
    "connection": ("a, b = socket.socketpair()\n"
                   "threading.Thread(target=lambda: (time.sleep(HOUR), b.send(b'x'))).start()\n"
                   "assert a.recv(1) == b'x'"),
    "blocked signals": (
        "def wait():\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
        "    threading.Event().wait(HOUR)\n"
        "t = threading.Thread(target=wait); t.start(); t.join()"),
}

# Two ranks that hand each other a byte over TCP after each step of work on their GPUs.
RANKS = """
cuda = ctypes.CDLL("libcudart.so.12")
def rank(number, file):
    assert cuda.cudaSetDevice(number) == 0
    memory = ctypes.c_void_p()
    size = ctypes.c_size_t(1 << 30)
    assert cuda.cudaMalloc(ctypes.byref(memory), size) == 0
    steps = []
    for step in range(STEPS + 1):
        begin = time.perf_counter()
        for _ in range(LAUNCHES):
            assert cuda.cudaMemset(memory, 0, size) == 0
        assert cuda.cudaDeviceSynchronize() == 0
        file.sendall(b"x")
        assert file.recv(1) == b"x"
        steps.append(time.perf_counter() - begin)
    if number == 0:
        print(*steps[1:], flush=True)
    os._exit(0)
listener = socket.create_server(("127.0.0.1", 0))
begin = host_time()
ranks = []
for number in range(2):
    ranks.append(os.fork())
    if ranks[-1] == 0:
        if number == 0:
            rank(0, listener.accept()[0])
        rank(1, socket.create_connection(listener.getsockname()))
listener.close()
for child in ranks:
    assert os.waitpid(child, 0)[1] == 0
print(host_time() - begin)
"""


class SharedClock(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def command(self, program, *options, clock="virtual"):
        path = self.folder / "program.py"
        path.write_text(BEGIN + program, encoding="utf-8")
        return (COMMAND, "run", "--clock", clock, *(options or ("--gpu", GPU)), "--",
                sys.executable, str(path))

    def run_program(self, program, *options, clock="virtual", code=0):
        done = subprocess.run(self.command(program, *options, clock=clock), capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout, done.stderr

    def test_waits_of_an_hour_take_an_hour_of_the_clocks_and_none_of_the_hosts(self):
        for name, wait in WAITS.items():
            with self.subTest(name):
                output, _ = self.run_program(
                    "begin = time.time(), time.monotonic(), time.perf_counter()\n"
                    "begin_host = host_time()\n" + wait + "\n"
                    "end = time.time(), time.monotonic(), time.perf_counter()\n"
                    "print(*(b - a for a, b in zip(begin, end)), host_time() - begin_host)")
                *times, host = map(float, output.split())
                for time in times:
                    self.assertGreaterEqual(time, 3600)
                    self.assertLess(time - host, 3601)

    def test_steps_take_what_they_take_on_the_real_clock(self):
        program = f"STEPS, LAUNCHES = 5, 200\n{RANKS}"
        steps, host = {}, {}
        for clock in ("real", "virtual"):
            output, _ = self.run_program(program, "--gpu", f"{GPU}:2", clock=clock)
            *times, host[clock] = map(float, output.split())
            steps[clock] = min(times)
        # The least is the one that the host disturbed least; each is 0.2 s of the GPU's.
        self.assertGreater(steps["real"], 0.1)
        self.assertAlmostEqual(steps["virtual"] / steps["real"], 1, delta=0.1)
        self.assertLess(host["virtual"], host["real"])

    def test_what_the_host_does_takes_its_time(self):
        output, _ = self.run_program(
            "threading.Thread(target=time.sleep, args=(HOUR,), daemon=True).start()\n"
            "begin, used, host = time.perf_counter(), time.thread_time(), host_time()\n"
            "while time.thread_time() - used < 0.2: pass\n"
            "print(time.perf_counter() - begin, host_time() - host)\n"
            "os._exit(0)")
        elapsed, host = map(float, output.split())
        self.assertGreaterEqual(elapsed, 0.2)
        self.assertAlmostEqual(elapsed, host, delta=0.02)  # /proc/uptime counts 10 ms.

    def test_a_slower_host_takes_longer_but_not_what_it_waits_for(self):
        # A process that computes prevents skipping. Waits of 20 s last 0.2 s of this host's time.
        for name in ("sleep", "poll", "select", "event", "condition", "condition by clock",
                     "semaphore", "child", "blocked signals"):
            with self.subTest(name):
                output, _ = self.run_program(
                    "HOUR, busy = 20, os.fork()\n"
                    "while busy == 0: pass\n"
                    "begin = time.time(), time.monotonic(), time.perf_counter()\n"
                    "begin_host = host_time()\n" + WAITS[name] + "\n"
                    "end = time.time(), time.monotonic(), time.perf_counter()\n"
                    "print(*(b - a for a, b in zip(begin, end)), host_time() - begin_host)\n"
                    "os.kill(busy, signal.SIGKILL)", "--gpu", GPU, "--host-slowdown", "100")
                *times, host = map(float, output.split())
                self.assertLess(host, 10)
                for time in times:
                    self.assertGreaterEqual(time, 19.5)  # The two readings of a time may lie apart.
                    self.assertAlmostEqual(time / 100, host, delta=0.5 * host)

    def test_short_waits_for_files_are_not_longer_on_a_slower_host(self):
        # 20 waits of 1 ms. Of this host's time they would be 2 s of the node's.
        output, _ = self.run_program(
            "busy = os.fork()\n"
            "while busy == 0: pass\n"
            "e, shortest = select.epoll(), HOUR\n"
            "for _ in range(20):\n"
            "    start = time.monotonic()\n"
            "    e.poll(0.001)\n"
            "    shortest = min(shortest, time.monotonic() - start)\n"
            "print(shortest)\n"
            "os.kill(busy, signal.SIGKILL)", "--gpu", GPU, "--host-slowdown", "100")
        self.assertGreaterEqual(float(output), 0.001)
        self.assertLess(float(output), 0.09)

    def test_the_report_tells_computing_from_waiting_on_a_slower_host(self):
        self.run_program(
            "cuda = ctypes.CDLL('libcudart.so.12')\n"
            "memory, size = ctypes.c_void_p(), ctypes.c_size_t(1 << 20)\n"
            "assert cuda.cudaMalloc(ctypes.byref(memory), size) == 0\n"
            "for _ in range(20):\n"
            "    assert cuda.cudaMemset(memory, 0, size) == 0\n"
            "    used = time.thread_time()\n"
            "    while time.thread_time() - used < 0.1: pass\n",
            "--gpu", GPU, "--host-slowdown", "20", "--json", str(self.folder / "run.json"))
        (device,) = json.loads((self.folder / "run.json").read_text())["devices"]
        computing, blocked = device["idle_host_computing_ns"], device["idle_host_blocked_ns"]
        # Were CPU time the host's, it would be a twentieth; others may take most of the processors.
        self.assertGreater(computing, 0.1 * (computing + blocked))

    def test_steps_of_a_slower_host_take_what_the_gpu_does(self):
        program = f"STEPS, LAUNCHES = 5, 200\n{RANKS}"
        steps = {}
        for slowdown in ("1", "4"):
            output, _ = self.run_program(program, "--gpu", f"{GPU}:2", "--host-slowdown", slowdown)
            *times, _ = map(float, output.split())
            steps[slowdown] = min(times)
        self.assertAlmostEqual(steps["4"] / steps["1"], 1, delta=0.1)

    def test_timers_of_a_slower_host_end_at_the_times_of_its_clock(self):
        output, errors = self.run_program(
            "fired = []\n"
            "signal.signal(signal.SIGALRM, lambda *_: fired.append(time.monotonic()))\n"
            "begin = time.monotonic()\n"
            "signal.setitimer(signal.ITIMER_REAL, 10)\n"
            "print(signal.getitimer(signal.ITIMER_REAL)[0])\n"
            "signal.pause()\n"
            "print(fired[0] - begin)\n", "--gpu", GPU, "--host-slowdown", "20")
        left, elapsed = map(float, output.split())
        self.assertGreater(left, 1, errors)  # Were it the host's, it would be at most 0.5 s.
        self.assertLessEqual(left, 10)
        self.assertGreaterEqual(elapsed, 10)
        self.assertLess(elapsed, 100)  # Were 10 s of the host meant, it would be 200 s.

    def test_what_comes_from_outside_takes_its_time(self):
        process = subprocess.Popen(
            self.command("threading.Thread(target=time.sleep, args=(HOUR,), daemon=True).start()\n"
                         "print('ready', flush=True)\n"
                         "begin = time.monotonic(); sys.stdin.readline()\n"
                         "print(time.monotonic() - begin, flush=True); os._exit(0)"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.stdin.write("go\n")
            process.stdin.flush()
            self.assertLess(float(process.stdout.readline()), 3600)
            errors = process.stderr.read()
        self.assertEqual(process.returncode, 0, errors)

    def test_says_what_is_in_the_way(self):
        process = subprocess.Popen(
            self.command("threading.Thread(target=time.sleep, args=(HOUR,), daemon=True).start()\n"
                         "select.select([], [], [], 0)\n"
                         "sys.stdin.read(); os._exit(0)"),
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with process:
            # Until it waits there: state and system call of the thread that reads.
            while not self.reads_standard_input(process.pid):
                pass
            for _ in range(100):
                self.assertTrue(self.reads_standard_input(process.pid))
                subprocess.run(["true"], check=True)
            process.stdin.close()
            errors = process.stderr.read()
        self.assertIn("skipped   0.000 s in 0 skips; often prevented because python", errors)
        self.assertIn("waits for something outside the run", errors)

    def reads_standard_input(self, command):
        """Returns whether the program that a command runs reads its standard input."""
        def children(process):
            path = f"/proc/{process}/task/{process}/children"
            return [int(child) for child in pathlib.Path(path).read_text().split()]
        try:
            (warden,) = children(command)
            (program,) = children(warden)
            return pathlib.Path(f"/proc/{program}/syscall").read_text().startswith("0 0x0 ")
        except (OSError, ValueError):
            return False

    def test_timers_of_the_kernel_are_not_skipped(self):
        output, _ = self.run_program(
            "fired = []\n"
            "signal.signal(signal.SIGALRM, lambda *_: fired.append(host_time()))\n"
            "begin = host_time()\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.2)\n"
            "time.sleep(0.1); before = len(fired)\n"
            "time.sleep(HOUR)\n"
            "print(before, len(fired), fired[0] - begin)")
        before, fired, elapsed = output.split()
        self.assertEqual((before, fired), ("0", "1"))
        self.assertGreaterEqual(float(elapsed), 0.18)  # /proc/uptime counts 10 ms.

    def test_a_member_that_is_killed_is_left_out(self):
        self.run_program(
            "child = os.fork()\n"
            "if child == 0: time.sleep(HOUR); os._exit(0)\n"
            "while b'\\0' not in open(f'/proc/{child}/cmdline', 'rb').read(): pass\n"
            "os.kill(child, signal.SIGKILL); os.waitpid(child, 0)\n"
            "time.sleep(2 * HOUR)")

    def test_while_a_member_is_stopped_time_runs(self):
        output, _ = self.run_program(
            "child = os.fork()\n"
            "if child == 0: time.sleep(HOUR); os._exit(0)\n"
            "time.sleep(30)\n"  # Skipped once the child sleeps.
            "os.kill(child, signal.SIGSTOP); os.waitpid(child, os.WUNTRACED)\n"
            "begin, host = time.monotonic(), host_time()\n"
            "time.sleep(0.3)\n"
            "print(time.monotonic() - begin, host_time() - host, flush=True)\n"
            "os.kill(child, signal.SIGCONT); os.waitpid(child, 0)")
        elapsed, host = map(float, output.split())
        self.assertAlmostEqual(elapsed, host, delta=0.02)

    def test_a_program_without_the_environment_takes_its_time(self):
        output, _ = self.run_program(
            "begin = host_time()\n"
            "subprocess.run(['env', '-i', 'sleep', '0.3'], check=True)\n"
            "print(host_time() - begin)")
        self.assertGreaterEqual(float(output), 0.29)

    def test_watchers_see_the_time_of_the_node(self):
        process = subprocess.Popen(
            self.command("cuda = ctypes.CDLL('libcudart.so.12')\n"
                         "memory, size = ctypes.c_void_p(), ctypes.c_size_t(1 << 30)\n"
                         "assert cuda.cudaMalloc(ctypes.byref(memory), size) == 0\n"
                         "time.sleep(HOUR)\n"
                         "assert cuda.cudaMemset(memory, 0, size) == 0\n"
                         "assert cuda.cudaDeviceSynchronize() == 0\n"
                         "print(os.environ['GPEMU_NODE'], flush=True)\n"
                         "sys.stdin.read()"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        with process:
            node = process.stdout.readline().strip()
            shown = subprocess.run([COMMAND, "smi", node, "--json"], capture_output=True, text=True,
                                   check=False)
            process.stdin.close()
        self.assertEqual(process.returncode, 0)
        # Were it the host's time, the work would lie an hour ahead.
        (device,) = json.loads(shown.stdout)
        self.assertEqual(device["utilization_compute"], 0)

    def test_the_summary_tells_what_was_skipped(self):
        _, errors = self.run_program("time.sleep(HOUR)")
        skipped = re.search(r"^skipped +([0-9.]+) s in ([0-9]+) skips$", errors, re.MULTILINE)
        self.assertIsNotNone(skipped, errors)
        self.assertLessEqual(float(skipped[1]), 3600)
        self.assertGreater(float(skipped[1]), 3590)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    unittest.main(verbosity=2)
