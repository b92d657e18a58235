# SPDX-License-Identifier: Apache-2.0
"""DataLoaders with fork and spawn, tensors shared between processes, memory of several
processes."""

import os
import signal
import time

import torch
from conformance import MIB, main, refused_or
from torch import multiprocessing
from torch.utils.data import DataLoader, TensorDataset


def load(context, **options):
    data = TensorDataset(torch.arange(64 * 10).reshape(64, 10))
    loader = DataLoader(
        data, 16, num_workers=2, pin_memory=True, multiprocessing_context=context, **options
    )
    for _ in range(2):
        total = 0
        for (batch,) in loader:
            assert batch.is_pinned()
            total += batch.cuda(non_blocking=True).cpu().sum().item()
        assert total == sum(range(640))


def test_dataloader_fork():
    torch.ones(1).cuda()
    load("fork")


def test_dataloader_fork_with_persistent_workers():
    load("fork", persistent_workers=True, prefetch_factor=4)


def test_dataloader_spawn():
    load("spawn")


class Broken(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise KeyError("not there")


def test_errors_of_workers_arrive():
    torch.ones(1).cuda()
    try:
        list(DataLoader(Broken(), num_workers=1, pin_memory=True))
    except KeyError as error:
        assert "not there" in str(error)
    else:
        raise AssertionError("no error")


def use_cuda(queue):
    try:
        queue.put(str(torch.ones(1).cuda().device))
    except RuntimeError as error:
        queue.put(str(error))


def answer_of(target, context, *arguments):
    context = multiprocessing.get_context(context)
    queue = context.Queue()
    process = context.Process(target=target, args=(queue, *arguments))
    process.start()
    answer = queue.get(timeout=120)
    process.join()
    assert process.exitcode == 0, process.exitcode
    return answer


def test_cuda_after_fork_is_refused():
    torch.ones(1).cuda()
    answer = answer_of(use_cuda, "fork")
    assert "forked subprocess" in answer or "initialization" in answer, answer
    assert torch.ones(1).cuda().item() == 1


def test_cuda_after_spawn_works():
    assert answer_of(use_cuda, "spawn") == "cuda:0"


def read_tensor(queue, data):
    queue.put(data.cpu().sum().item())
    del data


def test_tensors_are_shared_between_processes():
    data = torch.arange(1000).cuda()

    def share():
        return answer_of(read_tensor, "spawn", data)

    assert refused_or(share, "not supported") == sum(range(1000))


def hold_memory(queue):
    data = torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")
    queue.put(data.nbytes)
    time.sleep(600)


def test_a_killed_process_gives_its_memory_back():
    torch.ones(1).cuda()
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=hold_memory, args=(queue,))
    process.start()
    assert queue.get(timeout=120) == 512 * MIB
    during, total = torch.cuda.mem_get_info()
    assert total - during >= 512 * MIB
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    after, _ = torch.cuda.mem_get_info()
    assert after - during >= 512 * MIB, (during, after)


if __name__ == "__main__":
    main()
