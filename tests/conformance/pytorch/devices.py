# SPDX-License-Identifier: Apache-2.0
"""Two devices in one process: contexts, memory, peer copies, streams and events across them."""

import torch
import torch.distributed as dist
from conformance import MIB, Skipped, device_ms, fails, gpu_spec, main, refused_or
from torch.nn.parallel import comm


def needs_two():
    if torch.cuda.device_count() < 2:
        raise Skipped("one device")


def test_memory_is_separate():
    needs_two()
    before = [torch.cuda.memory_allocated(index) for index in (0, 1)]
    data = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda:1")
    assert torch.cuda.memory_allocated(0) == before[0]
    assert torch.cuda.memory_allocated(1) - before[1] == data.nbytes
    free, total = torch.cuda.mem_get_info(1)
    assert total - free >= data.nbytes


def test_one_device_runs_out_alone():
    needs_two()
    _, total = torch.cuda.mem_get_info(1)
    fails(lambda: torch.empty(total + MIB, dtype=torch.uint8, device="cuda:1"), "GPU 1")
    assert torch.ones(4, device="cuda:0").shape == (4,)


def test_current_device():
    needs_two()
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        assert torch.empty(1, device="cuda").device.index == 1
    assert torch.cuda.current_device() == 0


def test_content_goes_to_the_peer_and_back():
    needs_two()
    data = torch.arange(1000)
    second = data.to("cuda:0").to("cuda:1")
    assert second.device.index == 1
    assert torch.equal(second.to("cuda:0").cpu(), data)
    assert torch.equal(second.cpu(), data)


def test_peer_access_is_reported():
    needs_two()
    assert torch.cuda.can_device_access_peer(0, 1) == torch.cuda.can_device_access_peer(1, 0)
    assert not torch.cuda.can_device_access_peer(0, 0)


def test_peer_copies_run_at_the_rate_of_their_link():
    needs_two()
    first = torch.empty(256 * MIB, dtype=torch.uint8, device="cuda:0")
    second = torch.empty(256 * MIB, dtype=torch.uint8, device="cuda:1")
    ms = device_ms(lambda: second.copy_(first, non_blocking=True))
    spec = gpu_spec()
    # PCI Express sends 8, 16 or 32 Gbit/s a lane, of which 128 of 130 bits are data.
    pcie = spec["pcie_lanes"] * 8 * 2 ** (spec["pcie_generation"] - 3) / 8 * 128 / 130
    fastest = max(spec.get("nvlink_gb_per_s", 0), pcie)
    assert 0.99 * first.nbytes / (fastest * 1e6) < ms
    # Never slower than through the host, twice over the link.
    assert ms < 2.2 * first.nbytes / (spec["pinned_copy_gb_per_s"] * 1e6)


def test_devices_work_at_the_same_time():
    needs_two()
    ends = []
    for index in (0, 1):
        with torch.cuda.device(index):
            torch.cuda._sleep(10**6)
            torch.cuda.synchronize()
    for index in (0, 1):
        with torch.cuda.device(index):
            torch.cuda._sleep((1 + index) * 10**9)
            ends.append(torch.cuda.Event())
            ends[-1].record()
    ends[0].synchronize()
    assert not ends[1].query()
    torch.cuda.synchronize(1)
    assert ends[1].query()


def test_streams_wait_across_devices():
    needs_two()
    late = torch.cuda.Event()
    first = torch.cuda.Event()
    with torch.cuda.device(0):
        torch.cuda._sleep(10**9)
        first.record()
    with torch.cuda.device(1):
        torch.cuda.current_stream().wait_event(first)
        late.record()
    assert not late.query()
    late.synchronize()
    assert first.query()


def test_synchronize_is_for_one_device():
    needs_two()
    with torch.cuda.device(0):
        torch.cuda._sleep(10**9)
        event = torch.cuda.Event()
        event.record()
    torch.cuda.synchronize(1)
    assert not event.query()
    torch.cuda.synchronize(0)


def test_operands_of_two_devices_are_refused():
    needs_two()
    first, second = torch.ones(4, device="cuda:0"), torch.ones(4, device="cuda:1")
    fails(lambda: first + second, "same device")


def test_model_in_two_parts():
    needs_two()
    first = torch.nn.Linear(64, 128).to("cuda:0")
    second = torch.nn.Linear(128, 8).to("cuda:1")
    second(first(torch.randn(4, 64, device="cuda:0")).to("cuda:1")).sum().backward()
    assert first.weight.grad.device.index == 0 and second.weight.grad.device.index == 1


def test_scatter_and_gather():
    needs_two()
    data = torch.arange(100)
    parts = comm.scatter(data.cuda(), [0, 1])
    assert [part.device.index for part in parts] == [0, 1]
    assert torch.equal(parts[1].cpu(), data[50:])
    assert comm.gather(parts, destination=0).shape == (100,)


def test_data_parallel():
    needs_two()
    layer = torch.nn.Linear(16, 4, bias=False)
    data = torch.randn(8, 16)
    expected = layer(data)
    # It broadcasts by NCCL over both devices.
    output = torch.nn.DataParallel(layer.cuda())(data.cuda())
    torch.testing.assert_close(output.cpu(), expected, atol=1e-3, rtol=1e-3)


def test_one_rank_of_nccl():
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        data = torch.arange(10).cuda()
        dist.all_reduce(data)
        gathered = [torch.empty_like(data)]
        dist.all_gather(gathered, data)
        torch.cuda.synchronize()
        assert torch.equal(gathered[0].cpu(), torch.arange(10))
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
        model(torch.randn(2, 4, device="cuda")).sum().backward()
        assert model.module.weight.grad.shape == (4, 4)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
