#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of tables as real jobs of Slurm (tests/cluster/slurm_cluster.py), which run on emulated GPUs
and which `gpemu-slurm schedule` starts and requeues: their mean JCT is that of the simulation
within 5 %, for AlloX's jobs and for the two classes of jobs of GPEmu's study of Muri.

Usage: tests/cluster/slurm_replay_test.py [--build FOLDER] [unittest's options]

AlloX's fifteen machines are the GPUs of two nodes, four of one kind and eleven of another; a third
node, in a partition of its own, has one GPU that up to four jobs share.
"""

import argparse
import contextlib
import csv
import pathlib
import re
import statistics
import subprocess
import sys
import unittest

import slurm_cluster
from slurm_cluster import LAB

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPTIONS = argparse.Namespace(build="build/dev")
DESCRIPTION = """
[[nodes]]
names = "n1"
gpus = ["A100-SXM4-40GB:4"]

[[nodes]]
names = "n2"
gpus = ["V100-PCIE-32GB:11"]

[[nodes]]
names = "n3"
gpus = ["P100-PCIE-16GB"]
shards = 4
limit_shards = false
"""
PARTITIONS = """
PartitionName=allox Nodes=n[1-2] State=UP
PartitionName=muri Nodes=n3 State=UP
"""
TYPES = {"e-gpu": "a100", "cpu": "v100"}  # Slurm's names of AlloX's kinds of machines.
SECONDS = 900  # that a replay may take
MOST_OFF = 0.05


def write_rows(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def read_rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


class Replay(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm_cluster.SlurmCluster(OPTIONS.build, DESCRIPTION)
        with (LAB / "slurm.conf").open("a") as file:
            file.write(PARTITIONS)
        cls.addClassCleanup(cls.cluster.down)
        cls.cluster.up()
        cls.folder = LAB / "replay"
        cls.folder.mkdir()

    @contextlib.contextmanager
    def scheduler(self, *options):
        """Schedules in the meantime."""
        with (LAB / "schedule.log").open("w") as log:
            process = subprocess.Popen([self.cluster.gpemu_slurm, "schedule", *options],
                                       stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            code = process.wait(60)
        self.assertEqual(code, 0, self.logged())

    def logged(self):
        return (LAB / "schedule.log").read_text()

    def replay(self, policy, speed, jobs, partition, *options):
        """Returns the rows of a replay's table of jobs, and prints what it says."""
        per_job = LAB / "per-job.csv"
        shared = [str(word) for word in ("--partition", partition, "--policy", policy, "--speed",
                                         speed, "--folder", self.folder)]
        with self.scheduler(*shared):
            done = subprocess.run(
                [self.cluster.gpemu_slurm, "replay", *shared, "--jobs", jobs, "--per-job", per_job,
                 *options], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logged())
        print(f"{policy}, at {speed} times the speed:\n{done.stdout}", flush=True)
        self.assertEqual(list(self.folder.glob("replay-*")), [])
        return read_rows(per_job)

    def start_s(self, gpus, *where):
        """How long a job takes of Slurm beside what it runs: to be released, to start and to be
        known to have ended. As in a full cluster: one job on each GPU at once, then two others on
        each when an earlier one has ended, at different times."""
        jobs = LAB / "start.csv"
        lengths = [3 + 0.4 * i for i in range(gpus)] + [4] * (2 * gpus)
        write_rows(jobs, [("job", "arrival_s", "gpus", "duration_s"),
                          *((i, 0, 1, length) for i, length in enumerate(lengths))])
        ends = [float(row["end_s"]) for row in self.replay("fifo", 1, jobs, *where)]
        begins = [0] * gpus + sorted(ends)[:2 * gpus]
        times = [end - begin - length for begin, end, length in zip(begins, ends, lengths)]
        start_s = statistics.median(times)
        print(f"a job takes {start_s:.2f} s beside what it runs ({min(times):.2f} to "
              f"{max(times):.2f})", flush=True)
        return start_s

    def compare(self, policy, speed, jobs, partition, *options):
        rows = self.replay(policy, speed, jobs, partition, *options)
        jct = [[float(row[end]) - float(row["arrival_s"]) for row in rows]
               for end in ("end_s", "simulated_end_s")]
        self.assertAlmostEqual(sum(jct[0]) / sum(jct[1]), 1, delta=MOST_OFF, msg=policy)
        return sum(jct[0]) / len(rows)

    def test_allox(self):
        source = ROOT / "experiments/allox"
        speeds = LAB / "speeds.csv"
        write_rows(speeds, [("model", "gpu", "speed"), *(
            (row["model"], TYPES[row["gpu"]], row["speed"])
            for row in read_rows(source / "speeds.csv"))])
        speed = 1
        start_s = self.start_s(15, "allox")
        jct = {policy: self.compare(policy, speed, source / "jobs.csv", "allox", "--speeds", speeds,
                                    "--restart", f"{speed * start_s:.2f}")
               for policy in ("drf-fifo", "drf-sjf", "equal-share", "allox")}
        self.assertLess(jct["allox"], jct["drf-sjf"])
        self.assertLess(jct["drf-sjf"], jct["drf-fifo"])

    def submit(self, comment, *options):
        """Returns the number of a job that needs a GPU of the partition muri for a second after
        its first start, which ends by a signal alone."""
        script = LAB / "job.sh"
        script.write_text('#!/bin/sh\nexec sleep $((${SLURM_RESTART_COUNT:-0} ? 1 : 600))\n')
        return self.cluster.run("sbatch", "--parsable", "-p", "muri", "--gres=gpu:1", "-o",
                                "/dev/null", f"--comment={comment}", *options, script).strip()

    def shown(self, job, field):
        text = self.cluster.run("scontrol", "show", "job", job)
        found = re.search(rf"\b{field}=(.*?)(?= \w+=|$)", text, re.M)
        return found[1].strip() if found else ""

    def is_in(self, job, state):
        return lambda: self.shown(job, "JobState") == state

    def test_jobs_of_users(self):
        eventually, options = self.cluster.eventually, ("--partition", "muri", "--policy", "srtf")
        with self.scheduler(*options):
            long = self.submit('{"seconds": 600}', "--hold", "--requeue")
            eventually(self.is_in(long, "RUNNING"))
        with self.scheduler(*options):  # Another one knows what runs.
            short = self.submit('{"seconds": 2}', "--requeue")  # It is not held.
            eventually(self.is_in(short, "RUNNING"))
            self.assertEqual(self.shown(long, "JobState"), "PENDING")
            for comment, words, more in (
                    ('{"second": 1}', 'the unknown key "second"', ()),
                    # As a line of squeue that shows another job.
                    ('{}\n99\x1fRUNNING\x1fmuri\x1froot\n', "its comment is no JSON", ()),
                    ("", "no node has more than 1", ("--gres=gpu:2",)),
                    ("", "does not support job arrays", ("--array=1-2",))):
                job = self.submit(comment, *more, "--hold")
                eventually(lambda job=job, words=words: words in self.shown(job, "AdminComment"))
                self.cluster.run("scancel", job)
            self.cluster.run("scancel", short)
            eventually(self.is_in(long, "COMPLETED"))
            self.assertEqual(self.shown(long, "Restarts"), "1")
            # What must not be requeued runs on.
            kept = self.submit('{"seconds": 600}', "--hold", "--no-requeue")
            eventually(self.is_in(kept, "RUNNING"))
            short = self.submit('{"seconds": 2}', "--hold")
            eventually(lambda: f"job {kept}: scontrol: " in self.logged())
            self.assertEqual(self.shown(kept, "JobState"), "RUNNING")
            self.cluster.run("scancel", kept)
            eventually(self.is_in(short, "RUNNING"))
            self.cluster.run("scancel", short)

    def start_with_requeues_s(self, partition):
        """As start_s, of jobs on one GPU, two of which are requeued."""
        jobs = LAB / "requeued.csv"
        durations = (30, 5, 5)  # The shorter ones come while the first one runs.
        write_rows(jobs, [("job", "arrival_s", "gpus", "duration_s"), *(
            (i, arrival_s, 1, duration_s)
            for i, (arrival_s, duration_s) in enumerate(zip((0, 8, 25), durations)))])
        rows = self.replay("srtf", 1, jobs, partition)
        starts = len(rows) + sum(int(row["evictions"]) for row in rows)
        self.assertEqual(starts, 5)
        start_s = (max(float(row["end_s"]) for row in rows) - sum(durations)) / starts
        print(f"a job takes {start_s:.2f} s for each start beside what it runs", flush=True)
        return start_s

    def test_muri(self):
        start_s = self.start_with_requeues_s("muri")
        jobs = ROOT / "experiments/muri/two-classes.csv"
        jct = {policy: self.compare(policy, 1, jobs, "muri", "--restart", f"{start_s:.2f}")
               for policy in ("srtf", "muri-s")}
        self.assertLess(jct["muri-s"], jct["srtf"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", default=OPTIONS.build, metavar="FOLDER")
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    OPTIONS.build = str(pathlib.Path(OPTIONS.build).resolve())
    if lines := slurm_cluster.missing():
        sys.exit("slurm_replay_test: this machine cannot run it:\n  " + "\n  ".join(lines))
    slurm_cluster.enter("replay")
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
