# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel on several ranks: parameters, gradients, hooks, checkpoints, errors."""

import io
import pathlib
import tempfile

import torch
import torch.distributed as dist
from conformance import fails
from ranks import device, device_ms, equal_on_all, filled, main, on_all, rank, world
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

WIDTH = 600  # 360,000 weights: more than gpemu computes with.


def mean_rank():
    return (world() - 1) / 2


def make_model(seed=None):
    """Returns a model, without a seed one that differs between ranks."""
    torch.manual_seed(rank() if seed is None else seed)
    return nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())


def parallel(model, **options):
    return DistributedDataParallel(model.to(device()), device_ids=[device().index], **options)


class Scale(nn.Module):
    """A model whose gradients are small and known: of y = w * x, the gradient of w is x."""

    def __init__(self, size=4):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return self.weight * x


def scaled_gradient(model, value):
    """Returns the gradient for inputs of one value."""
    (model(filled(value)) * 1.0).sum().backward()
    return model.module.weight.grad


def train(model, steps=3, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, **options)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 8).to(device())).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()


def test_all_ranks_begin_with_the_first_ones_parameters():
    model = make_model()
    expected = [parameter.detach().clone() for parameter in make_model(seed=0).parameters()]
    for own, first in zip(parallel(model).parameters(), expected):
        assert torch.equal(own.cpu(), first)


def test_all_ranks_begin_with_the_same_buffers():
    norm = nn.BatchNorm1d(8)
    norm.running_mean.fill_(rank() + 3.0)
    model = parallel(norm)
    assert model.module.running_mean.tolist() == [3.0] * 8


def test_parameters_of_several_types():
    model = nn.Sequential(make_model(), nn.Linear(300, 300).half(), nn.Linear(300, 300).bfloat16())
    assert equal_on_all(parallel(model).parameters())


def test_parameters_in_another_order_of_memory():
    model = nn.Sequential(nn.Conv2d(64, 128, 3), nn.Conv2d(128, 64, 3))
    model = parallel(model.to(memory_format=torch.channels_last))
    assert equal_on_all(model.parameters())
    model(torch.zeros(2, 64, 8, 8, device=device())).sum().backward()


def test_gradients_are_averaged():
    model = parallel(Scale())
    assert scaled_gradient(model, rank()).tolist() == [mean_rank()] * 4


def test_gradients_in_views_of_buckets():
    model = parallel(Scale(), gradient_as_bucket_view=True)
    for _ in range(3):
        model.zero_grad()
        assert scaled_gradient(model, rank()).tolist() == [mean_rank()] * 4


def test_gradients_that_are_not_synchronised():
    model = parallel(Scale())
    with model.no_sync():
        assert scaled_gradient(model, rank()).tolist() == [rank()] * 4
    # The average of what was accumulated and of what comes now.
    assert scaled_gradient(model, 1).tolist() == [mean_rank() + 1] * 4


def test_accumulation_over_several_steps():
    model = parallel(make_model())
    for i in range(4):
        if i < 3:
            with model.no_sync():
                model(torch.randn(4, 8).to(device())).mean().backward()
        else:
            model(torch.randn(4, 8).to(device())).mean().backward()
    torch.cuda.synchronize()


def test_static_graph():
    model = parallel(Scale(), static_graph=True)
    for _ in range(3):
        model.zero_grad()
        assert scaled_gradient(model, rank()).tolist() == [mean_rank()] * 4


def test_static_graph_with_recomputation():
    class Recomputed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            for _ in range(2):
                x = torch.utils.checkpoint.checkpoint(self.layer, x, use_reentrant=False)
            return x

    train(parallel(Recomputed(), static_graph=True))


def test_unused_parameters():
    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = Scale(), Scale()

        def forward(self, x):
            return self.used(x)

    model = parallel(Partly(), find_unused_parameters=True)
    model(filled(rank())).sum().backward()
    assert model.module.used.weight.grad.tolist() == [mean_rank()] * 4
    assert model.module.unused.weight.grad is None


def test_unused_parameters_are_found():
    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = Scale(), Scale()

        def forward(self, x):
            return self.used(x)

    model = parallel(Partly())
    model(filled(1.0)).sum().backward()
    fails(lambda: model(filled(1.0)), "did not receive grad")


def test_small_buckets():
    train(parallel(make_model(), bucket_cap_mb=0.5))


def test_one_bucket():
    train(parallel(make_model(), bucket_cap_mb=1000))


def test_optimizers():
    for make in (torch.optim.AdamW, torch.optim.SGD):
        model = parallel(make_model())
        optimizer = make(model.parameters(), lr=0.1)
        model(torch.randn(4, 8).to(device())).mean().backward()
        optimizer.step()
    torch.cuda.synchronize()


def test_hook_that_sends_half_as_much():
    for hook in (default_hooks.bf16_compress_hook, default_hooks.fp16_compress_hook):
        model = parallel(Scale())
        model.register_comm_hook(None, hook)
        assert scaled_gradient(model, 2 * rank()).tolist() == [2 * mean_rank()] * 4


def test_hook_that_averages():
    model = parallel(Scale())
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    assert scaled_gradient(model, rank()).tolist() == [mean_rank()] * 4


def test_hook_of_the_program():
    seen = []

    def hook(state, bucket):
        seen.append(bucket.buffer().numel())
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0])

    model = parallel(Scale())
    model.register_comm_hook(None, hook)
    assert scaled_gradient(model, rank()).tolist() == [world() * mean_rank()] * 4
    assert seen == [4]


def test_hook_of_low_rank():
    model = parallel(make_model())
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(model, steps=4)


def test_hook_that_is_built_in():
    model = parallel(Scale())
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    assert scaled_gradient(model, rank()).tolist() == [mean_rank()] * 4


def test_mixed_precision():
    model = parallel(make_model())
    scaler = torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(torch.randn(4, 8).to(device())).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.cuda.synchronize()


def test_batch_norm_over_all_ranks():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    model = parallel(nn.SyncBatchNorm.convert_sync_batchnorm(model))
    model(torch.randn(4, 3, 8, 8).to(device())).mean().backward()
    torch.cuda.synchronize()
    assert isinstance(model.module[1], nn.SyncBatchNorm)
    assert model.module[1].weight.grad.shape == (8,)


def test_uneven_inputs():
    model = parallel(Scale())
    with model.join():
        for _ in range(rank() + 1):
            model(filled(1.0)).sum().backward()


def test_checkpoint():
    model = parallel(make_model())
    train(model, momentum=0.9)
    with tempfile.TemporaryDirectory() as folder:
        names = [pathlib.Path(folder) / "checkpoint.pt"]
        dist.broadcast_object_list(names, 0, device=device())
        if rank() == 0:
            torch.save(model.state_dict(), names[0])
        dist.barrier()
        other = parallel(make_model(), init_sync=False)
        other.load_state_dict(torch.load(names[0], map_location=device()))
        for own, saved in zip(other.parameters(), model.parameters()):
            assert torch.equal(own.cpu(), saved.cpu())
        dist.barrier()


def test_pickled():
    content = io.BytesIO()
    torch.save(parallel(Scale()), content)
    content.seek(0)
    model = torch.load(content, weights_only=False)
    assert scaled_gradient(model, rank()).tolist() == [mean_rank()] * 4


def test_models_of_different_sizes_are_refused():
    layers = [nn.Linear(8, 8) for _ in range(rank() + 1)]
    fails(lambda: parallel(nn.Sequential(*layers)), "expects same model across all ranks")
    dist.barrier()


def test_two_models():
    models = [parallel(Scale()), parallel(Scale())]
    for i, model in enumerate(models):
        assert scaled_gradient(model, rank() + i).tolist() == [mean_rank() + i] * 4


def test_model_in_a_group():
    group = dist.new_group([0, 1])
    if rank() < 2:
        model = parallel(Scale(), process_group=group)
        assert scaled_gradient(model, rank()).tolist() == [0.5] * 4


def test_sharded_optimizer():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = parallel(Scale())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=1.0, foreach=False)
    scaled_gradient(model, rank())
    optimizer.step()
    assert model.module.weight.tolist() == [1 - mean_rank()] * 4
    optimizer.consolidate_state_dict()


def test_sampler_gives_each_rank_its_share():
    data = torch.utils.data.TensorDataset(torch.arange(8.0 * world()))
    sampler = torch.utils.data.DistributedSampler(data, shuffle=True, seed=1)
    own = [int(data[i][0]) for i in sampler]
    assert sorted(sum(on_all(own), [])) == list(range(8 * world()))


def test_logging_data():
    model = parallel(Scale())
    scaled_gradient(model, 1)
    data = model._get_ddp_logging_data()
    assert data["world_size"] == world() and data["backend_name"] == "nccl"


def test_reductions_take_time():
    model = parallel(nn.Linear(8000, 8000))
    x = torch.zeros(1, 8000, device=device())

    def step():
        model(x).sum().backward()

    def step_without_reduction():
        with model.no_sync():
            step()

    for each in (step, step_without_reduction):
        each()
    assert device_ms(step) > 1.5 * device_ms(step_without_reduction)


if __name__ == "__main__":
    main()
