# SPDX-License-Identifier: Apache-2.0
"""Content of memory, element-wise operations, reductions, random numbers, run-time compilation."""

import torch
from conformance import Refused, assert_roofline, device_ms, main, only_emulated, refused_or


def test_memory_reads_as_zeros():
    only_emulated()
    torch.cuda.empty_cache()
    assert not torch.empty(2**25, device="cuda").cpu().any()


def test_round_trip():
    for dtype in (torch.int64, torch.float32, torch.float16, torch.bool, torch.complex64):
        data = torch.arange(100_000).to(dtype)
        assert torch.equal(data.cuda().cpu(), data)


def test_copies_stay_apart():
    data = torch.arange(1000)
    first, second = data.cuda(), (data + 1).cuda()
    third = first.clone()
    first.zero_()
    assert torch.equal(second.cpu(), data + 1)
    assert torch.equal(third.cpu(), data)


def test_item_of_a_copied_scalar():
    assert torch.tensor(42).cuda().item() == 42
    assert torch.tensor([1.5, 2.5]).cuda().tolist() == [1.5, 2.5]


def test_fill_with_zeros_is_visible():
    data = torch.arange(1, 1000).cuda()
    data.zero_()
    assert not data.cpu().any()


def test_cumsum_and_reductions():
    data = torch.randn(1000, 100, device="cuda")
    assert data.cumsum(0).shape == data.shape and data.cumprod(1).shape == data.shape
    assert data.sum().shape == () and data.mean(1).shape == (1000,)
    assert data.max(dim=1).indices.shape == (1000,)
    assert data.std(0).shape == (100,) and data.norm().shape == ()
    assert data.logsumexp(1).shape == (1000,) and data.argmax().dtype == torch.int64


def test_reduction_time_is_bandwidth():
    data = torch.empty(256 * 2**20 // 4, device="cuda")
    assert_roofline(device_ms(data.sum), moved_bytes=data.nbytes, slack=2)


def test_elementwise_time_is_bandwidth():
    data = torch.empty(64 * 2**20, device="cuda")
    other = torch.empty_like(data)
    ms = device_ms(lambda: torch.add(data, data, out=other))
    assert_roofline(ms, moved_bytes=2 * data.nbytes, slack=2.5)


def test_elementwise_time_follows_the_type():
    def cost(dtype):
        data = torch.empty(64 * 2**20, device="cuda", dtype=dtype)
        return device_ms(lambda: torch.mul(data, data, out=data))

    assert 1.6 < cost(torch.float32) / cost(torch.float16) < 2.4


def test_small_kernels_take_microseconds():
    data = torch.empty(10, device="cuda")
    # Launch and drain of an empty kernel on the device: 1 to 10 us on any GPU since 2012.
    assert 0.001 < device_ms(lambda: data.add_(1), repeat=100) < 0.01


def test_broadcast_and_views():
    data = torch.randn(8, 1, 16, device="cuda") + torch.randn(1, 4, 16, device="cuda")
    assert data.shape == (8, 4, 16)
    assert data.permute(2, 0, 1).contiguous().shape == (16, 8, 4)
    assert data.reshape(32, 16).T.is_contiguous() is False


def test_types_and_devices_are_promoted():
    data = torch.ones(4, dtype=torch.float16, device="cuda")
    assert (data + torch.ones(4, device="cuda")).dtype == torch.float32
    assert (data + 1).dtype == torch.float16
    refused = False
    try:
        data + torch.ones(4)
    except RuntimeError as error:
        refused = "same device" in str(error)
    assert refused


def test_cat_stack_split():
    data = [torch.ones(4, 8).cuda() for _ in range(3)]
    assert torch.cat(data).shape == (12, 8) and torch.stack(data).shape == (3, 4, 8)
    assert [part.shape[0] for part in torch.cat(data).split([5, 7])] == [5, 7]


def test_random_numbers():
    assert torch.rand(1000, device="cuda").shape == (1000,)
    assert torch.randperm(1000, device="cuda").shape == (1000,)
    assert torch.multinomial(torch.ones(10, device="cuda"), 5).shape == (5,)
    assert torch.empty(100, device="cuda").bernoulli_(0.5).shape == (100,)
    assert torch.poisson(torch.ones(100, device="cuda")).shape == (100,)


def test_random_state_moves_on_and_comes_back():
    torch.cuda.manual_seed(7)
    before = torch.cuda.get_rng_state()
    torch.rand(1000, device="cuda")
    assert not torch.equal(torch.cuda.get_rng_state(), before)
    torch.cuda.set_rng_state(before)
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert torch.cuda.initial_seed() == 7


def test_operators_compiled_at_run_time():
    # PyTorch hands the source of these kernels to NVRTC.
    data = torch.ones(1000, dtype=torch.int64, device="cuda")
    assert refused_or(lambda: torch.gcd(data, data), "nvrtc", "NVRTC").shape == (1000,)
    assert torch.ones(100, dtype=torch.complex64, device="cuda").abs().shape == (100,)
    assert torch.special.i1(torch.ones(100, device="cuda")).shape == (100,)


def test_source_compiled_at_run_time():
    source = "template <typename T> T twice(T x) { return x + x; }"
    twice = torch.cuda.jiterator._create_jit_fn(source)
    data = torch.empty(64 * 2**20, device="cuda")
    refused_or(lambda: twice(data), "nvrtc", "NVRTC")
    assert_roofline(device_ms(lambda: twice(data)), moved_bytes=2 * data.nbytes, slack=4)


def test_broken_source_is_refused_by_the_compiler():
    broken = torch.cuda.jiterator._create_jit_fn("template <typename T> T f(T x) { return y; }")
    try:
        broken(torch.ones(10, device="cuda"))
    except RuntimeError as error:
        if "gpemu does not compile" in str(error):
            raise Refused("gpemu does not compile CUDA C++ at run time") from error
        assert "undefined" in str(error), error
    else:
        raise AssertionError("y was found")


def test_results_do_not_show_what_memory_held_before():
    def use_memory():
        for value in (7, 7.5, True):
            kept = [torch.full((size,), value).cuda() for size in (1, 1, 1, 1, 8, 32, 64, 100)]
        del kept

    zeros = torch.zeros(1000, device="cuda")
    counts = torch.zeros(100, dtype=torch.int64, device="cuda")
    asked = {
        "sum": zeros.sum,
        "sum of integers": counts.sum,
        "any": lambda: (zeros > 1).any(),
        "maximum": zeros.max,
        "norm": zeros.norm,
        "sum and product": lambda: zeros[:1] + zeros[1:2] * 2,
        "type": lambda: zeros[:1].long(),
        "mean of half": zeros.half().mean,
        "median": zeros.median,
        "nothing found": lambda: torch.tensor(torch.nonzero(zeros).shape[0]),
        "nothing chosen": lambda: torch.tensor(zeros[zeros > 1].numel()),
        "loss": lambda: torch.nn.functional.mse_loss(zeros, zeros),
        "zeros": lambda: torch.zeros(100, device="cuda").cpu().sum(),
        "difference of fills": lambda: torch.full((1,), 3.0, device="cuda") - 3,
    }
    for name, ask in asked.items():
        for _ in range(3):
            use_memory()
            assert ask().item() == 0, name


def test_fills_are_visible():
    assert torch.full((3,), 2.5, device="cuda").tolist() == [2.5, 2.5, 2.5]
    assert torch.ones(100, dtype=torch.int64, device="cuda").cpu().sum() == 100


def test_printing_a_tensor():
    text = repr(torch.arange(3).cuda())
    assert text == "tensor([0, 1, 2], device='cuda:0')", text
    # PyTorch asks the device whether all elements are whole numbers.
    assert repr(torch.tensor([1.5]).cuda()) == "tensor([1.5000], device='cuda:0')"


if __name__ == "__main__":
    main()
