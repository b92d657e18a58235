# SPDX-License-Identifier: Apache-2.0
"""Products, sparse matrices, FFT and linear algebra: each runs or is clearly refused."""

import torch
from conformance import (
    Skipped,
    assert_roofline,
    backward,
    device_ms,
    fails,
    gpu_spec,
    main,
    refused_or,
)


def eye(size=64):
    return torch.eye(size).cuda()


def sparse(size=64):
    index = torch.arange(size)
    return torch.sparse_coo_tensor(torch.stack([index, index]), torch.ones(size), (size, size))


def test_product_time_is_that_of_its_type():
    torch.backends.cuda.matmul.allow_tf32 = False
    flops = 2 * 8192**3
    peaks = {
        torch.float64: "fp64_tflops",
        torch.float32: "fp32_tflops",
        torch.float16: "fp16_tensor_tflops",
        torch.bfloat16: "bf16_tensor_tflops",
    }
    for dtype, peak in peaks.items():
        if peak not in gpu_spec() or (dtype == torch.float64 and gpu_spec()[peak] < 1):
            continue
        data = torch.empty(8192, 8192, device="cuda", dtype=dtype)
        # FP64 runs on the A100's tensor cores at twice the rate of its ordinary units.
        share = 2 if dtype == torch.float64 else 1
        ms = device_ms(lambda: torch.mm(data, data), repeat=1)
        assert_roofline(ms, flops / share, peak=peak, slack=2 * share)


def test_tf32_is_a_choice():
    if "tf32_tensor_tflops" not in gpu_spec():
        raise Skipped("no TF32 on this GPU")
    data = torch.empty(8192, 8192, device="cuda")
    torch.backends.cuda.matmul.allow_tf32 = False
    exact_ms = device_ms(lambda: torch.mm(data, data), repeat=1)
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        ms = device_ms(lambda: torch.mm(data, data))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    assert ms < exact_ms / 3, (ms, exact_ms)
    assert_roofline(ms, 2 * 8192**3, peak="tf32_tensor_tflops", slack=2)


def test_products():
    first, second = torch.randn(8, 64, 32, device="cuda"), torch.randn(8, 32, 16, device="cuda")
    assert torch.bmm(first, second).shape == (8, 64, 16)
    assert torch.baddbmm(torch.zeros(8, 64, 16, device="cuda"), first, second).shape == (8, 64, 16)
    assert torch.einsum("bij,bjk->ik", first, second).shape == (64, 16)
    assert torch.mv(first[0], second[0, :, 0]).shape == (64,)
    assert torch.dot(first[0, 0], first[0, 1]).shape == ()
    assert torch.addmm(torch.zeros(16, device="cuda"), first[0], second[0]).shape == (64, 16)


def test_products_of_many_types():
    for dtype in (torch.float64, torch.complex64, torch.complex128, torch.bfloat16):
        data = torch.zeros(32, 32, device="cuda", dtype=dtype)
        assert torch.mm(data, data).dtype == dtype


def test_integer_product():
    data = torch.zeros(32, 32, device="cuda", dtype=torch.int8)
    assert refused_or(lambda: torch._int_mm(data, data), "CUBLAS", "not supported").shape == (
        32,
        32,
    )


def test_products_of_few_rows_are_bound_by_memory():
    weight = torch.empty(16384, 16384, device="cuda", dtype=torch.float16)
    row = torch.empty(1, 16384, device="cuda", dtype=torch.float16)
    assert_roofline(device_ms(lambda: torch.mm(row, weight)), moved_bytes=weight.nbytes)


def test_batched_product_is_not_slower_than_its_parts():
    data = torch.empty(64, 128, 128, device="cuda")
    batch_ms = device_ms(lambda: torch.bmm(data, data))
    assert batch_ms <= 64 * device_ms(lambda: torch.mm(data[0], data[0]))


def test_wrong_shapes_are_refused():
    fails(lambda: torch.mm(eye(4), eye(5)), "shapes cannot be multiplied")


def test_sparse_coo():
    matrix = sparse().cuda()
    assert matrix._nnz() == 64 and matrix._indices().is_cuda
    assert torch.sparse.mm(matrix, torch.ones(64, 4, device="cuda")).shape == (64, 4)
    assert torch.equal(matrix._values().cpu(), torch.ones(64))


def test_sparse_csr():
    matrix = sparse().to_sparse_csr().cuda()
    assert matrix.layout == torch.sparse_csr
    assert (matrix @ torch.ones(64, 4, device="cuda")).shape == (64, 4)
    assert (matrix @ torch.ones(64, device="cuda")).shape == (64,)


def test_sparse_gradients():
    dense = torch.randn(64, 4, device="cuda", requires_grad=True)
    backward(torch.sparse.mm(sparse().cuda(), dense))
    assert dense.grad.shape == dense.shape


def test_sparse_times_sparse():
    # How many entries the product has is only known by computing it.
    matrix = sparse().to_sparse_csr().cuda()
    product = refused_or(lambda: matrix @ matrix, "CUSPARSE", "not supported")
    assert product.shape == (64, 64)


def test_sampled_product():
    matrix = sparse().to_sparse_csr().cuda()
    dense = torch.randn(64, 64, device="cuda")
    assert torch.sparse.sampled_addmm(matrix, dense, dense).layout == torch.sparse_csr


def test_sparse_triangular_solve():
    matrix = sparse().to_sparse_csr().cuda()
    solved = torch.triangular_solve(torch.ones(64, 2, device="cuda"), matrix)
    assert solved.solution.shape == (64, 2)


def test_sparse_two_in_four():
    from torch.sparse import to_sparse_semi_structured

    if torch.cuda.get_device_capability() < (8, 0):
        raise Skipped("structured sparsity needs compute capability 8.0")
    dense = torch.tensor([0, 0, 1, 1]).tile((128, 32)).half().cuda()
    compressed = refused_or(
        lambda: to_sparse_semi_structured(dense), "cusparseLt", "CUSPARSE", "CUDA error"
    )
    assert (compressed @ dense).shape == (128, 128)


def test_fft():
    data = torch.randn(16, 1024, device="cuda")
    spectrum = torch.fft.rfft(data)
    assert spectrum.shape == (16, 513) and spectrum.dtype == torch.complex64
    assert torch.fft.irfft(spectrum).shape == (16, 1024)
    assert torch.fft.fft(data.double()).dtype == torch.complex128


def test_fft_of_more_dimensions():
    data = torch.randn(4, 32, 48, 20, device="cuda", requires_grad=True)
    assert torch.fft.fft2(data).shape == data.shape
    spectrum = torch.fft.rfftn(data, dim=(1, 2, 3))
    assert spectrum.shape == (4, 32, 48, 11)
    torch.fft.irfftn(spectrum, s=(32, 48, 20), dim=(1, 2, 3)).sum().backward()
    assert data.grad.shape == data.shape


def test_fft_plans_are_cached():
    cache = torch.backends.cuda.cufft_plan_cache
    cache.clear()
    for length in (64, 128, 256, 128):
        torch.fft.fft(torch.empty(4, length, device="cuda", dtype=torch.complex64))
    assert cache.size == 3
    cache.clear()


def test_fft_time_is_bandwidth():
    data = torch.empty(1024, 16384, device="cuda", dtype=torch.complex64)
    assert_roofline(device_ms(lambda: torch.fft.fft(data)), moved_bytes=2 * data.nbytes, slack=10)


def test_short_time_fft():
    window = torch.hann_window(256, device="cuda")
    data = torch.randn(2, 16000, device="cuda")
    spectrum = torch.stft(data, 256, window=window, return_complex=True)
    assert spectrum.shape == (2, 129, 251)
    assert torch.stft(data, 256, 128, window=window, return_complex=True).shape == (2, 129, 126)


def test_cholesky_and_solve():
    matrix = eye()
    assert torch.linalg.cholesky(matrix).shape == (64, 64)
    assert torch.linalg.solve(matrix, torch.ones(64, 2).cuda()).shape == (64, 2)
    assert torch.cholesky_solve(torch.ones(64, 2).cuda(), matrix).shape == (64, 2)
    assert torch.linalg.inv(matrix).shape == (64, 64)
    assert torch.linalg.solve_triangular(matrix, matrix, upper=True).shape == (64, 64)


def test_lu():
    factors, pivots = torch.linalg.lu_factor(eye())
    assert factors.shape == (64, 64) and pivots.shape == (64,)
    assert torch.linalg.det(eye()).shape == () and torch.linalg.slogdet(eye()).sign.shape == ()


def test_qr():
    matrix = torch.randn(48, 32).cuda()
    orthogonal, triangular = torch.linalg.qr(matrix)
    assert orthogonal.shape == (48, 32) and triangular.shape == (32, 32)


def test_svd():
    matrix = torch.randn(32, 24).cuda()
    for driver in (None, "gesvd", "gesvdj", "gesvda"):
        result = torch.linalg.svd(matrix, full_matrices=False, driver=driver)
        assert result.S.shape == (24,) and result.U.shape == (32, 24)


def test_eigenvalues():
    matrix = eye(32)
    assert torch.linalg.eigh(matrix).eigenvalues.shape == (32,)
    assert torch.linalg.eigvalsh(matrix.double()).shape == (32,)


def test_eigenvalues_of_any_matrix():
    # PyTorch has MAGMA or cuSOLVER's geev for it, by its version.
    values = refused_or(lambda: torch.linalg.eigvals(eye(16)), "MAGMA", "cusolver", "CUSOLVER")
    assert values.shape == (16,) and values.dtype == torch.complex64


def test_batches():
    matrix = torch.eye(16).repeat(8, 1, 1).cuda()
    assert torch.linalg.cholesky(matrix).shape == (8, 16, 16)
    assert torch.linalg.inv(matrix).shape == (8, 16, 16)
    assert torch.linalg.eigh(matrix).eigenvectors.shape == (8, 16, 16)
    assert torch.linalg.svdvals(matrix).shape == (8, 16)
    assert torch.linalg.qr(matrix).Q.shape == (8, 16, 16)


def test_least_squares_and_norms():
    matrix = torch.randn(48, 32).cuda()
    solved = refused_or(
        lambda: torch.linalg.lstsq(matrix, torch.ones(48, 2, device="cuda")), "MAGMA", "CUSOLVER"
    )
    assert solved.solution.shape == (32, 2)
    assert torch.linalg.matrix_norm(matrix, 2).shape == ()
    assert torch.linalg.matrix_exp(eye(16)).shape == (16, 16)


def test_gradients_of_linear_algebra():
    matrix = (3 * torch.eye(16)).cuda().requires_grad_()
    torch.linalg.cholesky(matrix).sum().backward()
    assert matrix.grad.shape == (16, 16)


def test_factorisations_take_at_least_their_operations():
    matrix = torch.empty(4096, 4096, device="cuda")
    ms = device_ms(lambda: torch.linalg.cholesky_ex(matrix), repeat=1)
    assert_roofline(ms, flops=4096**3 / 3, slack=100)


if __name__ == "__main__":
    main()
