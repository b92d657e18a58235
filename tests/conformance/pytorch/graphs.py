# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs: capture, replay, calls that capture forbids, times, memory."""

import torch
from conformance import MIB, device_ms, fails, main


def captured(work, warm_up=3):
    """Returns a graph of `work`, warmed up on a side stream as PyTorch's documentation has it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm_up):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def test_replay_takes_the_time_of_the_work():
    data = torch.empty(2048, 2048, device="cuda")
    output = torch.empty_like(data)

    def work():
        for _ in range(10):
            torch.mm(data, data, out=output)

    ratio = device_ms(captured(work).replay) / device_ms(work)
    assert 0.7 < ratio < 1.1, ratio


def test_capture_itself_does_no_work():
    torch.cuda.synchronize()
    graph = captured(lambda: torch.cuda._sleep(10**9), warm_up=0)
    assert torch.cuda.current_stream().query()
    graph.replay()
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()


def test_replay_follows_its_stream():
    graph = captured(lambda: torch.cuda._sleep(10**8))
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        start.record()
        graph.replay()
        graph.replay()
        end.record()
    stream.synchronize()
    assert start.elapsed_time(end) > 2 * 10**8 / 3e6  # No GPU runs at 3 GHz.


def test_replayed_copies_read_current_content():
    source = torch.arange(1000).cuda()
    target = torch.zeros(1000, dtype=torch.int64, device="cuda")
    graph = captured(lambda: target.copy_(source))
    source.copy_(torch.arange(1000, 2000))
    graph.replay()
    assert torch.equal(target.cpu(), torch.arange(1000, 2000))


def test_forked_and_joined_streams_are_captured():
    data = torch.empty(2048, 2048, device="cuda")
    side = torch.cuda.Stream()

    def work():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.mm(data, data)
        torch.mm(data, data)
        torch.cuda.current_stream().wait_stream(side)

    graph = captured(work)
    assert device_ms(graph.replay) > 1.5 * device_ms(lambda: torch.mm(data, data))


def test_training_step():
    model = torch.nn.Linear(512, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = torch.randn(64, 512, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(data).sum().backward()
        optimizer.step()

    graph = captured(step)
    for _ in range(3):
        data.copy_(torch.randn(64, 512))
        graph.replay()
    torch.cuda.synchronize()
    assert model.weight.grad.shape == (512, 512)


def test_graphed_callables():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()).cuda()
    sample = torch.randn(8, 64, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (sample,))
    output = graphed(torch.randn(8, 64, device="cuda", requires_grad=True))
    output.sum().backward()
    assert output.shape == (8, 64) and model[0].weight.grad is not None


def test_captured_dropout_draws_anew():
    module = torch.nn.Dropout().cuda()
    data = torch.ones(1000, device="cuda")
    graph = captured(lambda: module(data))
    before = torch.cuda.get_rng_state()
    graph.replay()
    assert not torch.equal(torch.cuda.get_rng_state(), before)


def test_graphs_keep_their_memory():
    kept = []
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    with torch.cuda.graph(graph):
        kept.append(torch.empty(64 * MIB, dtype=torch.uint8, device="cuda"))
    kept.clear()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() - before >= 64 * MIB
    del graph
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == before


def test_graphs_share_a_pool():
    first = captured(lambda: torch.empty(8 * MIB, device="cuda").zero_())
    before = torch.cuda.memory_reserved()
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=first.pool()):
        torch.empty(8 * MIB, device="cuda").zero_()
    assert torch.cuda.memory_reserved() == before


def test_capture_forbids_synchronising():
    def capture():
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.cuda.synchronize()

    fails(capture, "captur")
    torch.cuda.synchronize()


def test_capture_forbids_reading_values():
    data = torch.ones(1, device="cuda")

    def capture():
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            data.item()

    fails(capture, "captur")
    torch.cuda.synchronize()
    assert (data + 1).shape == (1,)


def test_capture_is_reported():
    seen = []
    captured(lambda: seen.append(torch.cuda.is_current_stream_capturing()), warm_up=1)
    assert seen == [False, True]


if __name__ == "__main__":
    main()
