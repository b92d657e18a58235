# SPDX-License-Identifier: Apache-2.0
"""Streams, events, copies and CUDA graphs: order, overlap and times."""

import time

import torch
from conformance import MIB, device_ms, main


def heavy(size=4096):
    data = torch.empty(size, size, device="cuda")
    return lambda: torch.mm(data, data)


def test_event_before_work_is_over_first():
    work = heavy()
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    for _ in range(20):
        work()
    after.record()
    assert not after.query()
    after.synchronize()
    assert after.query() and before.elapsed_time(after) > 0


def test_queueing_returns_before_the_work_ends():
    work = heavy(8192)
    work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        work()
    queued = time.perf_counter() - start
    torch.cuda.synchronize()
    assert time.perf_counter() - start > 4 * queued


def test_device_time_is_wall_time():
    work = heavy(8192)
    expected = 10 * device_ms(work)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(10):
        work()
    torch.cuda.synchronize()
    elapsed = 1e3 * (time.perf_counter() - start)
    assert elapsed > 0.99 * expected, (elapsed, expected)


def test_streams_wait_for_events():
    work = heavy()
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    done, late = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(first):
        for _ in range(10):
            work()
        done.record()
    second.wait_event(done)
    with torch.cuda.stream(second):
        late.record()
    torch.cuda.synchronize()
    assert done.elapsed_time(late) >= 0


def test_stream_priorities():
    least, greatest = torch.cuda.Stream.priority_range()
    assert greatest < least == 0
    assert torch.cuda.Stream(priority=greatest).priority == greatest


def test_external_stream_and_context():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


def copy_ms(pinned):
    host = torch.empty(64 * MIB, dtype=torch.uint8, pin_memory=pinned)
    device = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    return device_ms(lambda: device.copy_(host, non_blocking=True))


def test_pinned_copies_are_faster():
    assert copy_ms(True) < 0.8 * copy_ms(False)


def test_pinned_copies_overlap_with_kernels():
    work = heavy(8192)
    host = torch.empty(64 * MIB, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    stream = torch.cuda.Stream()

    def both():
        work()
        with torch.cuda.stream(stream):
            device.copy_(host, non_blocking=True)
        torch.cuda.current_stream().wait_stream(stream)

    together = device_ms(both)
    assert together < 0.9 * (device_ms(work) + copy_ms(True))


def test_pinned_memory_is_pinned():
    assert torch.empty(MIB, pin_memory=True).is_pinned()
    assert not torch.empty(MIB).is_pinned()


def test_device_to_host_copies():
    data = torch.arange(1000).cuda()
    host = torch.empty(1000, dtype=torch.int64, pin_memory=True)
    host.copy_(data, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(host, torch.arange(1000))


def test_graph_replays_the_work():
    data = torch.empty(2048, 2048, device="cuda")
    output = torch.empty_like(data)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.mm(data, data, out=output)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            torch.mm(data, data, out=output)
    one = device_ms(lambda: torch.mm(data, data, out=output))
    ten = device_ms(graph.replay)
    assert 7 * one < ten < 13 * one, (one, ten)


def test_graphed_training_step():
    model = torch.nn.Linear(512, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = torch.randn(64, 512, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            model(data).sum().backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        model(data).sum().backward()
        optimizer.step()
    graph.replay()
    torch.cuda.synchronize()


def test_capture_forbids_synchronising():
    graph = torch.cuda.CUDAGraph()
    refused = False
    try:
        with torch.cuda.graph(graph):
            torch.cuda.synchronize()
    except RuntimeError:
        refused = True
    assert refused
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
