# SPDX-License-Identifier: Apache-2.0
"""Attention with every kernel (flash, memory-efficient, math, cuDNN): memory and time."""

import torch
from conformance import MIB, Refused, Skipped, assert_roofline, backward, device_ms, fails, main
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def needs_ampere():
    if torch.cuda.get_device_capability() < (8, 0):
        raise Skipped("this kernel needs compute capability 8.0")


def attention(backend, dtype=torch.float16, **options):
    query = torch.randn(2, 8, 256, 64, device="cuda", dtype=dtype, requires_grad=True)
    key, value = (torch.randn_like(query, requires_grad=True) for _ in range(2))
    with sdpa_kernel(backend):
        output = scaled_dot_product_attention(query, key, value, **options)
    assert output.shape == query.shape and output.dtype == dtype
    backward(output)
    assert key.grad.shape == key.shape and value.grad.shape == value.shape


def peak_bytes(backend, length):
    data = torch.empty(1, 4, length, 64, device="cuda", dtype=torch.float16)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    with sdpa_kernel(backend), torch.no_grad():
        scaled_dot_product_attention(data, data, data)
    return torch.cuda.max_memory_allocated() - before


def test_math():
    attention(SDPBackend.MATH, is_causal=True)
    attention(SDPBackend.MATH, torch.float32)


def test_memory_efficient():
    attention(SDPBackend.EFFICIENT_ATTENTION, is_causal=True)
    attention(SDPBackend.EFFICIENT_ATTENTION, torch.float32)


def test_memory_efficient_with_mask():
    mask = torch.zeros(256, 256, device="cuda", dtype=torch.float16)
    attention(SDPBackend.EFFICIENT_ATTENTION, attn_mask=mask)


def test_flash():
    needs_ampere()
    attention(SDPBackend.FLASH_ATTENTION, is_causal=True)
    attention(SDPBackend.FLASH_ATTENTION, torch.bfloat16)


def test_flash_with_dropout():
    needs_ampere()
    attention(SDPBackend.FLASH_ATTENTION, dropout_p=0.1)


def test_flash_refuses_single_precision():
    # PyTorch's own choice of kernels goes by capability and type.
    data = torch.empty(1, 1, 16, 64, device="cuda")
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        fails(lambda: scaled_dot_product_attention(data, data, data), "No available kernel")


def test_cudnn():
    needs_ampere()
    try:
        attention(SDPBackend.CUDNN_ATTENTION, is_causal=True)
    except RuntimeError as error:
        # PyTorch asks for it on Hopper and later; cuDNN says what it cannot plan.
        words = ("No available kernel", "No valid execution plans", "NOT_SUPPORTED")
        assert any(word in str(error) for word in words), error
        raise Refused(str(error).strip().splitlines()[0]) from error


def test_math_needs_quadratic_memory_and_fused_kernels_do_not():
    scores = 2 * 4 * 4096 * 4096
    output = 2 * 4 * 4096 * 64
    assert peak_bytes(SDPBackend.MATH, 4096) >= scores
    assert output <= peak_bytes(SDPBackend.EFFICIENT_ATTENTION, 4096) < output + 4 * MIB


def test_time_is_quadratic():
    def cost(length):
        data = torch.empty(1, 8, length, 64, device="cuda", dtype=torch.float16)
        with torch.no_grad():
            return device_ms(lambda: scaled_dot_product_attention(data, data, data))

    assert 8 < cost(8192) / cost(2048) < 32


def test_time_is_that_of_its_products():
    data = torch.empty(4, 16, 4096, 64, device="cuda", dtype=torch.float16)
    with torch.no_grad(), sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        ms = device_ms(lambda: scaled_dot_product_attention(data, data, data))
    assert_roofline(ms, flops=4 * 4 * 16 * 4096**2 * 64, peak="fp16_tensor_tflops", slack=8)


def test_backward_takes_longer_than_forward():
    data = torch.empty(4, 8, 2048, 64, device="cuda", dtype=torch.float16, requires_grad=True)
    gradient = torch.empty_like(data)

    def forward():
        return scaled_dot_product_attention(data, data, data)

    def both():
        forward().backward(gradient)

    assert device_ms(both) > 2 * device_ms(forward)


def test_grouped_queries():
    query = torch.randn(2, 8, 128, 64, device="cuda", dtype=torch.float16)
    key = torch.randn(2, 2, 128, 64, device="cuda", dtype=torch.float16)
    output = scaled_dot_product_attention(query, key, key, enable_gqa=True)
    assert output.shape == query.shape


def test_nested_sequences():
    pieces = [torch.randn(length, 8, 64, device="cuda").half() for length in (12, 40, 7)]
    data = torch.nested.nested_tensor(pieces).transpose(1, 2)
    output = scaled_dot_product_attention(data, data, data)
    assert [piece.shape[1] for piece in output.unbind()] == [12, 40, 7]


def test_multi_head_module():
    module = nn.MultiheadAttention(128, 4, batch_first=True).cuda()
    data = torch.randn(4, 64, 128, device="cuda", requires_grad=True)
    output, weights = module(data, data, data)
    assert output.shape == data.shape and weights.shape == (4, 64, 64)
    backward(output)
    assert module.in_proj_weight.grad.shape == (384, 128)


def test_encoder_fast_path():
    module = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True).cuda().eval()
    data = torch.randn(4, 64, 128, device="cuda")
    with torch.inference_mode():
        assert module(data).shape == data.shape


def test_transformer():
    module = nn.Transformer(64, 4, 2, 2, 128, batch_first=True).cuda()
    output = module(torch.randn(2, 10, 64, device="cuda"), torch.randn(2, 7, 64, device="cuda"))
    assert output.shape == (2, 7, 64)
    backward(output)
    assert all(weight.grad is not None for weight in module.parameters())


if __name__ == "__main__":
    main()
