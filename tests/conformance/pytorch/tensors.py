# SPDX-License-Identifier: Apache-2.0
"""Indexing, sorting, reductions, sparse, FFT and linear algebra."""

import torch
from conformance import EMULATED, device_ms, main


def test_memory_reads_as_zeros():
    torch.cuda.empty_cache()
    assert EMULATED and not torch.empty(2**25, device="cuda").cpu().any()


def test_round_trip():
    data = torch.arange(100_000, dtype=torch.int64)
    assert torch.equal(data.cuda().cpu(), data)


def test_nonzero_has_a_size():
    found = torch.nonzero(torch.ones(10, 10, device="cuda"))
    assert found.shape[1] == 2 and found.shape[0] in (0, 100)


def test_boolean_mask():
    data = torch.randn(100, device="cuda")
    assert data[data > 0].ndim == 1


def test_index_and_gather():
    data = torch.randn(100, 16, device="cuda")
    index = torch.tensor([1, 5, 7]).cuda()
    assert data[index].shape == (3, 16)
    assert data.gather(0, index[:, None].expand(3, 16)).shape == (3, 16)


def test_scatter():
    data = torch.zeros(10, 16, device="cuda")
    index = torch.zeros(4, 16, dtype=torch.int64).cuda()
    assert data.scatter_add_(0, index, torch.ones(4, 16, device="cuda")).shape == (10, 16)
    assert data.index_add_(0, index[:, 0], torch.ones(4, 16, device="cuda")).shape == (10, 16)


def test_sort_and_topk():
    data = torch.randn(64, 1000, device="cuda")
    values, order = data.sort(dim=1)
    assert values.shape == data.shape and order.dtype == torch.int64
    assert data.topk(5).values.shape == (64, 5)
    assert torch.randn(1 << 20, device="cuda").sort().values.shape == (1 << 20,)


def test_unique():
    assert torch.unique(torch.zeros(1000, dtype=torch.int64, device="cuda")).ndim == 1


def test_cumsum_and_reductions():
    data = torch.randn(1000, 100, device="cuda")
    assert data.cumsum(0).shape == data.shape
    assert data.sum().shape == () and data.mean(1).shape == (1000,)
    assert data.max(dim=1).indices.shape == (1000,)


def test_item_of_a_copied_scalar():
    assert torch.tensor(42).cuda().item() == 42


def test_elementwise_time_is_bandwidth():
    data = torch.empty(64 * 2**20, device="cuda")
    other = torch.empty_like(data)
    # 0.75 GiB move.
    gigabytes_per_s = 3 * data.nbytes / device_ms(lambda: torch.add(data, data, out=other)) / 1e6
    peak = 2 * 1e-6 * torch.cuda.get_device_properties(0).memory_clock_rate / 8 * (
        torch.cuda.get_device_properties(0).memory_bus_width
    ) if hasattr(torch.cuda.get_device_properties(0), "memory_clock_rate") else None
    assert gigabytes_per_s > 50
    assert peak is None or gigabytes_per_s < 1.1 * peak, (gigabytes_per_s, peak)


def test_sparse_mm():
    index = torch.tensor([[0, 1, 2], [2, 0, 1]])
    sparse = torch.sparse_coo_tensor(index, torch.ones(3), (3, 3)).cuda()
    assert torch.sparse.mm(sparse, torch.ones(3, 4, device="cuda")).shape == (3, 4)


def test_fft():
    data = torch.randn(16, 1024, device="cuda")
    spectrum = torch.fft.rfft(data)
    assert spectrum.shape == (16, 513) and spectrum.dtype == torch.complex64
    assert torch.fft.irfft(spectrum).shape == (16, 1024)


def test_cholesky_and_solve():
    matrix = torch.eye(64).cuda()
    assert torch.linalg.cholesky(matrix).shape == (64, 64)
    assert torch.linalg.solve(matrix, torch.ones(64, 2).cuda()).shape == (64, 2)


def test_qr_svd_eigh():
    matrix = torch.randn(32, 32).cuda()
    assert torch.linalg.qr(matrix).Q.shape == (32, 32)
    assert torch.linalg.svdvals(matrix).shape == (32,)
    assert torch.linalg.eigh(matrix + matrix.T).eigenvalues.shape == (32,)


def test_bmm_and_einsum():
    first, second = torch.randn(8, 64, 32, device="cuda"), torch.randn(8, 32, 16, device="cuda")
    assert torch.bmm(first, second).shape == (8, 64, 16)
    assert torch.einsum("bij,bjk->ik", first, second).shape == (64, 16)


def test_random_numbers():
    torch.manual_seed(0)
    assert torch.rand(1000, device="cuda").shape == (1000,)
    assert torch.randperm(1000, device="cuda").shape == (1000,)
    state = torch.cuda.get_rng_state()
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.cuda.get_rng_state(), state)


def test_cat_and_copy():
    data = [torch.ones(4, 8).cuda() for _ in range(3)]
    assert torch.cat(data).shape == (12, 8) and torch.stack(data).shape == (3, 4, 8)


if __name__ == "__main__":
    main()
