# SPDX-License-Identifier: Apache-2.0
"""An operation changes its result, and nothing beside it."""

import torch
from conformance import Skipped, main

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

KNOWN = torch.arange(4000, dtype=torch.float32)


def keeps(work, count, step=1):
    """Runs an operation on a slice of a tensor with known values; the others must stay."""
    whole = KNOWN.cuda()
    places = slice(64, 64 + count * step, step)
    work(whole[places])
    changed = whole.cpu() != KNOWN
    changed[places] = False
    assert not changed.any(), changed.nonzero().flatten().tolist()[:10]


def integers(count):
    return torch.empty(count, dtype=torch.int64, device="cuda")


def test_random_numbers_in_a_slice():
    for work in (
        torch.Tensor.normal_,
        torch.Tensor.uniform_,
        torch.Tensor.exponential_,
        torch.Tensor.bernoulli_,
        torch.Tensor.cauchy_,
        torch.Tensor.log_normal_,
        torch.Tensor.random_,
    ):
        keeps(work, 10)
        keeps(work, 10, step=3)


def test_results_in_a_slice():
    vector, matrix = torch.rand(10).cuda(), torch.rand(10, 64).cuda()
    for work in (
        lambda out: torch.softmax(vector, 0, out=out),
        lambda out: torch.log_softmax(vector, 0, out=out),
        lambda out: torch.sort(vector, out=(out, integers(10))),
        lambda out: torch.topk(matrix[0], 10, out=(out, integers(10))),
        lambda out: torch.cumsum(vector, 0, out=out),
        lambda out: torch.cumprod(vector, 0, out=out),
        lambda out: torch.norm(matrix, dim=1, out=out),
        lambda out: torch.std(matrix, dim=1, out=out),
        lambda out: torch.var(matrix, dim=1, out=out),
        lambda out: torch.median(matrix, dim=1, out=(out, integers(10))),
        lambda out: torch.mode(matrix, dim=1, out=(out, integers(10))),
        lambda out: torch.kthvalue(matrix, 3, dim=1, out=(out, integers(10))),
        lambda out: torch.rand(10, out=out),
        lambda out: torch.randn(10, out=out),
        lambda out: torch.linspace(0, 1, 10, out=out),
        lambda out: torch.logspace(0, 1, 10, out=out),
        lambda out: torch.erfinv(vector, out=out),
        lambda out: torch.special.zeta(vector, vector, out=out),
        lambda out: torch.mv(matrix, matrix[0], out=out),
        lambda out: torch.diag(matrix[:, :10], out=out),
        lambda out: torch.renorm(vector.view(2, 5), 2, 0, 1.0, out=out.view(2, 5)),
        lambda out: torch.cross(vector[:9].view(3, 3), vector[:9].view(3, 3), dim=1,
                                out=out[:9].view(3, 3)),
    ):
        keeps(work, 10)
        keeps(work, 10, step=2)


def test_changes_of_a_slice():
    places, ones = torch.tensor([1, 2], device="cuda"), torch.ones(2, device="cuda")
    for work in (
        lambda own: own.index_add_(0, places, ones),
        lambda own: own.index_copy_(0, places, ones),
        lambda own: own.index_put_((places,), ones, accumulate=True),
        lambda own: own.scatter_add_(0, places, ones),
        lambda own: own.masked_fill_(own > 70, 1.0),
        lambda own: own.clamp_(0, 1),
        lambda own: own.erfinv_(),
        lambda own: own.cumsum_(0),
        lambda own: own.view(2, 5).tril_(),
    ):
        keeps(work, 10)


def test_small_tensors_beside_each_other():
    parameters = [torch.nn.Parameter(torch.full((8,), 0.5).cuda()) for _ in range(100)]
    known = [torch.full((8,), 7.0).cuda() for _ in range(100)]
    gradients = [torch.full((8,), 0.25).cuda() for _ in range(100)]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    torch.nn.utils.clip_grad_norm_(parameters, 1e9)
    torch.nn.functional.layer_norm(torch.rand(25, 8).cuda(), (8,))
    torch.randperm(50, device="cuda")
    torch.nn.functional.softmax(torch.rand(3, 8).cuda(), 1)
    assert all(tensor.tolist() == [7.0] * 8 for tensor in known)


def test_attention_of_one_query():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    # The result takes 1 KiB, a tile of 64 queries more.
    for dtype in (torch.float16, torch.float32):
        query = torch.rand(2, 4, 1, 64, dtype=dtype, device="cuda")
        keys = torch.rand(2, 4, 30, 64, dtype=dtype, device="cuda")
        guards = [torch.full((256,), 3.0).cuda() for _ in range(40)]
        del guards[::2]  # Holes, in which results find room.
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            results = [torch.nn.functional.scaled_dot_product_attention(query, keys, keys)
                       for _ in range(10)]
        assert all(guard.tolist() == [3.0] * 256 for guard in guards)
        assert len(results) == 10


def test_scale_survives_clipping():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 10)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    data = torch.rand(32, 64).cuda()
    labels = torch.randint(0, 10, (32,)).cuda()
    for _ in range(20):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(data), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        assert scaler.get_scale() == 65536.0


if triton is not None:

    @triton.jit
    def add_one(first, output, count, BLOCK: tl.constexpr):
        index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = index < count
        tl.store(output + index, tl.load(first + index, mask=mask) + 1, mask=mask)


def test_kernels_in_triton():
    if triton is None or torch.cuda.get_device_capability() < (7, 0):
        raise Skipped("Triton is not installed, or needs compute capability 7.0")
    data = torch.rand(500).cuda()
    for count in (10, 500):
        keeps(lambda out: add_one[(triton.cdiv(count, 128),)](data, out, count, BLOCK=128), count)


def test_compiled_functions():
    if triton is None or torch.cuda.get_device_capability() < (7, 0):
        raise Skipped("Triton is not installed, or needs compute capability 7.0")
    data = torch.rand(2, 5).cuda()
    for work, count in (
        (lambda x: (x * 2 + 1).sin(), 10),
        (lambda x: x.sum(-1), 2),
        (lambda x: x.sum(), 1),
        (lambda x: x.softmax(-1), 10),
    ):
        compiled = torch.compile(lambda x, out, work=work: out.copy_(work(x).reshape(-1)))
        keeps(lambda out: compiled(data, out), count)


if __name__ == "__main__":
    main()
