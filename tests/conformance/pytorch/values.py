# SPDX-License-Identifier: Apache-2.0
"""Values: correct if they are small and known, otherwise zero, never the old content of memory."""

import torch
from conformance import EMULATED, main, only_emulated

OLD = 7.5


def soil():
    """Leaves old values in the memory that PyTorch's allocator hands out next."""
    blocks = [torch.full((size,), OLD).cuda() for size in (1000, 1000, 100_000)]
    del blocks


def test_results_do_not_show_what_memory_held_before():
    for make in (
        lambda: torch.linspace(0, 1, 10, device="cuda"),
        lambda: torch.randperm(10, device="cuda"),
        lambda: torch.topk(data, 2).values,
        lambda: torch.topk(data, 2).indices,
        lambda: torch.sort(data).values,
        lambda: torch.cumsum(data, 0),
        lambda: torch.randn(10, device="cuda"),
        lambda: torch.linalg.inv(torch.eye(4).cuda()),
        lambda: torch.fft.fft(data).real,
    ):
        data = torch.tensor([1.0, 5.0, 2.0]).cuda()
        soil()
        result = make().cpu()
        assert not (result == OLD).any(), result
        assert not EMULATED or result.abs().max() < 100, result


def test_comparisons_and_flags():
    data = torch.tensor([1.0, 5.0, 2.0, -3.0]).cuda()
    assert (data > 2).tolist() == [False, True, False, False]
    assert (data > -5).all() and not (data > 2).all() and (data > 2).any()
    assert torch.equal(data, data.clone())
    assert torch.isfinite(data).all()
    assert not torch.isnan(data).any()


def test_reductions():
    data = torch.tensor([[1.0, 5.0, 2.0], [4.0, -1.0, 0.5]]).cuda()
    assert data.sum() == 11.5 and abs(data.mean().item() - 11.5 / 6) < 1e-6
    assert data.sum(0).tolist() == [5.0, 4.0, 2.5]
    assert data.sum(1).tolist() == [8.0, 3.5]
    assert data.argmax() == 1 and data.min() == -1
    values, places = data.max(1)
    assert values.tolist() == [5.0, 4.0] and places.tolist() == [1, 0]
    assert [end.item() for end in data.aminmax()] == [-1.0, 5.0]
    least, greatest = data.aminmax(dim=0)
    assert least.tolist() == [1.0, -1.0, 0.5] and greatest.tolist() == [4.0, 5.0, 2.0]
    assert [end.item() for end in (data * 4).to(torch.int64).aminmax()] == [-4, 20]


def test_arithmetic_is_exact():
    torch.manual_seed(1)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        a, b = torch.randn(2, 50, 7).to(dtype)
        on_device = a.cuda(), b.cuda()
        for work in (torch.add, torch.sub, torch.mul, torch.div, torch.maximum):
            assert torch.equal(work(*on_device).cpu(), work(a, b)), (dtype, work)
        assert torch.equal(on_device[0].float().cpu(), a.float())
        assert torch.equal((on_device[0] * 3).cpu(), a * 3)


def test_views_and_broadcast():
    data = torch.arange(12.0).reshape(3, 4)
    device = data.cuda()
    assert torch.equal(device.t().contiguous().cpu(), data.t())
    assert torch.equal((device + device[0]).cpu(), data + data[0])
    assert torch.equal((device[:, 1:3] * 2).cpu(), data[:, 1:3] * 2)


def test_choices():
    data = torch.tensor([1.0, -5.0, 2.0]).cuda()
    assert torch.where(data > 0, data, -data).tolist() == [1.0, 5.0, 2.0]
    assert torch.relu(data).tolist() == [1.0, 0.0, 2.0]
    assert data.clamp(-1, 1).tolist() == [1.0, -1.0, 1.0]
    assert data.masked_fill(data < 0, 9).tolist() == [1.0, 9.0, 2.0]
    assert torch.nonzero(data > 0).flatten().tolist() == [0, 2]


def test_moves():
    """What is moved by indices or side by side is known where its sources are, which stay."""
    data, places = torch.arange(24.0).reshape(4, 6), torch.tensor([2, 0, 2])
    table = torch.tensor([[2, 0, 1], [1, 1, 3], [0, 3, 2]])
    some = -data[:3, :3]
    for move in (
        lambda x, i, t, s: x.flip(0),
        lambda x, i, t, s: x.t().flip(0, 1),
        lambda x, i, t, s: x[i],
        lambda x, i, t, s: x[i, -i],
        lambda x, i, t, s: x[1:, i],
        lambda x, i, t, s: x.take(i),
        lambda x, i, t, s: x.gather(1, t),
        lambda x, i, t, s: x.index_select(1, i),
        lambda x, i, t, s: torch.nn.functional.embedding(t, x),
        lambda x, i, t, s: torch.cat([x, x[:, ::2]], 1),
        lambda x, i, t, s: torch.stack([x, -x]),
        lambda x, i, t, s: x.scatter(0, t[:, :1], s),
        lambda x, i, t, s: x.scatter(0, t, 7.0),
        lambda x, i, t, s: x.index_fill(1, i, 7.0),
        lambda x, i, t, s: x.index_copy(0, i[:2], -x[:2]),
        lambda x, i, t, s: x.index_put((i[:2],), -x[:2]),
        lambda x, i, t, s: x.put(i[:2], s[0, :2]),
    ):
        own = [tensor.cuda() for tensor in (data, places, table, some)]
        soil()
        assert torch.equal(move(*own).cpu(), move(data, places, table, some))
        for tensor, before in zip(own, (data, places, table, some)):
            assert torch.equal(tensor.cpu(), before)


def test_sequences():
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.float32, torch.float16):
        for limits in ((10,), (3, 20, 2), (1, 40, 3)):
            soil()
            own = torch.arange(*limits, dtype=dtype, device="cuda")
            assert torch.equal(own.cpu(), torch.arange(*limits, dtype=dtype))


def test_small_products():
    torch.manual_seed(1)
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    torch.testing.assert_close((a.cuda() @ b.cuda()).cpu(), a @ b)
    torch.testing.assert_close((a.cuda() @ b[:, 0].cuda()).cpu(), a @ b[:, 0])


def test_weights_stay_where_they_are_not_updated():
    model = torch.nn.Linear(64, 64)
    before = model.weight.detach().clone()
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(8, 64).cuda()).relu().sum().backward()
    model.weight.grad.uniform_()  # Random numbers are not computed.
    optimizer.step()
    only_emulated()
    assert torch.equal(model.weight.detach().cpu(), before)


if __name__ == "__main__":
    main()
