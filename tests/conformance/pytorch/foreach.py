# SPDX-License-Identifier: Apache-2.0
"""Kernels over lists of tensors (multi-tensor kernels): they take the time of their elements."""

import functools

import torch
from conformance import device_ms, main

# 160 tensors of 64 elements have as many blocks as 160 of 65,536.
SMALL, LARGE = (160, 64), (24, 1 << 20)


@functools.cache
def lists(shape, dtype=torch.float32):
    """Returns three lists of tensors of ones: `shape` is their number and the size of each."""
    count, size = shape
    return [[torch.ones(size, dtype=dtype, device="cuda") for _ in range(count)] for _ in range(3)]


def forms():
    """Returns the forms of all families: name and function of three lists."""
    one = torch.ones((), device="cuda")

    def scalars(tensors):
        return [1.0] * len(tensors)

    found = []
    for name in ("add", "mul", "div", "sub", "maximum", "minimum", "pow"):
        work = getattr(torch, f"_foreach_{name}_")
        found += [
            (f"{name}, a scalar", lambda a, b, c, work=work: work(a, 1.0)),
            (f"{name}, scalars", lambda a, b, c, work=work: work(a, scalars(a))),
            (f"{name}, tensors", lambda a, b, c, work=work: work(a, b)),
        ]
    for name in ("mul", "div"):  # To add a tensor waits for its value.
        work = getattr(torch, f"_foreach_{name}_")
        found.append((f"{name}, a tensor", lambda a, b, c, work=work: work(a, one)))
    for name in ("addcmul", "addcdiv"):
        work = getattr(torch, f"_foreach_{name}_")
        found += [
            (f"{name}, a scalar", lambda a, b, c, work=work: work(a, b, c, 1.0)),
            (f"{name}, scalars", lambda a, b, c, work=work: work(a, b, c, scalars(a))),
        ]
    for name in ("abs", "exp", "neg", "reciprocal", "sigmoid", "sign", "sqrt", "tanh", "zero"):
        work = getattr(torch, f"_foreach_{name}_")
        found.append((name, lambda a, b, c, work=work: work(a)))
    found += [
        ("lerp, a scalar", lambda a, b, c: torch._foreach_lerp_(a, b, 0.5)),
        ("lerp, tensors", lambda a, b, c: torch._foreach_lerp_(a, b, c)),
        ("copy", lambda a, b, c: torch._foreach_copy_(a, b)),
    ]
    return found


def test_small_tensors_cost_their_elements():
    elements = torch.ones(SMALL[0] * SMALL[1], device="cuda")
    plain_ms = device_ms(lambda: elements.mul_(1.0))
    for name, work in forms():
        # At most 30 tensors in each of 6 launches.
        took_ms = device_ms(lambda work=work: work(*lists(SMALL)))
        assert took_ms < 7 * plain_ms, f"{name}: {took_ms:.4f} ms, plain {plain_ms:.4f} ms"


def test_large_tensors_cost_what_plain_kernels_cost():
    elements = torch.ones(LARGE[0] * LARGE[1], device="cuda")
    other = elements.clone()
    one_ms = device_ms(lambda: elements.mul_(1.0))  # Reads a tensor and writes one.
    two_ms = device_ms(lambda: elements.mul_(other))
    for name, work in forms():
        if name.startswith(("addc", "zero")) or name == "lerp, tensors":
            continue  # These have another number of tensors.
        took_ms = device_ms(lambda work=work: work(*lists(LARGE)))
        two = name.endswith("tensors") or name.startswith("lerp")
        plain_ms = two_ms if two else one_ms
        assert 0.8 < took_ms / plain_ms < 1.3, f"{name}: {took_ms:.4f} ms, plain {plain_ms:.4f} ms"


def test_types_count():
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.complex64):
        tensors = lists(LARGE, dtype)[0]
        took_ms = device_ms(lambda tensors=tensors: torch._foreach_mul_(tensors, [1.0] * 24))
        elements = torch.ones(LARGE[0] * LARGE[1], dtype=dtype, device="cuda")
        plain_ms = device_ms(lambda elements=elements: elements.mul_(1.0))
        assert 0.8 < took_ms / plain_ms < 1.3, f"{dtype}: {took_ms:.4f}, plain {plain_ms:.4f} ms"


def step_ms(optimizer, count, size, **options):
    parameters = [torch.nn.Parameter(torch.zeros(size, device="cuda")) for _ in range(count)]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    return device_ms(optimizer(parameters, **options).step)


def test_optimizers_pay_for_elements_not_for_tensors():
    kinds = [(kind, "foreach") for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)]
    kinds += [(kind, "foreach") for kind in (torch.optim.RMSprop, torch.optim.Adagrad)]
    kinds += [(kind, "fused") for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)]
    for kind, how in kinds:
        # As many elements, in eight times as many tensors; these need more launches.
        many_ms = step_ms(kind, 320, 1 << 17, **{how: True})
        few_ms = step_ms(kind, 40, 1 << 20, **{how: True})
        assert 0.8 < many_ms / few_ms < 1.5, f"{kind.__name__}, {how}: {many_ms:.3f}, {few_ms:.3f}"
        # So few elements take no time beside the launches.
        many_ms = step_ms(kind, 320, 64, **{how: True})
        few_ms = step_ms(kind, 320, 1, **{how: True})
        assert many_ms < 1.5 * few_ms, f"{kind.__name__}, {how}: {many_ms:.3f}, {few_ms:.3f} ms"


if __name__ == "__main__":
    main()
