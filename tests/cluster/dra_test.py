#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Emulated GPUs by dynamic resource allocation in a real cluster (tests/cluster/cluster.py): which
GPUs pods get that claim them, which wait, what parts of a GPU are, and what happens when GPUs are
lost and when the driver and the kubelet restart. The tests are the examples of Kubernetes' own
example driver, as far as gpemu has them (docs/design/kubernetes.md). And what gpemu's OCI runtime
and its CDI specification give to containers of containerd.

Usage: tests/cluster/dra_test.py --installation FOLDER --driver PROGRAM [--restarts N]
           [unittest's options]

FOLDER: where gpemu alone is installed, from the preset `package`. PROGRAM: gpemu-kubernetes,
from another preset; gpemu-runtime is next to it.
"""

import argparse
import contextlib
import json
import pathlib
import random
import subprocess
import sys
import time
import unittest

import cluster
import cluster_test
import image
import keeper

FOLDER = pathlib.Path("/var/tmp/gpemu-cluster-dra")
SECONDS = 120  # that anything may take
WAITS_S = 5  # after which something that waits is taken to wait
OPTIONS = argparse.Namespace(installation="/opt/gpemu", driver="gpemu-kubernetes", restarts=3)
GATES = ["DRAConsumableCapacity=true", "DRADeviceTaints=true", "DRAExtendedResource=true",
         "DRAPartitionableDevices=true"]
GPU, PARTS, FAULTY = "gpu.nvidia.com", "parts.gpemu.test", "faulty.gpemu.test"
MIG = "mig.gpemu.test"
API = "resource.k8s.io/v1"
UUIDS = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
FOREVER = ["sleep", "100000"]

# Which of these sizes, in GiB, the GPU has memory for, one after the other, by the driver's API.
ALLOCATE = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
for size in map(int, sys.argv[1:]):
    bytes_ = ctypes.c_size_t(size * 2**30)
    print(size, cuda.cuMemAlloc_v2(ctypes.byref(memory), bytes_), flush=True)
"""


def driver(name, *words):
    return " ".join([OPTIONS.driver, "dra-driver", "--driver", name, "--node", "$NODE_NAME",
                     "--installation", OPTIONS.installation, "--state", f"/run/state-{name}",
                     "--kubeconfig", f"{FOLDER}/kubeconfig", "--machine", name, *words])


def device_class(name, kind="gpu", **spec):
    selector = f"device.driver == '{name}' && device.attributes['{name}'].type == '{kind}'"
    return {"apiVersion": API, "kind": "DeviceClass", "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": selector}}], **spec}}


def request(name="gpu", device=GPU, where=(), **options):
    selectors = [{"cel": {"expression": expression}} for expression in where]
    return {"name": name, "exactly": {"deviceClassName": device, "selectors": selectors, **options}}


class InCluster(unittest.TestCase):

    @classmethod
    def tearDownClass(cls):
        cls.cluster.down()

    @classmethod
    def kubectl(cls, *words, **options):
        return subprocess.run([*cluster.kubectl_words(FOLDER), *words], check=True, text=True,
                              stdout=subprocess.PIPE, timeout=SECONDS, **options).stdout

    @classmethod
    def apply(cls, *objects):
        for item in objects:
            cls.kubectl("apply", "-f", "-", input=json.dumps(item))

    @classmethod
    def get(cls, *words):
        return json.loads(cls.kubectl("get", *words, "-o", "json"))

    @staticmethod
    def wait_until(condition, what):
        until = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > until:
                raise AssertionError(f"not {what} after {SECONDS} s")
            time.sleep(0.2)

    @staticmethod
    def on_node(*words, **options):
        return subprocess.run([*cluster.node_words(FOLDER, "n1"), *words], check=True, text=True,
                              stdout=subprocess.PIPE, timeout=SECONDS, **options).stdout

    def remove(self, name):
        self.kubectl("delete", "pod", name, "--now", "--ignore-not-found")

    def phase(self, name):
        return self.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}",
                            "--ignore-not-found")

    def said(self, name, container="main"):
        """What a container's program said, when the pod's programs have all ended with 0."""
        self.wait_until(lambda: self.phase(name) in ("Succeeded", "Failed"), f"at its end: {name}")
        said = self.kubectl("logs", name, "-c", container)
        self.assertEqual(self.phase(name), "Succeeded", said)
        return said.strip()


class Claims(InCluster):

    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster.Cluster(FOLDER, nodes=1, feature_gates=GATES, on_node=[
            driver(GPU, "--gpu", "A100-SXM4-40GB:2", "--gpu", "H100-SXM5-80GB"),
            driver(PARTS, "--gpu", "A100-SXM4-40GB", "--divide", "limit"),
            driver(MIG, "--gpu", "A100-SXM4-40GB", "--mig")])
        cls.cluster.up()
        cls.apply(device_class(GPU, extendedResourceName="nvidia.com/gpu"), device_class(PARTS),
                  device_class(FAULTY), device_class(MIG, "mig"))
        # The A100, and what MIG can make of it: seven 1g.5gb, one of them with media extensions
        # wherever it is, four 1g.10gb, three 2g.10gb, two 3g.20gb, a 4g.20gb and a 7g.40gb.
        for name, gpus in ((GPU, 3), (PARTS, 1), (MIG, 1 + 7 + 7 + 4 + 3 + 2 + 1 + 1)):
            cls.wait_until(lambda n=name, g=gpus: len(cls.devices(n)) == g, "published")

    @classmethod
    def devices(cls, name):
        """The devices that a driver publishes, by their names."""
        return {device["name"]: device for item in cls.get("resourceslices")["items"]
                if item["spec"]["driver"] == name for device in item["spec"].get("devices", [])}

    @classmethod
    def uuids(cls, name, architecture=None):
        attributes = [device["attributes"] for device in cls.devices(name).values()]
        return {its["uuid"]["string"] for its in attributes
                if architecture in (None, its["architecture"]["string"])}

    def claim(self, name, *requests, **devices):
        self.apply({"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": name},
                    "spec": {"devices": {"requests": list(requests), **devices}}})
        self.addCleanup(self.kubectl, "delete", "resourceclaim", name, "--ignore-not-found")

    def start(self, name, command, claims=(), containers=None, limits=None):
        """Starts a pod that may use these claims: all of its containers, or as they say."""
        pod = cluster_test.pod(name, None, command)
        del pod["spec"]["nodeName"]
        main = pod["spec"]["containers"][0]
        pod["spec"]["resourceClaims"] = [{"name": claim, "resourceClaimName": claim}
                                         for claim in claims]
        main["resources"] = {"limits": limits or {}, "claims": [{"name": claim}
                                                                for claim in claims]}
        if containers:
            pod["spec"]["containers"] = [
                {**main, "name": its, "resources": {"claims": uses}}
                for its, uses in containers.items()]
        self.apply(pod)
        self.addCleanup(self.remove, name)

    def runs(self, name):
        self.wait_until(lambda: self.phase(name) == "Running", f"running: {name}")

    def waits(self, name):
        time.sleep(WAITS_S)
        self.assertEqual(self.phase(name), "Pending", name)

    def refusal(self, name):
        """Why the kubelet does not start a pod."""
        def messages():
            return [event["message"] for event in self.get("events")["items"]
                    if event["involvedObject"]["name"] == name
                    and event["reason"] == "FailedPrepareDynamicResources"]
        self.wait_until(messages, f"refused: {name}")
        return messages()[-1]

    def test_attributes_and_capacities_select_gpus(self):
        self.claim("hopper", request(where=[
            f"device.attributes['{GPU}'].architecture == 'Hopper'",
            f"device.attributes['{GPU}'].cudaComputeCapability.isGreaterThan(semver('8.0.0'))",
            f"device.capacity['{GPU}'].memory.compareTo(quantity('40Gi')) > 0"]))
        self.start("hopper", ["nvidia-smi", "-L"], ["hopper"])
        said = self.said("hopper")
        uuid, = self.uuids(GPU, "Hopper")
        self.assertEqual(said, f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {uuid})")

    def test_alternatives_are_tried_in_their_order(self):
        wanted = [{"name": name, "deviceClassName": GPU, "selectors": [{"cel": {
            "expression": f"device.attributes['{GPU}'].architecture == '{architecture}'"}}]}
            for name, architecture in (("best", "Blackwell"), ("good", "Hopper"),
                                       ("any", "Ampere"))]
        self.claim("alternatives", {"name": "gpu", "firstAvailable": wanted})
        self.start("alternatives", UUIDS, ["alternatives"])
        self.assertEqual({self.said("alternatives")}, self.uuids(GPU, "Hopper"))

    def test_a_claim_waits_until_another_is_gone(self):
        ampere = [f"device.attributes['{GPU}'].architecture == 'Ampere'"]
        for name in ("first", "second", "third"):
            self.claim(name, request(where=ampere))
        for name in ("first", "second"):
            self.start(name, FOREVER, [name])
            self.runs(name)
        self.start("third", UUIDS, ["third"])
        self.waits("third")
        self.remove("first")
        self.kubectl("delete", "resourceclaim", "first")
        self.assertIn(self.said("third"), self.uuids(GPU, "Ampere"))

    def test_containers_and_pods_share_a_claim(self):
        self.claim("shared", request())
        command = ["sh", "-c", f"{' '.join(UUIDS)} && stat -c %i /run/gpemu/gpus"]
        use = [{"name": "shared"}]
        self.start("sharer1", command, ["shared"], {"a": use, "b": use})
        self.start("sharer2", command, ["shared"])
        said = {self.said("sharer1", "a"), self.said("sharer1", "b"), self.said("sharer2")}
        self.assertEqual(len(said), 1, said)

    def test_a_request_may_count(self):
        self.claim("two", request(count=2))
        self.start("two", UUIDS, ["two"])
        said = self.said("two").splitlines()
        self.assertEqual(len(said), 2)
        self.assertLess(set(said), self.uuids(GPU))

    def test_containers_get_the_requests_that_they_name(self):
        self.claim("requests", request("a"), request("b"))
        self.start("requests", UUIDS, ["requests"], {
            name: [{"name": "requests", "request": name}] for name in "ab"})
        said = [self.said("requests", name) for name in "ab"]
        self.assertNotEqual(*said)
        self.assertLess(set(said), self.uuids(GPU))

    def test_a_container_has_one_claim(self):
        self.claim("one", request())
        self.claim("more", request())
        self.start("greedy", UUIDS, ["one", "more"])
        self.assertIn("make one claim with several requests", self.refusal("greedy"))

    def test_an_extended_resource_is_a_claim(self):
        self.start("extended", UUIDS, limits={"nvidia.com/gpu": "2"})
        self.assertEqual(len(self.said("extended").splitlines()), 2)

    def test_configurations(self):
        def configuration(strategy):
            return [{"opaque": {"driver": GPU, "parameters": {
                "apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig",
                "sharing": {"strategy": strategy}}}}]
        self.claim("slices", request(), config=configuration("TimeSlicing"))
        self.start("slices", UUIDS, ["slices"])
        self.assertIn(self.said("slices"), self.uuids(GPU))
        self.claim("mps", request(), config=configuration("MPS"))
        self.start("mps", UUIDS, ["mps"])
        self.assertIn("'GpuConfig' with MPS is not supported", self.refusal("mps"))

    def test_access_as_administrator_is_refused(self):
        self.kubectl("label", "namespace", "default", "--overwrite",
                     "resource.kubernetes.io/admin-access=true")
        self.claim("admin", request(adminAccess=True))
        self.start("admin", UUIDS, ["admin"])
        self.assertIn("adminAccess is not supported", self.refusal("admin"))

    def test_parts_of_a_gpu(self):
        def part(memory, cores):
            return request(device=PARTS, capacity={"requests": {"memory": memory, "cores": cores}})
        self.claim("quarter", part("10Gi", "40"))
        self.claim("half", part("20Gi", "50"))
        self.claim("rest", part("15Gi", "10"))
        command = f"{' '.join(UUIDS)} && python3 -c '{ALLOCATE}'"
        self.start("quarter", ["sh", "-c", f"{command} 8 1 2 && sleep 100000"], ["quarter"])
        self.runs("quarter")
        self.start("half", ["sh", "-c", f"{command} 18 1 2 && env && sleep 100000"], ["half"])
        self.runs("half")
        self.start("rest", ["sh", "-c", f"{command} 14 1 && env"], ["rest"])
        self.waits("rest")
        uuid, = self.uuids(PARTS)
        # 2 is CUDA_ERROR_OUT_OF_MEMORY.
        self.assertEqual(self.kubectl("logs", "quarter").split(), [uuid, *"8 0 1 0 2 2".split()])
        said = self.kubectl("logs", "half").split()
        self.assertEqual(said[:7], [uuid, *"18 0 1 0 2 2".split()])
        self.assertIn("GPEMU_GPU_LIMIT=0.5", said)
        self.remove("quarter")
        self.kubectl("delete", "resourceclaim", "quarter")
        said = self.said("rest").split()
        self.assertEqual(said[:5], [uuid, *"14 0 1 2".split()])
        self.assertIn("GPEMU_GPU_LIMIT=0.1", said)

    @contextlib.contextmanager
    def faulty(self, fault, *words):
        """A driver with a fault of its only GPU."""
        (FOLDER / "n1/faults.toml").write_text(f"[[fault]]\ngpu = 0\nkind = \"lost\"\n{fault}\n")
        command = driver(FAULTY, "--gpu", "A100-SXM4-40GB", "--faults",
                         str(FOLDER / "n1/faults.toml"), *words)
        with subprocess.Popen([*cluster.node_words(FOLDER, "n1"), "env", "NODE_NAME=n1", "sh", "-c",
                               f"exec {command}"]) as process:
            try:
                self.wait_until(lambda: self.devices(FAULTY), "published")
                yield
            finally:
                self.on_node("kill", self.pid_of("-f", f"dra-driver --driver {FAULTY}"))
                self.assertEqual(process.wait(), 0)
        self.assertFalse(self.devices(FAULTY), "published at the end")

    def is_lost(self):
        return "taints" in self.devices(FAULTY)["gpu-0"]

    def test_instances_of_mig_are_made_for_claims(self):
        half = request(device=MIG, where=[f"device.attributes['{MIG}'].profile == '3g.20gb'"])
        for name in ("one", "two", "three"):
            self.claim(name, half)
            # Of the 19.5 GiB, the context takes a part.
            self.start(name, ["sh", "-c", "nvidia-smi -L && python3 -c \"$0\" 20 18 && sleep 5",
                              ALLOCATE], [name])
        said = [self.said(name) for name in ("one", "two", "three")]
        devices = [line.split()[-1] for text in said for line in text.splitlines()
                   if "MIG 3g.20gb" in line]
        self.assertEqual(len(devices), 3, said)
        for text in said:
            self.assertEqual(text.splitlines()[-2:], ["20 2", "18 0"])
        # Two at a time: the third has what one of them had.
        self.assertEqual(len(set(devices)), 2)
        whole = request(device=MIG, where=[f"device.attributes['{MIG}'].profile == '7g.40gb'"])
        self.claim("small", request(device=MIG, where=[
            f"device.attributes['{MIG}'].profile == '1g.5gb'"], count=2))
        self.start("small", FOREVER, ["small"])
        self.runs("small")
        self.claim("large", whole)
        self.start("large", ["nvidia-smi", "-L"], ["large"])
        self.waits("large")
        self.remove("small")
        self.assertIn("MIG 7g.40gb", self.said("large"))

    def test_a_lost_gpu_has_a_taint_until_it_is_back(self):
        with self.faulty("at_s = 2\nfor_s = 12"):
            self.wait_until(self.is_lost, "lost")
            self.claim("patient", request(device=FAULTY))
            self.start("patient", UUIDS, ["patient"])
            self.waits("patient")
            self.assertTrue(self.is_lost())
            self.assertEqual({self.said("patient")}, self.uuids(FAULTY))
            self.assertFalse(self.is_lost())
            self.remove("patient")

    def test_a_taint_can_end_pods(self):
        with self.faulty("at_s = 8", "--taint", "NoExecute"):
            self.claim("victim", request(device=FAULTY))
            self.start("victim", FOREVER, ["victim"])
            self.runs("victim")
            self.assertFalse(self.is_lost())
            self.wait_until(lambda: not self.phase("victim"), "evicted: victim")
            self.assertTrue(self.is_lost())
            self.nothing_is_left(FAULTY)

    def pid_of(self, *words):
        """The number on the node of the process that pgrep finds."""
        number, = self.on_node("pgrep", *words).split()
        return number

    @staticmethod
    def times_found():
        return (FOLDER / "n1/on-node-1.log").read_text().count("the kubelet knows the driver")

    def restart(self, *words):
        before, found = self.pid_of(*words), self.times_found()
        self.on_node("kill", "-KILL", before)
        def is_new():
            with contextlib.suppress(subprocess.CalledProcessError, ValueError):
                return self.pid_of(*words) != before
            return False
        self.wait_until(is_new, f"restarted: {' '.join(words)}")
        # The kubelet tries a pod again after a minute if it does not know the driver yet.
        self.wait_until(lambda: self.times_found() > found, "found by the kubelet")

    def test_the_driver_and_the_kubelet_restart(self):
        draw, uuids = random.Random(1), self.uuids(GPU)
        self.claim("kept", request())
        self.start("kept", ["sh", "-c", "while sleep 0.5; do nvidia-smi -L || exit 1; done"],
                   ["kept"])
        self.runs("kept")
        for turn in range(OPTIONS.restarts):
            for what in draw.sample([("-x", "kubelet"), ("-f", f"dra-driver --driver {GPU}")],
                                    draw.choice([1, 2])):
                self.restart(*what)
            name = f"after{turn}"
            self.claim(name, request())
            self.start(name, UUIDS, [name])
            self.assertIn(self.said(name), uuids)
            self.remove(name)
            self.kubectl("delete", "resourceclaim", name)
        self.assertEqual(self.phase("kept"), "Running", self.get("pod", "kept")["status"])
        self.assertEqual(len(set(self.kubectl("logs", "kept").splitlines())), 1)
        self.remove("kept")
        self.nothing_is_left(GPU)
        self.wait_until(lambda: self.on_node("ls", "/run/cdi") == "", "removed: specifications")

    def nothing_is_left(self, name):
        """No pod has a claim: a driver has nothing but the machine's node and nvidia-smi."""
        self.wait_until(lambda: self.on_node("ls", f"/run/state-{name}").split() == [
            "machine", "nvidia-smi"], f"given back to {name}")


SETTINGS = """
gpus = ["A100-SXM4-40GB:2"]
machine = "n1"
state = "/run/gpemu-runtime"
"""


class Runtimes(InCluster):
    """gpemu-runtime in front of runc, without a kubelet that knows GPUs; and CDI."""

    @classmethod
    def setUpClass(cls):
        runtime = FOLDER / "n1/runtime"
        program = pathlib.Path(OPTIONS.driver).with_name("gpemu-runtime")
        settings = (f'{SETTINGS}installation = "{OPTIONS.installation}"\n'
                    f'runtime = "{cluster.programs()}/runc"\n')
        script = f'#!/bin/sh\nGPEMU_RUNTIME_SETTINGS={runtime}.toml exec {program} "$@"\n'
        cls.cluster = cluster.Cluster(
            FOLDER, nodes=1, runtime=str(runtime), images=[image.image("bullseye")],
            before_kubelet=[f"cat >{runtime}.toml <<'END'\n{settings}END\n"
                            f"cat >{runtime} <<'END'\n{script}END\nchmod +x {runtime}"])
        cls.cluster.up()

    def start(self, name, gpus, command, release="bookworm"):
        pod = cluster_test.pod(name, None, command, release)
        del pod["spec"]["nodeName"]
        if gpus is not None:
            pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES",
                                                    "value": gpus}]
        self.apply(pod)
        self.addCleanup(self.remove, name)

    def test_containers_have_the_gpus_of_their_environment(self):
        self.start("all", "all", UUIDS)
        both = self.said("all").splitlines()
        self.assertEqual(len(both), 2)
        for number in range(2):
            self.start(f"gpu{number}", str(number), UUIDS)
            self.assertEqual(self.said(f"gpu{number}"), both[number])
        self.start("uuid", both[1], UUIDS)
        self.assertEqual(self.said("uuid"), both[1])
        for name, gpus in (("without", None), ("void", "void")):
            self.start(name, gpus, ["sh", "-c", "ls /usr/bin/nvidia-smi /opt/gpemu 2>&- || true"])
            self.assertEqual(self.said(name), "")
        for name in ("all", "gpu0", "gpu1", "uuid", "without", "void"):
            self.remove(name)
        self.wait_until(lambda: "@" not in self.on_node("ls", "/run/gpemu-runtime"),
                        "removed: nodes of containers")

    def test_an_older_image_has_them_too(self):
        self.start("old", "0", UUIDS, "bullseye")
        self.assertTrue(self.said("old").startswith("GPU-"))

    def test_a_gpu_that_there_is_not_is_named(self):
        self.start("none", "7", UUIDS)
        def why():
            return str(self.get("pod", "none")["status"].get("containerStatuses"))
        self.wait_until(lambda: "NVIDIA_VISIBLE_DEVICES=7: there is no GPU '7'" in why(), "refused")

    def ctr(self, name, *devices):
        """What a container with CDI devices says, without Kubernetes."""
        words = [f"{cluster.programs()}/ctr", "--address", "/run/containerd/containerd.sock",
                 "--namespace", "k8s.io", "run", "--rm", "--runc-binary",
                 f"{cluster.programs()}/runc"]
        for device in devices:
            words += ["--device", f"nvidia.com/gpu={device}"]
        return self.on_node(*words, image.name_of("bookworm"), name, *UUIDS,
                            stderr=subprocess.STDOUT).split()

    def test_containers_have_cdi_devices(self):
        self.on_node(OPTIONS.driver, "cdi", "--gpu", "A100-SXM4-40GB:2", "--installation",
                     OPTIONS.installation)
        both = self.ctr("cdi-all", "all")
        self.assertEqual(len(both), 2)
        self.assertEqual(self.ctr("cdi-0", "0"), both[:1])
        self.assertEqual(self.ctr("cdi-uuid", both[1]), both[1:])
        with self.assertRaises(subprocess.CalledProcessError) as raised:
            self.ctr("cdi-two", "0", "1")
        self.assertIn("a container can have one device of nvidia.com/gpu, or all",
                      raised.exception.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--installation", default=OPTIONS.installation)
    parser.add_argument("--driver", default=OPTIONS.driver)
    parser.add_argument("--restarts", type=int, default=OPTIONS.restarts)
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    for name in ("installation", "driver"):
        path = pathlib.Path(getattr(OPTIONS, name)).resolve()
        if not path.exists():
            sys.exit(f"dra_test: --{name}: there is no {path}")
        setattr(OPTIONS, name, str(path))
    lines = keeper.missing(FOLDER)
    if lines:
        sys.exit("dra_test: this machine cannot run a cluster:\n  " + "\n  ".join(lines))
    image.image("bookworm")
    keeper.down(FOLDER)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
