#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sweep as job arrays of a real Slurm cluster of four nodes (tests/cluster/slurm_cluster.py),
which is interrupted and killed at random moments: no cell is lost, none runs on when its job is
cancelled, and the table is the same to the byte as without Slurm.

Usage: tests/cluster/slurm_sweep_test.py [--build FOLDER] [--gpemu COMMAND] [--cells N] [--times N]
           [--seed N] [unittest's options]

N: 200, 400, ... 2000 cells. --times: how often the sweep is interrupted or killed.
"""

import argparse
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

import slurm_cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/claims"))
import check_sweep  # noqa: E402

OPTIONS = argparse.Namespace(build="build/dev", gpemu="", cells=1000, times=4, seed=1)
SECONDS = 600  # that anything may take
DESCRIPTION = """
[[nodes]]
names = "n[1-4]"
gpus = ["T4"]
"""


class SweepOnSlurm(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="gpemu_slurm_sweep_")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.file = self.folder / "cells.toml"
        self.file.write_text(check_sweep.sweep_text(OPTIONS.cells))
        self.gpemu = pathlib.Path(OPTIONS.gpemu or f"{OPTIONS.build}/tools/gpemu").resolve()
        self.cluster = slurm_cluster.SlurmCluster(OPTIONS.build, DESCRIPTION)
        self.addCleanup(self.cluster.down)
        self.cluster.up()

    def sweep(self, *words):
        return subprocess.Popen([self.gpemu, "sweep", self.file, "--quiet", *words],
                                stderr=subprocess.DEVNULL)

    def finished(self, process):
        # The exit code is 1: some cells do not fit into the GPU's memory.
        self.assertIn(process.wait(SECONDS), (0, 1))

    def cells(self):
        folder = self.folder / "cells.sweep/cells"
        return {path.name: path.read_bytes() for path in folder.glob("*.json")}

    def jobs(self):
        return self.cluster.run("squeue", "--noheader").split()

    def works(self):
        """Whether a task runs cells."""
        word = f"\0{self.file}\0--folder\0".encode()
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if word in path.read_bytes():
                    return True
            except OSError:
                pass
        return False

    def end_early(self, process, draw, share):
        """Interrupts the sweep once a share of its cells has been run, or kills all of it."""
        until = time.monotonic() + SECONDS
        most = max(share * OPTIONS.cells, len(self.cells()))
        while len(self.cells()) <= most:
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)
        if draw.random() < 0.5:
            process.terminate()  # The sweep cancels its job.
            self.assertEqual(process.wait(SECONDS), 130)
        else:
            process.kill()
            process.wait(SECONDS)
            self.cluster.run("scancel", "--user=root", "--signal=KILL", "--full")
        self.cluster.eventually(lambda: not self.jobs() and not self.works())

    def test_the_table_is_that_without_slurm(self):
        self.finished(self.sweep("--folder", self.folder / "here"))
        draw, before = random.Random(OPTIONS.seed), {}
        for number in range(OPTIONS.times):
            process = self.sweep("--on", "slurm")
            self.end_early(process, draw, (number + draw.random()) / (OPTIONS.times + 1))
            after = self.cells()
            # Results say when the cell was run: none was run again.
            self.assertEqual(before, {name: after.get(name) for name in before})
            before = after
        self.finished(self.sweep("--on", "slurm"))
        after = self.cells()
        self.assertEqual(before, {name: after.get(name) for name in before})
        self.assertEqual(len(after), OPTIONS.cells)
        self.assertEqual((self.folder / "cells.sweep/table.csv").read_bytes(),
                         (self.folder / "here/table.csv").read_bytes())


def main():
    lines = slurm_cluster.missing()
    if lines:
        sys.exit("slurm_sweep_test: " + "\n  ".join(lines))
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", default=OPTIONS.build)
    parser.add_argument("--gpemu", default=OPTIONS.gpemu)
    for name in ("cells", "times", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(OPTIONS, name))
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    slurm_cluster.enter("sweep")
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
