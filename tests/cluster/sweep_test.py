#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A sweep as an indexed Job in a real cluster (tests/cluster/cluster.py), whose pods are deleted at
random moments: each cell is run, the table is the same to the byte as that of this machine, and
nothing is left of the Job.

Usage: tests/cluster/sweep_test.py --installation FOLDER [--program PROGRAM] [--cells N] [--seed N]
           [unittest's options]

FOLDER: where gpemu alone is installed, from the preset `package`. PROGRAM: gpemu-kubernetes, which
the image has, too. N: 200, 400, ... 2000.
"""

import argparse
import contextlib
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unittest

import cluster
import build_image  # image.py knows the folder.

sys.path.insert(0, str(cluster.ROOT / "scripts/claims"))
import check_sweep  # noqa: E402

FOLDER = pathlib.Path("/var/tmp/gpemu-cluster-sweep")
IMAGE = "gpemu.test/gpemu:sweep"
SECONDS = 900  # that anything may take
OPTIONS = argparse.Namespace(installation="/opt/gpemu", program="gpemu-kubernetes", cells=200,
                             seed=1)
ENGINE = """
[kubernetes]
image = "{image}"
volume = {{ hostPath = {{ path = "{folder}" }} }}
"""


class SweepOnKubernetes(unittest.TestCase):

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        scratch = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # Nodes have /tmp for themselves.
        image = FOLDER.with_name("gpemu-sweep-image.tar")
        stack.callback(image.unlink, missing_ok=True)
        build_image.make_image(image, IMAGE, pathlib.Path(OPTIONS.installation).resolve(),
                               pathlib.Path(OPTIONS.program).resolve())
        stack.enter_context(cluster.Cluster(FOLDER, nodes=2, images=[image]))
        # All nodes may write into the cluster's folder, as into a volume of theirs.
        self.folder = FOLDER / "sweep"
        self.folder.mkdir()
        self.file = self.folder / "cells.toml"
        self.file.write_text(check_sweep.sweep_text(OPTIONS.cells) +
                             ENGINE.format(image=IMAGE, folder=self.folder))
        kubectl = scratch / "kubectl"
        words = " ".join(map(str, cluster.kubectl_words(FOLDER)))
        kubectl.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        kubectl.chmod(0o755)
        self.environment = {"PATH": f"{scratch}:/usr/sbin:/usr/bin:/sbin:/bin",
                            "HOME": str(scratch)}  # For what kubectl caches.

    def kubectl(self, *words):
        return subprocess.run([*cluster.kubectl_words(FOLDER), *words], check=True, text=True,
                              stdout=subprocess.PIPE, timeout=SECONDS).stdout

    def sweep(self, *words):
        gpemu = pathlib.Path(OPTIONS.installation).resolve() / "bin/gpemu"
        return subprocess.Popen([gpemu, "sweep", self.file, "--quiet", *words],
                                env=self.environment)

    def finished(self, process):
        # The exit code is 1: some cells do not fit into the GPU's memory.
        self.assertIn(process.wait(SECONDS), (0, 1))

    def cells(self):
        return len(list((self.folder / "cells.sweep/cells").glob("*.json")))

    def test_the_table_is_that_of_this_machine(self):
        self.finished(self.sweep("--folder", self.folder / "here"))
        draw, deleted = random.Random(OPTIONS.seed), 0
        process = self.sweep("--on", "kubernetes", "--tasks", "4")
        for share in (0.2, 0.4, 0.6):
            until = time.monotonic() + SECONDS
            while self.cells() < share * OPTIONS.cells:
                self.assertLess(time.monotonic(), until)
                self.assertIsNone(process.poll())
                time.sleep(0.1)
            pods = self.kubectl("get", "pods", "--field-selector=status.phase=Running", "-o",
                                "name").split()
            if pods:
                self.kubectl("delete", draw.choice(pods), "--now", "--wait=false")
                deleted += 1
        self.finished(process)
        self.assertGreaterEqual(deleted, 1)
        self.assertEqual(self.cells(), OPTIONS.cells)
        self.assertEqual((self.folder / "cells.sweep/table.csv").read_bytes(),
                         (self.folder / "here/table.csv").read_bytes())
        until = time.monotonic() + SECONDS
        while self.kubectl("get", "jobs,pods", "-o", "name"):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--installation", default=OPTIONS.installation)
    parser.add_argument("--program", default=OPTIONS.program)
    parser.add_argument("--cells", type=int, default=OPTIONS.cells)
    parser.add_argument("--seed", type=int, default=OPTIONS.seed)
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
