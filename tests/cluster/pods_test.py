#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Emulated GPUs in the pods of a real cluster (tests/cluster/cluster.py): what pods of an image
without gpemu see, what PyTorch does in them, and what parts of a GPU they get.

Usage: tests/cluster/pods_test.py --installation FOLDER --plugin PROGRAM [unittest's options]

FOLDER: where gpemu alone is installed, from the preset `package`. PROGRAM: gpemu-kubernetes,
from another preset. PyTorch is that of scripts/build/install_torch.sh 2.8.0, for Python 3.11.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time
import unittest

import cluster
import cluster_test
import image
import keeper

FOLDER = pathlib.Path("/var/tmp/gpemu-cluster-pods")
TORCH = "2.8.0"
SECONDS = 120  # that anything may take
OPTIONS = argparse.Namespace(installation="/opt/gpemu", plugin="gpemu-kubernetes")
GPU = "A100-SXM4-40GB"
WHOLE, QUARTER = "nvidia.com/gpu", "gpemu.test/quarter"

# How many products of matrices of 8192 x 8192 the GPU does in a second, past the first ones.
RATE = """
import time, torch
a = torch.ones(8192, 8192, device="cuda")
def products(count):
    for _ in range(count):
        a @ a
    torch.cuda.synchronize()
products(3)
begin = time.monotonic()
products(100)
print(100 / (time.monotonic() - begin))
"""

# How long a step of ResNet-50 takes with 128 images, in seconds, past the first ones.
STEP = """
import time, torch, torchvision
model = torchvision.models.resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images = torch.ones(128, 3, 224, 224, device="cuda")
labels = torch.zeros(128, dtype=torch.long, device="cuda")
def steps(count):
    for _ in range(count):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    torch.cuda.synchronize()
steps(3)
begin = time.monotonic()
steps(20)
print((time.monotonic() - begin) / 20)
"""

# Two ranks of DistributedDataParallel over NCCL, which must agree on the weights.
RANKS = """
import os, torch, torch.distributed as ranks
ranks.init_process_group("nccl")
rank = ranks.get_rank()
torch.cuda.set_device(rank)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.ones(4, 8, device="cuda")).sum().backward()
    optimizer.step()
torch.cuda.synchronize()
mine = torch.full((3,), float(rank + 1), device="cuda")
ranks.all_reduce(mine)
if rank == 0:
    print("of", ranks.get_world_size(), mine.tolist())
ranks.destroy_process_group()
"""


def torch_packages():
    script = cluster.ROOT / "scripts/build/install_torch.sh"
    python = subprocess.run([script, TORCH], check=True, stdout=subprocess.PIPE, text=True).stdout
    return pathlib.Path(python.strip()).parents[1] / "lib/python3.11/site-packages"


def plugin(*words):
    return " ".join([OPTIONS.plugin, "device-plugin", "--installation", OPTIONS.installation,
                     "--gpu", *words])


class GpusInPods(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.packages = torch_packages()
        cls.cluster = cluster.Cluster(FOLDER, nodes=1, on_node=[
            plugin(f"{GPU}:2"),
            plugin(GPU, "--machine", "shared", "--state", "/run/gpemu-quarters", "--resource",
                   QUARTER, "--replicas", "4", "--divide", "limit")])
        cls.cluster.up()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.down()

    def kubectl(self, *words, **options):
        return subprocess.run([*cluster.kubectl_words(FOLDER), *words], check=True, text=True,
                              stdout=subprocess.PIPE, timeout=SECONDS, **options).stdout

    def result(self, name):
        """Returns what a pod's program said, which must end with 0. Removes the pod."""
        until = time.monotonic() + SECONDS
        phase = ""
        while phase not in ("Succeeded", "Failed"):
            self.assertLess(time.monotonic(), until, f"{name} is {phase}")
            time.sleep(0.2)
            phase = self.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")
        said = self.kubectl("logs", name)
        self.assertEqual(phase, "Succeeded", said)
        self.kubectl("delete", "pod", name, "--now")
        return said

    def start(self, name, command, limits=None, user=0):
        """Starts a pod that may use PyTorch."""
        pod = cluster_test.pod(name, None, command)
        del pod["spec"]["nodeName"]
        container = pod["spec"]["containers"][0]
        if limits:
            container["resources"] = {"limits": limits}
        container["env"] = [{"name": "PYTHONPATH", "value": "/torch"}]
        container["securityContext"] = {"runAsUser": user}
        container["volumeMounts"] = [{"name": "torch", "mountPath": "/torch", "readOnly": True}]
        pod["spec"]["volumes"] = [{"name": "torch", "hostPath": {"path": str(self.packages)}}]
        self.kubectl("apply", "-f", "-", input=json.dumps(pod))
        self.addCleanup(self.kubectl, "delete", "pod", name, "--now", "--ignore-not-found")

    def said(self, name, command, limits=None, user=0):
        self.start(name, command, limits, user)
        return self.result(name)

    def rates(self, parts):
        """Returns the rates of pods that run at the same time, each with so many quarters."""
        for number, quarters in enumerate(parts):
            self.start(f"part{number}", ["python3", "-c", RATE], {QUARTER: quarters})
        return [float(self.result(f"part{number}")) for number in range(len(parts))]

    def test_a_pod_sees_its_gpus_alone(self):
        smi = ["nvidia-smi", "--query-gpu=uuid,name,memory.total", "--format=csv,noheader"]
        self.start("one", ["sh", "-c", " ".join(smi) + " && sleep 5"], {WHOLE: 1})
        other = self.said("other", smi, {WHOLE: 1})
        one = self.result("one")
        self.assertEqual(len(one.splitlines()), 1)
        self.assertIn("A100-SXM4-40GB, 40960 MiB", one)
        self.assertNotEqual(one, other)
        both = self.said("both", smi, {WHOLE: 2})
        self.assertEqual(sorted(both.splitlines()), sorted([one.strip(), other.strip()]))

    def test_a_pod_without_gpus_has_none(self):
        said = self.said("none", ["python3", "-c", (
            "import os, shutil; print(shutil.which('nvidia-smi'), os.path.exists('/opt/gpemu'))")])
        self.assertEqual(said, "None False\n")

    def test_torch_sees_the_gpus_and_their_memory_ends(self):
        said = self.said("memory", ["python3", "-c", (
            "import torch\n"
            "print(torch.cuda.device_count(), torch.cuda.get_device_name(1))\n"
            "held = [torch.empty(2**30, dtype=torch.int8, device='cuda') for _ in range(30)]\n"
            "try:\n"
            "    torch.empty(15 * 2**30, dtype=torch.int8, device='cuda')\n"
            "except torch.cuda.OutOfMemoryError:\n"
            "    print('out of memory')\n")], {WHOLE: 2})
        self.assertEqual(said, "2 NVIDIA A100-SXM4-40GB\nout of memory\n")

    def test_a_step_takes_as_long_as_outside(self):
        inside = float(self.said("step", ["python3", "-c", STEP], {WHOLE: 1}))
        gpemu = pathlib.Path(OPTIONS.installation) / "bin/gpemu"
        python = self.packages.parents[2] / "bin/python"
        outside = float(subprocess.run(
            [gpemu, "run", "--quiet", "--gpu", GPU, "--", python, "-c", STEP], check=True,
            stdout=subprocess.PIPE, text=True).stdout)
        self.assertAlmostEqual(inside / outside, 1, delta=0.01)

    def test_two_gpus_of_a_pod_train_together(self):
        said = self.said("ranks", ["sh", "-c", (
            f"cat >/tmp/ranks.py <<'END'\n{RANKS}\nEND\n"
            "python3 -m torch.distributed.run --nproc-per-node 2 --master-addr 127.0.0.1 "
            "--master-port 29500 /tmp/ranks.py 2>&1")], {WHOLE: 2})
        self.assertIn("of 2 [3.0, 3.0, 3.0]", said)

    def test_an_ordinary_user_of_the_image_may_use_them(self):
        said = self.said("user", ["python3", "-c", (
            "import os, torch; print(os.getuid(), float(torch.ones(2, device='cuda').sum()))")],
            {WHOLE: 1}, user=1234)
        self.assertEqual(said.split()[0], "1234")

    def test_parts_of_a_gpu_are_kept(self):
        whole = self.rates([4])[0]
        self.assertAlmostEqual(self.rates([2])[0] / whole, 0.5, delta=0.02)
        halves = self.rates([2, 2])
        for half in halves:
            self.assertAlmostEqual(half / whole, 0.5, delta=0.02)
        quarter, rest = self.rates([1, 3])
        self.assertAlmostEqual(quarter / whole, 0.25, delta=0.02)
        self.assertAlmostEqual(rest / whole, 0.75, delta=0.03)

    def test_a_part_has_its_memory(self):
        said = self.said("quarter", ["python3", "-c", (
            "import torch\n"
            "print(torch.cuda.mem_get_info()[1] // 2**20)\n"
            "try:\n"
            "    torch.empty(11 * 2**30, dtype=torch.int8, device='cuda')\n"
            "except torch.cuda.OutOfMemoryError:\n"
            "    print('out of memory')\n")], {QUARTER: 1})
        memory, error = said.splitlines()
        self.assertLess(int(memory), 10_300)
        self.assertEqual(error, "out of memory")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--installation", default=OPTIONS.installation)
    parser.add_argument("--plugin", default=OPTIONS.plugin)
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    for name in ("installation", "plugin"):
        path = pathlib.Path(getattr(OPTIONS, name)).resolve()
        if not path.exists():
            sys.exit(f"pods_test: --{name}: there is no {path}")
        setattr(OPTIONS, name, str(path))
    lines = keeper.missing(FOLDER)
    if lines:
        sys.exit("pods_test: this machine cannot run a cluster:\n  " + "\n  ".join(lines))
    image.image("bookworm")
    keeper.down(FOLDER)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
