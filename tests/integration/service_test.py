#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Remote preprocessing by processes that call each other over gRPC: which samples training gets
while workers come, go and are killed. Ends with 77, which CTest calls skipped, without gRPC.

Usage: service_test.py GPEMU_COMMAND
"""

import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import grpc_caller  # noqa: E402

SKIPPED = 77
COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
GPU, MODEL = "V100-PCIE-32GB", "alexnet"
IMAGES, BATCH = 60, 4
SECONDS = 120  # that anything may take


class ServiceTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="gpemu_service_")
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.environment = {**os.environ, "GPEMU_NODE_DIR": str(cls.folder / "nodes")}
        cls.data = cls.folder / "data"
        subprocess.run([COMMAND, "data", "make", cls.data, "--images", str(IMAGES), "--quiet"],
                       check=True)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def setUp(self):
        self.processes = []
        self.dispatcher, line = self.start("data", "dispatch", self.data, "--listen", "127.0.0.1:0")
        self.address = line.split(" at ")[1].split(";")[0]

    def tearDown(self):
        for process in self.processes:
            process.kill()
            process.communicate()

    def start(self, *words):
        """Starts a process; returns it and the line with which it says that it is ready."""
        process = subprocess.Popen([COMMAND, *map(str, words)], env=self.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        line = process.stdout.readline()
        self.assertTrue(line, line or process.stderr.read())
        return process, line

    def start_worker(self, *words):
        return self.start("data", "work", self.address, "--workers", 1, *words)[0]

    def train(self, name, *words):
        process = subprocess.Popen(
            [COMMAND, "train", "service", self.address, "--gpu", GPU, "--model", MODEL, "--batch",
             str(BATCH), "--no-pin-memory", "--quiet", "--json",
             str(self.folder / f"{name}.json"), "--log-samples", str(self.folder / f"{name}.log"),
             *map(str, words)],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def finish(self, process, name):
        _, errors = process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0, errors)
        return json.loads((self.folder / f"{name}.json").read_text())

    def received(self, *names):
        """How often each sample came, by epoch."""
        epochs = collections.defaultdict(collections.Counter)
        for name in names:
            for line in (self.folder / f"{name}.log").read_text().splitlines():
                batch = json.loads(line)
                epochs[batch["epoch"]].update(batch["samples"])
        return epochs

    def expect_each_sample_once(self, epochs, count):
        self.assertEqual(sorted(epochs), list(range(count)))
        for counts in epochs.values():
            self.assertEqual(sorted(counts), list(range(IMAGES)))
            self.assertEqual(set(counts.values()), {1})

    def wait_for_batches(self, name, count):
        log = self.folder / f"{name}.log"
        deadline = time.monotonic() + SECONDS
        while not log.exists() or log.read_text().count("\n") < count:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)

    def test_trains_on_what_workers_prepare(self):
        for _ in range(2):
            self.start_worker()
        result = self.finish(self.train("run", "--epochs", 2), "run")
        self.assertEqual(result["images"], 2 * IMAGES)
        self.assertEqual([epoch["images"] for epoch in result["epochs"]], [IMAGES, IMAGES])
        self.assertEqual(result["data"]["images"], IMAGES)
        self.assertEqual(result["data"]["service"]["workers_seen"], 2)
        self.assertEqual(result["data"]["service"]["workers_lost"], 0)
        self.assertEqual(result["data"]["bytes_read"], 2 * result["data"]["bytes"])
        self.expect_each_sample_once(self.received("run"), 2)

    def test_loses_and_doubles_nothing_when_workers_die_and_join(self):
        first = self.start_worker()
        second = self.start_worker()
        run = self.train("kill", "--epochs", 8)
        self.wait_for_batches("kill", 20)
        first.send_signal(signal.SIGKILL)
        self.wait_for_batches("kill", 40)
        self.start_worker()
        self.wait_for_batches("kill", 50)
        second.send_signal(signal.SIGKILL)
        result = self.finish(run, "kill")
        self.assertEqual(result["data"]["service"]["workers_seen"], 3)
        self.assertEqual(result["data"]["service"]["workers_lost"], 2)
        self.expect_each_sample_once(self.received("kill"), 8)

    def test_waits_for_the_first_worker(self):
        run = self.train("late")
        time.sleep(0.3)
        self.assertIsNone(run.poll())
        self.start_worker()
        self.finish(run, "late")
        self.expect_each_sample_once(self.received("late"), 1)

    def test_a_worker_that_is_interrupted_says_what_it_did(self):
        worker = self.start_worker()
        self.finish(self.train("end"), "end")
        worker.send_signal(signal.SIGINT)
        output, errors = worker.communicate(timeout=SECONDS)
        self.assertEqual(worker.returncode, 0, errors)
        self.assertEqual(output, f"prepared {IMAGES} images, sent {IMAGES // BATCH} batches\n")

    def test_jobs_are_apart_unless_they_have_one_name(self):
        for _ in range(2):
            self.start_worker()
        for name in ("one", "two"):
            self.finish(self.train(name), name)
            self.expect_each_sample_once(self.received(name), 1)
        runs = [self.train(name, "--epochs", 3, "--job", "both") for name in ("left", "right")]
        for run, name in zip(runs, ("left", "right")):
            self.finish(run, name)
        self.expect_each_sample_once(self.received("left", "right"), 3)

    def test_says_what_is_wrong(self):
        self.dispatcher.kill()
        self.dispatcher.communicate()
        for words, text in (
                (("train", "service", self.address, "--gpu", GPU, "--model", MODEL),
                 "does not answer"),
                (("train", "service", self.address, "--gpu", GPU, "--model", MODEL,
                  "--workers", 2), "--workers"),
                (("train", "service", self.address, "--gpu", GPU, "--model", MODEL,
                  "--strict-images"), "--strict-images"),
                (("data", "work", self.address), "does not answer"),
                (("data", "dispatch", self.folder / "nothing"), "nothing"),
                (("data", "dispatch", self.data, "--listen", "127.0.0.1"), "HOST:PORT"),
                (("data", "dispatch", self.data, "--listen", "127.0.0.1:99999"), "65535"),
                (("data", "work", "127.0.0.1:70000"), "65535"),
                (("data", "work", "127.0.0.1:0"), "from 1"),
                (("data", "work", self.address, "--listen", ":5"), "HOST:PORT"),
                (("train", "service", "here", "--gpu", GPU, "--model", MODEL), "HOST:PORT"),
                (("data", "dispatch", self.data, "--listen", "192.0.2.1:1"), "cannot listen"),
        ):
            done = subprocess.run([COMMAND, *map(str, words)], env=self.environment, check=False,
                                  capture_output=True, text=True, timeout=SECONDS)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(text, done.stderr)

    def test_callers_that_do_not_ask_keep_nobody_waiting(self):
        self.start_worker()
        callers = []
        for i in range(100):
            caller = grpc_caller.Caller(self.address)
            callers.append(caller)
            if i % 4 > 0:
                caller.begin("/gpemu.DataService/Follow")
            if i % 4 > 1:
                caller.send(b"\0\0")  # The beginning of a message's size.
            if i % 4 > 2:
                caller.send(b"\0\0\4abc")
        self.finish(self.train("among", "--patience", 20), "among")
        for caller in callers:
            caller.close()

    def test_refuses_messages_that_are_too_large_before_they_come(self):
        for size, status in ((1500 << 20, 1), ((1 << 20) + 1, 1), (3, 9)):
            caller = grpc_caller.Caller(self.address)
            caller.begin("/gpemu.DataService/Join")
            caller.send(grpc_caller.message(b"abc", size), last=size == 3)
            # 1: cancelled; 9: an error of the dispatcher, to which the message says nothing.
            self.assertEqual(caller.status(), status, size)
            caller.close()

    def test_a_signal_ends_each_wait(self):
        worker = self.start_worker("--patience", 10 * SECONDS)
        run = self.train("stopped", "--epochs", 100000, "--patience", 10 * SECONDS)
        self.wait_for_batches("stopped", 5)
        self.dispatcher.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        for process, code in ((run, 130), (worker, 0)):
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=SECONDS)
            self.assertEqual(process.returncode, code, errors)

    def test_a_stopped_worker_is_not_waited_for(self):
        stopped = self.start_worker()
        run = self.train("half", "--epochs", 30, "--patience", 4)  # More than it sends ahead.
        self.wait_for_batches("half", 2)
        stopped.send_signal(signal.SIGSTOP)
        self.start_worker()
        result = self.finish(run, "half")
        # On a busy machine, the other one may keep it waiting as long.
        self.assertGreaterEqual(result["data"]["service"]["workers_lost"], 1)
        self.expect_each_sample_once(self.received("half"), 30)

    def test_a_run_ends_with_its_dispatcher(self):
        self.start_worker()
        run = self.train("alone", "--epochs", 100000, "--patience", 2)
        self.wait_for_batches("alone", 5)
        self.dispatcher.kill()
        _, errors = run.communicate(timeout=SECONDS)
        self.assertEqual(run.returncode, 9, errors)
        self.assertIn("does not answer", errors)


if __name__ == "__main__":
    probe = subprocess.run([COMMAND, "data", "work", "127.0.0.1:1", "--listen", "192.0.2.1:1"],
                           check=False, capture_output=True, text=True)
    if "lacks" in probe.stderr:
        print("skipped: this build has no gRPC")
        sys.exit(SKIPPED)
    unittest.main()
