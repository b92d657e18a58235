#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs sweeps: kills them at random moments and goes on, runs several at a time, and as jobs of
programs that stand for Slurm's and Kubernetes'. Each cell must be run once, and the table be the
same to the byte.

Usage: sweep_test.py GPEMU_COMMAND
"""

import collections
import csv
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

COMMAND = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "gpemu"
MARK = "SWEEP_TEST"  # a variable of all processes that are started
DEADLINE_S = 60

# Each cell notes that it begins and ends.
LOGGED = """
name = "logged"
command = ["run", "--gpu", "T4", "--quiet", "--", "sh", "-c",
           "echo begin {job} >>log; sleep {pause}; echo end {job} >>log"]
[factor]
job = { from = 1, to = 15 }
pause = [0, 0.05]
[[column]]
name = "code"
value = "exit_code"
"""

TRAINED = """
name = "trained"
command = ["train", "synthetic", "--clock", "virtual", "--steps", "3", "--gpu", "{gpu}",
           "--model", "{model}", "--batch", "{batch}"]
[factor]
gpu = ["V100-PCIE-32GB", "A100-SXM4-40GB"]
model = ["resnet18", "resnet50"]
batch = [8, 16, 1048576]
[[exclude]]
gpu = "A100-SXM4-40GB"
batch = 1048576
[[column]]
name = "speed"
title = "images/s"
value = "images_per_s"
[[plot]]
x = "batch"
y = "speed"
series = "gpu"
facet = "model"
[kubernetes]
image = "gpemu"
volume = { hostPath = { path = "/nowhere" } }
"""

# Stand for Slurm's programs. The test is the controller, which starts the tasks of submitted jobs:
# what a program leaves behind ends with it.
SBATCH = '#!/bin/sh\necho "$2" >"$STATE.new"; mv "$STATE.new" "$STATE"; echo 7\n'
SQUEUE = '#!/bin/sh\nif [ -e "$STATE" ]; then echo "7 R"; fi\n'
SCANCEL = '#!/bin/sh\ntest "$1" = 7 && rm "$STATE"\n'

# Stands for kubectl: starts the pods of an indexed Job.
KUBECTL = """#!/usr/bin/env python3
import json, os, pathlib, subprocess, sys
state = pathlib.Path(os.environ["STATE"])
if sys.argv[1] == "create":
    job = json.loads(pathlib.Path(sys.argv[3]).read_text())
    assert job["spec"]["completionMode"] == "Indexed"
    words = job["spec"]["template"]["spec"]["containers"][0]["command"]
    pods = [subprocess.Popen([w.replace("$(JOB_COMPLETION_INDEX)", str(i)) for w in words],
                             stdout=subprocess.DEVNULL)
            for i in range(job["spec"]["completions"])]
    state.write_text("".join(str(pod.wait()) for pod in pods))
    print("job.batch/" + job["metadata"]["generateName"] + "x")
elif sys.argv[1] == "get":
    print(json.dumps({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}))
else:
    assert sys.argv[1:3] == ["delete", "job.batch/sweep-trained-x"], sys.argv
    state.unlink()
"""


class SweepTest(unittest.TestCase):

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="gpemu_sweep_")
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name).resolve()
        (self.folder / "bin").mkdir()
        (self.folder / "bin/gpemu").symlink_to(COMMAND)
        self.interrupted = False
        self.environment = {
            **os.environ, MARK: self.folder.name, "GPEMU_NODE_DIR": str(self.folder / "nodes"),
            "STATE": str(self.folder / "state"),
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def program(self, name, text):
        (self.folder / "bin" / name).write_text(text)
        (self.folder / "bin" / name).chmod(0o755)

    def start(self, *words):
        return subprocess.Popen([COMMAND, "sweep", *words], env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True)

    def sweep(self, *words, code=0):
        process = self.start(*words)
        output, errors = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, code, output + errors)
        return output + errors

    def processes(self):
        mark, found = f"{MARK}={self.folder.name}".encode(), []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    found.append((path / "cmdline").read_bytes())
            except OSError:
                pass
        return found

    def check_nothing_runs(self):
        until = time.monotonic() + DEADLINE_S
        while self.processes() and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(self.processes(), [])

    def cells(self):
        """The records of all cells, by the words of their commands; each must be whole."""
        records = {}
        for path in (self.folder / "logged.sweep/cells").glob("*"):
            self.assertEqual(path.suffix, ".json", "a part of a file is left")
            record = json.loads(path.read_text())
            records[record["factors"]["job"], record["factors"]["pause"]] = record
        return records

    def log(self):
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def test_is_killed_and_goes_on(self):
        sweep = self.write("logged.toml", LOGGED)
        draw, kills, jobs = random.Random(7), 0, 2
        while True:
            before, begun = set(self.cells()), len(self.log())
            process = self.start(sweep, "--jobs", str(jobs))
            try:
                # Longer each time, so that it ends on slow machines, too. All pauses take 0.375 s.
                process.communicate(timeout=draw.uniform(0.02, 0.2 * 1.3**kills))
                self.assertEqual(process.returncode, 0)
            except subprocess.TimeoutExpired:
                if draw.random() < 0.5:
                    process.kill()
                else:  # As Ctrl-C does.
                    os.killpg(process.pid, signal.SIGINT)
                process.communicate(timeout=DEADLINE_S)
                kills += 1
            self.check_nothing_runs()
            after = self.cells()
            self.assertLessEqual(before, set(after), "a cell was lost")
            # What had a result was not run again.
            again = {line.split()[1] for line in self.log()[begun:]}
            complete = {cell for cell, _ in before if (cell, "0") in before and
                        (cell, "0.05") in before}
            self.assertFalse(again & complete)
            if process.returncode == 0:
                break
        self.assertEqual(len(after), 30)
        self.assertGreaterEqual(kills, 1)
        lines = collections.Counter(self.log())
        for cell in range(1, 16):
            self.assertGreaterEqual(lines[f"end {cell}"], 2)
        # Only what ran when the sweep was killed was run again.
        runs = sum(count for line, count in lines.items() if line.startswith("begin"))
        self.assertLessEqual(runs, 30 + kills * jobs)
        whole = (self.folder / "logged.sweep/table.csv").read_bytes()
        self.assertEqual(whole.count(b"\n"), 31)
        for record in after.values():
            self.assertEqual(record["exit_status"], 0)
            self.assertEqual(record["command"][:2], ["gpemu", "run"])
            self.assertTrue(record["host"] and record["gpemu_version"] and record["start"])

    def test_several_share_the_work(self):
        sweep = self.write("logged.toml", LOGGED)
        for process in [self.start(sweep, "--jobs", "2") for _ in range(3)]:
            process.communicate(timeout=DEADLINE_S)
            self.assertEqual(process.returncode, 0)
        lines = collections.Counter(self.log())
        self.assertEqual(set(lines.values()), {2}, lines)
        self.assertEqual(len(lines), 30)

    def test_ctrl_c_ends_all(self):
        sweep = self.write("logged.toml", LOGGED.replace("0.05", "1000"))
        process = self.start(sweep, "--jobs", "2", "--cells", "2,4")
        until = time.monotonic() + DEADLINE_S
        while len(self.log()) < 2:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        start = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, 130)
        self.assertIn("stopped with 0 of 2 cells run; the same command goes on from there", errors)
        self.assertLess(time.monotonic() - start, DEADLINE_S)
        self.check_nothing_runs()
        self.assertEqual(self.cells(), {})

    def use_slurm(self):
        for name, text in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)):
            self.program(name, text)

    def control(self, waiting):
        """Runs the job that is submitted, until it ends or is cancelled or `waiting` has ended."""
        state, tasks = self.folder / "state", None
        while waiting.poll() is None:
            time.sleep(0.01)
            if tasks is None and state.exists():
                script = pathlib.Path(state.read_text().strip())
                tasks = []
                for part in re.search("--array=(.*)", script.read_text())[1].split(","):
                    first, _, last = part.partition("-")
                    tasks += [subprocess.Popen(
                        ["sh", script], start_new_session=True, stdout=subprocess.DEVNULL,
                        env={**self.environment, "SLURM_ARRAY_TASK_ID": str(task)})
                        for task in range(int(first), int(last or first) + 1)]
            elif tasks and not state.exists():
                for task in tasks:
                    task.kill()
            elif tasks and all(task.poll() is not None for task in tasks):
                state.unlink()
                tasks = []
            self.interrupt_if_wanted(waiting)
        for task in tasks or ():
            task.wait(DEADLINE_S)

    def interrupt_if_wanted(self, waiting):
        """Sends Ctrl-C once cells run that never end."""
        if self.log() and not self.interrupted:
            self.interrupted = True
            os.killpg(waiting.pid, signal.SIGINT)

    def local_table(self):
        """The table of a sweep that was run here, in a folder of its own."""
        sweep = self.write("trained.toml", TRAINED)
        output = self.sweep(sweep, "--folder", str(self.folder / "here"), code=1)
        self.assertIn("10 cells: 8 done, 2 failed", output)
        return sweep, (self.folder / "here/table.csv").read_bytes()

    def test_failed_cells_are_named(self):
        sweep, table = self.local_table()
        output = self.sweep(sweep, "--retry", "--cells", "3", code=1)
        self.assertIn("cell 3 failed (exit status 4): gpu V100-PCIE-32GB, model resnet18, "
                      "batch 1048576\n", output)
        self.assertIn("1 failed, 9 not run", output)
        self.assertIn(f"run them again: gpemu sweep {sweep} --retry --cells 3\n", output)
        rows = list(csv.DictReader(table.decode().splitlines()))
        self.assertEqual([row["exit_status"] for row in rows], list("0040040000"))
        self.assertEqual(rows[2]["speed"], "")
        for row in rows[:2]:
            self.assertGreater(float(row["speed"]), 0)
        page = (self.folder / "here/page.html").read_text()
        for text in ("images/s: model resnet50", "Cells that failed", "How the cells were run"):
            self.assertIn(text, page)

    def test_on_slurm(self):
        self.use_slurm()
        sweep, table = self.local_table()
        self.sweep(sweep, "--part", "1/4")
        process = self.start(sweep, "--on", "slurm", "--tasks", "4")
        self.control(process)
        output, errors = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, 1, output + errors)
        self.assertIn("10 cells: 8 done, 2 failed", output)
        self.assertEqual((self.folder / "trained.sweep/table.csv").read_bytes(), table)
        self.assertIn("#SBATCH --array=0,2-3\n",
                      (self.folder / "trained.sweep/slurm.sh").read_text())

    def test_ctrl_c_cancels_the_job(self):
        self.use_slurm()
        sweep = self.write("logged.toml", LOGGED.replace("0.05", "1000"))
        process = self.start(sweep, "--on", "slurm", "--tasks", "3")
        self.control(process)
        _, errors = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("the same command goes on from there", errors)
        self.check_nothing_runs()

    def test_on_kubernetes(self):
        self.program("kubectl", KUBECTL)
        sweep, table = self.local_table()
        self.sweep(sweep, "--on", "kubernetes", "--tasks", "3", code=1)
        self.assertEqual((self.folder / "trained.sweep/table.csv").read_bytes(), table)
        self.assertFalse((self.folder / "state").exists(), "the Job is removed")

    def test_engines_that_are_missing_or_refuse(self):
        sweep = self.write("trained.toml", TRAINED)
        self.environment["PATH"] = str(self.folder / "bin")
        self.assertIn("cannot start 'sbatch': No such file or directory; --on needs it on this "
                      "machine, or use --print", self.sweep(sweep, "--on", "slurm", code=3))
        self.program("kubectl", "#!/bin/sh\necho 'forbidden here' >&2; exit 1\n")
        self.environment["PATH"] += ":/usr/bin:/bin"
        self.assertIn("kubectl: forbidden here", self.sweep(sweep, "--on", "kubernetes", code=9))

    def test_bad_input(self):
        for change, message in (
                (("steps", "stepz"), None),
                (("{batch}", "{bach}"), ":3: command: there is no factor 'bach'"),
                (("[factor]", "[factors]"), ":4: the file: unknown key 'factors' (did you mean "
                                            "factor?)"),
                (("[8, 16, 1048576]", "[8, 8]"), ":7: factor.batch: '8' is there twice"),
                (("images_per_s", "images_per_m"), ":14: column speed: the result has no "
                                                   "'images_per_m'; the result has format"),
                (("images_per_s", "("), ":14: column speed: '(', character 2: expected a number"),
                (('y = "speed"', 'y = "sped"'), ":17: plot: y: there is no column 'sped'"),
                (('[[plot]]', '[[plot]'), ":15: "),
        ):
            with self.subTest(change=change):
                path = self.write("trained.toml", TRAINED.strip().replace(*change, 1) + "\n")
                words = (path, "--cells", "1")
                if message is None:  # A fault of the command's own options is the cell's.
                    self.assertIn("--stepz", self.sweep(*words, code=1))
                    continue
                self.assertIn(path + message, self.sweep(*words, code=6))
        self.assertIn("nothing.toml: No such file", self.sweep("nothing.toml", code=3))


if __name__ == "__main__":
    unittest.main()
