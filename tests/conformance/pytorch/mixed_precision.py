# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: autocast, GradScaler, half types, with their memory and times."""

import torch
from conformance import Skipped, device_ms, gpu_spec, main
from torch import nn


def small_model():
    return nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()


def scaled_steps(scaler, count=3, **options):
    """Trains `count` steps; returns how many of them the scaler did not skip."""
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, **options)
    steps = []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    for _ in range(count):
        with torch.autocast("cuda", dtype=torch.float16):
            output = model(torch.randn(64, 256, device="cuda"))
            assert output.dtype == torch.float16
            loss = output.float().square().mean()
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return len(steps)


def test_no_step_is_skipped():
    # No infinity is there to be found.
    assert scaled_steps(torch.amp.GradScaler("cuda")) == 3


def test_no_step_is_skipped_where_memory_was_used_before():
    for _ in range(20):
        used = [torch.full((size,), 7.5).cuda() for size in (1, 1, 1, 32, 64, 128)]
        used += [torch.arange(1, 33).cuda() for _ in range(8)]
        del used
        assert scaled_steps(torch.amp.GradScaler("cuda"), 1) == 1


def test_no_fused_step_is_skipped():
    assert scaled_steps(torch.amp.GradScaler("cuda"), fused=True) == 3


def test_scaler_state_round_trip():
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    scaler.scale(torch.ones(1, device="cuda"))
    assert scaler.get_scale() == 1024.0 and scaler._scale.item() == 1024.0
    other = torch.amp.GradScaler("cuda")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 1024.0


def test_autocast_chooses_types():
    weight = torch.randn(16, 16, device="cuda")
    with torch.autocast("cuda"):
        product = weight @ weight
        assert product.dtype == torch.float16
        assert product.softmax(1).dtype == torch.float32
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (weight @ weight).dtype == torch.bfloat16


def test_half_activations_take_half_the_memory():
    def kept_bytes(enabled):
        model = nn.Sequential(*(nn.Conv2d(32, 32, 3, padding=1) for _ in range(8))).cuda()
        data = torch.empty(16, 32, 64, 64, device="cuda")
        before = torch.cuda.memory_stats()["requested_bytes.all.current"]
        with torch.autocast("cuda", enabled=enabled):
            output = model(data)
        after = torch.cuda.memory_stats()["requested_bytes.all.current"]
        del output
        return after - before

    assert 0.45 < kept_bytes(True) / kept_bytes(False) < 0.75


def test_amp_is_faster_on_tensor_cores():
    if "fp16_tensor_tflops" not in gpu_spec():
        raise Skipped("no tensor cores")
    model = nn.Linear(4096, 4096).cuda()
    data = torch.randn(4096, 4096, device="cuda")

    def half():
        with torch.autocast("cuda", dtype=torch.float16), torch.no_grad():
            model(data)

    def full():
        with torch.no_grad():
            model(data)

    torch.backends.cuda.matmul.allow_tf32 = False
    assert device_ms(half) < 0.7 * device_ms(full)


def test_bfloat16():
    model = small_model().to(torch.bfloat16)
    output = model(torch.randn(4, 256, device="cuda", dtype=torch.bfloat16))
    assert output.dtype == torch.bfloat16
    output.sum().backward()
    assert next(model.parameters()).grad.dtype == torch.bfloat16
    native = torch.cuda.get_device_capability() >= (8, 0)
    assert torch.cuda.is_bf16_supported(including_emulation=False) == native


def test_eight_bit_floats():
    data = torch.zeros(64, 64, device="cuda").to(torch.float8_e4m3fn)
    assert data.nbytes == 64 * 64 and data.float().dtype == torch.float32
    if torch.cuda.get_device_capability() >= (8, 9):
        raise Skipped("products of them run here")
    one = torch.ones((), device="cuda")
    try:
        torch._scaled_mm(data, data.T, scale_a=one, scale_b=one)
    except (RuntimeError, ValueError) as error:
        assert "compute capability" in str(error), error
    else:
        raise AssertionError("products of 8-bit floats before compute capability 8.9")


if __name__ == "__main__":
    main()
