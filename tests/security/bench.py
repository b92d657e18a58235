# SPDX-License-Identifier: Apache-2.0
"""What the security tests share: two users, their nodes, and commands with a time limit."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Numbers that no entry of a user database needs.
OWNER, OTHER = 4_000_001, 4_000_002
# Longer than the random part of the name of the folder, which some texts contain.
NODE = "guarded-node"
# Documented in docs/reference/exit-codes.md; 1, a bug, and signals are not among them.
DOCUMENTED = {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}


class Bench:
    """A folder that all users can read, with copies of the programs."""

    def __init__(self, gpemu, actor, cuda_program=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpemu-security-"))
        self.folder.chmod(0o755)
        self.nodes = self.folder / "nodes"
        self.nodes.mkdir()
        self.nodes.chmod(0o1777)  # Of several users, as a folder that GPEMU_NODE_DIR names may be.
        self.gpemu_here = str(gpemu)
        self.cuda_program = cuda_program
        self.gpemu = self.copy(gpemu)
        self.actor = self.copy(actor)
        self.started = []
        self.failures = 0

    def copy(self, program):
        """A build folder may be one that only its owner can enter."""
        target = self.folder / pathlib.Path(program).name
        shutil.copy(program, target)
        target.chmod(0o755)
        return str(target)

    def environment(self, shared=True):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GPEMU_")}
        # In a build with sanitizers, the signal is gpemu's to handle as in others.
        kept["ASAN_OPTIONS"] = "handle_sigbus=0"
        return {**kept, "GPEMU_NODE_DIR": str(self.nodes)} if shared else kept

    @staticmethod
    def as_user(user, command):
        if user == os.geteuid():
            return list(command)
        return [
            *("setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", "--"),
            *command,
        ]

    def run(self, *command, user=0, prefix=(), shared=True, timeout=30):
        """Returns exit code (None: it had to be killed), seconds, and both outputs as one text."""
        start = time.monotonic()
        process = subprocess.Popen(
            [*prefix, *self.as_user(user, [str(word) for word in command])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environment(shared),
            start_new_session=True,
        )
        try:
            output = process.communicate(timeout=timeout)[0]
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0]
            code = None
        return code, time.monotonic() - start, output.decode(errors="replace")

    def start(self, *command, user=0, prefix=(), shared=True, wait_for="holds"):
        """Starts a program and waits for its first line."""
        process = subprocess.Popen(
            [*prefix, *self.as_user(user, [str(word) for word in command])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=self.environment(shared),
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        if wait_for:
            line = process.stdout.readline().strip()
            if line != wait_for:
                sys.exit(f"{command}: said {line!r} instead of {wait_for!r}")
        return process

    def end(self, process):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.started.remove(process)

    def end_all(self):
        for process in list(self.started):
            self.end(process)

    def create(self, mib=1024, policy="fifo", mode="600", user=0, shared=True, name=NODE):
        code, _, output = self.run(
            self.actor, "create", name, mib, policy, mode, user=user, shared=shared
        )
        if code != 0:
            sys.exit(f"cannot create a node: {output}")

    def check(self, name, holds, detail=""):
        self.failures += not holds
        if not holds or not name.startswith("quiet:"):
            mark = "ok  " if holds else "FAIL"
            print(f"{mark}  {name}{f': {detail}' if detail else ''}", flush=True)

    def clear(self):
        self.end_all()
        for path in self.nodes.iterdir():
            path.unlink()

    def close(self):
        self.end_all()
        shutil.rmtree(self.folder, ignore_errors=True)
