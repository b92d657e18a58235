#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The part of a cluster that is outside of its namespaces: its cgroups and its folder, and the
process that removes them, the keeper, which cluster.py starts.

Usage: keeper.py FOLDER, with the configuration as a line of JSON in its standard input
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
CGROUPS = pathlib.Path("/sys/fs/cgroup")
CONTROLLERS = ("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids")
# Nodes have these for themselves.
PRIVATE = ("/dev", "/proc", "/run", "/sys", "/tmp", "/var/lib", "/var/log")
END_S = 60


class ClusterError(Exception):
    """Its text is for the user."""


def write(path, text):
    """A file is whole, or not there."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text)
    part.rename(path)


def cgroup_mounts():
    """The folder of each controller of cgroup v1, and of systemd's list of processes."""
    found = {}
    for line in pathlib.Path("/proc/mounts").read_text("utf-8").splitlines():
        _, folder, kind, options = line.split()[:4]
        if kind == "cgroup":
            for name in (*CONTROLLERS, "name=systemd"):
                if name in options.split(","):
                    found[name] = pathlib.Path(folder)
    return found


def own_cgroup(folder, controllers):
    """This process's cgroup in the hierarchy of a controller."""
    for line in pathlib.Path("/proc/self/cgroup").read_text("utf-8").splitlines():
        _, names, path = line.split(":", 2)
        if set(names.split(",")) & controllers:
            return folder / path.lstrip("/")
    return folder


def cgroup_name(folder):
    return f"gpemu-cluster-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"


def new_cgroups(folder):
    """Where the cgroups of a cluster belong: below this process's own, so that its limits hold."""
    name, hierarchies = cgroup_name(folder), {}
    for controller, mount in cgroup_mounts().items():
        hierarchies.setdefault(mount, set()).add(controller)
    return {",".join(sorted(controllers)): str(own_cgroup(mount, controllers) / name)
            for mount, controllers in hierarchies.items()}


def make_cgroup(path):
    path.mkdir(exist_ok=True)
    # A new cgroup has no processors and no memory until it is told.
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (path / name).exists():
            (path / name).write_text((path.parent / name).read_text())


def processes_of(cgroup):
    try:
        # 0 is one that this process's PID namespace does not have.
        return [int(pid) for pid in (cgroup / "cgroup.procs").read_text().split() if pid != "0"]
    except OSError:
        return []


def remove_cgroups(paths):
    """Ends all processes of these trees, and removes the trees."""
    until = time.monotonic() + END_S
    paths = [pathlib.Path(path) for path in paths]
    while any(path.exists() for path in paths):
        for path in paths:
            for folder, _, _ in os.walk(path, topdown=False):
                for pid in processes_of(pathlib.Path(folder)):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(OSError):  # It still has processes.
                    os.rmdir(folder)
        if time.monotonic() > until:
            raise ClusterError(f"these cgroups still have processes after {END_S} s: "
                               f"{', '.join(str(path) for path in paths if path.exists())}")
        time.sleep(0.02)


def state(folder):
    """What the keeper has written; nothing if there is no cluster."""
    try:
        return json.loads((folder / "state.json").read_text())
    except FileNotFoundError:
        return {}


def remove(folder):
    """Removes what a cluster without a keeper has left."""
    remove_cgroups(state(folder).get("cgroups", {}).values())
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != "state.json":
            path.unlink()
    (folder / "state.json").unlink(missing_ok=True)
    folder.rmdir()


def lock(folder):
    """Returns the lock on a cluster's folder, which it makes; None if another process has it."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The one that had it may have removed the folder.
            if os.stat(folder).st_ino == os.fstat(held).st_ino:
                return held
        except BlockingIOError:
            os.close(held)
            return None
        except FileNotFoundError:
            pass
        os.close(held)


def down(folder):
    """Ends a cluster, if there is one, and removes all of it."""
    if not folder.exists():
        return
    until = time.monotonic() + END_S
    held = lock(folder)
    while held is None:
        if keeper := state(folder).get("keeper"):
            # The lock is held: the keeper lives, and this number is its.
            with contextlib.suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGTERM if time.monotonic() < until else signal.SIGKILL)
        time.sleep(0.1)
        held = lock(folder)
    remove(folder)
    os.close(held)


def missing(folder):
    """What this machine lacks: one line for each."""
    lines = []
    if os.geteuid() != 0:
        lines.append("you are not root")
    lacking = {*CONTROLLERS} - {*cgroup_mounts()}
    if lacking:
        lines.append(f"{CGROUPS} has no cgroup v1 of {', '.join(sorted(lacking))}; start Linux with"
                     " systemd.unified_cgroup_hierarchy=0")
    tools = ["apt-get", "dpkg-deb", "ip", "mount", "nsenter", "openssl", "setpriv", "unshare"]
    lacking = [tool for tool in tools if not shutil.which(tool)]
    if lacking:
        lines.append(f"there is no {', no '.join(lacking)}; on Debian: apt-get install iproute2 "
                     "openssl util-linux")
    if "\toverlay\n" not in pathlib.Path("/proc/filesystems").read_text():
        lines.append("Linux has no overlay file system here; try: modprobe overlay")
    if str(folder).startswith(tuple(f"{path}/" for path in PRIVATE)):
        lines.append(f"{folder} is in a folder that nodes have for themselves; use one in /var/tmp")
    if not lines:
        namespaces = ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--cgroup",
                      "--fork", "ip", "link", "add", "type", "bridge"]
        tried = subprocess.run(namespaces, capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            lines.append(f"it makes no namespaces with a bridge: {tried.stderr.strip()}")
    return lines


def keep(folder):
    """Starts a cluster, and removes it when it ends, or when the process that has started this one
    dies before it writes "k" to our standard input."""
    config = json.loads(sys.stdin.buffer.readline())
    while (held := lock(folder)) is None:
        # One that ends will have gone; one that starts has not written its state yet.
        if not state(folder).get("ends", True):
            raise ClusterError(f"a cluster runs in {folder}; end it with: {HERE}/cluster.py "
                                   f"--folder {folder} down")
        time.sleep(0.1)
    remove(folder)
    os.close(held)
    held = lock(folder)
    cgroups = new_cgroups(folder)
    now = {"keeper": os.getpid(), "ends": False, "cgroups": cgroups}
    write(folder / "state.json", json.dumps(now))
    write(folder / "config.json", json.dumps(config))
    signal.signal(signal.SIGTERM, end_once)
    try:
        for path in cgroups.values():
            make_cgroup(pathlib.Path(path))
        first = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", sys.executable,
                                  HERE / "inside.py", folder, "enter"], stdin=subprocess.PIPE)
        wait_for_end(os.pidfd_open(first.pid))
    finally:
        write(folder / "state.json", json.dumps({**now, "ends": True}))
        remove(folder)  # This also kills all processes.


def end_once(*_):
    """Ends this process by an exception; what it then removes is not interrupted."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def wait_for_end(process):
    """Returns when a process has ended, or when our standard input has."""
    watched = select.poll()
    watched.register(process, select.POLLIN)
    watched.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    while True:
        for file, _ in watched.poll():
            if file == process or os.read(file, 1) != b"k":
                return
            # It goes on without the one that has started it.
            watched.unregister(file)
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)


if __name__ == "__main__":
    try:
        keep(pathlib.Path(sys.argv[1]))
    except ClusterError as error:
        sys.exit(f"cluster: {error}")
