# SPDX-License-Identifier: Apache-2.0
"""Values: right where they are small and known, else zero, and never what memory held before."""

import torch
from conformance import EMULATED, main

OLD = 7.5


def soil():
    """Leaves old values in the memory that PyTorch's allocator hands out next."""
    blocks = [torch.full((size,), OLD).cuda() for size in (1000, 1000, 100_000)]
    del blocks


def test_results_do_not_show_what_memory_held_before():
    for make in (
        lambda: torch.arange(10, device="cuda"),
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
        assert EMULATED and result.abs().max() < 100, result


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
    assert EMULATED and torch.equal(model.weight.detach().cpu(), before)


if __name__ == "__main__":
    main()
