#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""200 hollow nodes with 8 GPUs each and 2,000 pods, by a real API server: kube-scheduler, and then
gpemu's with Synergy and with FGD, whose leader is killed 20 times.

Usage: tests/cluster/scheduler_test.py [--program FILE] [--seed N] [unittest's options]
"""

import argparse
import collections
import concurrent.futures
import contextlib
import ctypes
import http.client
import json
import pathlib
import random
import signal
import ssl
import subprocess
import sys
import threading
import time
import unittest

import cluster
import inside

FOLDER = pathlib.Path("/var/tmp/gpemu-scheduler-test")
OPTIONS = argparse.Namespace(seed=1, program=cluster.ROOT / "build/release/tools/gpemu-kubernetes")
NODES, GPUS, CORES, MEMORY_GIB = 200, 8, 128, 1024
PODS, RATED = 2000, 1000
KILLS = 20
SECONDS = 300  # that anything may take
PODS_PATH = "/api/v1/namespaces/default/pods"
CLONE_NEWNET = 0x40000000
# In a new round, Synergy preempts pods; nothing would replace these.
SYNERGY = ("--policy", "las-synergy", "--round", "100000")
# A batch of ten pods has these GPUs; the first RATED pods fit all at once.
BATCH = (1, 1, 1, 1, 1, 1, 1, 2, 2, 4)


class Api:
    """A connection to the API server. It ends with the object."""

    def __init__(self):
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # The server signs its own certificate.
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        self.connection = http.client.HTTPSConnection(*inside.SERVER, timeout=60, context=trusting)

    def __del__(self):
        self.connection.close()

    def send(self, method, path, body=None):
        self.connection.request(method, path, body=json.dumps(body) if body else None, headers={
            "Authorization": f"Bearer {inside.TOKEN}", "Content-Type": "application/json"})
        return self.connection.getresponse()

    def ask(self, method, path, body=None):
        answer = self.send(method, path, body)
        text = answer.read()
        if answer.status >= 300:
            raise AssertionError(f"{method} {path}: {answer.status} {text[:300]}")
        return json.loads(text)


def request_of(pod):
    """The GPUs in thousandths, the cores and the GiB that a pod asks for."""
    limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
    milli = pod["metadata"].get("annotations", {}).get("gpemu.dev/gpu-milli")
    return (int(milli) if milli else 1000 * int(limits.get("nvidia.com/gpu", 0)),
            int(limits["cpu"]), int(limits["memory"].removesuffix("Gi")))


class Watcher(threading.Thread):
    """Follows all pods, and finds what must not be, in the order in which it came to be."""

    def __init__(self):
        super().__init__(daemon=True)
        self.api = Api()
        self.since = self.api.ask("GET", PODS_PATH)["metadata"]["resourceVersion"]
        self.faults, self.bound_at, self.ended, self.failed = [], {}, {}, {}
        self.node_of, self.holds = {}, {}
        self.used = collections.defaultdict(lambda: [0, 0, 0])
        self.gpus = collections.Counter()
        self.stops = False

    def run(self):
        answer = self.api.send("GET", f"{PODS_PATH}?watch=1&resourceVersion={self.since}")
        while not self.stops:
            try:
                line = answer.readline()
            except TimeoutError:  # Nothing happens.
                line = b""
            if not line:
                self.faults.append("the watch ended")
                return
            event = json.loads(line)
            self.take(event["type"], event["object"])

    def take(self, kind, pod):
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        phase = pod["status"].get("phase")
        if node and self.node_of.setdefault(uid, node) != node:
            self.faults.append(f"{uid} is bound to {self.node_of[uid]} and to {node}")
        if phase in ("Succeeded", "Failed") or kind == "DELETED":
            self.release(uid)
            if phase == "Failed":
                self.failed[uid] = pod["status"].get("message")
            elif phase == "Succeeded":
                self.ended[uid] = time.monotonic()
            elif uid not in self.ended:
                self.faults.append(f"{pod['metadata']['name']} is removed before it has ended")
        elif node and uid not in self.bound_at:
            self.bound_at[uid] = time.monotonic()
            self.take_up(uid, node, pod)

    def take_up(self, uid, node, pod):
        asked = request_of(pod)
        annotations = pod["metadata"].get("annotations", {})
        indices = [i for i in annotations.get("gpemu.dev/gpu-indices", "").split(",") if i]
        self.holds[uid] = (node, asked, indices)
        for place, amount in enumerate(asked):
            self.used[node][place] += amount
        for index in indices:
            each = min(asked[0], 1000)
            self.gpus[node, index] += each
            if self.gpus[node, index] > 1000:
                self.faults.append(f"GPU {index} of {node} has {self.gpus[node, index]}/1000")
        if any(used > all_ for used, all_ in
               zip(self.used[node], (1000 * GPUS, CORES, MEMORY_GIB))):
            held = [hold for hold in self.holds.values() if hold[0] == node]
            self.faults.append(f"{node} has {self.used[node]}: {held}")

    def release(self, uid):
        if uid not in self.holds:
            return
        node, asked, indices = self.holds.pop(uid)
        for place, amount in enumerate(asked):
            self.used[node][place] -= amount
        for index in indices:
            self.gpus[node, index] -= min(asked[0], 1000)


def pod(name, scheduler, number, shares):
    annotations = {"gpemu.dev/seconds": str(2 + number % 5)}
    gpus = BATCH[number % len(BATCH)]
    limits = {"cpu": str(4 * gpus), "memory": f"{32 * gpus}Gi"}
    if shares and gpus == 1:
        annotations["gpemu.dev/gpu-milli"] = str((1000, 500, 250, 800, 100)[number // 10 % 5])
    else:
        limits["nvidia.com/gpu"] = str(gpus)
    return {"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"schedulerName": scheduler, "restartPolicy": "Never",
                     "tolerations": [{"key": "gpemu.dev/hollow", "operator": "Exists"}],
                     "containers": [{"name": "main", "image": "none",
                                     "resources": {"limits": limits}}]}}


def in_parallel(what, items, threads=8):
    local = threading.local()

    def one(item):
        if not hasattr(local, "api"):
            local.api = Api()
        what(local.api, item)
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for done in pool.map(one, items):
            del done


def wait_for(condition, what):
    until = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"{what}: not after {SECONDS} s")
        time.sleep(0.1)


class Scheduler(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster.Cluster(FOLDER, nodes=0)
        cls.cluster.up()
        cls.addClassCleanup(cls.cluster.down)
        # From here on, this process is in the network of the control plane.
        with open(f"/proc/{cluster.first_process(FOLDER)}/ns/net", "rb") as space:
            if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        cls.programs = []
        cls.addClassCleanup(lambda: [cls.end(program) for program in list(cls.programs)])
        cls.start("hollow-nodes", "--count", NODES, "--gpu", f"A100-SXM4-80GB:{GPUS}",
                  "--cores", CORES, "--memory", MEMORY_GIB)
        api = Api()
        # The controllers let pods on a new node after a while.
        wait_for(lambda: sum(len(node["spec"].get("taints", [])) == 1 and
                             node["status"]["conditions"][0]["status"] == "True"
                             for node in api.ask("GET", "/api/v1/nodes")["items"]) == NODES,
                 "the nodes are ready")
        cls.rates = {}

    @classmethod
    def launch(cls, name, words):
        with open(FOLDER / f"{name}.log", "ab") as log:
            program = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log)
        cls.programs.append(program)
        return program

    @classmethod
    def start(cls, command, *options):
        return cls.launch(command, [OPTIONS.program, command, "--kubeconfig",
                                    FOLDER / "kubeconfig", *options])

    @classmethod
    def end(cls, program, how=signal.SIGTERM):
        cls.programs.remove(program)
        program.send_signal(how)
        try:
            program.wait(60)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()

    def make_pods(self, scheduler, shares=False, numbers=range(PODS)):
        in_parallel(lambda api, number: api.ask(
            "POST", PODS_PATH, pod(f"p-{number}", scheduler, number, shares)), numbers)

    def remove_pods(self):
        api = Api()
        api.ask("DELETE", f"{PODS_PATH}?gracePeriodSeconds=0")
        wait_for(lambda: not api.ask("GET", PODS_PATH)["items"], "the pods are gone")

    def check(self, watcher, name):
        """All pods have run once, where there was room."""
        wait_for(lambda: len(watcher.ended) + len(watcher.failed) >= PODS or watcher.faults,
                 f"{name}: all pods end ({len(watcher.ended)} have)")
        watcher.stops = True
        self.assertEqual(watcher.faults[:5], [])
        self.assertEqual(list(watcher.failed.values())[:5], [])
        self.assertEqual((len(watcher.ended), len(watcher.bound_at)), (PODS, PODS))

    def rate(self, name, scheduler, start, shares=False):
        """Decisions a second, of a scheduler that finds all pods waiting."""
        self.make_pods(scheduler, shares)
        watcher = Watcher()
        watcher.start()
        program = start()
        try:
            self.check(watcher, name)
        finally:
            self.end(program)
        times = sorted(watcher.bound_at.values())
        self.rates[name] = (RATED - 1) / (times[RATED - 1] - times[0])
        print(f"{name:28}{self.rates[name]:8.0f} decisions a second, of the first {RATED}; "
              f"all {PODS} pods in {max(watcher.ended.values()) - times[0]:.1f} s", flush=True)
        self.remove_pods()

    def kube_scheduler(self, name, connection):
        config = FOLDER / f"{name}.json"
        config.write_text(json.dumps({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(FOLDER / "kubeconfig"), **connection},
            "profiles": [{"schedulerName": name}]}))
        programs = json.loads((FOLDER / "config.json").read_text())["programs"]
        return self.launch(name, [f"{programs}/kube-scheduler", f"--config={config}",
                                  "--secure-port=0"])

    def test_1_rates(self):
        self.rate("kube-scheduler", "kube", lambda: self.kube_scheduler("kube", {}))
        self.rate("kube-scheduler, unlimited", "kube-fast", lambda: self.kube_scheduler(
            "kube-fast", {"qps": 10000, "burst": 10000}))
        self.rate("gpemu, las-synergy", "gpemu-scheduler",
                  lambda: self.start("scheduler", *SYNERGY))
        self.rate("gpemu, fgd", "gpemu-scheduler",
                  lambda: self.start("scheduler", "--place", "fgd"), shares=True)
        best = max(rate for name, rate in self.rates.items() if name.startswith("kube"))
        for name, rate in self.rates.items():
            self.assertGreaterEqual(rate, best if name.startswith("gpemu") else 0, name)

    def test_2_leaders_are_killed(self):
        chance = random.Random(OPTIONS.seed)
        watcher = Watcher()
        watcher.start()
        candidates = [self.start("scheduler", *SYNERGY, "--lease", "2")
                      for _ in range(2)]
        maker = threading.Thread(target=self.make_pods, args=("gpemu-scheduler",))
        maker.start()
        api = Api()
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/gpemu-scheduler"
        killed = []

        def new_leader():
            holder = ""
            with contextlib.suppress(AssertionError):  # There is no lease at first.
                holder = api.ask("GET", path)["spec"]["holderIdentity"]
            pid = int(holder.rpartition("_")[2] or 0)
            return next((c for c in candidates if c.pid == pid), None)
        for _ in range(KILLS):
            wait_for(new_leader, "there is a leader")
            time.sleep(chance.uniform(0, 1.5))
            leader = new_leader()
            self.end(leader, signal.SIGKILL)
            killed.append(leader.pid)
            candidates.remove(leader)
            candidates.append(self.start("scheduler", *SYNERGY, "--lease", "2"))
        maker.join()
        self.check(watcher, "killed leaders")
        transitions = api.ask("GET", path)["spec"]["leaseTransitions"]
        print(f"{len(killed)} leaders killed, {transitions} takeovers; {len(watcher.ended)} pods "
              "ran once each", flush=True)
        self.assertGreaterEqual(transitions, KILLS)
        for candidate in candidates:
            self.end(candidate)
        self.remove_pods()


    def replay(self, policy, speed, *options):
        """Jobs of a table as pods; returns the mean JCT of the pods and of the simulation."""
        fast = ("--speed", speed)
        scheduler = self.start("scheduler", "--policy", policy, *fast)
        try:
            done = subprocess.run(
                [str(word) for word in (OPTIONS.program, "replay", "--kubeconfig",
                                        FOLDER / "kubeconfig", "--policy", policy, *fast,
                                        *options)],
                capture_output=True, text=True, timeout=SECONDS, check=False)
        finally:
            self.end(scheduler)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        print(f"replay, {policy}:\n{done.stdout}", flush=True)
        words = next(line for line in done.stdout.splitlines() if line.startswith("mean")).split()
        return float(words[2]), float(words[6])

    def test_3_replay(self):
        """The mean JCT of AlloX's jobs in pods is that of the simulation within 5 %."""
        for program in [p for p in self.programs if "hollow-nodes" in p.args]:
            self.end(program)
        folder = cluster.ROOT / "experiments/allox"
        nodes = self.start("hollow-nodes", "--fleet", folder / "servers.csv", "--speed", "2")
        for policy in ("drf-fifo", "drf-sjf", "equal-share", "allox"):
            pods, simulated = self.replay(
                policy, 2, "--jobs", folder / "jobs.csv", "--fleet", folder / "servers.csv",
                "--speeds", folder / "speeds.csv", "--restart", "3.2")
            self.assertAlmostEqual(pods / simulated, 1, delta=0.05, msg=policy)
        self.end(nodes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], add_help=False)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", type=lambda name: pathlib.Path(name).resolve(),
                        default=OPTIONS.program)
    options, rest = parser.parse_known_args()
    vars(OPTIONS).update(vars(options))
    if not OPTIONS.program.exists():
        sys.exit(f"scheduler_test: there is no {OPTIONS.program}; build it, or run "
                 "scripts/check/scheduler.sh, which does")
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
