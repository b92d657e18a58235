# SPDX-License-Identifier: Apache-2.0
"""Optimizers, mixed precision, gradient checkpointing, checkpoints."""

import io

import torch
from conformance import device_ms, main
from torch import nn
from torch.utils.checkpoint import checkpoint


def small_model():
    return nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()


def train(model, optimizer, steps=3):
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        model(torch.randn(64, 256, device="cuda")).square().mean().backward()
        optimizer.step()


def test_sgd_loop():
    model = small_model()
    train(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=False))


def test_sgd_foreach():
    model = small_model()
    train(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=True))


def test_adam_keeps_two_moments():
    model = small_model()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    train(model, optimizer)
    state = optimizer.state[next(model.parameters())]
    assert state["exp_avg"].is_cuda and state["exp_avg_sq"].is_cuda


def test_adamw_fused():
    model = small_model()
    train(model, torch.optim.AdamW(model.parameters(), 1e-3, fused=True))


def test_rmsprop_and_adagrad():
    model = small_model()
    train(model, torch.optim.RMSprop(model.parameters()))
    train(model, torch.optim.Adagrad(model.parameters()))


def test_clip_gradients():
    model = small_model()
    model(torch.randn(4, 256, device="cuda")).sum().backward()
    assert nn.utils.clip_grad_norm_(model.parameters(), 1.0).is_cuda


def test_amp_with_scaler():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda")
    steps = []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    for _ in range(3):
        with torch.autocast("cuda", dtype=torch.float16):
            output = model(torch.randn(64, 256, device="cuda"))
            assert output.dtype == torch.float16
            loss = output.float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    # No step is skipped for an infinity that was not found.
    assert len(steps) == 3


def test_amp_is_faster_on_tensor_cores():
    if torch.cuda.get_device_capability() < (7, 0):
        return
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
    assert model(torch.randn(4, 256, device="cuda", dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_gradient_checkpointing_saves_memory_and_costs_time():
    model = nn.Sequential(
        *(
            nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(4)))
            for _ in range(8)
        )
    )
    model.cuda()
    data = torch.randn(4096, 1024, device="cuda", requires_grad=True)

    def plain():
        model(data).sum().backward()

    def checkpointed():
        output = data
        for block in model:
            output = checkpoint(block, output, use_reentrant=False)
        output.sum().backward()

    def peak(work):
        model.zero_grad(set_to_none=True)
        torch.cuda.reset_peak_memory_stats()
        work()
        return torch.cuda.max_memory_allocated()

    peak(plain)
    assert peak(checkpointed) < peak(plain)
    assert device_ms(checkpointed) > device_ms(plain)


def test_save_and_load():
    model = nn.Linear(256, 128)
    weight = model.weight.detach().clone()
    model.cuda()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, map_location="cuda")
    assert torch.equal(loaded["weight"].cpu(), weight)


def test_training_step_waits_for_the_gpu_once():
    model = small_model()
    torch.cuda.synchronize()
    assert torch.cuda.current_stream().query()
    for _ in range(5):
        model(torch.randn(8192, 256, device="cuda"))
    torch.cuda.synchronize()
    assert torch.cuda.current_stream().query()


if __name__ == "__main__":
    main()
