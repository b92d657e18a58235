#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_packages.sh removes what it makes itself, and nothing else, from the folder it is given."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("check_packages.sh")
OLD = ("gpemu-0.0-py3-none-any.whl", "gpemu_0.0_amd64.deb", "libgpemu-dev_0.0_amd64.deb")


class Folder(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        scripts = self.root / "repository" / "scripts"
        (scripts / "check").mkdir(parents=True)
        shutil.copy(SCRIPT, scripts / "check")
        build = scripts / "build"
        build.mkdir()
        for name, does in (("setup.sh", "true"), ("build_wheel.sh", 'echo "$1"; exit 1')):
            (build / name).write_text(f"#!/bin/sh\n{does}\n")
            (build / name).chmod(0o755)

    @unittest.skipUnless(os.geteuid() == 0, "only root may check packages")
    def test_keeps_the_packages_of_others(self):
        downloads = self.root / "downloads"
        downloads.mkdir()
        for name in (*OLD, "firefox.deb", "numpy-2.4.6-cp311.whl"):
            (downloads / name).touch()
        # From another folder than the repository, which the argument is relative to.
        script = self.root / "repository/scripts/check/check_packages.sh"
        done = subprocess.run([script, "downloads"], cwd=self.root, capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (1, f"{downloads}\n"), done.stderr)
        self.assertEqual(sorted(path.name for path in downloads.iterdir()),
                         ["firefox.deb", "numpy-2.4.6-cp311.whl"])


if __name__ == "__main__":
    unittest.main()
