# SPDX-License-Identifier: Apache-2.0
"""torch.compile with Triton, and kernels written in Triton: compiled by Triton's assembler,
launched through the driver."""

import torch
from conformance import Skipped, device_ms, fails, main, only_emulated, refused_or

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None


def needs_triton():
    if triton is None:
        raise Skipped("Triton is not installed")
    if torch.cuda.get_device_capability() < (7, 0):
        raise Skipped("Triton needs compute capability 7.0")


if triton is not None:

    @triton.jit
    def add_kernel(first, second, output, count, BLOCK: tl.constexpr):
        index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = index < count
        total = tl.load(first + index, mask=mask) + tl.load(second + index, mask=mask)
        tl.store(output + index, total, mask=mask)


def add(count, block=1024):
    data = torch.empty(count, device="cuda")
    add_kernel[(triton.cdiv(count, block),)](data, data, data, count, BLOCK=block)


def test_kernel_in_triton():
    needs_triton()
    add(10_000)
    torch.cuda.synchronize()


def test_kernel_in_triton_takes_device_time():
    needs_triton()
    assert device_ms(lambda: add(2**27)) > 4 * device_ms(lambda: add(2**24))


def test_kernel_in_triton_without_a_grid_is_refused():
    needs_triton()
    data = torch.empty(16, device="cuda")
    fails(
        lambda: add_kernel[(1, 70_000, 1)](data, data, data, 16, BLOCK=16),
        "invalid",
        kind=(RuntimeError, ValueError),
    )


def test_compiled_function():
    needs_triton()
    compiled = torch.compile(lambda x, y: torch.nn.functional.gelu(2 * x + y).sum(-1))
    data = torch.randn(64, 1000, device="cuda")
    assert compiled(data, data).shape == (64,)


def test_compiled_code_fuses():
    needs_triton()
    data = torch.empty(2**24, device="cuda")

    def chain(x):
        return ((x * 2 + 1).sin() * 3 - x).cos()

    compiled = torch.compile(chain)
    assert device_ms(lambda: compiled(data)) < 0.7 * device_ms(lambda: chain(data))


def test_compiled_training():
    needs_triton()
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.LayerNorm(128), torch.nn.ReLU(), torch.nn.Linear(128, 8)
    ).cuda()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = compiled(torch.randn(16, 64, device="cuda")).float().square().mean()
        loss.backward()
        optimizer.step()
    assert all(weight.grad is not None for weight in model.parameters())


def test_compiled_code_keeps_what_it_reads():
    """And what it changes in place, as weights; its results are not what memory held before."""
    needs_triton()
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.LayerNorm(128))
    weights = [weight.detach().clone() for weight in model.parameters()]
    data = torch.rand(16, 64)
    own = data.cuda()
    result = torch.compile(model.cuda())(own)
    result.sum().backward()
    old = [torch.full((size,), 7.5).cuda() for size in (1000, 1000, 100_000)]
    del old
    rows = torch.compile(lambda x: (x * 2).relu())(own)

    @torch.compile
    def step(weight, change):
        weight.add_(change, alpha=-0.1)

    step(own, torch.ones_like(own))
    for weight, before in zip(model.parameters(), weights):
        assert torch.equal(weight.detach().cpu(), before)
    assert not (rows == 7.5).any()
    only_emulated()
    assert torch.equal(own.cpu(), data)


def test_compiled_with_changing_shapes():
    needs_triton()
    compiled = torch.compile(lambda x: (x.relu() + 1).mean(1), dynamic=True)
    for rows in (3, 5, 8):
        assert compiled(torch.randn(rows, 7 + rows, device="cuda")).shape == (rows,)


def test_compiled_with_cuda_graphs():
    needs_triton()
    model = torch.nn.Linear(64, 64).cuda()
    compiled = torch.compile(lambda x: model(x).relu(), mode="reduce-overhead")
    data = torch.randn(16, 64, device="cuda")

    def run():
        with torch.no_grad():
            for _ in range(4):
                output = compiled(data)
        return output

    assert refused_or(run, "not supported").shape == (16, 64)
    torch.cuda.synchronize()


def test_scripted_functions():
    def twice(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).relu()

    scripted = torch.jit.script(twice)
    data = torch.randn(100, device="cuda")
    for _ in range(4):
        output = refused_or(lambda: scripted(data), "nvrtc", "NVRTC")
    assert output.shape == (100,)


if __name__ == "__main__":
    main()
