#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs of tables as real pods, which run on emulated GPUs: their mean JCT is that of the simulation
within 5 %, for AlloX's jobs and for the two classes of jobs of GPEmu's study of Muri.

Usage: tests/cluster/replay_test.py --installation FOLDER --program PROGRAM [unittest's options]

FOLDER: where gpemu alone is installed, from the preset `package`. PROGRAM: gpemu-kubernetes, from
another preset. Three kubelets: AlloX's fifteen machines are the GPUs of two nodes, four of one kind
and eleven of another; the third has one GPU that up to four pods share.
"""

import argparse
import csv
import pathlib
import subprocess
import sys
import unittest

import cluster
import image

FOLDER = pathlib.Path("/var/tmp/gpemu-replay-test")
OPTIONS = argparse.Namespace(installation="/opt/gpemu", program="gpemu-kubernetes")
FAST, SLOW, SHARED = "A100-SXM4-40GB", "V100-PCIE-32GB", "P100-PCIE-16GB"
FLEETS = {"n1": f"{FAST}:4", "n2": f"{SLOW}:11", "n3": SHARED}
SHARING = {"n3": ["--replicas", "4"]}
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
        plugin = f"{OPTIONS.program} device-plugin --installation {OPTIONS.installation} --gpu"
        shared = "--replicas 4 --resource nvidia.com/gpu.shared"
        cases = " ".join(cls.case(plugin, node, shared) for node in FLEETS)
        cls.cluster = cluster.Cluster(FOLDER, nodes=len(FLEETS),
                                      on_node=[f"sh -c 'case $NODE_NAME in {cases} esac'"])
        cls.cluster.up()
        cls.addClassCleanup(cls.cluster.down)
        cls.kinds = {}
        for node, gpus in FLEETS.items():
            labels = cls.gpemu("labels", "--gpu", gpus, *SHARING.get(node, ())).splitlines()
            cls.kubectl("label", "node", node, *labels)
            cls.kinds[node] = next(label.partition("=")[2] for label in labels
                                   if label.startswith("nvidia.com/gpu.product="))

    @staticmethod
    def case(plugin, node, shared):
        return f"{node}) exec {plugin} {FLEETS[node]} {shared if node in SHARING else ''};;"

    @classmethod
    def words(cls, command, *options):
        """The words of a command of gpemu-kubernetes, which is in the network of the cluster."""
        net = f"--net=/proc/{cluster.first_process(FOLDER)}/ns/net"
        kubeconfig = () if command == "labels" else ("--kubeconfig", FOLDER / "kubeconfig")
        return [str(word) for word in ("nsenter", net, OPTIONS.program, command, *kubeconfig,
                                       *options)]

    @classmethod
    def gpemu(cls, command, *options):
        done = subprocess.run(cls.words(command, *options), capture_output=True, text=True,
                              timeout=SECONDS, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        return done.stdout

    @classmethod
    def kubectl(cls, *words):
        return subprocess.run([*cluster.kubectl_words(FOLDER), *words], check=True, text=True,
                              stdout=subprocess.PIPE, timeout=60).stdout

    def use(self, *nodes):
        """Lets pods run on these nodes alone; returns a table of them."""
        for node in FLEETS:
            self.kubectl("uncordon" if node in nodes else "cordon", node)
        fleet = FOLDER / "servers.csv"
        write_rows(fleet, [("server", "gpu", "gpus"), *(
            (node, self.kinds[node], FLEETS[node].partition(":")[2] or 1) for node in nodes)])
        return fleet

    def replay(self, policy, speed, jobs, fleet, *options):
        """Returns the rows of a replay's table of jobs, and prints what it says."""
        per_job = FOLDER / "per-job.csv"
        with (FOLDER / "scheduler.log").open("ab") as log:
            scheduler = subprocess.Popen(self.words("scheduler", "--policy", policy, "--speed",
                                                    speed), stdout=log, stderr=log)
        try:
            said = self.gpemu("replay", "--policy", policy, "--speed", speed, "--jobs", jobs,
                              "--fleet", fleet, "--image", image.name_of("bookworm"),
                              "--per-job", per_job, *options)
        finally:
            scheduler.terminate()
            scheduler.wait(60)
        print(f"{policy}, at {speed} times the speed:\n{said}", flush=True)
        return read_rows(per_job)

    def start_s(self, fleet, count, *options):
        """How long a pod takes beside its job: to be bound, to start and to be known to have
        ended. It is measured with so many that start together, twice."""
        jobs = FOLDER / "start.csv"
        write_rows(jobs, [("job", "arrival_s", "gpus", "duration_s"), *(
            (f"{wave}-{i}", wave * 20, 1, 5) for wave in range(2) for i in range(count))])
        rows = self.replay("fifo", 1, jobs, fleet, *options)
        times = [float(row["end_s"]) - float(row["arrival_s"]) - 5 for row in rows]
        return sum(times) / len(times)

    def compare(self, policy, speed, jobs, fleet, *options):
        rows = self.replay(policy, speed, jobs, fleet, *options)
        jct = [[float(row[end]) - float(row["arrival_s"]) for row in rows]
               for end in ("end_s", "simulated_end_s")]
        self.assertAlmostEqual(sum(jct[0]) / sum(jct[1]), 1, delta=MOST_OFF, msg=policy)
        return sum(jct[0]) / len(rows)

    def test_allox(self):
        fleet = self.use("n1", "n2")
        source = cluster.ROOT / "experiments/allox"
        names = {"e-gpu": self.kinds["n1"], "cpu": self.kinds["n2"]}
        speeds = FOLDER / "speeds.csv"
        write_rows(speeds, [("model", "gpu", "speed"), *(
            (row["model"], names[row["gpu"]], row["speed"])
            for row in read_rows(source / "speeds.csv"))])
        # Fifteen pods that start together hold each other up: it matters little if jobs are long.
        # It matters most under equal-share, where a job that misses a fast GPU by a moment takes
        # a slow one for six times as long.
        speeds_of = {"drf-fifo": 0.5, "drf-sjf": 0.5, "equal-share": 0.25, "allox": 0.5}
        start_s = self.start_s(fleet, 4)
        print(f"a pod takes {start_s:.2f} s beside its job", flush=True)
        jct = {policy: self.compare(policy, speed, source / "jobs.csv", fleet, "--speeds", speeds,
                                    "--restart", f"{speed * start_s:.2f}")
               for policy, speed in speeds_of.items()}
        self.assertLess(jct["allox"], jct["drf-sjf"])
        self.assertLess(jct["drf-sjf"], jct["drf-fifo"])

    def start_with_evictions_s(self, fleet, *options):
        """As start_s, of pods on one GPU, two of which are evicted."""
        jobs = FOLDER / "evicted.csv"
        durations = (30, 5, 5)  # The shorter ones come while the first one runs.
        write_rows(jobs, [("job", "arrival_s", "gpus", "duration_s"), *(
            (i, arrival_s, 1, duration_s)
            for i, (arrival_s, duration_s) in enumerate(zip((0, 8, 25), durations)))])
        rows = self.replay("srtf", 1, jobs, fleet, *options)
        starts = len(rows) + sum(int(row["evictions"]) for row in rows)
        self.assertEqual(starts, 5)
        return (max(float(row["end_s"]) for row in rows) - sum(durations)) / starts

    def test_muri(self):
        fleet = self.use("n3")
        shared = ("--resource", "nvidia.com/gpu.shared")
        start_s = self.start_with_evictions_s(fleet, *shared)
        print(f"a pod takes {start_s:.2f} s beside its job", flush=True)
        jobs = cluster.ROOT / "experiments/muri/two-classes.csv"
        jct = {policy: self.compare(policy, 1, jobs, fleet, "--restart", f"{start_s:.2f}", *shared)
               for policy in ("srtf", "muri-s")}
        self.assertLess(jct["muri-s"], jct["srtf"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], add_help=False)
    for name in ("--installation", "--program"):
        parser.add_argument(name, type=lambda name: str(pathlib.Path(name).resolve()),
                            default=vars(OPTIONS)[name.strip("-")])
    options, rest = parser.parse_known_args()
    vars(OPTIONS).update(vars(options))
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
