# SPDX-License-Identifier: Apache-2.0
"""Convolutions of every kind: output shapes, gradients, workspace, relative times."""

import torch
from conformance import assert_roofline, backward, device_ms, gpu_spec, main
from torch import nn
from torch.nn import functional

torch.backends.cudnn.benchmark = False


def check(module, shape, expected):
    module = module.cuda()
    data = torch.randn(shape, device="cuda", requires_grad=True)
    output = module(data)
    assert tuple(output.shape) == expected, output.shape
    backward(output)
    assert data.grad.shape == data.shape
    assert module.weight.grad.shape == module.weight.shape
    assert module.bias is None or module.bias.grad.shape == module.bias.shape
    return module, data


def test_1d():
    check(nn.Conv1d(16, 32, 5, padding=2), (8, 16, 100), (8, 32, 100))


def test_2d_strided():
    check(nn.Conv2d(3, 64, 7, stride=2, padding=3), (4, 3, 224, 224), (4, 64, 112, 112))


def test_3d():
    check(nn.Conv3d(4, 8, 3, padding=1), (2, 4, 8, 16, 16), (2, 8, 8, 16, 16))


def test_pointwise():
    check(nn.Conv2d(64, 256, 1, bias=False), (4, 64, 28, 28), (4, 256, 28, 28))


def test_transposed():
    check(nn.ConvTranspose1d(8, 4, 3, stride=2), (2, 8, 10), (2, 4, 21))
    check(nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1), (2, 16, 14, 14), (2, 8, 28, 28))
    check(nn.ConvTranspose3d(4, 8, 2, stride=2), (2, 4, 4, 4, 4), (2, 8, 8, 8, 8))


def test_dilated():
    check(nn.Conv2d(8, 8, 3, padding=2, dilation=2), (2, 8, 32, 32), (2, 8, 32, 32))


def test_grouped():
    check(nn.Conv2d(64, 64, 3, padding=1, groups=4), (4, 64, 28, 28), (4, 64, 28, 28))


def test_depthwise():
    check(nn.Conv2d(32, 32, 3, padding=1, groups=32), (4, 32, 28, 28), (4, 32, 28, 28))
    check(nn.Conv1d(32, 64, 3, groups=32), (4, 32, 30), (4, 64, 28))


def test_circular_padding_and_asymmetric_windows():
    circular = nn.Conv2d(8, 8, 3, padding=1, padding_mode="circular")
    check(circular, (2, 8, 16, 16), (2, 8, 16, 16))
    check(nn.Conv2d(8, 8, (1, 7), padding="same"), (2, 8, 16, 16), (2, 8, 16, 16))


def test_channels_last():
    module = nn.Conv2d(32, 32, 3, padding=1).cuda().to(memory_format=torch.channels_last)
    data = torch.randn(8, 32, 56, 56, device="cuda").to(memory_format=torch.channels_last)
    output = module(data)
    assert output.is_contiguous(memory_format=torch.channels_last)


def test_channels_last_is_not_slower_on_tensor_cores():
    module = nn.Conv2d(256, 256, 3, padding=1).cuda().half()
    data = torch.empty(32, 256, 56, 56, device="cuda", dtype=torch.float16)
    with torch.no_grad():
        planes_ms = device_ms(lambda: module(data))
        module = module.to(memory_format=torch.channels_last)
        last = data.to(memory_format=torch.channels_last)
        assert device_ms(lambda: module(last)) <= planes_ms


def test_without_cudnn():
    # PyTorch's own kernels: im2col, products, and depthwise kernels.
    with torch.backends.cudnn.flags(enabled=False):
        check(nn.Conv2d(8, 16, 3, padding=1), (2, 8, 16, 16), (2, 16, 16, 16))
        check(nn.Conv3d(4, 8, 3), (2, 4, 8, 8, 8), (2, 8, 6, 6, 6))
        check(nn.Conv2d(16, 16, 3, groups=16), (2, 16, 16, 16), (2, 16, 14, 14))
        check(nn.ConvTranspose2d(8, 4, 2, stride=2), (2, 8, 8, 8), (2, 4, 16, 16))


def test_fused_bias_and_relu():
    data = torch.randn(4, 16, 28, 28, device="cuda")
    weight, bias = torch.randn(32, 16, 3, 3, device="cuda"), torch.randn(32, device="cuda")
    output = torch.cudnn_convolution_relu(data, weight, bias, (1, 1), (1, 1), (1, 1), 1)
    assert output.shape == (4, 32, 28, 28)


def test_unfold_and_fold():
    data = torch.randn(2, 8, 16, 16, device="cuda")
    columns = functional.unfold(data, 3, padding=1)
    assert columns.shape == (2, 72, 256)
    assert functional.fold(columns, (16, 16), 3, padding=1).shape == data.shape


def test_time_is_within_the_roofline():
    module = nn.Conv2d(256, 256, 3, padding=1).cuda()
    data = torch.empty(64, 256, 56, 56, device="cuda")
    flops = 2 * 64 * 56 * 56 * 256 * 256 * 9
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False), torch.no_grad():
        # Winograd's algorithm, in tiles of 4 x 4, does 3 x 3 windows with 4 times fewer operations.
        assert_roofline(device_ms(lambda: module(data)), flops / 4, slack=6)


def test_half_precision_uses_tensor_cores():
    if "fp16_tensor_tflops" not in gpu_spec():
        return
    module = nn.Conv2d(256, 256, 3, padding=1).cuda().to(memory_format=torch.channels_last)
    data = torch.empty(64, 256, 56, 56, device="cuda").to(memory_format=torch.channels_last)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False), torch.no_grad():
        full_ms = device_ms(lambda: module(data))
        module, data = module.half(), data.half()
        half_ms = device_ms(lambda: module(data))
    assert module(data).dtype == torch.float16
    assert half_ms < 0.6 * full_ms, (half_ms, full_ms)
    flops = 2 * 64 * 56 * 56 * 256 * 256 * 9
    assert_roofline(half_ms, flops, peak="fp16_tensor_tflops", slack=5)


def test_depthwise_is_cheaper_than_dense():
    data = torch.empty(16, 256, 56, 56, device="cuda")
    dense = nn.Conv2d(256, 256, 3, padding=1).cuda()
    depthwise = nn.Conv2d(256, 256, 3, padding=1, groups=256).cuda()
    with torch.no_grad():
        depthwise_ms = device_ms(lambda: depthwise(data))
        assert depthwise_ms < device_ms(lambda: dense(data))
    # It cannot be faster than its bytes.
    assert_roofline(depthwise_ms, moved_bytes=2 * data.nbytes, slack=30)


def test_time_grows_with_the_batch():
    module = nn.Conv2d(128, 128, 3, padding=1).cuda()
    small = torch.empty(16, 128, 56, 56, device="cuda")
    large = torch.empty(128, 128, 56, 56, device="cuda")
    with torch.no_grad():
        ratio = device_ms(lambda: module(large)) / device_ms(lambda: module(small))
    assert 5 < ratio < 11, ratio


def test_stride_divides_the_time():
    data = torch.empty(64, 128, 112, 112, device="cuda")
    # Windows for which no faster algorithm is used without a stride.
    dense = nn.Conv2d(128, 128, 7, padding=3).cuda()
    strided = nn.Conv2d(128, 128, 7, padding=3, stride=2).cuda()
    with torch.no_grad():
        ratio = device_ms(lambda: dense(data)) / device_ms(lambda: strided(data))
    assert 2.5 < ratio < 5.5, ratio


def test_backward_takes_about_twice_forward():
    module = nn.Conv2d(128, 128, 3, padding=1, bias=False).cuda()
    data = torch.empty(64, 128, 56, 56, device="cuda", requires_grad=True)
    gradient = torch.empty_like(data)
    with torch.no_grad():
        forward_ms = device_ms(lambda: module(data))
    both_ms = device_ms(lambda: module(data).backward(gradient))
    assert 2 < both_ms / forward_ms < 7, (forward_ms, both_ms)


def test_output_is_all_that_stays_allocated():
    module = nn.Conv2d(64, 64, 3, padding=1).cuda()
    data = torch.empty(32, 64, 56, 56, device="cuda")
    with torch.no_grad():
        module(data)
        before = torch.cuda.memory_stats()["requested_bytes.all.current"]
        output = module(data)
    after = torch.cuda.memory_stats()["requested_bytes.all.current"]
    assert after - before == output.nbytes, (before, after)


def test_benchmark_mode():
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        check(nn.Conv2d(16, 16, 3, padding=1), (4, 16, 32, 32), (4, 16, 32, 32))


def test_deterministic_mode():
    with torch.backends.cudnn.flags(enabled=True, deterministic=True):
        check(nn.Conv2d(16, 16, 3, padding=1), (4, 16, 32, 32), (4, 16, 32, 32))


def test_wrong_shapes_are_refused():
    module = nn.Conv2d(16, 16, 3).cuda()
    try:
        module(torch.randn(4, 8, 32, 32, device="cuda"))
    except RuntimeError as error:
        assert "channels" in str(error)
    else:
        raise AssertionError("8 channels for 16")


if __name__ == "__main__":
    main()
