#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills gpemu run, at any moment and in any state, and looks for processes of its program that are
left: there is none. What a program leaves when it ends by itself lives on.

Needs no CUDA program: the program is a shell with children, some in sessions of their own.

Usage: run_kill_test.py GPEMU_COMMAND
"""

import contextlib
import fcntl
import os
import pathlib
import pty
import random
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
GPU = "V100-PCIE-32GB"
ROUNDS = 40

# A child, one that ignores what it may ignore, one in a session of its own, and daemons: their
# parents have ended.
TREE = """
sleep 1000 &
(trap '' TERM HUP INT; exec sleep 1000) &
setsid sleep 1000 &
(setsid sh -c 'sleep 1000 & sleep 1000' &)
echo ready
wait
"""

# Says which signals it gets. It waits for them without handlers: one that came right before
# signal.pause() would be handled only after the next one.
SIGNALS = """
import signal, sys
signals = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
print("ready", flush=True)
while True:
    number = signal.sigwait(signals)
    print(number.name, flush=True)
    if number == signal.SIGTERM:
        sys.exit(7)
"""


def eventually(condition):
    """Waits until a condition holds; the time limit is that of a test that has hung."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False


class RunKillTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="gpemu_run_kill_test_")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "tmp").mkdir()
        # Every process of a test has the mark in its environment.
        self.mark = f"GPEMU_TEST_MARK={self.folder.name}"
        name, value = self.mark.split("=")
        self.environment = {**os.environ, name: value, "TMPDIR": str(self.folder / "tmp"),
                            "GPEMU_NODE_DIR": str(self.folder / "nodes")}
        self.addCleanup(self.kill_all)

    def marked(self):
        """Returns the processes of this test that have not ended."""
        found = []
        for folder in pathlib.Path("/proc").iterdir():
            if not folder.name.isdigit() or int(folder.name) == os.getpid():
                continue
            try:
                ended = (folder / "stat").read_text().rpartition(") ")[2].startswith("Z")
                if not ended and self.mark.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:  # Gone, or another user's.
                pass
        return found

    def kill_all(self):
        for process in self.marked():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def start(self, *words, command="run", options=("--gpu", GPU)):
        # A group, not a session of its own: without a parent in its session, none of it would stop.
        return subprocess.Popen([COMMAND, command, *options, "--", *words], env=self.environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True, process_group=0)

    def end(self, process):
        code = process.wait()
        process.stdout.close()
        return code

    def expect_nothing_left(self, when):
        self.assertTrue(eventually(lambda: not self.marked()), f"{when}: {self.marked()} live")

    def warden_of(self, process):
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        [warden] = map(int, children.split())
        return warden

    def test_leaves_nothing_whenever_it_is_killed(self):
        moments = random.Random(13)
        # How long a start takes here, to hit all of it.
        begin = time.monotonic()
        process = self.start("sh", "-c", "true")
        self.assertEqual(self.end(process), 0)
        span = time.monotonic() - begin
        for _ in range(ROUNDS):
            moment = moments.uniform(0, 1.5) * span
            process = self.start("sh", "-c", TREE)
            time.sleep(moment)
            process.kill()
            self.end(process)
            self.expect_nothing_left(f"killed after {moment:.4f} s")

    def test_leaves_nothing_when_it_is_killed_while_all_are_stopped(self):
        process = self.start("sh", "-c", TREE)
        self.assertEqual(process.stdout.readline(), "ready\n")
        self.assertTrue(eventually(lambda: len(self.marked()) == 9), self.marked())
        for one in self.marked():
            os.kill(one, signal.SIGSTOP)
        process.kill()
        self.end(process)
        self.expect_nothing_left("killed while stopped")

    def test_leaves_nothing_when_its_warden_is_killed(self):
        process = self.start("sh", "-c", TREE)
        self.assertEqual(process.stdout.readline(), "ready\n")
        os.kill(self.warden_of(process), signal.SIGKILL)
        self.assertEqual(self.end(process), 128 + signal.SIGKILL)
        self.expect_nothing_left("its warden killed")

    def test_predict_leaves_nothing_either(self):
        process = self.start("sh", "-c", TREE + "exec sleep 1000", command="predict")
        self.assertTrue(eventually(lambda: len(self.marked()) >= 9), self.marked())
        process.kill()
        self.end(process)
        self.expect_nothing_left("predict killed")

    def test_what_a_program_leaves_lives_on(self):
        process = self.start("sh", "-c", "setsid sleep 1000 & exit 3", options=("--gpu", GPU))
        self.assertEqual(process.wait(), 3)
        self.assertTrue(eventually(lambda: len(self.marked()) == 1), self.marked())
        self.kill_all()
        process.stdout.close()

    def test_leaves_children_alone_that_a_shell_had_before(self):
        script = (f"sleep 1000 & exec {COMMAND} run --quiet --gpu {GPU} -- "
                  "sh -c 'echo ready; sleep 1000'")
        process = subprocess.Popen(["sh", "-c", script], env=self.environment, text=True,
                                   stdout=subprocess.PIPE, start_new_session=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        sleeper, warden = map(int, children.split())
        os.kill(warden, signal.SIGKILL)
        self.assertEqual(process.wait(), 128 + signal.SIGKILL)
        self.assertTrue(eventually(lambda: self.marked() == [sleeper]), self.marked())
        self.kill_all()
        process.stdout.close()

    def test_gives_each_signal_to_the_program_once(self):
        terminal, other_end = pty.openpty()
        process = subprocess.Popen(
            [COMMAND, "run", "--quiet", "--gpu", GPU, "--", sys.executable, "-c", SIGNALS],
            env=self.environment, stdin=other_end, stdout=subprocess.PIPE, text=True,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.addCleanup(os.close, terminal)
        os.close(other_end)
        self.assertEqual(process.stdout.readline(), "ready\n")
        os.write(terminal, b"\x03")  # Ctrl-C, to the whole group.
        self.assertEqual(process.stdout.readline(), "SIGINT\n")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.stdout.readline(), "SIGUSR1\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.stdout.readline(), "SIGINT\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), "SIGTERM\n")
        self.assertEqual(self.end(process), 7)

    def test_stops_and_continues_with_its_group(self):
        process = self.start(sys.executable, "-c", SIGNALS)
        self.assertEqual(process.stdout.readline(), "ready\n")
        warden = self.warden_of(process)
        os.killpg(process.pid, signal.SIGTSTP)
        stopped = lambda: os.waitid(os.P_PID, process.pid,
                                    os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        self.assertTrue(eventually(stopped))
        os.killpg(process.pid, signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.stdout.readline(), "SIGTERM\n")
        self.assertEqual(self.end(process), 7)
        self.assertFalse(pathlib.Path(f"/proc/{warden}").exists())

    @unittest.skipUnless(os.geteuid() == 0, "a namespace of processes needs root")
    def test_is_the_first_process_of_a_container(self):
        process = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", COMMAND, "run",
             "--quiet", "--gpu", GPU, "--", "sh", "-c", TREE + "exit 5"],
            env=self.environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        [first] = map(int, pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
                      .read_text().split())
        os.kill(first, signal.SIGTERM)  # Passed on to the shell, which ends by it.
        self.assertEqual(self.end(process), 128 + signal.SIGTERM)
        self.expect_nothing_left("container ended")


if __name__ == "__main__":
    unittest.main()
