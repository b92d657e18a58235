#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares this machine with its description: `gpemu host measure` writes a host file, and then
`gpemu train` runs 20 settings, each on real files in real time, and on the described host in
virtual time: one and two workers, three models, cached and slow storage, caches, and formats.

Prints a table of images per second and of stalls, with the load of other programs. Exits with 1 if
the rates differ by more than 8 % on average or 20 % in one setting, or stalls by more than 5
points.

Real runs take turns with described ones, and the host is measured again before each round. Of the
rounds, the fastest counts in each world: other programs only slow down. If it may, the script
raises the priority of both, so that other programs take little of the processors. The folder must
not lie in memory.

Usage: scripts/claims/check_hosts.py [--gpemu COMMAND] [--folder FOLDER] [--rounds N] [--json FILE]
"""

import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import claim_options

IMAGES = 768
BATCH = 32
FORMATS = ("webdataset", "tfrecord", "pages")
LIGHT = ("alexnet", "A100-SXM4-40GB")
MEDIUM = ("resnet18", "V100-PCIE-32GB")
HEAVY = ("resnet50", "P100-PCIE-16GB")
MOST_MEAN_ERROR = 0.08
MOST_ERROR = 0.20
MOST_STALL_POINTS = 5
PRIORITY = -20


@dataclasses.dataclass
class Setting:
    """What both worlds run. Rates and stalls are those of the last epoch."""
    what: str
    job: tuple
    workers: int
    data: str = "folder"
    storage: str = ""     # a described device; without one, files are in the page cache.
    cache: str = ""
    share: float = 1.0
    epochs: int = 2
    # Pairs of images per second and of the stall in per cent, by round.
    real: list = dataclasses.field(default_factory=list)
    described: list = dataclasses.field(default_factory=list)


def settings():
    """Returns the 20 settings."""
    made = []
    for name, job in (("light", LIGHT), ("medium", MEDIUM), ("heavy", HEAVY)):
        for workers in (1, 2):
            made.append(Setting(f"{name} model, cached", job, workers))
    for data in ("webdataset", "pages"):
        for workers in (1, 2):
            made.append(Setting(f"cached {data}", MEDIUM, workers, data))
    made.append(Setting("cached tfrecord", LIGHT, 2, "tfrecord"))
    for job, workers in ((LIGHT, 1), (LIGHT, 2), (HEAVY, 2)):
        made.append(Setting("slow disk", job, workers, storage="hdd", epochs=1))
    for data, workers in (("webdataset", 1), ("webdataset", 2), ("pages", 2)):
        made.append(Setting(f"slow disk, {data}", LIGHT, workers, data, "hdd", epochs=1))
    for cache, workers in (("minio", 1), ("minio", 2), ("small-first", 2)):
        made.append(Setting(f"slow disk, {cache} 50 %", LIGHT, workers, "folder", "hdd", cache,
                            0.5))
    return made


def with_priority():
    """Gives the process a larger share of the processors, if that is allowed: Linux weighs sessions
    against each other first, if it groups them, and the processes of one then."""
    os.setsid()
    try:
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
        pathlib.Path("/proc/self/autogroup").write_text(str(PRIORITY))
    except OSError:
        pass


class Worlds:
    """Runs gpemu in both worlds."""

    def __init__(self, gpemu, folder):
        self.gpemu = gpemu
        self.folder = folder
        self.host = folder / "here.toml"
        self.busy = []  # Cores that other programs used during real runs.

    def place(self, data):
        return self.folder / ("photos.pages" if data == "pages" else data)

    def call(self, *arguments):
        done = subprocess.run([self.gpemu, *map(str, arguments)], stdout=subprocess.PIPE,
                              text=True, preexec_fn=with_priority, check=False)
        if done.returncode != 0:
            sys.exit(f"check_hosts: gpemu {arguments[0]} ended with {done.returncode}")
        return done.stdout

    def make_data(self):
        self.call("data", "make", self.place("folder"), "--images", IMAGES, "--quiet")
        for data in FORMATS:
            self.call("data", "convert", self.place("folder"), self.place(data), "--format", data,
                      "--shard-mib", 16, "--quiet")

    def measure(self):
        data = [word for kind in ("folder", *FORMATS) for word in ("--data", self.place(kind))]
        self.call("host", "measure", self.host, "--quiet", "--images", 256, "--rounds", 3, *data)

    def train(self, setting, described):
        model, gpu = setting.job
        data = self.place(setting.data)
        words = ["train", *(("host", self.host, "--data", data) if described else ("files", data)),
                 "--gpu", gpu, "--model", model, "--batch", BATCH, "--workers", setting.workers,
                 "--epochs", setting.epochs, "--quiet", "--json", "-"]
        if setting.storage:
            words += ["--storage", setting.storage]
        if setting.cache:
            words += ["--cache", setting.cache, "--cache-share", setting.share]
        if not described and setting.storage and not setting.cache:
            words += ["--cold"]
        result = json.loads(self.call(*words))
        # The first step of a run waits for a pipeline that is empty.
        if setting.epochs == 1:
            rate = result["images_per_s"]
            share = result["steady_share"]
            stall = share["fetch_wait"] + share["prep_wait"]
        else:
            last = result["epochs"][-1]
            rate = last["images_per_s"]
            stall = (last["time_s"]["fetch_wait"] + last["time_s"]["prep_wait"]) / last["elapsed_s"]
        if not described:
            load = result["host"]["load"]
            self.busy.append(load["others_cpu_s"] / load["elapsed_s"])
        return rate, 100 * stall


def run(worlds, rounds):
    made = settings()
    for _ in range(rounds):
        worlds.measure()
        for setting in made:
            if not setting.storage:
                worlds.train(dataclasses.replace(setting, epochs=1), False)  # Fills the page cache.
            setting.real.append(worlds.train(setting, False))
            setting.described.append(worlds.train(setting, True))
    return made


def report(made):
    """Prints the table, and returns its rows."""
    print(f"{'setting':32} {'model':9} {'workers':>7} {'real':>8} {'host':>8} {'error':>7}"
          f" {'stall':>7} {'host':>7}")
    rows = []
    for setting in made:
        real, stall = max(setting.real)
        told, told_stall = max(setting.described)
        rows.append({"setting": setting.what, "model": setting.job[0], "workers": setting.workers,
                     "images_per_s": real, "predicted_images_per_s": told, "stall": stall,
                     "predicted_stall": told_stall})
        print(f"{setting.what:32} {setting.job[0]:9} {setting.workers:7} {real:8.1f} {told:8.1f}"
              f" {told / real - 1:+7.1%} {stall:6.1f}% {told_stall:6.1f}%")
    return rows


def main():
    parser = claim_options.parser_of(__doc__)
    parser.add_argument("--folder", type=pathlib.Path, help="where to make the data (300 MB)")
    parser.add_argument("--rounds", type=int, default=2, help="of which the fastest counts (2)")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows")
    options = claim_options.parse(parser)
    with tempfile.TemporaryDirectory(prefix="gpemu_hosts_", dir=options.folder) as folder:
        worlds = Worlds(options.gpemu, pathlib.Path(folder))
        worlds.make_data()
        made = run(worlds, options.rounds)
    rows = report(made)
    errors = [abs(row["predicted_images_per_s"] / row["images_per_s"] - 1) for row in rows]
    points = [abs(row["predicted_stall"] - row["stall"]) for row in rows]
    print(f"\nother programs used {statistics.mean(worlds.busy):.2f} cores during the real runs, "
          f"at most {max(worlds.busy):.2f}, of {len(os.sched_getaffinity(0))}")
    met = (statistics.mean(errors) <= MOST_MEAN_ERROR and max(errors) <= MOST_ERROR
           and max(points) <= MOST_STALL_POINTS)
    print(f"images per second: {statistics.mean(errors):.1%} on average (at most "
          f"{MOST_MEAN_ERROR:.0%}), {max(errors):.1%} at worst ({MOST_ERROR:.0%}); stalls: "
          f"{max(points):.1f} points at worst ({MOST_STALL_POINTS}): {'ok' if met else 'MISSED'}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
