# SPDX-License-Identifier: Apache-2.0
"""Embedding, index, gather and scatter, sort, topk, nonzero, unique: sizes, order and times."""

import torch
from conformance import EMULATED, assert_roofline, backward, device_ms, fails, main
from torch import nn


def test_embedding():
    module = nn.Embedding(1000, 64, padding_idx=0).cuda()
    backward(module(torch.randint(1000, (16, 32)).cuda()))
    assert module.weight.grad.shape == (1000, 64)


def test_embedding_with_sparse_gradient():
    module = nn.Embedding(1000, 64, sparse=True).cuda()
    module(torch.randint(1000, (16, 32)).cuda()).sum().backward()
    assert module.weight.grad.is_sparse
    assert module.weight.grad._values().shape == (512, 64)
    torch.optim.SparseAdam(module.parameters()).step()


def test_embedding_bag():
    module = nn.EmbeddingBag(1000, 64, mode="sum").cuda()
    output = module(torch.randint(1000, (64,)).cuda(), torch.arange(0, 64, 8).cuda())
    assert output.shape == (8, 64)
    backward(output)
    assert module.weight.grad.shape == (1000, 64)


def test_embedding_time_depends_on_rows_not_on_table_size():
    table = nn.Embedding(1_000_000, 256).cuda()
    index = torch.zeros(65536, dtype=torch.int64, device="cuda")
    with torch.no_grad():
        ms = device_ms(lambda: table(index))
    assert_roofline(ms, moved_bytes=65536 * 256 * 4, slack=12)


def test_index_and_gather():
    data = torch.randn(100, 16, device="cuda")
    index = torch.tensor([1, 5, 7]).cuda()
    assert data[index].shape == (3, 16)
    assert data[:, index, None].shape == (100, 3, 1)
    assert data.index_select(1, index).shape == (100, 3)
    assert data.gather(0, index[:, None].expand(3, 16)).shape == (3, 16)
    assert torch.take_along_dim(data, index[:, None], 0).shape == (3, 16)


def test_slices_are_views_of_what_was_copied():
    data = torch.arange(10_000).reshape(100, 100)
    device = data.cuda()
    assert device[7].data_ptr() == device.data_ptr() + 7 * 100 * 8
    assert torch.equal(device[20:30].cpu(), data[20:30])
    device[50:60].copy_(data[:10])
    assert torch.equal(device[50:60].cpu(), data[:10])
    assert torch.equal(device[60:].cpu(), data[60:])


def test_index_is_checked_on_the_host():
    data = torch.randn(10, 16, device="cuda")
    fails(lambda: data[10], "out of bounds", kind=IndexError)


def test_index_put():
    data = torch.zeros(100, 16, device="cuda")
    index = torch.tensor([3, 3, 9]).cuda()
    data[index] = 1.0
    data.index_put_((index,), torch.ones(3, 16, device="cuda"), accumulate=True)
    assert data.shape == (100, 16)


def test_scatter():
    data = torch.zeros(10, 16, device="cuda")
    index = torch.zeros(4, 16, dtype=torch.int64).cuda()
    ones = torch.ones(4, 16, device="cuda")
    assert data.scatter_(0, index, ones).shape == (10, 16)
    assert data.scatter_add_(0, index, ones).shape == (10, 16)
    assert data.scatter_reduce_(0, index, ones, "amax").shape == (10, 16)
    assert data.index_add_(0, index[:, 0], ones).shape == (10, 16)


def test_scatter_backward():
    source = torch.randn(4, 16, device="cuda", requires_grad=True)
    index = torch.zeros(4, 16, dtype=torch.int64, device="cuda")
    backward(torch.zeros(10, 16, device="cuda").scatter_add(0, index, source))
    assert source.grad.shape == source.shape


def test_masked():
    data = torch.randn(100, device="cuda")
    mask = data > 0
    assert data.masked_fill(mask, 0).shape == (100,)
    assert torch.where(mask, data, -data).shape == (100,)
    selected = data[mask]
    assert selected.ndim == 1 and (not EMULATED or selected.numel() == 0)


def test_nonzero_has_a_size():
    found = torch.nonzero(torch.ones(10, 10, device="cuda"))
    assert found.shape[1] == 2 and found.shape[0] in (0, 100)
    assert found.sum().item() >= 0


def test_nonzero_waits_for_the_device():
    data = torch.zeros(1000, device="cuda")
    torch.nonzero(data)
    event = torch.cuda.Event()
    torch.cuda._sleep(10**8)
    event.record()
    torch.nonzero(data)
    assert event.query()


def test_nonzero_static_does_not_wait():
    data = torch.zeros(1000, device="cuda")
    size = {"size": 10, "fill_value": -1}
    assert torch.nonzero_static(data, **size).shape == (10, 1)
    torch.cuda.synchronize()
    event = torch.cuda.Event()
    torch.cuda._sleep(10**9)
    event.record()
    torch.nonzero_static(data, **size)
    assert not event.query()
    torch.cuda.synchronize()


def test_sort_and_topk():
    data = torch.randn(64, 1000, device="cuda")
    values, order = data.sort(dim=1, stable=True)
    assert values.shape == data.shape and order.dtype == torch.int64
    assert data.argsort(descending=True).shape == data.shape
    assert data.topk(5).values.shape == (64, 5)
    assert data.kthvalue(3, dim=1).values.shape == (64,)
    assert data.median(dim=1).indices.shape == (64,)
    assert data.mode(dim=1).values.shape == (64,)
    assert torch.randn(1 << 20, device="cuda").sort().values.shape == (1 << 20,)


def test_sort_takes_longer_than_reading():
    data = torch.empty(1 << 24, device="cuda")
    ms = device_ms(data.sort)
    # A radix sort of 32 bits reads and writes keys and indices several times.
    assert_roofline(ms, moved_bytes=4 * data.nbytes, slack=60)


def test_topk_of_a_long_row():
    values, indices = torch.zeros(4, 1 << 20, device="cuda").topk(100)
    assert values.shape == (4, 100) and indices.dtype == torch.int64


def test_unique():
    data = torch.zeros(1000, dtype=torch.int64, device="cuda")
    values, inverse, counts = torch.unique(data, return_inverse=True, return_counts=True)
    assert values.ndim == 1 and inverse.shape == (1000,) and counts.shape == values.shape
    assert torch.unique_consecutive(data).ndim == 1


def test_bincount_and_histogram():
    data = torch.zeros(1000, dtype=torch.int64, device="cuda")
    assert torch.bincount(data, minlength=10).shape == (10,)
    assert torch.histc(data.float(), 16, 0, 1).shape == (16,)


def test_search_and_buckets():
    edges = torch.linspace(0, 1, 11, device="cuda")
    data = torch.rand(100, device="cuda")
    assert torch.searchsorted(edges, data).shape == (100,)
    assert torch.bucketize(data, edges).shape == (100,)


def test_repeat_and_flip():
    data = torch.arange(5).cuda()
    counts = torch.tensor([1, 2, 0, 3, 1]).cuda()
    assert data.repeat_interleave(counts, output_size=7).shape == (7,)
    assert data.flip(0).roll(1).repeat(3).shape == (15,)


def test_index_copy_time_is_bandwidth():
    data = torch.empty(1 << 20, 64, device="cuda")
    index = torch.zeros(1 << 20, dtype=torch.int64, device="cuda")
    ms = device_ms(lambda: data[index])
    # Emulated zeros are all one row; a real one that is cached is read from there.
    assert_roofline(ms, moved_bytes=data.nbytes, slack=10)


if __name__ == "__main__":
    main()
