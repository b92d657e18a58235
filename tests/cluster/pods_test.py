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
import random
import re
import subprocess
import sys
import time
import unittest

import cluster
import cluster_test
import image
import build_image  # image.py knows the folder.
import keeper

FOLDER = pathlib.Path("/var/tmp/gpemu-cluster-pods")
TORCH = "2.8.0"
NVML = "nvidia-ml-py==13.615.71"
SECONDS = 120  # that anything may take
OPTIONS = argparse.Namespace(installation="/opt/gpemu", plugin="gpemu-kubernetes", restarts=10,
                             seed=1)
GPU = "A100-SXM4-40GB"
WHOLE, QUARTER = "nvidia.com/gpu", "gpemu.test/quarter"
HALF_MIG = "nvidia.com/mig-3g.20gb"

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
    subprocess.run([python.strip(), "-m", "pip", "--quiet", "install", NVML], check=True)
    return pathlib.Path(python.strip()).parents[1] / "lib/python3.11/site-packages"


def contract_program():
    """Builds the program that asks NVML as NVIDIA's components do, and returns its folder, and what
    functions their package knows."""
    source, folder = keeper.HERE / "contract", cluster.ROOT / "build/contract"
    folder.mkdir(parents=True, exist_ok=True)
    go = subprocess.run([cluster.ROOT / "scripts/build/install_go.sh"], check=True, text=True,
                        stdout=subprocess.PIPE).stdout.strip()
    done = subprocess.run([go, "build", "-o", folder / "contract", "."], cwd=source, text=True,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    package = subprocess.run([go, "list", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml/pkg/nvml"],
                             cwd=source, check=True, text=True, stdout=subprocess.PIPE).stdout
    called = (pathlib.Path(package.strip()) / "nvml.go").read_text("utf-8")
    names = set(re.findall(r"\b(nvml[A-Z]\w*)\(", called))
    return folder, sorted(name for name in names if not name.endswith("_v1"))


def plugin(*words):
    return " ".join([OPTIONS.plugin, "device-plugin", "--installation", OPTIONS.installation,
                     "--gpu", *words])


class Pods(unittest.TestCase):
    """A cluster of one node, with the programs that PROGRAMS returns."""

    @staticmethod
    def programs():
        raise NotImplementedError

    images, before_kubelet = (), ()

    @classmethod
    def setUpClass(cls):
        cls.packages = torch_packages()
        cls.cluster = cluster.Cluster(FOLDER, nodes=1, on_node=cls.programs(),
                                      before_kubelet=cls.before_kubelet,
                                      images=[image.image("bullseye"), *cls.images])
        cls.cluster.up()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.down()

    def kubectl(self, *words, **options):
        return subprocess.run([*cluster.kubectl_words(FOLDER), *words], check=True, text=True,
                              stdout=subprocess.PIPE, timeout=SECONDS, **options).stdout

    def phase(self, name):
        return self.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")

    def result(self, name):
        """Returns what a pod's program said, which must end with 0. Removes the pod."""
        until = time.monotonic() + SECONDS
        phase = ""
        while phase not in ("Succeeded", "Failed"):
            self.assertLess(time.monotonic(), until, f"{name} is {phase}")
            time.sleep(0.2)
            phase = self.phase(name)
        said = self.kubectl("logs", name)
        self.assertEqual(phase, "Succeeded", said)
        self.kubectl("delete", "pod", name, "--now")
        return said

    def start(self, name, command, limits=None, user=0, release="bookworm", packages=None):
        """Starts a pod that may use PyTorch, or what is in the folder `packages`."""
        pod = cluster_test.pod(name, None, command, release)
        del pod["spec"]["nodeName"]
        container = pod["spec"]["containers"][0]
        if limits:
            container["resources"] = {"limits": limits}
        container["env"] = [{"name": "PYTHONPATH", "value": "/torch"}]
        container["securityContext"] = {"runAsUser": user}
        container["volumeMounts"] = [{"name": "torch", "mountPath": "/torch", "readOnly": True}]
        path = str(packages or self.packages)
        pod["spec"]["volumes"] = [{"name": "torch", "hostPath": {"path": path}}]
        self.kubectl("apply", "-f", "-", input=json.dumps(pod))
        self.addCleanup(self.kubectl, "delete", "pod", name, "--now", "--ignore-not-found")

    def said(self, name, command, limits=None, **options):
        self.start(name, command, limits, **options)
        return self.result(name)

    def logs(self, name):
        """What a pod has said; nothing while its kubelet does not answer."""
        try:
            return self.kubectl("logs", name, stderr=subprocess.DEVNULL).strip()
        except subprocess.CalledProcessError:
            return ""

    def eventually(self, expected, ask, seconds=SECONDS):
        """Waits until `ask` returns what is expected, and returns after how many seconds."""
        begin = time.monotonic()
        while (found := ask()) != expected:
            self.assertLess(time.monotonic(), begin + seconds, f"{found}, not {expected}")
            time.sleep(0.1)
        return time.monotonic() - begin

    def allocatable(self, resource=WHOLE):
        key = resource.replace(".", "\\.")
        return self.kubectl("get", "node", "n1", "-o", f"jsonpath={{.status.allocatable.{key}}}")


class GpusInPods(Pods):

    @staticmethod
    def programs():
        return [plugin(f"{GPU}:2"),
                plugin(GPU, "--machine", "shared", "--state", "/run/gpemu-quarters", "--resource",
                       QUARTER, "--replicas", "4", "--divide", "limit"),
                plugin(GPU, "--machine", "mig", "--state", "/run/gpemu-mig", "--mig",
                       "3g.20gb:2"),
                f"{OPTIONS.plugin} metrics --listen 127.0.0.1:9400",
                f"{OPTIONS.plugin} metrics --listen 127.0.0.1:9401 --state /run/gpemu-quarters"]

    def metrics(self, port, name):
        """Returns the values of a metric, by pod."""
        text = subprocess.run(
            [*cluster.node_words(FOLDER, "n1"), "python3", "-c", "import sys, urllib.request; "
             f"print(urllib.request.urlopen('http://127.0.0.1:{port}/metrics').read().decode())"],
            check=True, stdout=subprocess.PIPE, text=True, timeout=SECONDS).stdout
        found = {}
        for line in text.splitlines():
            if line.startswith(name + "{"):
                pod = re.search(r'pod="([^"]*)"', line)
                found[pod[1] if pod else ""] = float(line.split()[-1])
        return found

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

    def test_mig_devices_are_pods_own(self):
        said = self.said("mig", ["python3", "-c", (
            "import torch\n"
            "print(torch.cuda.device_count(), torch.cuda.get_device_name(0))\n"
            "torch.empty(18 * 2**30, dtype=torch.int8, device='cuda')\n"
            "try:\n"
            "    torch.empty(20 * 2**30, dtype=torch.int8, device='cuda')\n"
            "except torch.cuda.OutOfMemoryError:\n"
            "    print('out of memory')\n")], {HALF_MIG: 1})
        self.assertEqual(said, "1 NVIDIA A100-SXM4-40GB MIG 3g.20gb\nout of memory\n")
        alone = float(self.said("alone", ["python3", "-c", RATE], {HALF_MIG: 1}))
        for name in ("one", "two"):
            self.start(name, ["python3", "-c", RATE], {HALF_MIG: 1})
        for name in ("one", "two"):
            self.assertAlmostEqual(float(self.result(name)) / alone, 1, delta=0.02)

    def test_two_processes_of_a_pod_have_its_part_together(self):
        whole = self.rates([4])[0]
        said = self.said("two", ["sh", "-c", (
            f"cat >/tmp/rate.py <<'END'\n{RATE}\nEND\n"
            "python3 /tmp/rate.py & python3 /tmp/rate.py & wait")], {QUARTER: 2})
        self.assertAlmostEqual(sum(map(float, said.split())) / whole, 0.5, delta=0.05)

    def test_nvmls_package_sees_the_gpus_of_the_pod(self):
        said = self.said("nvml", ["python3", "-c", (
            "import pynvml\n"
            "pynvml.nvmlInit()\n"
            "for i in range(pynvml.nvmlDeviceGetCount()):\n"
            "    gpu = pynvml.nvmlDeviceGetHandleByIndex(i)\n"
            "    memory = pynvml.nvmlDeviceGetMemoryInfo(gpu)\n"
            "    print(pynvml.nvmlDeviceGetName(gpu), memory.total // 2**20,\n"
            "          pynvml.nvmlDeviceGetUUID(gpu))\n")], {WHOLE: 2})
        lines = said.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertTrue(lines[0].startswith("NVIDIA A100-SXM4-40GB 40960 GPU-"), said)
        self.assertNotEqual(lines[0], lines[1])

    def test_images_may_have_an_older_c_library(self):
        said = self.said("old", ["sh", "-c", (
            "nvidia-smi --query-gpu=name --format=csv,noheader && python3 -c \"\n"
            "import ctypes, os\n"
            "cuda = ctypes.CDLL('libcudart.so.12')\n"
            "memory = ctypes.c_void_p()\n"
            "for gib in (30, 20):\n"
            "    print(cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(gib << 30)))\n"
            "print(cuda.cudaDeviceSynchronize(), os.confstr('CS_GNU_LIBC_VERSION'))\"")],
            {WHOLE: 1}, release="bullseye")
        self.assertEqual(said.splitlines(),
                         ["NVIDIA A100-SXM4-40GB", "0", "2", "0 glibc 2.31"])

    def test_nvidias_packages_get_right_answers(self):
        folder, names = contract_program()
        # On standard error is what it asks for that is not supported.
        command = ["sh", "-c", 'exec /torch/contract "$@" 2>/dev/null', "sh", *names]
        said = json.loads(self.said("contract", command, {WHOLE: 2}, packages=folder))
        self.assertEqual(said["missing"], [])
        self.assertEqual([said["Init"], said["second Init"], *said["Shutdown"]],
                         ["Success"] * 2 + ["SUCCESS"] * 2)
        self.assertRegex(said["SystemGetDriverVersion"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(said["events"], ["Timeout", True])
        self.assertEqual(len(said["gpus"]), 2)
        for number, gpu in enumerate(said["gpus"]):
            self.assertEqual(
                {key: gpu[key] for key in ("GetName", "GetMinorNumber", "GetIndex", "GetMigMode",
                                           "GetCudaComputeCapability", "GetArchitecture",
                                           "IsMigDeviceHandle", "GetSupportedEventTypes")},
                {"GetName": "NVIDIA A100-SXM4-40GB", "GetMinorNumber": number, "GetIndex": number,
                 "GetMigMode": [0, 0], "GetCudaComputeCapability": [8, 0], "GetArchitecture": 7,
                 "IsMigDeviceHandle": False, "GetSupportedEventTypes": 8})
            self.assertEqual(gpu["GetMemoryInfo"]["Total"], 40 << 30)
            self.assertEqual(len(gpu["GpuInstanceProfiles"]), 7)
            # What an emulated GPU lacks is said as a GPU says it that lacks it.
            for key in ("GetEccMode", "GetGpuFabricInfo", "GetSerial"):
                self.assertEqual(gpu[key], "Not Supported")
        self.assertNotEqual(*(gpu["GetUUID"] for gpu in said["gpus"]))
        self.assertEqual({key: said["visited"][0][key] for key in
                          ("architecture", "brand", "capability", "mig capable", "mig enabled")},
                         {"architecture": "Ampere", "brand": "Nvidia", "capability": "8.0",
                          "mig capable": True, "mig enabled": False})

    def test_metrics_say_what_pods_did(self):
        """Sums over a run, beside what the programs themselves measured of the GPU's time."""
        program = (
            "import sys, time, torch\n"
            "a = torch.ones(8192, 8192, device='cuda')\n"
            "begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))\n"
            "torch.cuda.synchronize()\n"
            "begin.record()\n"
            "for _ in range(int(sys.argv[1])):\n"
            "    a @ a\n"
            "end.record()\n"
            "torch.cuda.synchronize()\n"
            "print(begin.elapsed_time(end) / 1e3, flush=True)\n"
            "time.sleep(6)\n")
        busy = "gpemu_gpu_busy_seconds_total"
        self.start("alone", ["python3", "-c", program, "100"], {WHOLE: 1})
        self.start("half", ["python3", "-c", program, "40"], {QUARTER: 2})
        self.start("quarter", ["python3", "-c", program, "30"], {QUARTER: 1})
        took = {}
        for name in ("alone", "half", "quarter"):
            self.eventually(True, lambda name=name: bool(self.logs(name)))
            took[name] = float(self.logs(name))
        whole = took["alone"] / 100
        time.sleep(1.5)  # The next look of the exporter.
        alone = self.metrics(9400, busy)
        shared = self.metrics(9401, busy)
        for name, ours, products in (("alone", alone, 100), ("half", shared, 40),
                                     ("quarter", shared, 30)):
            self.assertAlmostEqual(ours[name] / (products * whole), 1, delta=0.01, msg=ours)
        used = self.metrics(9401, "DCGM_FI_DEV_FB_USED")
        self.assertGreater(used["half"], 500)
        self.assertEqual(self.metrics(9400, "DCGM_FI_DEV_GPU_UTIL")["alone"], 0)
        for name in ("alone", "half", "quarter"):
            self.result(name)

    def test_garbage_in_a_pods_files_disturbs_no_other_pod(self):
        garbage = (
            "import os, pathlib, random, time\n"
            "draw, written = random.Random(1), 0\n"
            "end = time.monotonic() + 20\n"
            "files = [path for path in pathlib.Path('/run/gpemu').rglob('*') if path.is_file()]\n"
            "print(len(files), flush=True)\n"
            "while time.monotonic() < end:\n"
            "    for path in files:\n"
            "        with open(path, 'r+b') as file:\n"
            "            file.seek(draw.randrange(os.path.getsize(path)))\n"
            "            file.write(draw.randbytes(4096))\n"
            "    pathlib.Path(f'/run/gpemu/{written}').write_bytes(draw.randbytes(4096))\n"
            "    written += 1\n"
            "    time.sleep(0.001)\n")
        whole = self.rates([4])[0]
        self.start("attacker", ["python3", "-c", garbage], {WHOLE: 1})
        self.eventually(True, lambda: bool(self.logs("attacker")))
        self.assertGreater(int(self.logs("attacker")), 0)
        rate = float(self.said("victim", ["python3", "-c", RATE], {WHOLE: 1}))
        self.assertAlmostEqual(rate / whole, 1, delta=0.02)
        self.result("attacker")
        # The GPU is as new for the next pod, and the metrics go on.
        said = self.said("next", ["sh", "-c", f"ls /run/gpemu; python3 -c '{RATE}'"], {WHOLE: 2})
        self.assertLess(len(said.split()), 5, said)
        self.assertEqual(len(self.metrics(9400, "DCGM_FI_DEV_GPU_TEMP")), 1)

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


# A GPU that is lost for some seconds; times count from the plugin's start.
LOST = """
[[fault]]
kind = "lost"
gpu = 1
at_s = 25
for_s = 15
"""


class Health(Pods):

    @staticmethod
    def programs():
        faults = "$CLUSTER_NODE_FOLDER/faults.toml"
        return [f"sh -c 'cat >{faults} <<END\n{LOST}\nEND\nexec "
                + plugin(f"{GPU}:2", "--faults", faults) + "'"]

    def test_a_lost_gpu_is_unhealthy_and_its_pods_see_it_until_it_is_back(self):
        program = ("import sys, time, torch\n"
                   "for _ in range(1000):\n"
                   "    try:\n"
                   "        torch.ones(8, device='cuda').sum().item()\n"
                   "    except RuntimeError as error:\n"
                   "        print(str(error).splitlines()[0])\n"
                   "        sys.exit()\n"
                   "    time.sleep(0.1)\n")
        self.eventually("2", self.allocatable)
        for name in ("one", "other"):
            self.start(name, ["python3", "-c", program], {WHOLE: 1})
        self.eventually("1", self.allocatable)
        # One of the pods loses its GPU, the other goes on.
        self.eventually(["Running", "Succeeded"], lambda: sorted(
            self.phase(name) for name in ("one", "other")), seconds=10)
        said = self.kubectl("logs", "one") + self.kubectl("logs", "other")
        self.assertIn("CUDA error: unknown error", said)
        self.eventually("2", self.allocatable)
        self.kubectl("delete", "pod", "one", "other", "--now")
        said = self.said("again", ["python3", "-c", (
            "import torch; print([float(torch.ones(8, device=f'cuda:{i}').sum()) for i in "
            "range(torch.cuda.device_count())])")], {WHOLE: 2})
        self.assertEqual(said, "[8.0, 8.0]\n")


class Restarts(Pods):
    """The kubelet and the plugin end again and again, while pods come and go."""

    @staticmethod
    def programs():
        return [plugin(f"{GPU}:4")]

    def kill(self, name):
        subprocess.run([*cluster.node_words(FOLDER, "n1"), "pkill", "-9", "-f", name], check=False,
                       timeout=SECONDS)

    def test_no_gpu_is_given_twice_or_lost(self):
        draw = random.Random(OPTIONS.seed)
        self.eventually("4", self.allocatable)
        before = self.kubectl("get", "node", "n1", "-o", "jsonpath={.metadata.uid}")
        smi = "nvidia-smi --query-gpu=uuid --format=csv,noheader"
        running, number, seen = {}, 0, set()
        for restart in range(OPTIONS.restarts):
            while len(running) < 4:
                name = f"pod{number}"
                number += 1
                self.start(name, ["sh", "-c", f"{smi}; sleep 10000"], {WHOLE: 1})
                running[name] = None
            self.kill(draw.choice(["bin/kubelet ", "device-plugin"]))
            time.sleep(draw.random())
            for name in list(running):
                self.eventually(True, lambda name=name: self.has_started(name))
                uuid = self.logs(name)
                self.assertTrue(uuid.startswith("GPU-"), f"{name}: {uuid}")
                self.assertIn(running[name], (None, uuid), "a pod's GPU changed")
                running[name] = uuid
            self.assertEqual(len(set(running.values())), 4, f"restart {restart}: {running}")
            seen |= set(running.values())
            for name in draw.sample(sorted(running), draw.randint(1, 4)):
                self.kubectl("delete", "pod", name, "--now")
                del running[name]
        self.assertEqual(len(seen), 4, "names of GPUs stay")
        self.assertEqual(self.allocatable(), "4")
        self.assertEqual(before, self.kubectl("get", "node", "n1", "-o",
                                              "jsonpath={.metadata.uid}"))

    def has_started(self, name):
        """A pod that the kubelet refused while the plugin was away fails: it is made again, as a
        controller of pods would."""
        phase = self.phase(name)
        if phase == "Failed":
            pod = json.loads(self.kubectl("get", "pod", name, "-o", "json"))
            self.assertEqual(pod["status"].get("reason"), "UnexpectedAdmissionError", pod["status"])
            command = pod["spec"]["containers"][0]["command"]
            self.kubectl("delete", "pod", name, "--now")
            self.start(name, command, {WHOLE: 1})
        return phase == "Running" and bool(self.logs(name))


class Deployed(Pods):
    """The programs run in pods themselves, by the manifests, from the image."""

    # Nodes of the test's cluster see the machine's /opt as read-only.
    before_kubelet = ["mount -t tmpfs tmpfs /opt"]
    name = "gpemu.test/gpemu:latest"

    @staticmethod
    def programs():
        return []

    @classmethod
    def setUpClass(cls):
        path = FOLDER.with_name("gpemu-image.tar")
        cls.addClassCleanup(path.unlink, missing_ok=True)
        build_image.make_image(path, cls.name, pathlib.Path(OPTIONS.installation),
                               pathlib.Path(OPTIONS.plugin))
        cls.images = [path]
        super().setUpClass()

    def test_the_manifests_give_pods_gpus_and_prometheus_metrics(self):
        manifests = subprocess.run(
            [OPTIONS.plugin, "manifests", "--gpu", f"{GPU}:2", "--image", self.name, "--metrics"],
            check=True, stdout=subprocess.PIPE, text=True).stdout
        self.kubectl("apply", "-f", "-", input=manifests)
        self.eventually("2", self.allocatable)
        said = self.said("smi", ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                         {WHOLE: 2})
        self.assertEqual(said, "NVIDIA A100-SXM4-40GB\n" * 2)
        address = self.kubectl(
            "get", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=gpemu-device-plugin",
            "-o", "jsonpath={.items[0].status.podIP}")
        said = self.said("scrape", ["python3", "-c", (
            "import urllib.request\n"
            f"print(urllib.request.urlopen('http://{address}:9400/metrics').read().decode())")])
        self.assertIn('DCGM_FI_DEV_GPU_TEMP{gpu="0"', said)
        # Pods of this cluster have no service account: what has one is only checked.
        for options, count in ((["--claims", "--metrics"], 5), (["--policy", "las-synergy"], 4),
                               (["--labels", "--mig", "3g.20gb:2"], 3)):
            others = subprocess.run(
                [OPTIONS.plugin, "manifests", "--gpu", f"{GPU}:2", "--image", self.name, *options],
                check=True, stdout=subprocess.PIPE, text=True).stdout
            made = self.kubectl("apply", "--dry-run=server", "-f", "-", input=others)
            self.assertEqual(made.count("created (server dry run)"), count, made)
        # The pods come back when they are updated, and find the same GPUs.
        self.kubectl("rollout", "restart", "daemonset", "gpemu-device-plugin", "-n", "kube-system")
        self.kubectl("rollout", "status", "daemonset", "gpemu-device-plugin", "-n", "kube-system")
        self.eventually("2", self.allocatable)
        self.assertEqual(self.said("again", ["nvidia-smi", "-L"], {WHOLE: 1}).count("GPU-"), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--installation", default=OPTIONS.installation)
    parser.add_argument("--plugin", default=OPTIONS.plugin)
    parser.add_argument("--restarts", type=int, default=OPTIONS.restarts,
                        help="of the kubelet or the plugin")
    parser.add_argument("--seed", type=int, default=OPTIONS.seed)
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
