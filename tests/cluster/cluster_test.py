#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster of tests/cluster/cluster.py: pods of a bare image run on both nodes and reach each
other, and nothing is left of a cluster that was ended, or of which any process was killed at a
random moment.

Usage: tests/cluster/cluster_test.py [--kills N] [--seed N] [unittest's options]
"""

import argparse
import contextlib
import glob
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

import cluster
import image
import keeper

# One name, so that a run removes what a killed one has left.
FOLDER = pathlib.Path("/var/tmp/gpemu-cluster-test")
SECONDS = 120  # that anything may take
LEFT_S = 20  # that the kernel and the keeper may take to remove a killed cluster
CGROUP = keeper.cgroup_name(FOLDER)
MARK = "GPEMU_CLUSTER_TEST=1"  # in the environment of all processes that are started
OPTIONS = argparse.Namespace(kills=3, seed=1)
# These change by themselves.
CHANGING = ("fs/aio-nr", "fs/dentry-state", "fs/file-nr", "fs/inode-nr", "fs/inode-state",
            "fs/quota", "kernel/ns_last_pid", "kernel/pty/nr", "kernel/random",
            "kernel/usermodehelper", "net/netfilter/nf_conntrack_count", "vm/stat_refresh")


def text_of(path):
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def processes(of_cluster):
    """All processes' folders in /proc: those of this cluster, which have the mark or are in its
    cgroups; or others, but not those of other clusters."""
    for path in map(pathlib.Path, glob.glob("/proc/[0-9]*")):
        cgroups = text_of(path / "cgroup")
        own = CGROUP in cgroups or MARK in text_of(path / "environ").split("\0")
        if path.name != str(os.getpid()) and (own or (
                not of_cluster and "gpemu-cluster-" not in cgroups)):
            yield path


def names_of_processes():
    return {int(path.name): name for path in processes(True) if (name := text_of(path / "comm"))}


def namespaces():
    found = set()
    for process in processes(False):
        for path in glob.glob(f"{process}/ns/*"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(path))
    return found


def paths_below(root):
    # pathlib's functions fail if a folder vanishes while they look.
    return (pathlib.Path(folder) / name for folder, folders, files in os.walk(root)
            for name in folders + files)


def settings():
    root = pathlib.Path("/proc/sys")
    return {name: text_of(path) for path in paths_below(root)
            if not (name := str(path.relative_to(root))).startswith(CHANGING)}


def machine():
    """What must be the same before and after."""
    links = subprocess.run(["ip", "-o", "link"], check=True, capture_output=True, text=True).stdout
    return {
        "process": {f"{pid} {name}" for pid, name in names_of_processes().items()},
        "mount": set(pathlib.Path("/proc/self/mountinfo").read_text("utf-8").splitlines()),
        "namespace": namespaces(),
        # Other programs' cgroups come and go. All of this cluster's are in one that is called so.
        "cgroup": {str(path) for path in paths_below(keeper.CGROUPS) if path.name == CGROUP},
        "interface": {line.split(":")[1] for line in links.splitlines()},
        "setting": {f"{name}: {value}" for name, value in settings().items()},
        "file": {path for name in ("/dev/*", "/etc/cni/*", "/opt/*", "/run/*", "/usr/libexec/*",
                                   "/var/lib/*", "/var/log/*", str(FOLDER))
                 for path in glob.glob(name)},
    }


def differences(before, after):
    """What there is that was not there, and which interfaces and mounts are missing."""
    left = [f"{kind} left: {what}" for kind in before for what in after[kind] - before[kind]]
    return sorted(left + [f"{kind} missing: {what}" for kind in ("interface", "mount")
                          for what in before[kind] - after[kind]])


def pod(name, node, command, release="bookworm"):
    container = {"name": "main", "image": image.name_of(release), "imagePullPolicy": "Never",
                 "command": command}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [container],
                     "terminationGracePeriodSeconds": 0}}


class Pods(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster.Cluster(
            FOLDER, nodes=2, images=[image.image("bullseye")],
            before_kubelet=['echo "prepared $NODE_NAME" >/run/hook'],
            on_node=['sh -c \'echo run >>"$CLUSTER_NODE_FOLDER/runs"; sleep 1\''])
        begin = time.monotonic()
        cls.cluster.up()
        print(f"two nodes are ready after {time.monotonic() - begin:.1f} s", file=sys.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.down()

    def kubectl(self, *words, **options):
        return subprocess.run([*cluster.kubectl_words(FOLDER), *words], check=True, text=True,
                              stdout=subprocess.PIPE, timeout=SECONDS, **options).stdout

    def on_node(self, node, *words):
        return subprocess.run([*cluster.node_words(FOLDER, node), *words], check=True, text=True,
                              stdout=subprocess.PIPE, timeout=SECONDS).stdout

    def start(self, name, node, *command, **options):
        self.kubectl("apply", "-f", "-", input=json.dumps(pod(name, node, command, **options)))
        self.addCleanup(self.kubectl, "delete", "pod", name, "--now")

    def address(self, name):
        self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
        return self.kubectl("get", "pod", name, "-o", "jsonpath={.status.podIP}")

    def result(self, name):
        """The output of a pod's program, which ends with 0."""
        self.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{name}",
                     "--timeout=60s")
        return self.kubectl("logs", name)

    def test_a_pod_on_each_node_reaches_the_other(self):
        self.start("server", "n1", "python3", "-c", (
            "import socket\n"
            "listener = socket.create_server(('', 7000))\n"
            "while True:\n"
            "    peer, address = listener.accept()\n"
            "    peer.sendall(f'{socket.gethostname()} heard {address[0]}'.encode())\n"
            "    peer.close()\n"))
        server = self.address("server")
        self.assertTrue(server.startswith("10.88.1."), server)
        self.start("client", "n2", "bash", "-c", (
            f"ping -q -c 3 -i 0.2 {server} && cat </dev/tcp/{server}/7000"))
        said = self.result("client")
        self.assertIn("3 received, 0% packet loss", said)
        client = self.kubectl("get", "pod", "client", "-o", "jsonpath={.status.podIP}")
        self.assertTrue(client.startswith("10.88.2."), client)
        self.assertIn(f"server heard {client}", said)

    def test_the_images_are_bare_debians(self):
        for release, glibc in image.GLIBC.items():
            self.start(release, "n1", "python3", "-c", (
                "import os, platform; print(*platform.libc_ver(), os.path.exists('/run/hook'))"),
                release=release)
            self.assertEqual(self.result(release).split(), ["glibc", glibc, "False"])

    def test_the_scheduler_places_pods(self):
        free = pod("free", None, ["true"])
        del free["spec"]["nodeName"]
        self.kubectl("apply", "-f", "-", input=json.dumps(free))
        self.addCleanup(self.kubectl, "delete", "pod", "free", "--now")
        self.assertEqual(self.result("free"), "")

    def test_nodes_execute_the_hooks(self):
        for node in ("n1", "n2"):
            self.assertEqual(self.on_node(node, "cat", "/run/hook"), f"prepared {node}\n")
            self.assertEqual(self.on_node(node, "hostname"), f"{node}\n")
            runs = FOLDER / node / "runs"
            until = time.monotonic() + SECONDS
            while runs.read_text().count("run") < 2:  # It is started again.
                self.assertLess(time.monotonic(), until, "the program was not started again")
                time.sleep(0.1)

    def test_nodes_have_devices_and_cdi_of_their_own(self):
        self.on_node("n1", "mknod", "/dev/nvidia7", "c", "195", "7")
        self.assertTrue(self.on_node("n1", "ls", "/dev/nvidia7", "/run/cdi"))
        self.assertNotIn("nvidia7", self.on_node("n2", "ls", "/dev"))
        self.assertFalse(pathlib.Path("/dev/nvidia7").exists())

    def test_nodes_see_the_machine_as_read_only(self):
        tried = subprocess.run([*cluster.node_words(FOLDER, "n1"), "touch", "/usr/written"],
                               capture_output=True, text=True, check=False)
        self.assertIn("Read-only file system", tried.stderr)

    def test_a_killed_kubelet_is_started_again(self):
        old = self.on_node("n1", "pgrep", "-x", "kubelet")
        self.on_node("n1", "kill", "-9", old.strip())
        until = time.monotonic() + SECONDS
        while True:
            tried = subprocess.run([*cluster.node_words(FOLDER, "n1"), "pgrep", "-x", "kubelet"],
                                   capture_output=True, text=True, check=False)
            if tried.stdout and tried.stdout != old:
                break
            self.assertLess(time.monotonic(), until, "there is no new kubelet")
            time.sleep(0.1)

    def test_a_second_cluster_in_the_folder_is_refused(self):
        with self.assertRaisesRegex(keeper.ClusterError, "a cluster runs in"):
            second = cluster.Cluster(FOLDER)
            second.up()


class MachineTest(unittest.TestCase):
    """Afterwards, the machine is as before."""

    def setUp(self):
        self.before = machine()
        self.addCleanup(keeper.down, FOLDER)

    def left(self):
        """What differs when all has had its time to end."""
        until = time.monotonic() + LEFT_S
        while (found := differences(self.before, machine())) and time.monotonic() < until:
            time.sleep(0.1)
        return found

    def command(self, *words):
        return [sys.executable, cluster.__file__, "--folder", str(FOLDER), *words]

    def owner(self):
        """A program whose cluster ends with it."""
        return [sys.executable, "-c", f"""
import sys, time
sys.path.insert(0, {str(keeper.HERE)!r})
import cluster
cluster.Cluster({str(FOLDER)!r}).up()
print("up", flush=True)
time.sleep(1000)"""]


class Ends(MachineTest):

    def test_down_leaves_nothing(self):
        subprocess.run(self.command("up"), check=True, timeout=SECONDS * 2)
        self.assertNotEqual(differences(self.before, machine()), [])
        subprocess.run(self.command("down"), check=True, timeout=SECONDS)
        self.assertEqual(self.left(), [])
        subprocess.run(self.command("down"), check=True, timeout=SECONDS)

    def test_the_end_of_the_starting_process_ends_the_cluster(self):
        with subprocess.Popen(self.owner(), stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), b"up\n")
            process.kill()
        self.assertEqual(self.left(), [])  # Without `down`.


class Kills(MachineTest):
    """A random process is killed at a random moment of a start, or after it."""

    @staticmethod
    def keeper():
        pid = keeper.state(FOLDER).get("keeper")
        return (pid, "keeper") if pid else None

    def kill(self, draw):
        """Returns the name of the process that was killed."""
        stays = draw.random() < 0.5
        words = self.command("up") if stays else self.owner()
        with subprocess.Popen(words, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as starting:
            time.sleep(draw.choice([0.5, 5, 20]) * draw.random())
            found = sorted(names_of_processes().items()) or [(starting.pid, "up")]
            inner = draw.choice(found)  # or one of the two that can end the cluster
            victim, name = draw.choice([inner, inner, (starting.pid, "up"),
                                        self.keeper() or inner])
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
            if not stays or draw.random() < 0.5:
                starting.kill()  # Else it may still succeed.
        return name

    def test_kills(self):
        draw = random.Random(OPTIONS.seed)
        for number in range(OPTIONS.kills):
            with self.subTest(number=number):
                name = self.kill(draw)
                then = draw.choice(["down", "up"])
                if then == "up":
                    # It removes what a killed one has left. One that lives is refused.
                    subprocess.run(self.command("up"), check=False, timeout=SECONDS * 2,
                                   capture_output=True)
                subprocess.run(self.command("down"), check=True, timeout=SECONDS)
                left = self.left()
                print(f"kill {number}: {name}, then {then}: {len(left)} left", file=sys.stderr)
                self.assertEqual(left, [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=OPTIONS.kills, help="processes to kill")
    parser.add_argument("--seed", type=int, default=OPTIONS.seed)
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    lines = keeper.missing(FOLDER)
    if lines:
        sys.exit("cluster_test: this machine cannot run a cluster:\n  " + "\n  ".join(lines))
    name, value = MARK.split("=")
    os.environ[name] = value
    keeper.down(FOLDER)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
