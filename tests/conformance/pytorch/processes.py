# SPDX-License-Identifier: Apache-2.0
"""DataLoaders by fork and spawn, pinning, the profiler, torch.compile, several devices."""

import multiprocessing

import torch
from conformance import Skipped, main
from torch.utils.data import DataLoader, TensorDataset


def load(context):
    data = TensorDataset(torch.arange(64 * 10).reshape(64, 10))
    loader = DataLoader(data, 16, num_workers=2, pin_memory=True, multiprocessing_context=context)
    total = 0
    for (batch,) in loader:
        assert batch.is_pinned()
        total += batch.cuda(non_blocking=True).cpu().sum().item()
    assert total == sum(range(640))


def test_dataloader_fork():
    torch.ones(1).cuda()
    load("fork")


def test_dataloader_spawn():
    load("spawn")


def use_cuda_after_fork(queue):
    try:
        torch.ones(1).cuda()
        queue.put("worked")
    except RuntimeError as error:
        queue.put(str(error))


def test_cuda_after_fork_is_refused():
    torch.ones(1).cuda()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=use_cuda_after_fork, args=(queue,))
    process.start()
    answer = queue.get(timeout=60)
    process.join()
    assert "forked subprocess" in answer or "initialization" in answer, answer


def test_profiler_does_not_crash():
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        torch.mm(torch.ones(64, 64, device="cuda"), torch.ones(64, 64, device="cuda"))
        torch.cuda.synchronize()
    assert "aten::mm" in profile.key_averages().table()


def test_nvtx():
    torch.cuda.nvtx.range_push("step")
    torch.cuda.nvtx.range_pop()
    torch.cuda.nvtx.mark("here")


def test_two_devices():
    if torch.cuda.device_count() < 2:
        raise Skipped("one device")
    data = torch.arange(1000)
    second = data.to("cuda:1")
    assert second.device.index == 1
    assert torch.equal(second.to("cuda:0").cpu(), data)
    assert torch.cuda.memory_allocated(1) > 0
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
    assert torch.cuda.can_device_access_peer(0, 1) in (True, False)


def test_data_parallel():
    if torch.cuda.device_count() < 2:
        raise Skipped("one device")
    model = torch.nn.DataParallel(torch.nn.Linear(16, 4).cuda())
    assert model(torch.randn(8, 16, device="cuda")).shape == (8, 4)


if __name__ == "__main__":
    main()
