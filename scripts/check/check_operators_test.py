#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of how check_operators.py ends its worker."""

import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True
import check_operators


class Worker(check_operators.Process):
    """A worker that has ended before it is asked for anything."""

    def __init__(self):
        self.process = subprocess.Popen(["true"], stdin=subprocess.PIPE)
        self.process.wait()
        self.log = open(os.devnull, "ab")


class EndTest(unittest.TestCase):
    def test_a_dead_worker_can_be_stopped(self):
        worker = Worker()
        self.assertIsNone(worker.run("add"))
        worker.stop()
        self.assertTrue(worker.log.closed)

    def test_an_interrupted_run_leaves_no_worker(self):
        worker = mock.Mock(operators=["add"])
        worker.run.side_effect = KeyboardInterrupt
        options = types.SimpleNamespace(operators=[], again=False)
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(check_operators, "Process", return_value=worker), \
                self.assertRaises(KeyboardInterrupt):
            check_operators.run_all(options, pathlib.Path(folder) / "results", str)
        worker.stop.assert_called_once()


if __name__ == "__main__":
    unittest.main()
