#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks nodes as another user, from other namespaces, and by stopping and killing processes.

Two users without an entry in the user database are used, so this needs root; as another user it
says that it is skipped (77). Prints a table; ends with 1 when a line does not hold. The lines of
namespaces and users hold the table of docs/reference/security.md.

Usage: security_test.py GPEMU NODE_ACTOR [CUDA_PROGRAM] [--signals N] [--damages N] [--seed N]
"""

import argparse
import json
import os
import pathlib
import pwd
import random
import re
import shutil
import signal
import sys
import time

from bench import NODE, OTHER, OWNER, Bench
from damage import check_cut_short, check_damage, check_patterns

SKIPPED = 77
MIB = 2**20
OTHER_PIDS = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
# Prints what a process sees of device 0 by NVML: the memory that is used, and who uses it.
NVML = """
import ctypes, json
nvml = ctypes.CDLL("libnvidia-ml.so.1")
device, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
count, processes = ctypes.c_uint(8), (ctypes.c_ulonglong * 24)()
nvml.nvmlInit_v2()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
nvml.nvmlDeviceGetMemoryInfo(device, memory)
nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes)
print(json.dumps([memory[2], [processes[3 * i] & 0xffffffff for i in range(count.value)]]))
"""
OTHER_MOUNTS = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev/shm && exec "$@"', "sh")


def smi(bench, node=NODE, **options):
    """What `gpemu smi` says of a node: exit code, its first device, and the text."""
    code, _, text = bench.run(bench.gpemu, "smi", node, "--json", "--period-ms", 1, **options)
    return code, json.loads(text)[0] if code == 0 else None, text


# ---- Namespaces: the first part of the table


def check_pid_namespace(bench):
    bench.create()
    holder = bench.start(bench.actor, "hold", NODE, 768)
    code, device, text = smi(bench, prefix=OTHER_PIDS)
    shown = device["processes"][0] if code == 0 and device["processes"] else {}
    bench.check(
        "pid namespace: sees what the others hold",
        code == 0 and device["memory_used_mib"] == 768 and shown.get("pid_namespace", 0) > 0,
        text.strip() if code else f"{device['memory_used_mib']:.0f} MiB, {shown}",
    )
    code, _, text = bench.run(bench.actor, "take", NODE, 512, prefix=OTHER_PIDS)
    bench.check("pid namespace: takes only what is free", code == 4, text.strip())
    code, _, text = bench.run(bench.gpemu, "smi", NODE, "--period-ms", 1, prefix=OTHER_PIDS)
    shown = f"{holder.pid}@{os.stat('/proc/self/ns/pid').st_ino}"
    bench.check("pid namespace: its pids are PID@NAMESPACE", shown in text, shown)
    check_nvml(bench, holder.pid)
    code, _, text = bench.run(bench.actor, "take", NODE, 256, prefix=OTHER_PIDS)
    bench.check("pid namespace: takes what is free", code == 0, text.strip())
    inside = bench.start(bench.actor, "hold", NODE, 200, prefix=OTHER_PIDS)
    code, device, text = smi(bench)
    bench.check(
        "pid namespace: is seen from outside",
        code == 0 and device["memory_used_mib"] == 968 and len(device["processes"]) == 2,
        text.strip() if code else f"{device['memory_used_mib']:.0f} MiB",
    )
    bench.end(inside)
    wait_until(lambda: smi(bench)[1]["memory_used_mib"] == 768)
    bench.check("pid namespace: gives back when it ends", smi(bench)[1]["memory_used_mib"] == 768)
    bench.end(holder)
    used = smi(bench)[1]["memory_used_mib"]
    bench.check("pid namespace: a dead holder holds nothing", used == 0)
    bench.clear()
    bench.create(policy="exclusive")
    bench.start(bench.actor, "hold", NODE, 1)
    code, _, text = bench.run(bench.actor, "take", NODE, 1, prefix=OTHER_PIDS)
    bench.check("pid namespace: an exclusive device is refused", code == 9, text.strip())
    bench.clear()


def check_nvml(bench, pid):
    """NVML has no pids of other namespaces: its lists leave such processes out."""
    if not bench.cuda_program:
        return
    watch = [bench.gpemu_here, "run", "--quiet", "--node", NODE, "--", sys.executable, "-c", NVML]
    for name, prefix, pids in (("same", (), [pid]), ("pid", OTHER_PIDS, [])):
        code, _, text = bench.run(*watch, prefix=prefix)
        seen = json.loads(text) if code == 0 else text
        bench.check(
            f"{name} namespace: NVML counts the memory, and lists {len(pids)} processes",
            seen == [768 * MIB, pids],
            str(seen),
        )


def check_mount_namespace(bench):
    """With a /dev/shm of its own, as most containers have."""
    bench.create(user=OWNER, shared=False)
    bench.start(bench.actor, "hold", NODE, 768, user=OWNER, shared=False)
    own = {"prefix": OTHER_MOUNTS, "user": OWNER, "shared": False}
    code, _, text = bench.run(bench.gpemu, "node", "list", **own)
    bench.check("mount namespace: sees no node", code == 0 and "no nodes" in text, text.strip())
    code, _, text = bench.run(bench.actor, "take", NODE, 1, **own)
    bench.check("mount namespace: takes nothing", code == 3, text.strip())
    # The same folder under another mount: the node is the same.
    shared = ("unshare", "--mount")
    code, device, text = smi(bench, prefix=shared, user=OWNER, shared=False)
    bench.check(
        "mount namespace: a shared folder is the same node",
        code == 0 and device["memory_used_mib"] == 768,
        text.strip() if code else "768 MiB",
    )
    code, _, text = bench.run(
        bench.actor, "take", NODE, 512, prefix=shared, user=OWNER, shared=False
    )
    bench.check("mount namespace: a shared folder gives only what is free", code == 4, text.strip())
    code, _, text = bench.run(
        bench.actor, "take", NODE, 256, prefix=shared, user=OWNER, shared=False
    )
    bench.check("mount namespace: a shared folder gives what is free", code == 0, text.strip())
    bench.end_all()
    bench.run(bench.gpemu, "node", "remove", NODE, user=OWNER, shared=False)


# ---- Users: the second part


def check_users(bench):
    named = f"{OWNER}/{NODE}"
    other = {"user": OTHER, "shared": False}
    bench.create(user=OWNER, shared=False)
    bench.start(bench.actor, "hold", NODE, 768, user=OWNER, shared=False)
    code, _, text = bench.run(bench.gpemu, "node", "list", **other)
    listed = code != 0 or NODE in text
    bench.check("another user: does not see it listed", not listed, text.strip())
    code, _, text = bench.run(bench.gpemu, "smi", named, **other)
    bench.check("another user: may not watch", code == 7 and "denied" in text, text.strip())
    code, _, text = bench.run(bench.actor, "take", named, 1, **other)
    bench.check("another user: may not take part", code == 7 and "denied" in text, text.strip())
    code, _, text = bench.run(bench.gpemu, "node", "remove", "--force", named, **other)
    bench.check("another user: may not remove it", code == 7, text.strip())
    code, device, text = smi(bench, named, shared=False)
    bench.check("root: sees it when it is named", code == 0 and device["memory_used_mib"] == 768)
    code, _, text = bench.run(bench.actor, "take", named, 512, shared=False)
    bench.check("root: takes only what is free when it is named", code == 4, text.strip())
    code, _, text = bench.run(bench.actor, "take", named, 256, shared=False)
    bench.check("root: takes what is free when it is named", code == 0, text.strip())
    code, _, text = bench.run(bench.gpemu, "node", "list", shared=False)
    bench.check("root: does not see it listed", NODE not in text, text.strip())
    code, _, text = bench.run(bench.gpemu, "smi", NODE, shared=False)
    bench.check("root: does not see it by its bare name", code == 3, text.strip())
    code, _, text = bench.run(bench.actor, "take", NODE, 1, shared=False)
    bench.check("root: takes nothing by its bare name", code == 3, text.strip())
    bench.end_all()
    bench.run(bench.gpemu, "node", "remove", NODE, user=OWNER, shared=False)

    bench.create(mode="666", user=OWNER, shared=False)
    bench.start(bench.actor, "hold", NODE, 768, user=OWNER, shared=False)
    code, _, text = bench.run(bench.gpemu, "node", "list", **other)
    bench.check("--access all: is not listed for others", NODE not in text, text.strip())
    code, _, text = bench.run(bench.gpemu, "smi", NODE, **other)
    bench.check("--access all: is not seen by its bare name", code == 3, text.strip())
    code, _, text = bench.run(bench.actor, "take", NODE, 1, **other)
    bench.check("--access all: gives nothing by its bare name", code == 3, text.strip())
    code, device, text = smi(bench, named, **other)
    bench.check(
        "--access all: others watch it by USER/NAME",
        code == 0 and device["memory_used_mib"] == 768,
        text.strip() if code else "768 MiB",
    )
    code, _, text = bench.run(bench.actor, "take", named, 512, **other)
    bench.check("--access all: others take only what is free", code == 4, text.strip())
    taker = bench.start(bench.actor, "hold", named, 256, **other)
    code, device, _ = smi(bench, user=OWNER, shared=False)
    bench.check(
        "--access all: the owner sees what others hold",
        code == 0 and device["memory_used_mib"] == 1024,
    )
    bench.end(taker)
    code, device, _ = smi(bench, user=OWNER, shared=False)
    bench.check("--access all: the dead hold nothing", device["memory_used_mib"] == 768)
    code, _, text = bench.run(bench.gpemu, "node", "remove", "--force", named, **other)
    bench.check("--access all: others may not remove it", code == 7, text.strip())
    bench.end_all()
    bench.run(bench.gpemu, "node", "remove", NODE, user=OWNER, shared=False)


def check_shared_folder(bench):
    """A folder that several users share, as GPEMU_NODE_DIR may name one."""
    bench.create(mode="666", user=OWNER)
    code, _, text = bench.run(bench.gpemu, "node", "list")
    bench.check("shared folder: others' files are not listed", NODE not in text, text.strip())
    code, _, text = bench.run(bench.gpemu, "smi", NODE)
    bench.check(
        "shared folder: others' files are refused unless their user is named",
        code == 3 and f"{OWNER}/{NODE}" in text,
        text.strip(),
    )
    code, device, _ = smi(bench, f"{OWNER}/{NODE}")
    bench.check("shared folder: USER/NAME opens it", code == 0 and device is not None)
    code, _, text = bench.run(bench.gpemu, "smi", f"{OTHER}/{NODE}")
    bench.check("shared folder: the user must be the right one", code == 3, text.strip())
    bench.clear()
    bench.create(mode="666", user=pwd.getpwnam("nobody").pw_uid)
    code, _, text = smi(bench, f"nobody/{NODE}")
    bench.check("shared folder: users are named by their names, too", code == 0, text[:100])
    bench.clear()
    for name, content in (("pattern", b"\xa5" * 200_000), ("empty", b""), ("bad\x1b[31m", b"x"),
                          ("-dash", b""), ("two words", b""), ("it's\n7", b""), ("$(false)", b"")):
        (bench.nodes / name).write_bytes(content)
    os.mkfifo(bench.nodes / "pipe")
    (bench.nodes / "folder").mkdir()
    (bench.nodes / "folder" / "file").touch()
    bench.create(name="good")
    for command in ("node list", "smi"):
        code, seconds, text = bench.run(bench.gpemu, *command.split())
        bench.check(
            f"{command}: damaged files and pipes stop nothing",
            code == 0 and "good" in text and "pattern" in text and "\x1b" not in text,
            f"exit {code} after {seconds:.1f} s",
        )
    code, _, text = bench.run(bench.gpemu, "node", "remove", "pattern")
    bench.check("node remove: a file that is not a node needs --force", code == 8, text.strip())
    text = bench.run(bench.gpemu, "node", "list")[2]
    advice = re.findall(r"`(gpemu node remove [^`]*|rm -r [^`]*)` removes it$", text, re.MULTILINE)
    answers = [bench.run("bash", "-c", f'gpemu() {{ {bench.gpemu} "$@"; }}; {command}')
               for command in advice]
    left = [path.name for path in bench.nodes.iterdir()]
    bench.check("node list: each command that it names removes what it is about",
                all(code == 0 for code, _, _ in answers) and left == ["good"],
                "; ".join(advice) + f"; left: {left}")
    bench.clear()


def check_user_folder(bench):
    """Another user made the folder first, or put a link in its place."""
    remove_folders()
    folder = pathlib.Path(f"/dev/shm/gpemu-{OWNER}")
    victim = {"user": OWNER, "shared": False}
    commands = (
        [bench.gpemu, "node", "list"],
        [bench.gpemu, "smi"],
        [bench.actor, "create", NODE, 1024, "fifo", 600],
        [bench.actor, "take", NODE, 1],
    )
    bench.run("mkdir", "-m", "1777", folder, user=OTHER)
    answers = [bench.run(*command, **victim) for command in commands]
    bench.check(
        "folder: another user's is refused",
        all(code == 7 and "belongs to user" in text for code, _, text in answers),
        answers[0][2].strip(),
    )
    folder.rmdir()
    bench.run("ln", "-s", bench.nodes, folder, user=OTHER)
    answers = [bench.run(*command, **victim) for command in commands]
    bench.check(
        "folder: a link is refused",
        all(code == 7 and "is a link" in text for code, _, text in answers),
        answers[0][2].strip(),
    )
    folder.unlink()
    bench.create(user=OWNER, shared=False)
    mode = folder.stat().st_mode & 0o7777
    bench.check("folder: one's own may be passed through, not listed", mode == 0o711, f"{mode:o}")
    folder.chmod(0o777)
    answers = [bench.run(*command, **victim) for command in commands]
    bench.check(
        "folder: one that others may write to is refused",
        all(code == 7 and "may be written" in text for code, _, text in answers),
        answers[0][2].strip(),
    )
    (folder / NODE).unlink()
    folder.rmdir()


# ---- Stopped, killed and damaged


def wait_until(condition, seconds=5):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)


def check_stopped_holder(bench):
    bench.create()
    holder = bench.start(bench.actor, "hold", NODE, 1000)
    os.killpg(holder.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED)
    code, seconds, text = bench.run(bench.actor, "take", NODE, 512)
    words = (f"process {holder.pid} ", "is stopped", f"kill -CONT {holder.pid}")
    bench.check(
        "stopped: who holds the memory is named, with its state",
        code == 4 and all(word in text for word in words),
        text.strip(),
    )
    code, _, text = bench.run(bench.actor, "take", NODE, 20)
    bench.check("stopped: the rest can be taken", code == 0, text.strip())
    bench.clear()


def check_full(bench):
    """All 256 places of a node are taken: it can still be watched."""
    bench.create()
    bench.start(bench.actor, "crowd", NODE, wait_for="holds 256")
    for command in ("smi", "node list", f"node show {NODE}"):
        code, _, text = bench.run(bench.gpemu, *command.split())
        bench.check(f"{command}: works though all places are taken", code == 0 and NODE in text,
                    f"exit {code}")
    code, _, text = bench.run(bench.actor, "take", NODE, 1)
    bench.check("full: another process is refused", code == 5 and "256 processes" in text,
                text.strip())
    bench.clear()


def check_signals(bench, signals, rng, processes=20):
    """Random SIGSTOP, SIGCONT and SIGKILL among processes, with a watcher and a taker between."""
    bench.create(mib=8192)
    train = [bench.gpemu_here, "train", "synthetic", "--model", "resnet18", "--batch", 8,
             "--steps", 1, "--node", NODE]

    def start():
        return bench.start(bench.actor, "churn", NODE, rng.randrange(2**32), wait_for=None)

    workers = [start() for _ in range(processes)]
    stopped, slowest, codes, named = set(), 0.0, {}, 0
    next_look = time.monotonic()
    for sent in range(signals):
        worker = rng.randrange(processes)
        number = rng.choice((signal.SIGSTOP, signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL))
        os.killpg(workers[worker].pid, number)
        if number == signal.SIGKILL:
            bench.end(workers[worker])
            workers[worker] = start()
        if number == signal.SIGSTOP and len(stopped) < processes // 2:
            stopped.add(worker)
        else:
            os.killpg(workers[worker].pid, signal.SIGCONT)
            stopped.discard(worker)
        if time.monotonic() < next_look:
            time.sleep(0.002)
            continue
        next_look = time.monotonic() + 0.05
        command = rng.choice(
            (
                [bench.gpemu, "smi", NODE, "--period-ms", 1],
                [bench.gpemu, "node", "list"],
                [bench.actor, "take", NODE, rng.choice((1, 512, 8192))],
                train,
            )
        )
        code, seconds, text = bench.run(*command)
        slowest = max(slowest, seconds)
        codes[code] = codes.get(code, 0) + 1
        named += "is stopped" in text
        # A taker may find that others hold the memory.
        bench.check(
            f"quiet: signal {sent}",
            code in (0, 4) and seconds < 3,
            f"exit {code}, {seconds:.1f} s: {text}",
        )
    for process in workers:
        bench.end(process)
    bench.check(
        f"{signals} signals among {processes} processes: no command takes 3 s",
        slowest < 3,
        f"slowest {slowest:.2f} s; exit codes {codes}; {named} messages name a stopped holder",
    )
    code, device, _ = smi(bench)
    bench.check("and none of the dead holds anything", code == 0 and device["memory_used_mib"] == 0)
    code, _, text = bench.run(bench.actor, "take", NODE, 8192)
    bench.check("and all of the memory can be taken", code == 0, text.strip())
    bench.clear()


def remove_folders():
    for user in (OWNER, OTHER):
        folder = pathlib.Path(f"/dev/shm/gpemu-{user}")
        if folder.is_symlink():
            folder.unlink()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gpemu", type=pathlib.Path)
    parser.add_argument("actor", type=pathlib.Path)
    parser.add_argument("cuda_program", nargs="?")
    parser.add_argument("--signals", type=int, default=100)
    parser.add_argument("--damages", type=int, default=60)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--only", help="the check to run, e.g. damage")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("skipped: two users and namespaces need root")
        return SKIPPED
    checks = {
        "pid_namespace": check_pid_namespace,
        "mount_namespace": check_mount_namespace,
        "users": check_users,
        "shared_folder": check_shared_folder,
        "user_folder": check_user_folder,
        "stopped_holder": check_stopped_holder,
        "full": check_full,
        "signals": lambda bench: check_signals(bench, options.signals, random.Random(options.seed)),
        "patterns": check_patterns,
        "cut_short": check_cut_short,
        "damage": lambda bench: check_damage(bench, options.damages, random.Random(options.seed)),
    }
    bench = Bench(options.gpemu, options.actor, options.cuda_program)
    remove_folders()
    if bench.run(*OTHER_PIDS, "true")[0] != 0:
        print("skipped: namespaces, which a container without CAP_SYS_ADMIN may not make")
        checks = {name: check for name, check in checks.items() if "namespace" not in name}
    try:
        for name, check in checks.items():
            if options.only in (None, name):
                check(bench)
    finally:
        bench.close()
        remove_folders()
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
