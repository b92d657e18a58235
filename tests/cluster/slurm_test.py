#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Emulated GPUs in the tasks of a real Slurm cluster (tests/cluster/slurm_cluster.py): who gets
which, what parts of them are worth, and what is left of jobs that end in all ways.

Usage: tests/cluster/slurm_test.py [--build FOLDER] [--times N] [--seed N] [--nvml FOLDER]
                                   [--torch PYTHON] [unittest's options]
"""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time
import unittest

import slurm_cluster
from slurm_cluster import LAB, STATE

OPTIONS = argparse.Namespace(build="build/dev", times=3, seed=1, nvml="", torch="")
GPU = "H100-SXM5-80GB"
MIB = 2**20
DESCRIPTION = f"""
[[nodes]]
names = "n[1-32]"
gpus = ["{GPU}:8"]
[[nodes]]
names = "s1"
gpus = ["{GPU}:2"]
shards = 4
[[nodes]]
names = "g1"
gpus = ["{GPU}:2"]
mig = ["3g.40gb", "2g.20gb", "1g.10gb"]
[[nodes]]
names = "t1"
topology = "dgx-1v"
cpus = 64
[[nodes]]
names = "x1"
gpus = ["A100-SXM4-40GB", "T4", "A100-PCIE-40GB"]
"""
# A cluster has either shards or mps.
WITH_MPS = f"""
[[nodes]]
names = "p1"
gpus = ["{GPU}:2"]
mps = true
"""

# What a CUDA program sees of its GPU, and how long products of matrices take on it, in seconds.
WORK = """
import ctypes, json, os, sys
cuda, blas = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libcublas.so.12")
driver = ctypes.CDLL("libcuda.so.1")
def check(status):
    assert status == 0, status
count, processors = ctypes.c_int(), ctypes.c_int()
check(cuda.cudaGetDeviceCount(ctypes.byref(count)))
check(cuda.cudaDeviceGetAttribute(ctypes.byref(processors), 16, 0))
uuid = (ctypes.c_ubyte * 16)()
check(driver.cuDeviceGetUuid(uuid, 0))
result = {"node": os.environ["SLURMD_NODENAME"], "count": count.value,
          "processors": processors.value, "uuid": bytes(uuid).hex()}
products = int(sys.argv[1])
if products:
    n, one, handle = 8192, ctypes.c_float(1), ctypes.c_void_p()
    check(blas.cublasCreate_v2(ctypes.byref(handle)))
    a, b, c = (ctypes.c_void_p() for _ in range(3))
    for matrix in (a, b, c):
        check(cuda.cudaMalloc(ctypes.byref(matrix), ctypes.c_size_t(4 * n * n)))
    begin, end = ctypes.c_void_p(), ctypes.c_void_p()
    for event in (begin, end):
        check(cuda.cudaEventCreate(ctypes.byref(event)))
    check(cuda.cudaDeviceSynchronize())
    check(cuda.cudaEventRecord(begin, None))
    for _ in range(products):
        check(blas.cublasSgemm_v2(handle, 0, 0, n, n, n, ctypes.byref(one), a, n, b, n,
                                  ctypes.byref(one), c, n))
    check(cuda.cudaEventRecord(end, None))
    check(cuda.cudaDeviceSynchronize())
    took = ctypes.c_float()
    check(cuda.cudaEventElapsedTime(ctypes.byref(took), begin, end))
    result["seconds"] = took.value / 1e3
print(json.dumps(result), flush=True)
"""

# How many MiB a program can hold, and what it is told that there are.
MEMORY = f"""
import ctypes, json, os, pathlib, time
tasks, own = int(os.environ["SLURM_NTASKS"]), int(os.environ["SLURM_PROCID"])
def say(what):
    path(what, own).touch()
def path(what, task):
    return pathlib.Path("{LAB}/" + what + "-" + os.environ["SLURM_JOB_ID"] + "-" + str(task))
def wait(what, task):
    while not path(what, task).exists():
        time.sleep(0.01)
cuda = ctypes.CDLL("libcudart.so.12")
free, total = ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cudaFree(None) == 0
# All tasks have their contexts before one takes memory; then one after the other does.
say("context")
for task in range(tasks):
    wait("context", task)
if own > 0:
    wait("full", own - 1)
assert cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
def take(mib):
    memory = ctypes.c_void_p()
    return cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(mib << 20)) == 0
held = 0
for size in (1024, 128, 16, 1):
    while take(size):
        held += size
print(json.dumps(dict(total=total.value, free=free.value, held=held)), flush=True)
say("full")
wait("full", tasks - 1)
"""

# Two ranks of DistributedDataParallel with next to nothing to compute, and many gradients.
PARAMETERS = 4_194_304
DDP = f"""
import os, time, torch, torch.distributed as ranks
ranks.init_process_group("nccl")
torch.cuda.set_device(0)
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Linear(4096, {PARAMETERS} // 4096, bias=False).cuda())
images = torch.ones(1, 4096, device="cuda")
def step():
    model.zero_grad(set_to_none=True)
    model(images).sum().backward()
    torch.cuda.synchronize()
def sent():
    for line in open("/proc/net/dev"):
        if line.strip().startswith("eth0:"):
            return int(line.split(":")[1].split()[8])
for _ in range(2):
    step()
took, before = [], sent()
for _ in range(5):
    begin = time.monotonic()
    step()
    took.append(time.monotonic() - begin)
if ranks.get_rank() == 0:  # The fastest step is the one that others on the machine disturb least.
    print("step", min(took), (sent() - before) / 5, flush=True)
ranks.destroy_process_group()
"""

# Holds memory and works until it is killed.
BUSY = """
import ctypes
cuda, memory = ctypes.CDLL("libcudart.so.12"), ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(1 << 30)) == 0
print("busy", flush=True)
while True:
    assert cuda.cudaMemset(memory, 0, ctypes.c_size_t(1 << 30)) == 0
    assert cuda.cudaDeviceSynchronize() == 0
"""


def python(text, *words):
    return [sys.executable, "-c", text, *map(str, words)]


class Slurm(unittest.TestCase):
    """A cluster with the GPUs of a description."""

    description, hosts = "", ()

    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm_cluster.SlurmCluster(OPTIONS.build, cls.description, cls.hosts)
        begin = time.monotonic()
        cls.cluster.up()
        print(f"{len(cls.cluster.nodes)} slurmd: {time.monotonic() - begin:.1f} s", file=sys.stderr)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.down()

    def tearDown(self):
        for node in self.cluster.nodes:
            self.cluster.eventually(lambda node=node: not self.cluster.left_on(node), 30)

    def work(self, *words, products=0):
        """What tasks found out, in any order."""
        said = self.cluster.srun(*words, *python(WORK, products))
        return [json.loads(line) for line in said.splitlines()]

    def seconds(self, *words, products=40):
        return self.work(*words, products=products)[0]["seconds"]

    def usage(self, job):
        """What a job used, as the report says when it is over."""
        found = []

        def there():
            found[:] = json.loads(self.cluster.gpus_of("report", "--json", "--job", str(job)))
            return bool(found)
        self.cluster.eventually(there)
        return found

    def check_usage(self, found, seconds):
        """The report must have what the last job's tasks found out."""
        usage = self.usage(self.last_job())[0]
        self.assertAlmostEqual(usage["busy_s"] / seconds, 1, delta=0.01)
        self.assertEqual(usage["peak_memory_mib"], 3 * 256)
        self.assertEqual(usage["processes"], len(found))

    def last_job(self):
        ids = [int(line.split()[0].split("=")[1]) for line in
               self.cluster.run("scontrol", "--oneliner", "show", "jobs").splitlines()]
        return max(ids)


class GpusOfTasks(Slurm):
    description = DESCRIPTION

    # Who gets which.

    def test_256_tasks_have_a_device_each(self):
        begin = time.monotonic()
        found = self.work("-N32", "-w", "n[1-32]", "--ntasks-per-node=8", "--gpus-per-task=1")
        print(f"256 tasks: {time.monotonic() - begin:.1f} s", file=sys.stderr)
        self.assertEqual(len(found), 256)
        self.assertEqual({one["count"] for one in found}, {1})
        self.assertEqual(len({one["uuid"] for one in found}), 256)
        self.assertEqual(len({one["node"] for one in found}), 32)

    def test_a_step_sees_its_gpus_as_the_machine_has_them(self):
        smi = ["nvidia-smi", "--query-gpu=uuid,name", "--format=csv,noheader"]
        all_gpus = self.cluster.srun("-w", "n1", "--gres=gpu:8", *smi).splitlines()
        self.assertEqual(len(set(all_gpus)), 8)
        self.assertIn("NVIDIA H100 80GB HBM3", all_gpus[0])
        two = self.cluster.srun("-w", "n1", "--gres=gpu:2", *smi).splitlines()
        self.assertEqual(two, all_gpus[:2])

    def test_types(self):
        for kind, name in (("t4", "Tesla T4"), ("a100-sxm4-40gb", "NVIDIA A100-SXM4-40GB"),
                           ("a100-pcie-40gb", "NVIDIA A100-PCIE-40GB")):
            said = self.cluster.srun("-w", "x1", f"--gres=gpu:{kind}:1", "nvidia-smi",
                                     "--query-gpu=name", "--format=csv,noheader")
            self.assertEqual(said.strip(), name)
        for words in (["--gres=gpu:v999:1"], ["-w", "n1", "--gres=gpu:t4:1"],
                      ["-w", "n1", "-N1", "--gres=gpu:9"], ["-w", "x1", "--gres=gpu:t4:2"]):
            self.assertIn("Requested node configuration is not available",
                          self.cluster.srun(*words, "true", code=1))

    def test_gpus_of_tasks_are_bound_as_slurm_says(self):
        said = self.cluster.srun("-w", "n1", "-n4", "--gres=gpu:4", "--gpu-bind=map_gpu:3,2,1,0",
                                 "sh", "-c", "echo $SLURM_LOCALID $CUDA_VISIBLE_DEVICES")
        self.assertEqual(sorted(said.splitlines()), ["0 3", "1 2", "2 1", "3 0"])

    def test_steps_of_a_job_have_parts_of_its_gpus(self):
        script = LAB / "steps.sh"
        script.write_text(
            "#!/bin/sh\n"
            "nvidia-smi --query-gpu=uuid --format=csv,noheader | wc -l\n"
            "for i in 1 2; do\n"
            "  srun --quiet -n1 --exact --gres=gpu:1 sh -c "
            "'nvidia-smi --query-gpu=uuid --format=csv,noheader; sleep 1' &\n"
            "done\n"
            "wait\n"
            "srun --quiet -n1 --gres=none sh -c 'env | grep -c ^GPEMU_NODE; nvidia-smi -L'\n")
        subprocess.run(["sbatch", "--wait", "-w", "n1", "-n2", "--gres=gpu:2", "-o",
                        LAB / "steps.out", script], check=False, capture_output=True, cwd=LAB)
        said = (LAB / "steps.out").read_text().splitlines()
        self.assertEqual(said[0], "2")
        self.assertEqual(len({line for line in said[1:3] if line.startswith("GPU-")}), 2, said)
        self.assertEqual(said[3], "0", said)

    def test_an_ordinary_user_has_gpus_that_others_cannot_open(self):
        os.chmod(LAB, 0o755)
        said = subprocess.run(
            ["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups", "srun", "--quiet",
             "-w", "n1", "--gres=gpu:1", "sh", "-c",
             "id -un; nvidia-smi -L; stat -c '%U %a' $GPEMU_NODE_DIR; " + " ".join(
                 ["python3", "-c", "'import ctypes; "
                  "print(ctypes.CDLL(\"libcudart.so.12\").cudaFree(None))'"])],
            check=True, capture_output=True, text=True, cwd="/").stdout.splitlines()
        self.assertEqual([said[0], said[2], said[3]], ["daemon", "daemon 500", "0"], said)

    # Parts of GPUs.

    def test_shards_are_parts_of_the_time(self):
        rate = 40 / self.seconds("-w", "s1", "--gres=gpu:1")
        # A part may begin with what is left of a period of 0.1 s.
        for shards, products in ((4, 40), (2, 120), (1, 60)):
            took = self.seconds("-w", "s1", f"--gres=shard:{shards}", products=products)
            self.assertAlmostEqual(products / took / rate / (shards / 4), 1, delta=0.02)

    def test_jobs_with_halves_do_not_disturb_each_other(self):
        whole = self.seconds("-w", "s1", "--gres=gpu:1")
        words = ["srun", "--quiet", "-w", "s1", "--gres=shard:2", *python(WORK, 100)]
        jobs = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        found = [json.loads(job.communicate(timeout=60)[0]) for job in jobs]
        self.assertEqual(len({one["uuid"] for one in found}), 1, "they should share a GPU")
        for one in found:
            self.assertAlmostEqual(2 * whole / 40 * 100 / one["seconds"], 1, delta=0.02)

    def test_shards_are_parts_of_the_memory_to_the_mib(self):
        def memory(*words):
            return [json.loads(line) for line in
                    self.cluster.srun("-w", "s1", *words, *python(MEMORY)).splitlines()]
        whole = memory("--gres=gpu:1")[0]
        half = memory("--gres=shard:2")[0]
        quarter = memory("--gres=shard:1")[0]
        self.assertEqual(half["total"] // MIB, whole["total"] // 2 // MIB)
        self.assertEqual(quarter["total"] // MIB, whole["total"] // 4 // MIB)
        for part in (whole, half, quarter):
            self.assertEqual(part["held"], blocks(part["free"]))
        # Two tasks have the job's part together, and each a context.
        both = memory("-n2", "--gres=shard:2")
        self.assertEqual(both[0]["total"], half["total"])
        free = max(task["free"] for task in both)  # For the first of them.
        self.assertEqual(free, half["total"] - 2 * (half["total"] - half["free"]))
        self.assertEqual(sorted(task["held"] for task in both), [0, blocks(free)])

    def test_mig_instances_are_gres(self):
        names = {"h100_3g.40gb": "3g.40gb", "h100_2g.20gb": "2g.20gb", "h100_1g.10gb": "1g.10gb"}
        processors = {}
        for gres, name in names.items():
            said = self.cluster.srun(
                "-w", "g1", f"--gres=gpu:{gres}:1", "sh", "-c",
                "echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L")
            visible, *lines = said.splitlines()
            its = [line for line in lines if visible in line]
            self.assertEqual(len(its), 1, said)
            self.assertIn(f"MIG {name} ", its[0])
            processors[name] = self.work("-w", "g1", f"--gres=gpu:{gres}:1")[0]["processors"]
        self.assertEqual(processors, {"3g.40gb": 60, "2g.20gb": 32, "1g.10gb": 16})
        self.assertIn("not available", self.cluster.srun("-w", "g1", "--gres=gpu:h100_7g.80gb:1",
                                                         "true", code=1))

    # Topologies.

    def test_links_and_cores_of_gres_are_those_of_the_topology(self):
        matrix = self.cluster.srun("-w", "t1", "--gres=gpu:8", "nvidia-smi", "topo", "-m")
        lines = [line for line in (LAB / "gres.conf").read_text().splitlines()
                 if line.startswith("NodeName=t1")]
        self.assertEqual([re.search(r"Links=(\S+)", line)[1] for line in lines], links_of(matrix))
        self.assertEqual([re.search(r"Cores=(\S+)", line)[1] for line in lines],
                         ["0-31"] * 4 + ["32-63"] * 4)
        # Slurm prefers GPUs that are joined, and cores near them.
        two = self.cluster.srun("-w", "t1", "--gres=gpu:2", "nvidia-smi", "topo", "-m")
        self.assertTrue(re.search(r"^GPU0\t X \tNV\d", two, re.M), two)

    def test_autodetection_equals_the_topology(self):
        if not OPTIONS.nvml:
            self.skipTest("no plug-in gpu_nvml.so of Slurm; see scripts/check/slurm.sh")
        matrix = self.cluster.srun("-w", "t1", "--gres=gpu:8", "nvidia-smi", "topo", "-m")
        found = autodetected("t1", OPTIONS.nvml)
        self.assertEqual(len(found), 8)
        self.assertEqual([gpu["Links"] for gpu in found], links_of(matrix))
        self.assertEqual({gpu["Type"] for gpu in found}, {"v100"})
        self.assertEqual([gpu["File"] for gpu in found], [f"/dev/nvidia{i}" for i in range(8)])
        # All of the host's cores are near, in both.
        self.assertEqual({gpu["Cores"] for gpu in found}, {"0-63"})
        last = os.sysconf("SC_NPROCESSORS_CONF") - 1
        row = re.search(r"^GPU0\t.*$", matrix, re.M)[0].split("\t")
        self.assertIn(f"0-{last}" if last else "0", row)

    # Clusters without gres.

    def test_gpus_that_slurm_does_not_know(self):
        said = self.cluster.srun("-w", "t1", "--gpemu-gpu=A100-SXM4-40GB:2", "nvidia-smi",
                                 "--query-gpu=name", "--format=csv,noheader")
        self.assertEqual(said.splitlines(), ["NVIDIA A100-SXM4-40GB"] * 2)
        found = self.work("-N2", "-w", "n[1-2]", "--gpemu-gpu=T4")
        self.assertEqual([one["processors"] for one in found], [40, 40])
        self.assertEqual(len({one["uuid"] for one in found}), 2)

    def test_faults_say_what_to_do(self):
        for value, words in (("X100", "did you mean"), ("T4:0", "count of 1 to"),
                             ("T4:x", "count of 1 to")):
            self.assertIn(words, self.cluster.srun(f"--gpemu-gpu={value}", "true", code=1))
        # A description that does not fit gres.conf any more.
        text = self.cluster.description.read_text()
        try:
            for change, words in (
                    (('names = "x1"', 'names = "x2"'), "has no node x1"),
                    (('"T4", "A100-PCIE-40GB"', '"T4"'), "make gres.conf anew"),
                    (('names = "x1"', 'name = "x1"'), "the keys of nodes are"),
                    (('names = "x1"', "names = ["), "slurm.toml:")):
                self.cluster.description.write_text(text.replace(*change))
                said = self.cluster.srun("-w", "x1", "--gres=gpu:3", "true", code=1)
                self.assertIn(words, said)
        finally:
            self.cluster.description.write_text(text)
        self.assertEqual(len(self.work("-w", "x1", "--gres=gpu:3")), 1)

    def test_a_missing_installation_is_named(self):
        stack = LAB / "plugstack.conf"
        text = stack.read_text()
        stack.write_text(text.replace("conf=", "program=/nowhere/gpemu-slurm conf="))
        try:
            said = self.cluster.srun("-w", "n1", "--gres=gpu:1", "true", code=1)
            self.assertIn("/nowhere/gpemu-slurm: No such file", said)
            self.assertIn("install gpemu on this machine", said)
        finally:
            stack.write_text(text)

    # Programs of all kinds, and what they used.

    def test_gpemu_train_runs_in_tasks(self):
        said = self.cluster.srun(
            "-w", "n1", "-n2", "--gpus-per-task=1", "sh", "-c",
            "gpemu train synthetic --node $GPEMU_NODE --device $SLURM_STEP_GPUS --model resnet50 "
            "--batch 64 --steps 5")
        self.assertEqual(said.count("resnet50 (tf32), batch 64, on H100-SXM5-80GB"), 2, said)

    def test_the_report_says_what_a_job_used(self):
        found = self.work("-w", "n1", "-n2", "--gpus-per-task=1", products=40)
        self.check_usage(found, sum(one["seconds"] for one in found))
        whole = found[0]["seconds"]
        # Of a part of the time, what it used is what it did.
        self.check_usage(self.work("-w", "s1", "--gres=shard:2", products=40), whole)
        self.check_usage(self.work("-w", "s1", "--gpemu-gpu=H100-SXM5-80GB", products=40), whole)

    # What is left.

    def test_nothing_is_left_of_jobs_that_end_in_all_ways(self):
        draw = random.Random(OPTIONS.seed)
        counts, had = {}, 0
        for number in range(OPTIONS.times):
            node, gres = draw.choice((("n1", "gpu:2"), ("s1", "shard:2"),
                                      ("g1", "gpu:h100_2g.20gb:1")))
            end = draw.choice((self.cancel, self.crash, self.crash_daemon, self.requeue))
            with self.subTest(number=number, node=node, end=end.__name__):
                job = self.submit(node, gres)
                # Before it has started, while it starts, and later.
                if draw.random() < 0.8:
                    self.cluster.eventually(lambda node=node: self.cluster.left_on(node))
                time.sleep(draw.choice((0, 0.02, 0.1, draw.uniform(0, 1))))
                had += bool(self.cluster.left_on(node))
                end(node, job)
                self.cluster.eventually(lambda job=job: self.state(job) == "", 60)
                self.cluster.eventually(lambda node=node: not self.cluster.left_on(node), 30)
                self.assertEqual(slurm_cluster.processes_with(f"SLURM_JOB_ID={job}"), [])
                self.cluster.eventually(lambda node=node: self.node_state(node) == "idle", 60)
            counts[end.__name__] = counts.get(end.__name__, 0) + 1
        print(f"{OPTIONS.times} ends: {counts}; {had} jobs had their GPUs", file=sys.stderr)
        self.assertGreaterEqual(had, OPTIONS.times // 2)

    def submit(self, node, gres):
        script = LAB / "busy.py"
        script.write_text(f"#!{sys.executable}\n{BUSY}")
        said = self.cluster.run("sbatch", "--parsable", "--requeue", "-w", node, f"--gres={gres}",
                                "-o", "/dev/null", script)
        return said.strip()

    def state(self, job):
        """Of a job; empty when it is over."""
        done = subprocess.run(["squeue", "-h", "-j", job, "-o", "%T"], check=False, text=True,
                              capture_output=True)
        return done.stdout.strip()

    def node_state(self, node):
        return self.cluster.run("sinfo", "-h", "-n", node, "-o", "%T").strip()

    def cancel(self, _, job):
        self.cluster.run("scancel", job)

    def crash(self, node, job):
        """All that runs on the node is killed at once; the job starts again, and is cancelled."""
        self.cluster.crash(node, job)
        self.cluster.restart(node)
        # A job that was about to start may have started.
        self.assertEqual(slurm_cluster.dead_on(node), [], "slurmd has not cleaned up")
        self.cluster.run("scancel", job)

    def crash_daemon(self, node, job):
        """The daemon is killed alone: the job does not notice."""
        self.cluster.crash(node)
        self.cluster.restart(node)
        self.cluster.run("scancel", job)

    def requeue(self, node, job):
        """The job waits to start again, which it does after two minutes, with nothing left of its
        first start; then it is cancelled."""
        done = subprocess.run(["scontrol", "requeue", job], check=False, capture_output=True)
        if done.returncode == 0:  # It fails for a job that has not started.
            self.cluster.eventually(lambda: self.state(job) == "PENDING")
            self.cluster.eventually(lambda: not self.cluster.left_on(node))
        self.cluster.run("scancel", job)


class MpsOfTasks(Slurm):
    description = WITH_MPS

    def test_mps_percentages_are_multiprocessors(self):
        whole = self.work("-w", "p1", "--gres=gpu:1", products=40)[0]
        self.assertEqual(whole["processors"], 132)
        for percent in (25, 50):
            part = self.work("-w", "p1", f"--gres=mps:{percent}", products=40)[0]
            expected = 132 * percent / 100
            self.assertAlmostEqual(part["processors"], expected, delta=2)
            # What it gets done is what so many multiprocessors do.
            self.assertAlmostEqual(132 * whole["seconds"] / part["seconds"], expected, delta=2)

    def test_jobs_with_percentages_run_side_by_side(self):
        alone = self.seconds("-w", "p1", "--gres=mps:50")
        words = ["srun", "--quiet", "-w", "p1", "--gres=mps:50", *python(WORK, 40)]
        jobs = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        found = [json.loads(job.communicate(timeout=60)[0]) for job in jobs]
        self.assertEqual(len({one["uuid"] for one in found}), 1, "they should share a GPU")
        for one in found:
            self.assertAlmostEqual(one["seconds"] / alone, 1, delta=0.02)

    def test_the_report_says_what_a_client_used(self):
        found = self.work("-w", "p1", "--gres=mps:50", products=40)
        self.check_usage(found, found[0]["seconds"])


class RanksOnTwoHosts(Slurm):
    """Unmodified PyTorch on nodes with a network between them."""

    description = f'''
[[nodes]]
names = "h[1-2]"
gpus = ["{GPU}:2"]
'''
    hosts = ("h1", "h2")

    @classmethod
    def setUpClass(cls):
        if not OPTIONS.torch:
            raise unittest.SkipTest("no PyTorch; see --torch")
        super().setUpClass()

    def steps(self, rate, *words):
        """How long a step takes that exchanges PARAMETERS of 4 bytes, in seconds, and how many
        bytes a host sends for it."""
        for host in self.hosts:
            self.cluster.shape(host, rate)
        program = LAB / "ddp.py"
        program.write_text(DDP)
        said = self.cluster.srun(
            "-N2", "-n2", "--gpus-per-task=1", *words, "sh", "-c",
            f"RANK=$SLURM_PROCID WORLD_SIZE=2 exec {OPTIONS.torch} {program}",
            env={**os.environ, "GPEMU_NETWORK": f"real:{rate}", "MASTER_ADDR": "h1",
                 "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0"})
        return [float(word) for word in re.search(r"step (\S+) (\S+)", said).groups()]

    def test_a_step_takes_as_long_as_the_wire(self):
        for megabits in (800, 400, 200):
            took, sent = self.steps(f"{megabits}mbit")
            wire = sent * 8 / (megabits * 1e6)
            print(f"{megabits} Mbit/s: a step takes {took:.3f} s, and its {sent / 1e6:.1f} MB "
                  f"{wire:.3f} s", file=sys.stderr)
            self.assertAlmostEqual(took / wire, 1, delta=0.1)
            # With NCCL's flags, and headers of packets.
            self.assertAlmostEqual(sent / (4 * PARAMETERS), 1.1, delta=0.05)


def blocks(free):
    """How many MiB a program can hold of so many bytes: CUDA takes memory in blocks of 2 MiB."""
    return free // (2 * MIB) * 2


def links_of(matrix):
    """The NVLinks of GPUs, as gres.conf has them, from `nvidia-smi topo -m`."""
    rows = [[word.strip() for word in line.split("\t")] for line in matrix.splitlines()]
    gpus = sum(word.startswith("GPU") and word[3:].isdigit() for word in rows[0])
    return [",".join("-1" if word == "X" else word[2:] if word.startswith("NV") else "0"
                     for word in row[1:1 + gpus]) for row in rows[1:1 + gpus]]


def autodetected(node, plugins):
    """What Slurm's NVML plug-in finds on a node: a dictionary for each GPU."""
    folder = LAB / "nvml"
    folder.mkdir()
    conf = (LAB / "slurm.conf").read_text()
    lines = [line for line in conf.splitlines()
             if not re.match(r"GresTypes|PlugStack|NodeName=(?!%s )" % node, line)]
    system = subprocess.run(["scontrol", "show", "config"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    known = re.search(r"^PluginDir\s*=\s*(\S+)", system, re.M)[1]
    lines += ["GresTypes=gpu", f"PluginDir={known}:{plugins}"]
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
    (folder / "gres.conf").write_text("AutoDetect=nvml\n")
    (folder / "cgroup.conf").write_text((LAB / "cgroup.conf").read_text())
    for number in range(8):
        os.mknod(f"/dev/nvidia{number}", 0o020666, os.makedev(195, number))
    words = subprocess.run(
        ["gpemu-slurm", "prepare", "--conf", LAB / "slurm.toml", "--node", node], check=True,
        text=True, stdout=subprocess.PIPE).stdout.split()
    said = subprocess.run(
        ["env", *words, f"SLURM_CONF={folder}/slurm.conf", "slurmd", "-G", "-N", node], check=True,
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in said.splitlines()
            if "Gres Name=gpu" in line]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", default=OPTIONS.build, metavar="FOLDER")
    parser.add_argument("--times", type=int, default=OPTIONS.times, help="that a job is ended")
    parser.add_argument("--seed", type=int, default=OPTIONS.seed)
    parser.add_argument("--nvml", default=OPTIONS.nvml, metavar="FOLDER",
                        help="of Slurm's plug-in gpu_nvml.so")
    parser.add_argument("--torch", default=OPTIONS.torch, metavar="PYTHON",
                        help="one with PyTorch, for ranks on two hosts")
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    OPTIONS.build = str(pathlib.Path(OPTIONS.build).resolve())
    if lines := slurm_cluster.missing():
        sys.exit("slurm_test: this machine cannot run it:\n  " + "\n  ".join(lines))
    slurm_cluster.enter("1")
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
