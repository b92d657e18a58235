#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs commands that take pinned memory as a user who may lock 8 MiB, the usual limit: they run,
say once what that changes, and count it.

Run by root, each is tried by root without the capability that lifts the limit, and by another
user, where that one can reach the command. Needs setpriv, of util-linux.

Usage: memlock_test.py GPEMU_COMMAND
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest

COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
GPU = "V100-PCIE-32GB"
LIMIT = 8 << 20
NOBODY = 65534
NO_CAPABILITY = ("setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock")
OTHER_USER = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
LINE = "page-locked memory is limited to 8 MiB for this user"

# 32 MiB in two ways, a small part that fits the limit, and a copy of what was not locked.
PROGRAM = """
import ctypes, mmap
cuda = ctypes.CDLL("libcudart.so.12")
size = ctypes.c_size_t(16 << 20)
pinned, small, device = (ctypes.c_void_p() for _ in range(3))
assert cuda.cudaHostAlloc(ctypes.byref(pinned), size, 0) == 0
assert cuda.cudaMallocHost(ctypes.byref(small), ctypes.c_size_t(1 << 20)) == 0
pages = mmap.mmap(-1, 16 << 20)
registered = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(pages)))
assert cuda.cudaHostRegister(registered, size, 0) == 0
ctypes.memset(pinned, 7, 16 << 20)
assert cuda.cudaMalloc(ctypes.byref(device), size) == 0
assert cuda.cudaMemcpyAsync(device, pinned, size, 1, None) == 0
assert cuda.cudaMemcpyAsync(registered, device, size, 2, None) == 0
assert cuda.cudaDeviceSynchronize() == 0
assert pages[:] == bytes([7]) * (16 << 20)
assert cuda.cudaHostUnregister(registered) == 0
assert cuda.cudaFreeHost(pinned) == 0
# Nobody mapped this.
assert cuda.cudaHostRegister(ctypes.c_void_p(4096), size, 0) == 2
print("done")
"""


def users():
    """The words before a command that make it run as somebody who is bound by the limit."""
    if os.geteuid() != 0:
        return [()]
    return [NO_CAPABILITY] + ([OTHER_USER] if runs(OTHER_USER, COMMAND) else [])


def runs(user, program):
    return subprocess.run([*user, "sh", "-c", '"$0" --version', program], check=False,
                          capture_output=True).returncode == 0


def python_of(user):
    return next(path for path in (sys.executable, "/usr/bin/python3") if runs(user, path))


class MemlockTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="gpemu_memlock_test_")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.folder.chmod(0o755)

    def run_as(self, user, *words):
        home = self.folder / f"user{len(user)}"
        home.mkdir(exist_ok=True)
        if user == OTHER_USER:
            os.chown(home, NOBODY, NOBODY)
        environment = {**os.environ, "GPEMU_NODE_DIR": str(home / "nodes"), "TMPDIR": str(home),
                       "HOME": str(home)}
        process = subprocess.run(
            [*user, COMMAND, *map(str, words)], check=False, text=True, capture_output=True,
            env=environment, cwd=home,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_MEMLOCK, (LIMIT, LIMIT)))
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(process.stderr.count(LINE), 1, process.stderr)
        return process, home

    def test_programs_get_pinned_memory(self):
        for user in users():
            with self.subTest(user=user):
                process, home = self.run_as(user, "run", "--gpu", GPU, "--json", "run.json", "--",
                                            python_of(user), "-c", PROGRAM)
                self.assertEqual(process.stdout, "done\n")
                self.assertIn("unlocked  32.0 MiB", process.stderr)
                summary = json.loads((home / "run.json").read_text())
                self.assertEqual(summary["copies"]["not_locked_bytes"], 32 << 20)

    def test_trains_from_pinned_batches(self):
        data = self.folder / "images"
        subprocess.run([COMMAND, "data", "make", str(data), "--classes", "2", "--images", "64"],
                       check=True, capture_output=True)
        for user in users():
            with self.subTest(user=user):
                _, home = self.run_as(user, "train", "files", data, "--gpu", GPU, "--model",
                                      "resnet18", "--batch", 32, "--workers", 1, "--json",
                                      "train.json")
                result = json.loads((home / "train.json").read_text())
                self.assertTrue(result["options"]["pin_memory"])
                self.assertGreaterEqual(result["data"]["not_locked_bytes"], 32 * 3 * 224 * 224 * 4)


if __name__ == "__main__":
    unittest.main()
