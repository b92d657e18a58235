# SPDX-License-Identifier: Apache-2.0
"""What the conformance programs for several ranks share: torchrun starts a process for each GPU,
every test runs on all of them, and the first rank prints what came out on any."""

import datetime
import os
import subprocess
import sys
import time
import traceback

import torch
import torch.distributed as dist
from conformance import Refused, Skipped

TIME_LIMIT = datetime.timedelta(seconds=120)  # of one collective
WORST = ("FAILED", "refused", "skipped", "ok")


def rank():
    return dist.get_rank()


def world():
    return dist.get_world_size()


def device():
    return torch.device("cuda", torch.cuda.current_device())


def filled(value, *shape, dtype=torch.float32):
    """Returns a tensor of one value on this rank's device."""
    return torch.full(shape or (4,), value, dtype=dtype).to(device())


def needs(ranks):
    if world() < ranks:
        raise Skipped(f"needs {ranks} ranks")


def on_all(value):
    """Returns every rank's value, by rank."""
    values = [None] * world()
    dist.all_gather_object(values, value)
    return values


def equal_on_all(tensors):
    """Returns whether tensors have the same content on all ranks."""
    content = [tensor.detach().cpu() for tensor in tensors]
    return all(
        all(torch.equal(mine, theirs) for mine, theirs in zip(content, other))
        for other in on_all(content)
    )


def device_ms(work):
    """Returns the device time of `work`, in ms, from a moment at which all ranks are ready.

    The devices are kept busy until the work is queued, as conformance.device_ms() does it.
    """
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    ready = filled(1.0)
    torch.cuda._sleep(10**9)
    dist.all_reduce(ready)
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def run(test):
    """Returns how a test ended on this rank, and why."""
    try:
        test()
    except Skipped as reason:
        return "skipped", str(reason)
    except Refused as reason:
        return "refused", str(reason)
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return "FAILED", ""
    return "ok", ""


def start(tests):
    """Starts the program again, on one rank for each GPU."""
    ranks = torch.cuda.device_count()
    if ranks < 2:
        for name in tests:
            print(f"skipped {name}: one device")
        return 0
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.call([*torchrun, f"--nproc-per-node={ranks}", *sys.argv])


def main():
    """Runs every test_* function of the calling program, or those named on the command line."""
    module = sys.modules["__main__"]
    tests = {
        name: test
        for name, test in sorted(vars(module).items())
        if name.startswith("test_") and name in (sys.argv[1:] or [name])
    }
    if "RANK" not in os.environ:
        sys.exit(start(tests))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device(), timeout=TIME_LIMIT)
    store = dist.distributed_c10d._get_default_store()
    failed = False
    for name, test in tests.items():
        result, reason = run(test)
        # Not by a collective: one that failed must not hide which test it was.
        store.set(f"{name}/{rank()}", f"{result} {reason}")
        if rank() == 0:
            ends = [store.get(f"{name}/{each}").decode().split(" ", 1) for each in range(world())]
            result, reason = min(ends, key=lambda end: WORST.index(end[0]))
            print(f"{result} {name}" + (f": {reason}" if reason else ""), flush=True)
            store.set(f"{name}/all", result)
        failed |= store.get(f"{name}/all") == b"FAILED"
    dist.destroy_process_group()
    time.sleep(0.5)  # As in conformance.main().
    sys.exit(1 if failed else 0)
