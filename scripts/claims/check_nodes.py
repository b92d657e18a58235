#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the caches of several nodes that train on real files: network namespaces that are joined
by TCP, each with a disk of a twelfth of the rates of catalog/storage/hdd.toml: the nodes share
the cores of this machine, which must not be what limits three of them.

For one, two and three nodes, trains for three epochs on the same images and takes the last one:
* page: each node has a cache that gives up the least recently used, as the page cache does;
* minio: each node keeps what it read first;
* coordl: the same, and nodes read from each other's caches;
* ladl: the same, and nodes prepare what they cache.

Prints the images per second, and the speed-up over `page` with as many nodes. Exits with 1 if the
pattern of CoorDL's paper is missed: a gain on one node, which grows with the nodes, and by far the
largest where all caches together hold everything; LADL gains as much, and reads less from other
nodes. Source of the pattern: GPEmu, VLDB 2025, artifact: plots/rep/dist/coordl and locality.

Then kills a node in the middle, and counts the samples of the epoch: each must be in one step.

Usage: scripts/claims/check_nodes.py [--gpemu COMMAND] [--images N] (as root; takes some minutes)
"""

import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

import claim_options

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU, MODEL = "V100-PCIE-32GB", "alexnet"
BATCH = 8
SHARE = 0.4  # of the data set that one node can cache: three nodes can cache it all
EPOCHS = 3
SLOWER = 12
HDD = tomllib.loads((ROOT / "catalog/storage/hdd.toml").read_text())
DISK = f"""name = "slow-hdd"
title = "the disk of catalog/storage/hdd.toml, {SLOWER} times slower"
access_ms = {SLOWER * HDD["access_ms"]}
access_depth = {HDD["access_depth"]}
access_by_depth = {HDD["access_by_depth"]}
mb_per_s = {HDD["mb_per_s"] / SLOWER}
source = "hdd"

[sources]
hdd = "catalog/storage/hdd.toml"
"""
VARIANTS = {
    "page": ("--cache", "page"),
    "minio": ("--cache", "minio"),
    "coordl": ("--cache", "minio", "--peers", "partitioned"),
    "ladl": ("--cache", "minio", "--peers", "locality"),
}


class Cluster:
    """The nodes: hosts of `gpemu cluster`."""

    def __init__(self, gpemu, nodes, folder):
        self.gpemu, self.nodes, self.folder = gpemu, nodes, folder
        self.name = f"check-{os.getpid()}-{nodes}"

    def __enter__(self):
        subprocess.run([self.gpemu, "cluster", "up", "--name", self.name, "--nodes",
                        str(self.nodes), "--gpu", GPU, "--network", "tcp:10gbit", "--rate",
                        "1gbit"], check=True, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        subprocess.run([self.gpemu, "cluster", "down", "--name", self.name], check=True)

    def words(self, options):
        """A command for each host, which writes files with its rank in their names."""
        train = [self.gpemu, "train", "files", self.folder / "photos", "--gpu", GPU, "--model",
                 MODEL, "--batch", BATCH, "--storage", self.folder / "disk.toml", "--workers", 4,
                 "--no-pin-memory", "--quiet", "--join", "cluster", "--cache-share", SHARE,
                 *options]
        return ["sh", "-c", f'exec "$@" --json {self.folder}/$GPEMU_HOST_RANK.json '
                f'--log-samples {self.folder}/$GPEMU_HOST_RANK.log', "train", *map(str, train)]

    def start(self, *options):
        return subprocess.Popen([self.gpemu, "cluster", "run", "--name", self.name, "--",
                                 *self.words(options)], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def results(self):
        return [json.loads((self.folder / f"{rank}.json").read_text())
                for rank in range(self.nodes)]

    def train(self, *options):
        process = self.start(*options)
        errors = process.communicate()[1]
        if process.returncode != 0:
            sys.exit(f"check_nodes: gpemu train ended with {process.returncode}: {errors}")
        return self.results()


def rate(results):
    """Images per second of all nodes in the last epoch."""
    last = [result["epochs"][-1] for result in results]
    return sum(epoch["images"] for epoch in last) / max(epoch["elapsed_s"] for epoch in last)


def peer_reads(results):
    return sum(result["data"]["nodes"]["epochs"][-1]["peer_reads"] for result in results)


def verdict(good, text):
    print(f"{'ok    ' if good else 'MISSED'} {text}", flush=True)
    return good


def compare(gpemu, folder):
    """Returns the rates, and the reads from other nodes, by variant and number of nodes."""
    rates, asked = {}, {}
    print(f"{'nodes':5} {'variant':8} {'images/s':>9} {'speed-up':>9} {'from peers':>11}")
    for nodes in (1, 2, 3):
        with Cluster(gpemu, nodes, folder) as cluster:
            for variant, options in VARIANTS.items():
                if nodes == 1 and "--peers" in options:
                    continue
                results = cluster.train("--epochs", EPOCHS, *options)
                rates[variant, nodes] = rate(results)
                asked[variant, nodes] = peer_reads(results)
                print(f"{nodes:5} {variant:8} {rates[variant, nodes]:9.1f} "
                      f"{rates[variant, nodes] / rates['page', nodes]:9.2f} "
                      f"{asked[variant, nodes]:11}", flush=True)
    return rates, asked


def judge(rates, asked):
    gain = {key: value / rates["page", key[1]] for key, value in rates.items()}
    near = asked["ladl", 3] / max(1, asked["coordl", 3])
    return [
        verdict(gain["minio", 1] >= 1.2, f"a gain on one node: {gain['minio', 1]:.2f} >= 1.2"),
        verdict(gain["coordl", 2] > 1.2 * gain["minio", 1],
                f"two nodes gain more: {gain['coordl', 2]:.2f} > 1.2 x {gain['minio', 1]:.2f}"),
        verdict(gain["coordl", 3] >= max(4, 1.5 * gain["coordl", 2]),
                f"three hold everything: {gain['coordl', 3]:.2f} >= 4 and 1.5 x "
                f"{gain['coordl', 2]:.2f}"),
        verdict(near <= 0.5, f"LADL asks other nodes for less: {near:.2f} <= 0.5"),
        verdict(gain["ladl", 3] >= 4, f"and gains as well: {gain['ladl', 3]:.2f} >= 4"),
    ]


def pids_below(pid):
    """The processes that a process started, and those that they did."""
    found = []
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *pids_below(int(child))]
    return found


def environment_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def kill_one(gpemu, folder, images):
    """Kills the node in the middle of the second epoch, and counts."""
    with Cluster(gpemu, 3, folder) as cluster:
        for old in folder.glob("*.log"):
            old.unlink()
        process = cluster.start("--epochs", EPOCHS, *VARIANTS["coordl"])
        log = folder / "1.log"
        while not (log.exists() and log.read_text().count('"epoch":1,') >= 6):
            if process.poll() is not None:
                sys.exit(f"check_nodes: ended too early: {process.communicate()[1]}")
            time.sleep(0.01)
        for pid in pids_below(process.pid):
            name = pathlib.Path(f"/proc/{pid}/comm")
            if b"GPEMU_HOST_RANK=1" in environment_of(pid) and name.read_text() == "gpemu\n":
                os.kill(pid, signal.SIGKILL)
        process.communicate()
    lines = {rank: [json.loads(line) for line in
                    (folder / f"{rank}.log").read_text().splitlines(keepends=True)
                    if line.endswith("\n")] for rank in range(3)}
    steps = {rank: [line for line in lines[rank] if line["event"] == "trained"] for rank in (0, 2)}
    prepared = {(line["step"], line["view"], line["node"]): line["samples"]
                for rank in lines for line in lines[rank] if line["event"] == "prepared"}
    counts = collections.Counter(
        (step["epoch"], sample) for step in steps[0] for member in step["members"]
        for sample in prepared.get((step["step"], step["view"], member), ()))
    alone = sum(len(step["members"]) == 2 for step in steps[0])
    return [
        verdict(steps[0] == steps[2] and alone > 0,
                f"the survivors agree on {len(steps[0])} steps, {alone} of them by themselves"),
        verdict(len(counts) == EPOCHS * images and set(counts.values()) == {1},
                f"{len(counts)} samples of {EPOCHS} epochs of {images}: each in one step"),
    ]


def main():
    parser = claim_options.parser_of(__doc__)
    parser.add_argument("--images", type=int, default=240)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build")
    arguments = claim_options.parse(parser)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="check_nodes_", dir=arguments.folder))
    try:
        subprocess.run([arguments.gpemu, "data", "make", folder / "photos", "--images",
                        str(arguments.images), "--quiet"], check=True)
        (folder / "disk.toml").write_text(DISK)
        good = judge(*compare(arguments.gpemu, folder))
        good += kill_one(arguments.gpemu, folder, arguments.images)
        sys.exit(0 if all(good) else 1)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
