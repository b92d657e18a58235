#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that train together on real files: which samples each one gets, from which cache, and
what the others do when one of them is killed.

The processes run on this machine and reach each other over its loopback interface. With the
argument `namespaces`, each is in a network namespace of its own instead, which `gpemu cluster`
makes; that needs root, and ends with 77, which CTest calls skipped, where it is missing.

Usage: nodes_test.py GPEMU_COMMAND [namespaces]
"""

import collections
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77
COMMAND = sys.argv[1] if len(sys.argv) > 1 else "gpemu"
IN_NAMESPACES = sys.argv[2:] == ["namespaces"]
GPU, MODEL = "V100-PCIE-32GB", "alexnet"
IMAGES, BATCH = 120, 5
SECONDS = 120  # that anything may take


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class NodesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="gpemu_nodes_")
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.environment = {**os.environ, "GPEMU_NODE_DIR": str(cls.folder / "nodes")}
        cls.data = cls.folder / "data"
        cls.call("data", "make", cls.data, "--images", IMAGES, "--classes", 2, "--seed", 1)
        cls.sizes = [file.stat().st_size for file in sorted(cls.data.rglob("*.jpg"))]

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def call(cls, *arguments):
        return subprocess.run([COMMAND, *map(str, arguments)], env=cls.environment, check=True,
                              capture_output=True, text=True).stdout

    def words(self, rank, join, *options):
        return [COMMAND, "train", "files", str(self.data), "--gpu", GPU, "--model", MODEL,
                "--batch", str(BATCH), "--workers", "2", "--no-pin-memory", "--quiet", "--join",
                join, "--json", str(self.folder / f"{rank}.json"), "--log-samples",
                str(self.folder / f"{rank}.log"), *map(str, options)]

    def start(self, nodes, *options):
        """Starts the nodes of a group; returns their processes."""
        for old in (*self.folder.glob("*.json"), *self.folder.glob("*.log")):
            old.unlink()
        if IN_NAMESPACES:
            return self.start_in_namespaces(nodes, *options)
        address = f"127.0.0.1:{free_port()}"
        return [subprocess.Popen(self.words(rank, f"{rank}/{nodes}@{address}", *options),
                                 env=self.environment, stderr=subprocess.PIPE, text=True)
                for rank in range(nodes)]

    def start_in_namespaces(self, nodes, *options):
        """As `gpemu cluster run` starts them, but one by one, so that one can be killed."""
        return [subprocess.Popen(
            ["ip", "netns", "exec", f"gpemu-{CLUSTER}-{rank}",
             *self.words(rank, f"{rank}/{nodes}@10.77.0.1:29500", *options)],
            env=self.environment, stderr=subprocess.PIPE, text=True) for rank in range(nodes)]

    def finish(self, processes):
        errors = [process.communicate(timeout=SECONDS)[1] for process in processes]
        return [process.returncode for process in processes], errors

    def result(self, rank):
        return json.loads((self.folder / f"{rank}.json").read_text())

    def lines(self, rank):
        text = (self.folder / f"{rank}.log").read_text()
        # A killed node may leave a line that is not complete.
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def samples_by_epoch(self, survivors, nodes):
        """Which samples the steps had that were done, as all survivors saw them."""
        steps = [[line for line in self.lines(rank) if line["event"] == "trained"]
                 for rank in survivors]
        for others in steps[1:]:
            self.assertEqual(others, steps[0])
        prepared = {}
        for rank in range(nodes):
            for line in self.lines(rank):
                if line["event"] == "prepared":
                    # After a change of the members, a step is prepared anew.
                    prepared[line["step"], line["view"], line["node"]] = line["samples"]
        epochs = collections.defaultdict(list)
        for step in steps[0]:
            for member in step["members"]:
                part = prepared.get((step["step"], step["view"], member), [])
                epochs[step["epoch"]].append(part)
        return epochs

    def expect_each_sample_once(self, epochs):
        for epoch, parts in epochs.items():
            counts = collections.Counter(sample for part in parts for sample in part)
            self.assertEqual(sorted(counts), list(range(IMAGES)), epoch)
            self.assertEqual(set(counts.values()), {1}, epoch)

    def run_all(self, nodes, *options):
        codes, errors = self.finish(self.start(nodes, *options))
        self.assertEqual(codes, [0] * nodes, errors)
        return [self.result(rank) for rank in range(nodes)]

    def test_divides_each_epoch_among_the_nodes(self):
        results = self.run_all(3, "--epochs", 2)
        epochs = self.samples_by_epoch(range(3), 3)
        self.assertEqual(sorted(epochs), [0, 1])
        self.expect_each_sample_once(epochs)
        self.assertEqual(sum(result["images"] for result in results), 2 * IMAGES)
        self.assertIsNotNone(results[0]["data"]["nodes"])
        self.assertEqual([result["steps"] for result in results], [2 * IMAGES // BATCH // 3] * 3)

    def test_reads_from_the_caches_of_other_nodes(self):
        results = self.run_all(2, "--epochs", 3, "--cache", "minio", "--cache-share", 0.75,
                               "--peers", "partitioned", "--storage", "sata-ssd")
        for result in results:
            first, *later = result["data"]["nodes"]["epochs"]
            self.assertEqual(first["storage_reads"], IMAGES // 2)
            self.assertEqual(first["peer_reads"], 0)
            for epoch in later:
                # Together, the caches hold everything.
                self.assertEqual(epoch["storage_reads"], 0)
                self.assertEqual(epoch["cache_reads"] + epoch["peer_reads"], IMAGES // 2)
                self.assertGreater(epoch["peer_reads"], IMAGES // 8)
            self.assertEqual(result["data"]["storage"]["reads"], IMAGES // 2)
        self.expect_each_sample_once(self.samples_by_epoch(range(2), 2))

    def test_nodes_prepare_what_they_cache(self):
        options = ("--epochs", 3, "--cache", "minio", "--cache-share", 1, "--seed", 5)
        regular = self.run_all(2, *options, "--peers", "partitioned")
        batches = self.global_batches()
        local = self.run_all(2, *options, "--peers", "locality")
        # Only who prepares which sample differs: each global batch has the same samples.
        self.assertEqual(self.global_batches(), batches)
        for plain, near in zip(regular, local):
            last, plain_last = (r["data"]["nodes"]["epochs"][-1] for r in (near, plain))
            self.assertEqual(last["storage_reads"], 0)
            self.assertLess(last["peer_reads"], 0.5 * plain_last["peer_reads"])

    def global_batches(self):
        parts = self.samples_by_epoch(range(2), 2)
        return [[sorted(a + b) for a, b in zip(epoch[::2], epoch[1::2])]
                for epoch in parts.values()]

    def test_hits_of_minio_equal_the_cached_share(self):
        share = 0.4
        process = subprocess.run(self.words(0, f"0/1@127.0.0.1:{free_port()}", "--epochs", 3,
                                            "--cache", "minio", "--cache-share", share),
                                 env=self.environment, check=True)
        self.assertEqual(process.returncode, 0)
        facts = self.result(0)["data"]["nodes"]
        self.assertEqual(facts["capacity_bytes"], int(share * sum(self.sizes)))
        held = facts["epochs"][1]["cache_reads"]
        self.assertEqual(facts["epochs"][2]["cache_reads"], held)
        self.assertAlmostEqual(held / IMAGES, share, delta=0.1)

    def check_kill(self, nodes, victims, *options):
        """Kills nodes in the middle of the second epoch."""
        processes = self.start(nodes, "--epochs", 3, *options)
        log = self.folder / f"{victims[0]}.log"
        deadline = time.monotonic() + SECONDS
        while not (log.exists() and log.read_text().count('"epoch":1,') >= 6):
            for process in processes:
                self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.002)
        for victim in victims:
            processes[victim].send_signal(signal.SIGKILL)
        codes, errors = self.finish(processes)
        survivors = [rank for rank in range(nodes) if rank not in victims]
        for victim in victims:
            self.assertEqual(codes[victim], -signal.SIGKILL)
        for survivor in survivors:
            self.assertEqual(codes[survivor], 0, errors[survivor])
            self.assertIn("left", errors[survivor])
            self.assertEqual(self.result(survivor)["data"]["nodes"]["left"], len(victims))
        epochs = self.samples_by_epoch(survivors, nodes)
        self.assertEqual(sorted(epochs), [0, 1, 2])
        self.expect_each_sample_once(epochs)
        # The dead had a part in it, and the others took over the rest.
        steps = [line for line in self.lines(survivors[0]) if line["event"] == "trained"]
        members = [len(step["members"]) for step in steps if step["epoch"] == 1]
        self.assertEqual(members[0], nodes)
        self.assertEqual(members[-1], len(survivors))

    def test_loses_and_doubles_no_sample_when_a_node_is_killed(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                self.check_kill(3, [victim], "--cache", "minio", "--cache-share", 0.5, "--peers",
                                "partitioned")

    def test_goes_on_with_locality_when_a_node_is_killed(self):
        self.check_kill(3, [2], "--cache", "minio", "--cache-share", 0.5, "--peers", "locality")

    def test_one_node_of_two_or_three_goes_on_by_itself(self):
        self.check_kill(2, [0])
        self.check_kill(3, [0, 2], "--cache", "page", "--cache-share", 0.3, "--peers",
                        "partitioned")

    def test_goes_on_when_a_node_is_interrupted(self):
        processes = self.start(2, "--epochs", 200)
        log = self.folder / "1.log"
        deadline = time.monotonic() + SECONDS
        while not (log.exists() and log.read_text().count("trained") >= 5):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        processes[0].send_signal(signal.SIGINT)
        self.assertEqual(processes[0].wait(timeout=SECONDS), 130)
        while log.read_text().count('"members":[1]') < 5:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        processes[1].send_signal(signal.SIGINT)
        codes, errors = self.finish(processes)
        self.assertEqual(codes, [130, 130], errors)
        self.assertTrue(self.result(0)["stopped"])

    def test_refuses_nodes_with_other_options(self):
        if IN_NAMESPACES:
            self.skipTest("the same on the loopback interface")
        address = f"127.0.0.1:{free_port()}"
        processes = [subprocess.Popen(
            self.words(rank, f"{rank}/2@{address}", "--seed", rank), env=self.environment,
            stderr=subprocess.PIPE, text=True) for rank in range(2)]
        codes, errors = self.finish(processes)
        self.assertEqual(codes, [2, 2], errors)
        for error in errors:
            self.assertEqual(error.count("\n"), 1, error)
            self.assertIn("--seed 1", error)

    def test_says_what_is_wrong_with_options(self):
        for options, words in (
                (("--join", "nonsense"), "RANK/NODES@HOST:PORT"),
                (("--join", "cluster"), "gpemu cluster run"),
                (("--peers", "locality"), "--cache"),
                (("--cache", "minio", "--order", "sequential"), "random order"),
                (("--cache", "minio", "--read", "async"), "asynchronous"),
        ):
            environment = {k: v for k, v in self.environment.items() if k != "GPEMU_HOSTS"}
            done = subprocess.run(
                [COMMAND, "train", "files", str(self.data), "--gpu", GPU, "--model", MODEL,
                 "--batch", "5", *options], env=environment, check=False, capture_output=True,
                text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


def have_namespaces():
    if os.geteuid() != 0:
        return False
    done = subprocess.run(["unshare", "--net", "true"], check=False, stderr=subprocess.DEVNULL)
    return done.returncode == 0


if __name__ == "__main__":
    if not IN_NAMESPACES:
        unittest.main(argv=sys.argv[:1])
    if not have_namespaces():
        print("skipped: needs root, and a kernel with network namespaces")
        sys.exit(SKIPPED)
    CLUSTER = f"nodes-{os.getpid()}"
    subprocess.run([COMMAND, "cluster", "up", "--name", CLUSTER, "--nodes", "3", "--gpu", GPU,
                    "--network", "tcp:1gbit", "--rate", "1gbit"], check=True)
    try:
        unittest.main(argv=sys.argv[:1])
    finally:
        subprocess.run([COMMAND, "cluster", "down", "--name", CLUSTER], check=True)
