# SPDX-License-Identifier: Apache-2.0
"""Optimizers (loops, foreach, fused), schedulers, gradient checkpointing, checkpoints."""

import io

import torch
from conformance import assert_roofline, device_ms, main
from torch import nn
from torch.utils.checkpoint import checkpoint


def small_model():
    return nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()


def train(model, optimizer, steps=3):
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        model(torch.randn(64, 256, device="cuda")).square().mean().backward()
        optimizer.step()


def requested_bytes():
    return torch.cuda.memory_stats()["requested_bytes.all.current"]


def step_ms(make, layers=64, **options):
    """Returns the time of one step of an optimizer over many small parameters."""
    weights = [nn.Parameter(torch.empty(1024, device="cuda")) for _ in range(layers)]
    for weight in weights:
        weight.grad = torch.empty_like(weight)
    optimizer = make(weights, lr=0.1, **options)
    optimizer.step()
    return device_ms(optimizer.step)


def test_sgd_loop():
    model = small_model()
    train(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=False))


def test_sgd_foreach_is_faster_for_many_small_parameters():
    loop_ms = step_ms(torch.optim.SGD, momentum=0.9, foreach=False)
    assert step_ms(torch.optim.SGD, momentum=0.9, foreach=True) < 0.5 * loop_ms


def test_fused_takes_fewer_kernels_than_foreach():
    many_ms = step_ms(torch.optim.Adam, foreach=True)
    assert step_ms(torch.optim.Adam, fused=True) < many_ms


def test_fused_adam_takes_at_least_its_bytes():
    weight = nn.Parameter(torch.empty(2**26, device="cuda"))
    weight.grad = torch.empty_like(weight)
    optimizer = torch.optim.AdamW([weight], fused=True)
    optimizer.step()
    # It reads gradient, weight and two moments, and writes the last three.
    assert_roofline(device_ms(optimizer.step), moved_bytes=7 * weight.nbytes, slack=2)


def test_adam_keeps_two_moments():
    model = small_model()
    weights = sum(weight.nbytes for weight in model.parameters())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    train(model, optimizer, 1)
    optimizer.zero_grad(set_to_none=True)
    state = optimizer.state[next(model.parameters())]
    assert state["exp_avg"].is_cuda and state["exp_avg_sq"].is_cuda
    before = requested_bytes()
    optimizer.state.clear()
    del state
    assert before - requested_bytes() == 2 * weights


def test_sgd_without_momentum_keeps_nothing():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer, 1)
    optimizer.zero_grad(set_to_none=True)
    before = requested_bytes()
    train(model, optimizer, 1)
    optimizer.zero_grad(set_to_none=True)
    assert requested_bytes() == before


def test_optimizers_foreach():
    for name in ("RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"):
        model = small_model()
        train(model, getattr(torch.optim, name)(model.parameters(), foreach=True), 2)


def test_optimizers_fused():
    for name in ("SGD", "Adam", "AdamW"):
        model = small_model()
        train(model, getattr(torch.optim, name)(model.parameters(), lr=0.1, fused=True))


def test_capturable_keeps_its_step_on_the_device():
    model = small_model()
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    train(model, optimizer)
    assert optimizer.state[next(model.parameters())]["step"].is_cuda


def test_schedulers():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for expected in (0.1, 0.05, 0.025):
        assert optimizer.param_groups[0]["lr"] == expected
        train(model, optimizer, 1)
        schedule.step()


def test_clip_gradients():
    model = small_model()
    model(torch.randn(4, 256, device="cuda")).sum().backward()
    assert nn.utils.clip_grad_norm_(model.parameters(), 1.0).is_cuda
    nn.utils.clip_grad_value_(model.parameters(), 0.5)


def test_gradients_are_freed_and_come_back():
    model = small_model()
    weights = sum(weight.nbytes for weight in model.parameters())
    model(torch.randn(4, 256, device="cuda")).sum().backward()
    before = requested_bytes()
    model.zero_grad(set_to_none=True)
    assert before - requested_bytes() == weights


def test_activations_are_freed_by_backward():
    model = small_model()
    data = torch.randn(4096, 256, device="cuda")
    model(data).sum().backward()
    before = requested_bytes()
    loss = model(data).sum()
    # The hidden layer before and after its ReLU is kept at least once.
    assert requested_bytes() - before >= 4096 * 1024 * 4
    loss.backward()
    del loss
    assert requested_bytes() == before


def test_gradient_checkpointing_saves_memory_and_costs_time():
    blocks = (nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(4))) for _ in range(8))
    model = nn.Sequential(*blocks).cuda()
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
    # A second forward pass on top of three passes' work.
    assert 1.1 < device_ms(checkpointed) / device_ms(plain) < 1.5


def test_reentrant_checkpoint_keeps_random_state():
    module = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5)).cuda()
    data = torch.randn(8, 64, device="cuda", requires_grad=True)
    checkpoint(module, data, use_reentrant=True).sum().backward()
    assert data.grad.shape == data.shape


def test_save_and_load():
    model = nn.Linear(256, 128)
    weight = model.weight.detach().clone()
    model.cuda()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file, map_location="cuda")
    assert loaded["weight"].is_cuda and torch.equal(loaded["weight"].cpu(), weight)


def test_optimizer_state_round_trip():
    model = small_model()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    train(model, optimizer)
    state = optimizer.state_dict()
    other = torch.optim.Adam(model.parameters(), 1e-3)
    other.load_state_dict(state)
    assert other.state[next(model.parameters())]["step"].item() == 3


def test_moving_a_model():
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.cuda().cpu()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_double_backward():
    data = torch.randn(8, 16, device="cuda", requires_grad=True)
    (gradient,) = torch.autograd.grad(data.pow(3).sum(), data, create_graph=True)
    gradient.sum().backward()
    assert data.grad.shape == data.shape


def test_hooks_and_custom_functions():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(context, data):
            return 2 * data

        @staticmethod
        def backward(context, gradient):
            assert gradient.is_cuda
            return 2 * gradient

    seen = []
    data = torch.randn(8, device="cuda", requires_grad=True)
    data.register_hook(lambda gradient: seen.append(gradient.shape))
    Twice.apply(data).sum().backward()
    assert seen == [(8,)]


def test_queued_step_does_not_wait():
    model = small_model()
    data = torch.randn(64, 256, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train(model, optimizer, 1)
    torch.cuda.synchronize()
    event = torch.cuda.Event()
    torch.cuda._sleep(10**9)
    event.record()
    model(data).sum().backward()
    optimizer.step()
    assert not event.query()
    torch.cuda.synchronize()
    assert event.query() and torch.cuda.current_stream().query()


if __name__ == "__main__":
    main()
