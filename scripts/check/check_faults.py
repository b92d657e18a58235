#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills a rank of an NCCL program at random moments, by `gpemu run --faults`, and checks each time
that the others end as with NCCL, that nothing hangs, and that nothing is left: no process, no node,
and no file in the folders for temporary files and in /dev/shm.

Each rank has a watchdog, as PyTorch has: if a collective does not end within 5 s on the node's
clock, the rank aborts the communicator. Half of the moments are collectives, half are times.

With --torch, also runs DDP in PyTorch under torchrun: with a rank that is killed, which torchrun
must restart, and with a GPU at half of its clock, which the report must name.

Usage: scripts/check/check_faults.py [--kills N] [--ranks N] [--seed N] [--torch PYTHON]
       [--restarts N] [--gpemu COMMAND]
"""

import argparse
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU = "A100-SXM4-80GB"
TIME_LIMIT_S = 60  # of the host, for a run of a second or two
TORCH_LIMIT_S = 600
STEPS = 100
STEP_S = 0.05  # on the node's clock
REMOTE_ERROR = 6

RANKS = f"""
import ctypes, json, os, sys, time
ranks = int(sys.argv[1])
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
pipes = [os.pipe() for _ in range(ranks)]

def run(rank):
    cuda, nccl = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libnccl.so.2")
    assert cuda.cudaSetDevice(rank) == 0
    unique = Id()
    if rank == 0:
        assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
        for _, end in pipes:
            os.write(end, bytes(unique))
    for reading, writing in pipes:  # So that a rank that waits for one that died learns of it.
        os.close(writing)
    given = os.read(pipes[rank][0], 128)
    if not given:
        return "no id", 0
    comm, stream, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    status = nccl.ncclCommInitRank(ctypes.byref(comm), ranks, Id.from_buffer_copy(given), rank)
    if status != 0:
        return "start", status
    assert cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
    assert cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(4 << 20)) == 0
    for step in range({STEPS}):
        time.sleep({STEP_S})
        status = nccl.ncclAllReduce(memory, memory, ctypes.c_size_t(1 << 20), 7, 0, comm, stream)
        if status != 0:
            assert nccl.ncclCommAbort(comm) == 0
            return "call", status
        begin = time.monotonic()
        while cuda.cudaStreamQuery(stream) != 0:
            if time.monotonic() - begin > 5:
                assert nccl.ncclCommAbort(comm) == 0
                return "watchdog", cuda.cudaStreamSynchronize(stream)
            time.sleep(0.01)
    return "end", nccl.ncclCommDestroy(comm)

children = []
for rank in range(ranks):
    child = os.fork()
    if child == 0:
        os.write(1, (json.dumps([rank, *run(rank)]) + "\\n").encode())
        os._exit(0)
    children.append(child)
for _, writing in pipes:
    os.close(writing)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
print(json.dumps(codes), flush=True)
"""

DDP = """
import os
import torch
import torch.distributed as dist
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(4)]).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(4096, 2048, device="cuda")
for step in range(20):
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
print(f"rank {rank} has made 20 steps after {attempt} restarts", flush=True)
dist.destroy_process_group()
"""


class Failure(Exception):
    """What a check found."""


def files_below(folder):
    return {str(path) for path in pathlib.Path(folder).rglob("*")}


def shared_files():
    """Returns gpemu's files in /dev/shm, without the nodes of runs that do not belong to this."""
    return {str(path) for path in pathlib.Path("/dev/shm").glob("*gpemu*") if path.is_file()}


def processes_with(mark):
    """Returns the processes whose environment contains a text, except zombies."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


class Runs:
    """Runs programs under gpemu run, each with folders of its own, and checks what they leave."""

    def __init__(self, command):
        self.command = command
        self.number = 0

    def run(self, options, program, faults, limit_s):
        """Returns exit code, output and messages. Raises Failure if it hangs or leaves anything."""
        self.number += 1
        with tempfile.TemporaryDirectory(prefix="gpemu_faults_") as name:
            folder = pathlib.Path(name)
            for part in ("nodes", "temporary"):
                (folder / part).mkdir()
            (folder / "faults.toml").write_text(faults, encoding="ascii")
            environment = {**os.environ, "GPEMU_NODE_DIR": str(folder / "nodes"),
                           "TMPDIR": str(folder / "temporary"),
                           # Else PyTorch 2.8 may give ranks the unique id of before the restart.
                           "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
            shared = shared_files()
            with subprocess.Popen(
                    [self.command, "run", *options, "--faults", folder / "faults.toml", "--",
                     *program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    env=environment, start_new_session=True) as process:
                try:
                    output, messages = process.communicate(timeout=limit_s)
                except subprocess.TimeoutExpired:
                    for left in processes_with(name):
                        os.kill(left, signal.SIGKILL)
                    raise Failure(f"it hangs; {faults}") from None
            self.check_nothing_left(folder, name, shared)
            return process.returncode, output, messages

    @staticmethod
    def check_nothing_left(folder, mark, shared):
        deadline = time.monotonic() + 5
        while left := processes_with(mark):
            if time.monotonic() > deadline:
                raise Failure(f"processes are left: {left}")
            time.sleep(0.01)
        # torchrun leaves files of its own.
        kept = files_below(folder / "nodes") | {
            str(path) for path in (folder / "temporary").rglob("gpemu*")}
        if kept:
            raise Failure(f"files are left: {sorted(kept)}")
        if new := shared_files() - shared:
            raise Failure(f"files are left in /dev/shm: {sorted(new)}")


def fault_at_random(moments, ranks):
    victim = moments.randrange(ranks)
    if moments.random() < 0.5:
        when = f"at_collective = {moments.randint(1, STEPS)}"
    else:
        when = f"at_s = {moments.uniform(0, STEPS * STEP_S + 2):.6f}"
    return victim, f'[[fault]]\nkind = "kill"\ngpu = {victim}\n{when}\n'


def check_ends(ranks, victim, output, faults):
    """Returns how the survivors ended, or "not killed"."""
    lines = [json.loads(line) for line in output.splitlines()]
    if not lines:
        raise Failure(f"no output; {faults}")
    codes, ends = lines[-1], {rank: (how, status) for rank, how, status in lines[:-1]}
    survivors = [rank for rank in range(ranks) if rank != victim]
    if any(codes[rank] != 0 for rank in survivors) or codes[victim] not in (0, -signal.SIGKILL):
        raise Failure(f"exit codes {codes}; {faults}")
    how_they_end = collections.Counter(how for how, _ in ends.values())
    if codes[victim] == 0:
        if set(how_they_end) != {"end"}:
            raise Failure(f"nobody was killed, but they ended with {ends}; {faults}")
        return {"not killed": 1}
    for rank in survivors:
        how, status = ends[rank]
        expected = {"call": REMOTE_ERROR, "start": REMOTE_ERROR}.get(how, 0)
        if status != expected:
            raise Failure(f"rank {rank} ended with {how}, {status}; {faults}")
    return how_they_end


def check_kills(runs, arguments):
    moments = random.Random(arguments.seed)
    ends, killed, longest = collections.Counter(), 0, 0.0
    for number in range(arguments.kills):
        victim, faults = fault_at_random(moments, arguments.ranks)
        began = time.monotonic()
        code, output, messages = runs.run(
            ["--gpu", f"{GPU}:{arguments.ranks}", "--clock", "virtual", "--quiet"],
            [sys.executable, "-c", RANKS, str(arguments.ranks)], faults, TIME_LIMIT_S)
        if code != 0:
            raise Failure(f"exit code {code}; {faults}\n{messages}")
        how = check_ends(arguments.ranks, victim, output, faults)
        killed += "not killed" not in how
        ends.update(how)
        longest = max(longest, time.monotonic() - began)
        if number % 20 == 19:
            print(f"{number + 1} runs ...", flush=True)
    print(f"{arguments.kills} runs with {arguments.ranks} ranks, seed {arguments.seed}: {killed} "
          f"ranks killed, nothing hung, nothing was left; the longest run took {longest:.1f} s")
    for how, count in sorted(ends.items()):
        print(f"  {count:5} {how}")


def torchrun(arguments, *options):
    return [arguments.torch, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
            "2", *options]


def check_restarts(runs, arguments, program):
    moments = random.Random(arguments.seed)
    for _ in range(arguments.restarts):
        number = moments.randint(2, 40)
        faults = f'[[fault]]\nkind = "kill"\ngpu = 1\nat_collective = {number}\n'
        code, output, messages = runs.run(
            ["--gpu", f"{GPU}:2", "--quiet"],
            [*torchrun(arguments, "--max-restarts", "1"), program], faults, TORCH_LIMIT_S)
        done = [f"rank {rank} has made 20 steps after 1 restarts" in output for rank in (0, 1)]
        if code != 0 or not all(done):
            raise Failure(f"torchrun: exit code {code}; {faults}\n{output}\n{messages[-3000:]}")
        print(f"torchrun restarted and went on: rank 1 killed at collective {number}", flush=True)


def check_straggler(runs, arguments, program):
    _, _, messages = runs.run(
        ["--gpu", f"{GPU}:2"], [*torchrun(arguments), program],
        '[[fault]]\nkind = "slow"\ngpu = 1\nclock = 0.5\nat_s = 0\n', TORCH_LIMIT_S)
    line = next((one for one in messages.splitlines() if "made the others wait" in one), "")
    if "rank 1 (GPU 1" not in line:
        raise Failure(f"the report does not name rank 1:\n{messages[-3000:]}")
    print(f"GPU 1 at half of its clock: {line.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--torch", help="the Python that has PyTorch")
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--gpemu", default=str(ROOT / "build/release/tools/gpemu"))
    arguments = parser.parse_args()
    runs = Runs(arguments.gpemu)
    try:
        check_kills(runs, arguments)
        if arguments.torch:
            with tempfile.TemporaryDirectory() as folder:
                program = pathlib.Path(folder) / "ddp.py"
                program.write_text(DDP, encoding="ascii")
                check_restarts(runs, arguments, program)
                check_straggler(runs, arguments, program)
    except Failure as failure:
        sys.exit(f"FAILED, run {runs.number}: {failure}")


if __name__ == "__main__":
    main()
