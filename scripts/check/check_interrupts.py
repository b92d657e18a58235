#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ends each subcommand at random moments, by SIGINT as a terminal sends it, by SIGINT to the
command alone, or by SIGKILL, and checks each time that it ends within a second and what is left
(docs/reference/security.md): after a signal no process, node, folder in TMPDIR, network namespace
or part of a file; after SIGKILL only what the next command of the kind removes.

Clusters need root and network namespaces, and are left out where they are missing.

Usage: scripts/check/check_interrupts.py [--count N] [--seed N] [--only PATTERN] [--gpemu COMMAND]
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = f"kill-{os.getpid()}"
MARK = "CHECK_INTERRUPTS"  # a variable of all processes that are started
# A second, and what a busy machine takes to start processes.
MOST_S = 1 + 2
# After SIGKILL, the kernel has more to do.
MOST_KILLED_S = 10
# Without exec, a shell that gets a signal waits for its child, which has got none.
LONG = "exec sleep 1000"
# Its cells end one after the other.
SWEEP = """
name = "sweep"
command = ["run", "--gpu", "T4", "--quiet", "--", "sh", "-c", "exec sleep {seconds}"]
[factor]
seconds = [0.01, 0.02, 0.03, 0.04, 1000, 1001]
[[column]]
name = "code"
value = "exit_code"
"""
# What `run`'s programs do: nothing, or they wait for something that does not come.
PROGRAMS = (["true"], ["sh", "-c", LONG])
GPU = ["--gpu", "T4", "--model", "resnet18", "--batch", "4"]


def commands(folder, address):
    """The subcommands that make something or take time; for each a name."""
    photos, out = str(folder / "photos"), folder / "out"
    host = ROOT / "experiments"
    found = {
        "run": ["run", "--gpu", "T4", "--json", f"{out}.json", "--report", f"{out}.html",
                "--trace", f"{out}.trace", "--"],
        "run virtual": ["run", "--gpu", "T4", "--clock", "virtual", "--"],
        "train": ["train", "synthetic", *GPU, "--steps", "100000", "--json", f"{out}.json",
                  "--trace", f"{out}.trace"],
        "train data": ["train", "files", photos, *GPU, "--no-pin-memory", "--epochs", "100",
                       "--report", f"{out}.html"],
        "train join": ["train", "files", photos, *GPU, "--no-pin-memory", "--join",
                       f"0/2@{address}"],
        "train service": ["train", "service", address, *GPU, "--no-pin-memory"],
        "analyze": ["analyze", "files", photos, *GPU, "--json", f"{out}.json"],
        "data make": ["data", "make", f"{out}.folder", "--images", "3000"],
        "data convert": ["data", "convert", photos, f"{out}.folder"],
        "data convert pages": ["data", "convert", photos, f"{out}.pages", "--format", "pages"],
        "data bench": ["data", "bench", photos, "--epochs", "50"],
        "data dispatch": ["data", "dispatch", photos, "--listen", address],
        "data work": ["data", "work", address, "--data", photos],
        "host measure": ["host", "measure", f"{out}.toml", "--data", photos],
        "cost": ["cost", "eval", "evidence/published", "--json"],
        "predict": ["predict", "--gpu", "T4", "--", "sh", "-c", LONG],
        "experiment": ["experiment", "check", *sorted(map(str, host.glob("*")))[:1]],
        "sweep": ["sweep", str(folder / "sweep.toml"), "--folder", f"{out}.folder", "--quiet"],
        "node create": ["node", "create", "made", "--gpu", "T4"],
        "smi": ["smi", "--loop", "1"],
    }
    if os.geteuid() == 0 and shutil.which("ip") and shutil.which("tc"):
        found["cluster up"] = ["cluster", "up", "--name", CLUSTER, "--gpu", "T4:2", "--network",
                               "tcp:10gbit", "--rate", "1gbit"]
        found["cluster down"] = ["cluster", "down", "--name", CLUSTER]
        found["cluster run"] = ["cluster", "run", "--name", CLUSTER, "--"]
    return found


class Checker:

    def __init__(self, gpemu, folder, draw):
        self.gpemu, self.folder, self.draw = str(gpemu), folder, draw
        self.temporary, self.nodes = folder / "tmp", folder / "nodes"
        self.temporary.mkdir()
        self.nodes.mkdir()
        self.environment = {**os.environ, "GPEMU_NODE_DIR": str(self.nodes),
                            "TMPDIR": str(self.temporary), MARK: CLUSTER}
        (folder / "sweep.toml").write_text(SWEEP)
        self.call("data", "make", folder / "photos", "--images", "200", "--quiet")
        self.photos = {str(path.relative_to(folder)) for path in folder.rglob("*")}

    def call(self, *words, check=True):
        return subprocess.run([self.gpemu, *map(str, words)], env=self.environment, check=check,
                              capture_output=True, text=True, timeout=120)

    def processes(self):
        """Those that the command has started, wherever they are: they have its environment."""
        mark, found = f"{MARK}={CLUSTER}".encode(), []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    found.append(f"{path.name} {(path / 'comm').read_text().strip()}")
            except OSError:
                pass
        return found

    def left(self, name, killed):
        """What is left that should not be."""
        until = time.monotonic() + MOST_KILLED_S  # The last processes may still be on their way.
        while self.processes() and time.monotonic() < until:
            time.sleep(0.01)
        left = [f"process {process}" for process in self.processes()]
        if killed:
            # The next command removes what a killed one of its kind has left.
            self.call("run", "--quiet", "--gpu", "T4", "--", "true")
            if name.startswith(("data make", "data convert")):
                made = self.folder / "out.folder"
                shutil.rmtree(made, ignore_errors=True)
                self.call("data", "make", made, "--images", "20", "--quiet")
                shutil.rmtree(made)
        if name in ("node create",):
            self.call("node", "remove", "made", check=False)
        if name.startswith("cluster"):
            self.call("cluster", "down", "--name", CLUSTER, check=not (
                name == "cluster up" or name == "cluster down"))
            if pathlib.Path("/run/netns").exists():
                left += [f"namespace {space.name}" for space in pathlib.Path("/run/netns").iterdir()
                         if space.name.startswith(f"gpemu-{CLUSTER}")]
            left += [str(path) for path in pathlib.Path("/run/gpemu").glob(f"{CLUSTER}*")]
        left += [str(path) for folder in (self.nodes, self.temporary) for path in folder.iterdir()]
        for path in self.folder.rglob("*"):
            relative = str(path.relative_to(self.folder))
            if relative in self.photos or relative.split("/")[0] in ("tmp", "nodes", "photos"):
                continue
            if fault := self.fault_of(path):
                left.append(f"{relative}: {fault}")
        for path in self.folder.glob("out*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return left

    def fault_of(self, path):
        """What is wrong with an output: it is whole, or not there."""
        if path.is_dir() or path.name.startswith("class"):
            return ""
        if re.search(r"\.tmp$|~$", path.name):
            return "is a part of a file"
        if path.suffix in (".json", ".trace"):
            try:
                json.loads(path.read_text())
            except ValueError:
                return "is cut off"
        if path.suffix == ".html" and not path.read_text().rstrip().endswith("</html>"):
            return "is cut off"
        if path.suffix == ".pages" and self.call("data", "show", path, check=False).returncode != 0:
            return "is no data set"
        return ""

    def end(self, name, words):
        """Starts a command, and ends it after a while. Returns what is wrong."""
        if name in ("cluster down", "cluster run"):
            self.call("cluster", "up", "--name", CLUSTER, "--gpu", "T4:2", "--network",
                      "tcp:10gbit")
        if words[-1] == "--":
            words = words + self.draw.choice(PROGRAMS)
        how = self.draw.choice(["terminal", "alone", "kill"])
        with open(self.folder / "tmp.errors", "w", encoding="utf-8") as errors:
            process = subprocess.Popen([self.gpemu, *words], env=self.environment,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=errors, start_new_session=True)
            # Most is made and removed in the first and the last moments.
            time.sleep(self.draw.choice([0.05, 0.3, 1]) * self.draw.random())
            begin = time.monotonic()
            if how == "kill":
                process.kill()
            elif how == "terminal":
                os.killpg(process.pid, signal.SIGINT)
            else:
                process.send_signal(signal.SIGINT)
            most = MOST_KILLED_S if how == "kill" else MOST_S
            try:
                process.wait(timeout=60)
                wrong = []
            except subprocess.TimeoutExpired:
                wrong = ["it does not end"]
                process.kill()
                process.wait()
            if time.monotonic() - begin > most:
                wrong.append(f"it took {time.monotonic() - begin:.1f} s to end")
        (self.folder / "tmp.errors").unlink()
        wrong += self.left(name, how == "kill")
        return f"{how}: {'; '.join(wrong)}" if wrong else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10, help="ends of each subcommand")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a pattern of subcommands")
    parser.add_argument("--gpemu", default=ROOT / "build/dev/tools/gpemu")
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="gpemu_interrupts_") as name:
        folder = pathlib.Path(name)
        checker = Checker(arguments.gpemu, folder, random.Random(arguments.seed))
        for command, words in commands(folder, "127.0.0.1:5999").items():
            if not re.search(arguments.only, command):
                continue
            faults = 0
            for i in range(arguments.count):
                if wrong := checker.end(command, words):
                    faults += 1
                    print(f"FAILED {command}, {i}, by {wrong}", flush=True)
            print(f"{command}: {arguments.count} ends, {faults} faults", flush=True)
            failed += faults
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
