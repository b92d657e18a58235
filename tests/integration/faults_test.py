#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives the gpemu command everything that can go wrong, and kills it at random moments.

Each fault must give one clear message on standard error and the documented exit code, and leave
nothing behind. Prints a table; ends with 1 when a line does not hold.

Usage: faults_test.py GPEMU_COMMAND [--kills N]
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

GPU, MODEL = "V100-PCIE-32GB", "resnet18"


class Bench:
    """A scratch folder with a small data set, and what the checks found."""

    def __init__(self, command, folder):
        self.command = command
        self.folder = folder
        self.nodes = folder / "nodes"
        self.failures = 0
        self.data = folder / "data"
        self.run(
            "data", "make", self.data, "--images", "32", "--classes", "2", "--seed", "1", expect=0
        )

    def environment(self, **more):
        return {**os.environ, "GPEMU_NODE_DIR": str(self.nodes), **more}

    def run(self, *arguments, expect=None, timeout=120, **environment):
        result = subprocess.run(
            [self.command, *map(str, arguments)],
            text=True,
            timeout=timeout,
            capture_output=True,
            env=self.environment(**environment),
            check=False,
        )
        if expect is not None and result.returncode != expect:
            sys.exit(
                f"gpemu {' '.join(map(str, arguments))}: exit code {result.returncode}, "
                f"expected {expect}\n{result.stderr}"
            )
        return result

    def train(self, *arguments, data=None, **environment):
        return self.run(
            "train",
            "files",
            data or self.data,
            "--gpu",
            GPU,
            "--model",
            MODEL,
            "--batch",
            "8",
            "--workers",
            "1",
            "--epochs",
            "1",
            "--no-pin-memory",
            *arguments,
            **environment,
        )

    def report(self, name, holds, detail):
        self.failures += not holds
        print(f"{'ok  ' if holds else 'FAIL'}  {name}: {detail}", flush=True)

    def check(self, name, result, code, *words):
        """One message, with the words that matter in it, and the exit code."""
        lines = [line for line in result.stderr.splitlines() if line.startswith("gpemu: ")]
        holds = (
            result.returncode == code
            and len(lines) == 1
            and all(word in lines[0] for word in words)
        )
        said = " | ".join(lines) or result.stderr.strip()
        self.report(name, holds, f"exit {result.returncode}; {said}")

    def check_empty(self, name, folder):
        left = [path.name for path in folder.iterdir()]
        self.report(name, not left, f"{left or 'nothing'} left")


def check_inputs(bench):
    bench.check("wrong GPU", bench.train("--gpu", "V1000"), 3, "V1000")
    bench.check("wrong model", bench.train("--model", "resnet19"), 3, "resnet19", "resnet18")
    bench.check("wrong option", bench.train("--batch", "zero"), 2, "--batch")
    bench.check("batch beyond memory", bench.train("--batch", "100000"), 4, "100000", GPU)
    bench.check("no data folder", bench.train(data=bench.folder / "absent"), 3, "absent")

    empty = bench.folder / "empty_class"
    shutil.copytree(bench.data, empty)
    (empty / "zz_empty").mkdir()
    bench.check("empty class", bench.train(data=empty), 6, "zz_empty")

    corrupt = bench.folder / "corrupt"
    shutil.copytree(bench.data, corrupt)
    victim = sorted(corrupt.rglob("*.jp*g"))[0]
    victim.write_bytes(victim.read_bytes()[:600])
    report = bench.folder / "corrupt.json"
    result = bench.train("--json", report, data=corrupt)
    counted = json.loads(report.read_text())["corrupt_images"] if report.exists() else None
    bench.report(
        "truncated JPEG is counted",
        result.returncode == 0 and counted == 1,
        f"exit {result.returncode}; corrupt_images {counted}",
    )
    strict = bench.train("--strict-images", data=corrupt)
    bench.check("truncated JPEG with --strict-images", strict, 6, victim.name)


def check_outputs(bench):
    absent = bench.folder / "absent" / "report.html"
    started = time.monotonic()
    result = bench.train("--report", absent)
    bench.check("unwritable report", result, 7, str(absent))
    seconds = time.monotonic() - started
    bench.report("… is refused before the run", result.stdout == "", f"{seconds:.2f} s")


def check_segments(bench):
    bench.nodes.mkdir(exist_ok=True)
    (bench.nodes / "foreign").write_bytes(b"not a segment" * 1000)
    bench.check("foreign segment file", bench.train("--node", "foreign"), 8, "foreign")
    (bench.nodes / "foreign").unlink()
    bench.check("no such node", bench.train("--node", "nobody"), 3, "nobody")


def with_mount(bench, name, options, check):
    """Runs a check on a small tmpfs, where this process may mount one."""
    folder = bench.folder / name
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        print(f"skip  {name}: this process may not mount file systems")
        return
    try:
        check(folder)
    finally:
        subprocess.run(["umount", folder], check=True)


def check_file_systems(bench):
    def full(folder):
        bench.check("full shared memory", bench.train(GPEMU_NODE_DIR=str(folder)), 5, str(folder))
        bench.check_empty("… leaves nothing there", folder)

    def read_only(folder):
        shutil.copytree(bench.data, folder / "data")
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        result = bench.train(data=folder / "data")
        bench.report(
            "read-only data folder is read",
            result.returncode == 0,
            f"exit {result.returncode}; {result.stderr.strip()}",
        )
        made = bench.run("data", "make", folder / "new", "--images", "16")
        bench.check("data set into a read-only folder", made, 7, str(folder))
        reported = bench.train("--json", folder / "r.json")
        bench.check("report into a read-only folder", reported, 7, "r.json")

    def disk_full(folder):
        result = bench.run("data", "make", folder / "new", "--images", "64")
        bench.check("data set that fills the disk", result, 5, str(folder))
        bench.check_empty("… leaves nothing there", folder)

    with_mount(bench, "full_shm", "size=16k", full)
    with_mount(bench, "read_only", "size=64m", read_only)
    with_mount(bench, "small_disk", "size=1m", disk_full)


def check_interrupt(bench):
    report = bench.folder / "interrupted.json"
    command = [
        bench.command,
        "train",
        "synthetic",
        "--gpu",
        GPU,
        "--model",
        "resnet50",
        "--batch",
        "64",
        "--steps",
        "100000",
        "--json",
        str(report),
    ]
    process = subprocess.Popen(
        command, env=bench.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not list(bench.nodes.glob("*")):
        time.sleep(0.01)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    steps = json.loads(report.read_text())["steps"] if report.exists() else None
    bench.report(
        "Ctrl-C still reports",
        process.returncode == 130 and steps is not None,
        f"exit {process.returncode}; steps {steps}",
    )
    bench.check_empty("… leaves no node", bench.nodes)


def check_kills(bench, kills):
    """Kills training runs, half of them on a node that others use too."""
    rng = random.Random(1)
    bench.run("node", "create", "shared", "--gpu", GPU, expect=0)
    left = blocked = 0
    for i in range(kills):
        on_node = ["--node", "shared"] if i % 2 else []
        process = subprocess.Popen(
            [
                bench.command,
                "train",
                "files",
                str(bench.data),
                "--gpu",
                GPU,
                "--model",
                MODEL,
                "--batch",
                "8",
                "--workers",
                "2",
                "--epochs",
                "1000",
                "--no-pin-memory",
                "--quiet",
                *on_node,
            ],
            env=bench.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(rng.uniform(0, 0.25))
        process.kill()
        process.wait()
        nodes = json.loads(bench.run("node", "list", "--json", expect=0).stdout)
        device = nodes[0]["devices"][0]
        left += len(nodes) != 1 or device["memory_used_mib"] != 0 or device["processes"] != 0
        if i % 20 == 1:
            blocked += bench.train("--node", "shared", "--quiet").returncode != 0
    bench.run("node", "rm", "shared", expect=0)
    bench.report(
        f"{kills} runs killed",
        left == 0 and blocked == 0,
        f"{left} left something behind, {blocked} next runs failed",
    )
    bench.check_empty("… and no file stays", bench.nodes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", help="the gpemu command to test")
    parser.add_argument("--kills", type=int, default=200, help="how many runs to kill (200)")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpemu_faults_"))
    try:
        bench = Bench(options.command, folder)
        check_inputs(bench)
        check_outputs(bench)
        check_segments(bench)
        check_file_systems(bench)
        check_interrupt(bench)
        check_kills(bench, options.kills)
    finally:
        shutil.rmtree(folder)
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
