#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks on two nodes of a Slurm cluster (tests/cluster/slurm_cluster.py), each with a network of
its own, that are started as users start them: by srun, srun --mpi=pmix, mpirun, torchrun and
accelerate. Jobs say nothing for gpemu; slurm.toml says which network joins the nodes.

Usage: tests/cluster/launchers_test.py [--build FOLDER] [--torch PYTHON] [--accelerate FOLDER]
                                       [unittest's options]

Without --torch, only programs of MPI are started.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import slurm_cluster
from slurm_cluster import LAB

OPTIONS = argparse.Namespace(build="build/dev", torch="", accelerate="")
NODES, GPUS = ("h1", "h2"), 2
RANKS = len(NODES) * GPUS
MEGABITS = 400  # that a node can send in a second
DESCRIPTION = f"""
network = "real:{MEGABITS}mbit"
[[nodes]]
names = "h[1-2]"
gpus = ["H100-SXM5-80GB:{GPUS}"]
"""
USER = "daemon"  # not root
VALUES = 4_194_304  # that ranks add, of 4 bytes each

# What all programs end with: a line of each rank. A rank sends its own number plus 1 first; times
# and bytes are of the fastest of five exchanges, which others on the machine disturb least.
MEASURE = """
import json, socket, time
def sent():
    for line in open("/proc/net/dev"):
        if line.strip().startswith("eth0:"):
            return int(line.split(":")[1].split()[8])
def report(exchange, **known):
    for _ in range(2):
        exchange()
    took, before = [], sent()
    for _ in range(5):
        begin = time.monotonic()
        exchange()
        took.append(time.monotonic() - begin)
    print(json.dumps(dict(known, host=socket.gethostname(), seconds=min(took),
                          sent=(sent() - before) / 5)) + "\\n", end="", flush=True)
"""

# What PyTorch's manual says about DistributedDataParallel. With "once", a rank fails when it has
# met the others for the first time.
DDP = f"""
import os, sys, torch, torch.distributed as ranks
{MEASURE}
ranks.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
number = torch.tensor([ranks.get_rank() + 1.0]).cuda()
ranks.all_reduce(number)
if sys.argv[1:] == ["once"] and ranks.get_rank() == 1:
    assert os.environ["TORCHELASTIC_RESTART_COUNT"] != "0", "as it should"
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Linear(4096, {VALUES} // 4096, bias=False).cuda(), device_ids=[local])
images = torch.ones(1, 4096, device="cuda")
def step():
    model.zero_grad(set_to_none=True)
    model(images).sum().backward()
    torch.cuda.synchronize()
report(step, rank=ranks.get_rank(), ranks=ranks.get_world_size(), sum=number.item(),
       gpu=str(torch.cuda.get_device_properties(local).uuid))
while sys.argv[1:] == ["forever"]:
    step()
ranks.destroy_process_group()
"""

# What accelerate's manual says.
ACCELERATE = f"""
import torch
from accelerate import Accelerator
{MEASURE}
accelerator = Accelerator()
number = accelerator.reduce(
    torch.tensor([accelerator.process_index + 1.0]).to(accelerator.device))
model = torch.nn.Linear(4096, {VALUES} // 4096, bias=False)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters()))
images = torch.ones(1, 4096, device=accelerator.device)
def step():
    optimizer.zero_grad()
    accelerator.backward(model(images).sum())
    optimizer.step()
    torch.cuda.synchronize()
report(step, rank=accelerator.process_index, ranks=accelerator.num_processes, sum=number.item(),
       gpu=str(torch.cuda.get_device_properties(accelerator.device).uuid))
accelerator.end_training()
"""

# MPI gives all ranks the identity of NCCL's communicator, and says which GPU is whose.
MPI = f"""
import ctypes, sys
from mpi4py import MPI
{MEASURE}
cuda, nccl = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libnccl.so.2")
driver = ctypes.CDLL("libcuda.so.1")
def check(status):
    assert status == 0, status
world = MPI.COMM_WORLD
local = world.Split_type(MPI.COMM_TYPE_SHARED).rank
check(cuda.cudaSetDevice(local))
class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]
unique = UniqueId()
if world.rank == 0:
    check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
world.Bcast(MPI.memory.fromaddress(ctypes.addressof(unique), 128), root=0)
comm, memory = ctypes.c_void_p(), ctypes.c_void_p()
check(nccl.ncclCommInitRank(ctypes.byref(comm), world.size, unique, world.rank))
check(cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(4 * {VALUES})))
def add(values):
    check(nccl.ncclAllReduce(memory, memory, ctypes.c_size_t(values), 7, 0, comm, None))
    check(cuda.cudaStreamSynchronize(None))
number = ctypes.c_float(world.rank + 1)
check(cuda.cudaMemcpy(memory, ctypes.byref(number), ctypes.c_size_t(4), 1))
add(1)
check(cuda.cudaMemcpy(ctypes.byref(number), memory, ctypes.c_size_t(4), 2))
uuid = (ctypes.c_ubyte * 16)()
check(driver.cuDeviceGetUuid(uuid, local))
report(lambda: add({VALUES}), rank=world.rank, ranks=world.size, sum=number.value,
       gpu=bytes(uuid).hex())
while sys.argv[1:] == ["forever"]:
    add({VALUES})
check(nccl.ncclCommDestroy(comm))
"""

# What a job needs, however its ranks are started.
JOB = ("-N2", f"--gpus-per-node={GPUS}")
TASK_PER_RANK = (*JOB, f"--ntasks-per-node={GPUS}")
TASK_PER_NODE = (*JOB, "--ntasks-per-node=1")


FOLDER = LAB / "user"


class Launchers(unittest.TestCase):
    user = None  # that jobs are of; None: root

    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm_cluster.SlurmCluster(OPTIONS.build, DESCRIPTION, NODES)
        cls.cluster.up()
        cls.shape(MEGABITS)
        os.chmod(LAB, 0o755)
        FOLDER.mkdir()
        shutil.chown(FOLDER, USER)
        for name, text in (("ddp", DDP), ("accelerated", ACCELERATE), ("exchange", MPI)):
            (FOLDER / f"{name}.py").write_text(text)
        # As a user's shell has them.
        folders = f"{pathlib.Path(OPTIONS.torch).parent}:{OPTIONS.accelerate}/bin"
        cls.environment = {
            **os.environ, "PATH": f"{folders}:{os.environ['PATH']}",
            "PYTHONPATH": OPTIONS.accelerate}

    @classmethod
    def tearDownClass(cls):
        cls.cluster.down()
        shutil.rmtree(FOLDER)

    @classmethod
    def shape(cls, megabits):
        for node in NODES:
            cls.cluster.shape(node, f"{megabits}mbit")

    def setUp(self):
        (FOLDER / "batch.out").unlink(missing_ok=True)

    def tearDown(self):
        self.nothing_is_left()

    def nothing_is_left(self):
        for node in NODES:
            self.cluster.eventually(lambda node=node: not self.cluster.left_on(node), 30)
            self.cluster.eventually(
                lambda node=node: not slurm_cluster.processes_with(f"SLURMD_NODENAME={node}"), 30)
            self.assertNotIn("error: gpemu", (LAB / f"slurmd-{node}.log").read_text())

    def say(self, *words, **variables):
        """What the ranks of a job say that a command starts, e.g. srun."""
        done = subprocess.run(words, check=False, capture_output=True, text=True,
                              timeout=slurm_cluster.SECONDS, cwd=FOLDER, user=self.user,
                              group=self.user, extra_groups=[] if self.user else None,
                              env={**self.environment, **variables})
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def cancel(self, job):
        """Cancels a job whose ranks have met."""
        out = FOLDER / "batch.out"
        self.cluster.eventually(lambda: out.exists() and out.read_text().count("{") == RANKS)
        self.cluster.run("scancel", job)
        self.nothing_is_left()
        out.unlink()  # Another job may follow.

    def check(self, said, megabits=MEGABITS):
        """All ranks must be there, on a GPU each, and take as long as their bytes on the link."""
        found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        found.sort(key=lambda one: one["rank"])
        self.assertEqual([one["rank"] for one in found], list(range(RANKS)), said)
        self.assertEqual({one["ranks"] for one in found}, {RANKS})
        self.assertEqual([one["host"] for one in found],
                         [node for node in NODES for _ in range(GPUS)])
        self.assertEqual(len({one["gpu"] for one in found}), RANKS, said)
        self.assertEqual({one["sum"] for one in found}, {sum(range(1, RANKS + 1))}, said)
        took, sent = found[0]["seconds"], found[0]["sent"]
        wire = sent * 8 / (megabits * 1e6)
        print(f"{self.id().split('.')[-1]}: {megabits} Mbit/s: an exchange takes {took:.3f} s, and "
              f"its {sent / 1e6:.1f} MB {wire:.3f} s", file=sys.stderr)
        self.assertAlmostEqual(took / wire, 1, delta=0.1)


class Mpi(Launchers):
    """Programs of MPI that use NCCL."""

    user = USER
    program = ("/usr/bin/python3", "exchange.py")  # Debian's, which has mpi4py.

    def batch(self, *options, program=program):
        """The number of a job whose first ranks are in its script, and the others in a step."""
        (FOLDER / "batch.sh").write_text(f"#!/bin/sh\nexec mpirun {' '.join(program)}\n")
        return self.say("sbatch", "--parsable", "-o", "batch.out", *options, "batch.sh").strip()

    def test_srun_with_pmix(self):
        for megabits in (MEGABITS, MEGABITS // 2):
            self.shape(megabits)
            self.check(self.say("srun", *TASK_PER_RANK, "--mpi=pmix", *self.program,
                                GPEMU_NETWORK=f"real:{megabits}mbit"), megabits)
        self.shape(MEGABITS)

    def test_mpirun_in_a_batch_job(self):
        self.batch("--wait", *TASK_PER_RANK)
        self.check((FOLDER / "batch.out").read_text())

    def test_mpirun_in_a_batch_job_without_gres(self):
        self.batch("--wait", "-N2", f"--ntasks-per-node={GPUS}", f"--gpemu-gpu=T4:{GPUS}")
        self.check((FOLDER / "batch.out").read_text())

    def test_mpirun_in_an_allocation(self):
        """mpirun is where salloc is called, on no node, and all ranks are in a step."""
        self.check(self.say("salloc", "--quiet", *TASK_PER_RANK, "mpirun", *self.program))

    def test_ranks_without_a_network_are_refused(self):
        text = self.cluster.description.read_text()
        try:
            self.cluster.description.write_text(text.replace("network =", "# network ="))
            said = self.cluster.srun(*TASK_PER_RANK, "--mpi=pmix", self.program[0],
                                     FOLDER / self.program[1], code=1)
        finally:
            self.cluster.description.write_text(text)
        self.assertEqual(
            said.count("ranks in several nodes (libnccl.so.2) is not supported"), RANKS, said)

    def test_nothing_is_left_of_cancelled_ranks(self):
        program = (*self.program, "forever")
        self.cancel(self.batch(*TASK_PER_RANK, program=program))
        self.cancel(self.say("sbatch", "--parsable", "-o", "batch.out", *TASK_PER_RANK, "--wrap",
                             f"exec srun --mpi=pmix {' '.join(program)}").strip())

class PyTorch(Launchers):
    """Unmodified programs of PyTorch."""

    @classmethod
    def setUpClass(cls):
        if not OPTIONS.torch:
            raise unittest.SkipTest("no PyTorch; see --torch")
        super().setUpClass()

    def srun(self, options, command, **variables):
        return self.say("srun", *options, "sh", "-c", f"exec {command}", **variables)

    def test_srun_with_the_variables_of_slurm(self):
        self.check(self.srun(
            TASK_PER_RANK,
            "env MASTER_ADDR=h1 MASTER_PORT=29500 RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS "
            "LOCAL_RANK=$SLURM_LOCALID python ddp.py"))

    def test_srun_with_a_gpu_for_each_task(self):
        self.check(self.srun(
            ("-N2", f"--ntasks-per-node={GPUS}", "--gpus-per-task=1"),
            "env MASTER_ADDR=h1 MASTER_PORT=29500 RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS "
            "LOCAL_RANK=0 python ddp.py"))

    def test_mpirun(self):
        self.check(self.say(
            "salloc", "--quiet", *TASK_PER_RANK, "mpirun", "--allow-run-as-root", "-x",
            "MASTER_ADDR=h1", "-x", "MASTER_PORT=29500", "sh", "-c",
            "exec env RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=$OMPI_COMM_WORLD_SIZE "
            "LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK python ddp.py"))

    torchrun = (f"torchrun --nnodes 2 --nproc-per-node {GPUS} --rdzv-id $SLURM_JOB_ID "
                "--rdzv-backend c10d --rdzv-endpoint h1:29500")

    def test_torchrun(self):
        self.check(self.srun(TASK_PER_NODE, f"{self.torchrun} ddp.py"))

    def test_torchrun_starts_all_ranks_again_when_one_has_failed(self):
        # PyTorch 2.8 keeps one store for all starts of the ranks, unless told otherwise: who asks
        # before the new rank 0 has written gets the identity of the old communicator, and NCCL's
        # "Connection refused". Source: https://github.com/pytorch/pytorch/issues/167288.
        self.check(self.srun(TASK_PER_NODE, f"{self.torchrun} --max-restarts 1 ddp.py once",
                             TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1"))

    def test_nothing_is_left_of_cancelled_ranks(self):
        self.cancel(self.say("sbatch", "--parsable", "-o", "batch.out", *TASK_PER_NODE, "--wrap",
                             f"srun {self.torchrun} ddp.py forever").strip())

    def test_accelerate(self):
        if not OPTIONS.accelerate:
            self.skipTest("no accelerate; see --accelerate")
        self.check(self.srun(
            TASK_PER_NODE,
            f"accelerate launch --multi_gpu --num_machines 2 --num_processes {RANKS} "
            "--machine_rank $SLURM_NODEID --main_process_ip h1 --main_process_port 29500 "
            "--mixed_precision no --dynamo_backend no accelerated.py"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", default=OPTIONS.build, metavar="FOLDER")
    parser.add_argument("--torch", default=OPTIONS.torch, metavar="PYTHON",
                        help="of scripts/build/install_torch.sh")
    parser.add_argument("--accelerate", default=OPTIONS.accelerate, metavar="FOLDER",
                        help="of scripts/build/install_accelerate.sh")
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    OPTIONS.build = str(pathlib.Path(OPTIONS.build).resolve())
    if lines := slurm_cluster.missing():
        sys.exit("launchers_test: this machine cannot run it:\n  " + "\n  ".join(lines))
    slurm_cluster.enter("1")
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
