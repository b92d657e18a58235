# SPDX-License-Identifier: Apache-2.0
"""Convolutions of every kind: output shapes, gradients, and how their times relate."""

import torch
from conformance import backward, device_ms, main
from torch import nn

torch.backends.cudnn.benchmark = False


def check(module, shape, expected):
    module = module.cuda()
    data = torch.randn(shape, device="cuda", requires_grad=True)
    output = module(data)
    assert tuple(output.shape) == expected, output.shape
    backward(output)
    assert data.grad.shape == data.shape
    assert module.weight.grad.shape == module.weight.shape
    return module, data


def test_1d():
    check(nn.Conv1d(16, 32, 5, padding=2), (8, 16, 100), (8, 32, 100))


def test_2d_strided():
    check(nn.Conv2d(3, 64, 7, stride=2, padding=3), (4, 3, 224, 224), (4, 64, 112, 112))


def test_3d():
    check(nn.Conv3d(4, 8, 3, padding=1), (2, 4, 8, 16, 16), (2, 8, 8, 16, 16))


def test_transposed():
    check(nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1), (2, 16, 14, 14), (2, 8, 28, 28))


def test_dilated():
    check(nn.Conv2d(8, 8, 3, padding=2, dilation=2), (2, 8, 32, 32), (2, 8, 32, 32))


def test_channels_last():
    module = nn.Conv2d(32, 32, 3, padding=1).cuda().to(memory_format=torch.channels_last)
    data = torch.randn(8, 32, 56, 56, device="cuda").to(memory_format=torch.channels_last)
    output = module(data)
    assert output.is_contiguous(memory_format=torch.channels_last)


def test_depthwise_is_cheaper_than_dense():
    data = torch.randn(16, 256, 56, 56, device="cuda")
    dense = nn.Conv2d(256, 256, 3, padding=1).cuda()
    depthwise = nn.Conv2d(256, 256, 3, padding=1, groups=256).cuda()
    with torch.no_grad():
        assert device_ms(lambda: depthwise(data)) < device_ms(lambda: dense(data))


def test_grouped():
    check(nn.Conv2d(64, 64, 3, padding=1, groups=4), (4, 64, 28, 28), (4, 64, 28, 28))


def test_time_grows_with_the_batch():
    module = nn.Conv2d(128, 128, 3, padding=1).cuda()
    small = torch.randn(16, 128, 56, 56, device="cuda")
    large = torch.randn(128, 128, 56, 56, device="cuda")
    with torch.no_grad():
        ratio = device_ms(lambda: module(large)) / device_ms(lambda: module(small))
    assert 5 < ratio < 11, ratio


def test_half_precision():
    module = nn.Conv2d(64, 64, 3, padding=1).cuda().half()
    output = module(torch.randn(8, 64, 56, 56, device="cuda", dtype=torch.float16))
    assert output.dtype == torch.float16


def test_benchmark_mode():
    torch.backends.cudnn.benchmark = True
    try:
        check(nn.Conv2d(16, 16, 3, padding=1), (4, 16, 32, 32), (4, 16, 32, 32))
    finally:
        torch.backends.cudnn.benchmark = False


if __name__ == "__main__":
    main()
