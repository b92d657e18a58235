# SPDX-License-Identifier: Apache-2.0
"""Copies between host and device: pinned and pageable, non_blocking, order, overlap, rates."""

import torch
from conformance import MIB, device_ms, gpu_spec, main


def pinned(size=64 * MIB):
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


def device_bytes(size=64 * MIB):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def copy_ms(host, non_blocking=True):
    device = device_bytes(host.nbytes)
    return device_ms(lambda: device.copy_(host, non_blocking=non_blocking))


def link_ms(size):
    return size / (gpu_spec()["pinned_copy_gb_per_s"] * 1e6)


def test_pinned_copies_run_at_the_rate_of_the_link():
    to_device_ms = copy_ms(pinned())
    assert 0.7 < link_ms(64 * MIB) / to_device_ms < 1.3, to_device_ms
    host, device = pinned(), device_bytes()
    to_host_ms = device_ms(lambda: host.copy_(device, non_blocking=True))
    assert 0.7 < link_ms(64 * MIB) / to_host_ms < 1.3, to_host_ms


def test_pinned_copies_keep_their_bytes():
    there = pinned()
    there.random_()
    device, other, back = device_bytes(), device_bytes(), pinned()
    device.copy_(there, non_blocking=True)
    device[MIB : 2 * MIB].zero_()
    other.copy_(device, non_blocking=True)
    back.copy_(other, non_blocking=True)
    torch.cuda.synchronize()
    expected = there.clone()
    expected[MIB : 2 * MIB] = 0
    assert torch.equal(back, expected)


def test_pageable_copies_are_not_faster_than_the_link():
    assert copy_ms(torch.empty(64 * MIB, dtype=torch.uint8)) > link_ms(64 * MIB)


def test_small_copies_have_a_latency():
    ms = copy_ms(pinned(4))
    assert 0.001 < ms < 0.05, ms


def test_pinned_copies_do_not_wait():
    host, device = pinned(MIB), device_bytes(MIB)
    event = torch.cuda.Event()
    torch.cuda.synchronize()
    torch.cuda._sleep(10**9)
    device.copy_(host, non_blocking=True)
    event.record()
    assert not event.query()
    torch.cuda.synchronize()


def test_blocking_copies_wait():
    host, device = pinned(MIB), device_bytes(MIB)
    event = torch.cuda.Event()
    torch.cuda._sleep(10**8)
    event.record()
    device.copy_(host)
    assert event.query()


def test_copies_to_pageable_memory_wait():
    device = torch.arange(1000).cuda()
    event = torch.cuda.Event()
    torch.cuda._sleep(10**8)
    event.record()
    host = device.to("cpu", non_blocking=False)
    assert event.query() and torch.equal(host, torch.arange(1000))


def test_pageable_source_may_change_after_the_call():
    host = torch.arange(1000)
    device = torch.empty(1000, dtype=torch.int64, device="cuda")
    torch.cuda._sleep(10**8)
    device.copy_(host, non_blocking=True)
    host.zero_()
    assert torch.equal(device.cpu(), torch.arange(1000))


def test_pinned_copies_overlap_with_kernels():
    stream = torch.cuda.Stream()
    host, device = pinned(), device_bytes()
    cycles = int(2 * link_ms(64 * MIB) * gpu_spec()["boost_clock_mhz"] * 1e3)

    def both():
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            device.copy_(host, non_blocking=True)
        torch.cuda._sleep(cycles)
        torch.cuda.current_stream().wait_stream(stream)

    alone_ms = device_ms(lambda: torch.cuda._sleep(cycles))
    assert device_ms(both) < 1.1 * alone_ms


def test_both_directions_overlap():
    stream = torch.cuda.Stream()
    hosts, devices = [pinned(), pinned()], [device_bytes(), device_bytes()]

    def both():
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            devices[0].copy_(hosts[0], non_blocking=True)
        hosts[1].copy_(devices[1], non_blocking=True)
        torch.cuda.current_stream().wait_stream(stream)

    assert device_ms(both) < 1.6 * copy_ms(hosts[0])


def test_copies_in_one_direction_share_the_link():
    stream = torch.cuda.Stream()
    hosts, devices = [pinned(), pinned()], [device_bytes(), device_bytes()]

    def both():
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            devices[0].copy_(hosts[0], non_blocking=True)
        devices[1].copy_(hosts[1], non_blocking=True)
        torch.cuda.current_stream().wait_stream(stream)

    assert device_ms(both) > 1.9 * copy_ms(hosts[0])


def test_copies_within_the_device_run_at_memory_bandwidth():
    first, second = device_bytes(512 * MIB), device_bytes(512 * MIB)
    ms = device_ms(lambda: second.copy_(first))
    least = 2 * 512 * MIB / (gpu_spec()["bandwidth_gb_per_s"] * 1e6)
    assert least < ms < 2 * least, (ms, least)


def test_order_of_copies_by_events():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    old = torch.zeros(1000, dtype=torch.int64).pin_memory()
    new = torch.arange(1000).pin_memory()
    device = torch.empty(1000, dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        torch.cuda._sleep(10**8)
        device.copy_(old, non_blocking=True)
    second.wait_stream(first)
    with torch.cuda.stream(second):
        device.copy_(new, non_blocking=True)
    second.synchronize()
    assert torch.equal(device.cpu(), new)


def test_content_goes_through_pinned_and_device_copies():
    data = torch.arange(100_000).pin_memory()
    device = data.cuda(non_blocking=True)
    other = device.clone()
    host = torch.empty(100_000, dtype=torch.int64, pin_memory=True)
    host.copy_(other, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(host, data)


def test_pinned_memory_is_pinned():
    assert torch.empty(MIB, pin_memory=True).is_pinned()
    assert torch.arange(10).pin_memory().is_pinned()
    assert not torch.empty(MIB).is_pinned()


def test_registered_memory_is_pinned():
    data = torch.empty(MIB, dtype=torch.uint8)
    runtime = torch.cuda.cudart()
    assert int(runtime.cudaHostRegister(data.data_ptr(), data.nbytes, 0)) == 0
    try:
        assert data.is_pinned()
        assert copy_ms(data) < 2 * link_ms(MIB)
    finally:
        assert int(runtime.cudaHostUnregister(data.data_ptr())) == 0
    assert not data.is_pinned()


def test_pinned_memory_is_cached_and_counted():
    if not hasattr(torch.cuda, "host_memory_stats"):
        return
    before = torch.cuda.host_memory_stats()["allocated_bytes.current"]
    data = pinned(8 * MIB)
    during = torch.cuda.host_memory_stats()["allocated_bytes.current"]
    assert during - before >= 8 * MIB
    del data


def test_copies_of_views():
    data = torch.arange(10_000).reshape(100, 100)
    device = data.cuda()
    device[10:20].copy_(torch.zeros(10, 100, dtype=torch.int64))
    assert not device[10:20].cpu().any() and torch.equal(device[:10].cpu(), data[:10])


def test_empty_copies():
    assert torch.empty(0).cuda().cpu().shape == (0,)
    assert torch.empty(0, 5, device="cuda").sum().shape == ()


if __name__ == "__main__":
    main()
