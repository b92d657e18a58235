# SPDX-License-Identifier: Apache-2.0
"""Models in parts on several ranks: distributed tensors, tensor parallelism, pipelines."""

import torch
from ranks import device, main, needs, rank, world
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe, SplitPoint, pipeline
from torch.distributed.pipelining.schedules import Schedule1F1B, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

WIDTH = 64


def mesh(*shape):
    shape = shape or (world(),)
    return init_device_mesh("cuda", shape, mesh_dim_names=("a", "b")[: len(shape)])


def values(rows=None, columns=6):
    rows = rows or 2 * world()
    return torch.arange(float(rows * columns)).reshape(rows, columns)


# ---- Distributed tensors


def test_tensor_in_rows():
    tensor = distribute_tensor(values(), mesh(), [Shard(0)])
    assert torch.equal(tensor.to_local().cpu(), values()[2 * rank() : 2 * rank() + 2])
    assert torch.equal(tensor.full_tensor().cpu(), values())


def test_tensor_in_columns():
    content = values(3, 2 * world())
    tensor = distribute_tensor(content, mesh(), [Shard(1)])
    assert torch.equal(tensor.to_local().cpu(), content[:, 2 * rank() : 2 * rank() + 2])
    assert torch.equal(tensor.full_tensor().cpu(), content)


def test_large_tensor_in_columns():
    content = values(300, 300 * world())
    tensor = distribute_tensor(content, mesh(), [Shard(1)])
    assert torch.equal(tensor.to_local().cpu(), content.chunk(world(), 1)[rank()])
    assert torch.equal(tensor.full_tensor().cpu(), content)


def test_tensor_in_uneven_rows():
    content = values(2 * world() - 1)
    tensor = distribute_tensor(content, mesh(), [Shard(0)])
    assert torch.equal(tensor.full_tensor().cpu(), content)


def test_tensor_on_every_rank():
    tensor = distribute_tensor(values() if rank() == 0 else -values(), mesh(), [Replicate()])
    assert torch.equal(tensor.to_local().cpu(), values())


def test_sum_of_all_ranks():
    local = torch.full((4,), float(rank() + 1)).to(device())
    tensor = DTensor.from_local(local, mesh(), [Partial()])
    total = world() * (world() + 1) / 2
    assert tensor.redistribute(placements=[Replicate()]).to_local().tolist() == [total] * 4


def test_rows_to_columns():
    content = values(world(), world())
    tensor = distribute_tensor(content, mesh(), [Shard(0)])
    moved = tensor.redistribute(placements=[Shard(1)])
    assert torch.equal(moved.to_local().cpu(), content[:, rank() : rank() + 1])


def test_arithmetic():
    tensor = distribute_tensor(values(), mesh(), [Shard(0)])
    assert torch.equal((tensor + tensor).full_tensor().cpu(), 2 * values())
    assert tensor.sum().full_tensor().item() == values().sum()


def test_product():
    left = distribute_tensor(values(), mesh(), [Shard(0)])
    right = distribute_tensor(values(6, 3), mesh(), [Replicate()])
    assert torch.equal((left @ right).full_tensor().cpu(), values() @ values(6, 3))


def test_tensors_in_two_dimensions():
    needs(4)
    content = values(2 * world(), 2 * world())
    tensor = distribute_tensor(content, mesh(world() // 2, 2), [Shard(0), Shard(1)])
    assert torch.equal(tensor.full_tensor().cpu(), content)


# ---- Tensor parallelism


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def make_mlp():
    torch.manual_seed(0)
    return Mlp().to(device())


def inputs():
    torch.manual_seed(1)
    return torch.randn(4, WIDTH).to(device())


def test_parallel_layers():
    model = parallelize_module(
        make_mlp(), mesh(), {"up": ColwiseParallel(), "down": RowwiseParallel()}
    )
    expected = make_mlp()
    assert torch.equal(
        model.up.weight.to_local().cpu(), expected.up.weight.cpu().chunk(world())[rank()]
    )
    assert torch.equal(
        model.down.weight.to_local().cpu(), expected.down.weight.cpu().chunk(world(), 1)[rank()]
    )
    assert model(inputs()).shape == (4, WIDTH)


def test_parallel_layers_compute_the_same():
    model = parallelize_module(
        make_mlp(), mesh(), {"up": ColwiseParallel(), "down": RowwiseParallel()}
    )
    difference = model(inputs()) - make_mlp()(inputs())
    assert difference.abs().max().item() < 1e-4


def test_parallel_layers_train():
    model = parallelize_module(
        make_mlp(), mesh(), {"up": ColwiseParallel(), "down": RowwiseParallel()}
    )
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(inputs()).square().mean().backward()
        optimizer.step()
    assert model.up.weight.grad.to_local().shape == (4 * WIDTH // world(), WIDTH)


def test_parallel_sequences():
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.mlp = nn.LayerNorm(WIDTH), Mlp()

        def forward(self, x):
            return self.mlp(self.norm(x))

    plan = {
        "norm": SequenceParallel(),
        "mlp": PrepareModuleInput(
            input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
        ),
        "mlp.up": ColwiseParallel(),
        "mlp.down": RowwiseParallel(output_layouts=Shard(1)),
    }
    model = parallelize_module(Part().to(device()), mesh(), plan)
    x = torch.randn(2, 4 * world(), WIDTH).to(device())
    output = model(x.chunk(world(), 1)[rank()].contiguous())
    assert output.shape == (2, 4, WIDTH)


def test_parallel_embeddings():
    torch.manual_seed(0)
    table = nn.Embedding(8 * world(), 16).to(device())
    expected = table.weight.detach().cpu()[3]
    parallelize_module(table, mesh(), RowwiseParallel(input_layouts=Replicate()))
    row = table(torch.tensor([3]).to(device()))
    assert torch.equal(row.cpu()[0], expected)


def test_parallel_loss():
    head = nn.Linear(WIDTH, 8 * world()).to(device())
    parallelize_module(head, mesh(), ColwiseParallel(use_local_output=False))
    with loss_parallel():
        logits = head(inputs())
        loss = nn.functional.cross_entropy(logits, torch.zeros(4, dtype=int).to(device()))
        loss.backward()
    assert head.weight.grad is not None


def test_parallel_and_sharded():
    needs(4)
    both = mesh(world() // 2, 2)
    model = parallelize_module(
        make_mlp(), both["b"], {"up": ColwiseParallel(), "down": RowwiseParallel()}
    )
    fully_shard(model, mesh=both["a"])
    model(inputs()).square().mean().backward()
    torch.cuda.synchronize()


# ---- Pipelines


def stage_model():
    torch.manual_seed(rank())
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()).to(device())


def run_schedule(make, stages):
    microbatches = 2 * world()
    schedule = make(stages, n_microbatches=microbatches, loss_fn=nn.functional.mse_loss)
    x = torch.zeros(2 * microbatches, WIDTH, device=device())
    first, last = rank() == 0, rank() == world() - 1
    losses = []
    arguments = (x,) if first else ()
    targets = {"target": x, "losses": losses} if last else {}
    schedule.step(*arguments, **targets)
    torch.cuda.synchronize()
    assert not last or len(losses) == microbatches


def test_pipeline_all_forward_all_backward():
    stage = PipelineStage(stage_model(), rank(), world(), device())
    run_schedule(ScheduleGPipe, stage)


def test_pipeline_one_forward_one_backward():
    stage = PipelineStage(stage_model(), rank(), world(), device())
    run_schedule(Schedule1F1B, stage)


def test_pipeline_interleaved():
    stages = [
        PipelineStage(stage_model(), rank() + i * world(), 2 * world(), device()) for i in range(2)
    ]
    run_schedule(ScheduleInterleaved1F1B, stages)


def test_pipeline_moves_the_activations():
    class AddOne(nn.Module):
        def forward(self, x):
            return x + 1

    stage = PipelineStage(AddOne(), rank(), world(), device())
    schedule = ScheduleGPipe(stage, n_microbatches=world())
    x = torch.arange(2.0 * world()).reshape(-1, 1).to(device())
    output = schedule.step(x) if rank() == 0 else schedule.step()
    if rank() == world() - 1:
        assert output.flatten().tolist() == [i + world() for i in range(2 * world())]


def test_pipeline_from_a_whole_model():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(world()))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    torch.manual_seed(0)
    cuts = {f"layers.{i}": SplitPoint.BEGINNING for i in range(1, world())}
    example = torch.zeros(2, WIDTH, device=device())
    pipe = pipeline(Whole().to(device()), mb_args=(example,), split_spec=cuts)
    run_schedule(ScheduleGPipe, pipe.build_stage(rank(), device()))


if __name__ == "__main__":
    main()
