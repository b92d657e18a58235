# SPDX-License-Identifier: Apache-2.0
"""FSDP in both versions on several ranks: parameters, steps, mixed precision, checkpoints."""

import contextlib
import functools
import gc
import pathlib
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from ranks import device, equal_on_all, filled, main, needs, rank, world
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

WORDS, LENGTH, WIDTH, HEADS = 512, 32, 256, 4  # Layers of 262,144 weights: not small.


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH)
        self.projection = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        batch, length, _ = x.shape
        query, key, value = (
            part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.attention(self.norm_1(x)).split(WIDTH, dim=2)
        )
        y = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm_2(x))


class Model(nn.Module):
    """GPT-2, but small."""

    def __init__(self, layers=2):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Scale(nn.Module):
    """A model whose gradients are small and known: of y = w * x, the gradient of w is x."""

    def __init__(self, size=8):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(1.0, size + 1))

    def forward(self, x):
        return self.weight * x


def make_model(seed=0):
    torch.manual_seed(seed)
    return Model()


def sharded(model=None, **options):
    model = model or make_model()
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def tokens():
    return torch.randint(0, WORDS, (2, LENGTH)).to(device())


def train(model, steps=2, make=torch.optim.AdamW):
    optimizer = make(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        logits = model(tokens())
        nn.functional.cross_entropy(logits.flatten(0, 1), tokens().flatten()).backward()
        optimizer.step()
    torch.cuda.synchronize()
    return optimizer


@contextlib.contextmanager
def folder():
    """Yields a folder that all ranks share."""
    with tempfile.TemporaryDirectory() as own:
        names = [own]
        dist.broadcast_object_list(names, 0, device=device())
        yield pathlib.Path(names[0])
        dist.barrier()


def share(tensor):
    """Returns this rank's rows of a tensor."""
    rows = tensor.chunk(world())
    return rows[rank()] if rank() < len(rows) else tensor[:0]


# ---- FSDP2


def test_each_rank_has_its_share_of_the_parameters():
    model = sharded()
    for own, all_of_it in zip(model.parameters(), make_model().parameters()):
        assert torch.equal(own.to_local().cpu(), share(all_of_it.detach()))


def test_gathered_parameters_are_whole():
    model, seen = sharded(), {}
    block = model.blocks[0]
    block.attention.register_forward_pre_hook(
        lambda module, _: seen.update(weight=module.weight.detach().clone())
    )
    model(tokens())
    expected = make_model().blocks[0].attention.weight.detach()
    assert torch.equal(seen["weight"].cpu(), expected)
    assert block.attention.weight.to_local().shape[0] == -(-3 * WIDTH // world()) or rank() > 0


def test_gradients_are_averaged_and_shared_out():
    model = fully_shard(Scale())
    model(filled(rank() + 1.0, 8)).sum().backward()
    gradient = model.weight.grad
    assert gradient.full_tensor().tolist() == [(world() + 1) / 2] * 8


def test_uneven_shares():
    model = fully_shard(Scale(size=2 * world() - 1))
    model(filled(rank() + 1.0, 2 * world() - 1)).sum().backward()
    assert model.weight.full_tensor().tolist() == list(range(1, 2 * world()))
    assert model.weight.grad.full_tensor().tolist() == [(world() + 1) / 2] * (2 * world() - 1)


def test_steps():
    train(sharded())


def test_steps_of_sgd_are_right_where_they_are_small():
    model = fully_shard(Scale())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, foreach=False)
    model(filled(2.0, 8)).sum().backward()
    optimizer.step()
    assert model.weight.full_tensor().tolist() == [i - 2.0 for i in range(1, 9)]


def test_parameters_kept_after_the_forward_pass():
    train(sharded(reshard_after_forward=False))


def test_parameters_partly_sharded_after_the_forward_pass():
    needs(4)
    train(sharded(reshard_after_forward=2))


def test_mixed_precision():
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = sharded(mp_policy=policy)
    assert model(tokens()).dtype == torch.bfloat16
    train(model)


def test_parameters_on_the_host():
    model = sharded(offload_policy=CPUOffloadPolicy())
    assert next(model.parameters()).device.type == "cpu"
    train(model)


def test_prefetching():
    model = sharded()
    model.blocks[0].set_modules_to_forward_prefetch([model.blocks[1]])
    model.blocks[1].set_modules_to_backward_prefetch([model.blocks[0]])
    train(model)


def test_gradients_that_are_not_synchronised():
    model = sharded()
    for last in (False, True):
        model.set_requires_gradient_sync(last)
        model(tokens()).mean().backward()
    assert model.head.weight.grad.shape == (WORDS, WIDTH)


def test_clipping():
    model = sharded()
    model(tokens()).mean().backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    assert norm.full_tensor().shape == ()


def test_made_without_memory():
    with torch.device("meta"):
        model = Model()
    model = sharded(model)
    model.to_empty(device=device())
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    train(model)


def test_loaded_from_the_first_rank():
    with torch.device("meta"):
        model = Model()
    model = sharded(model)
    content = make_model().state_dict() if rank() == 0 else {}
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, content, options=options)
    for own, all_of_it in zip(model.parameters(), make_model().parameters()):
        assert torch.equal(own.to_local().cpu(), share(all_of_it.detach()))


def test_full_state():
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    content = get_model_state_dict(sharded(), options=options)
    assert rank() == 0 or content == {}
    if rank() == 0:
        for name, tensor in make_model().state_dict().items():
            assert torch.equal(content[name], tensor), name


def test_full_tensors():
    model = sharded()
    for own, all_of_it in zip(model.parameters(), make_model().parameters()):
        assert torch.equal(own.full_tensor().cpu(), all_of_it)


def test_distributed_checkpoint():
    model = sharded()
    optimizer = train(model)
    own, states = get_state_dict(model, optimizer)
    with folder() as path:
        checkpoint.save({"model": own, "optimizer": states}, checkpoint_id=path)
        other = sharded(make_model(seed=1))
        other_optimizer = torch.optim.AdamW(other.parameters(), lr=0.1)
        loaded = dict(zip(("model", "optimizer"), get_state_dict(other, other_optimizer)))
        checkpoint.load(loaded, checkpoint_id=path)
        set_state_dict(
            other,
            other_optimizer,
            model_state_dict=loaded["model"],
            optim_state_dict=loaded["optimizer"],
        )
    for one, two in zip(model.parameters(), other.parameters()):
        assert torch.equal(one.to_local().cpu(), two.to_local().cpu())


def test_asynchronous_checkpoint():
    model = sharded()
    content = {"model": get_model_state_dict(model)}
    group = dist.new_group(backend="gloo")
    with folder() as path:
        checkpoint.async_save(content, checkpoint_id=path, process_group=group).result()
        other = sharded(make_model(seed=1))
        loaded = {"model": get_model_state_dict(other)}
        checkpoint.load(loaded, checkpoint_id=path)
    for one, two in zip(model.parameters(), other.parameters()):
        assert torch.equal(one.to_local().cpu(), two.to_local().cpu())


def test_checkpoint_for_one_process():
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    with folder() as path:
        checkpoint.save({"model": get_model_state_dict(sharded())}, checkpoint_id=path)
        if rank() == 0:
            dcp_to_torch_save(path, path / "whole.pt")
            content = torch.load(path / "whole.pt", weights_only=False)["model"]
            for name, tensor in make_model().state_dict().items():
                assert torch.equal(content[name], tensor), name


def test_sharded_in_two_dimensions():
    needs(4)
    mesh = init_device_mesh("cuda", (world() // 2, 2), mesh_dim_names=("copies", "shares"))
    model = sharded(mesh=mesh)
    assert model.head.weight.to_local().shape[0] == WORDS // 2
    train(model)


def test_memory_is_shared_out():
    gc.collect()
    before = torch.cuda.memory_allocated()
    model = sharded()
    gc.collect()
    own = torch.cuda.memory_allocated() - before
    whole = sum(parameter.numel() * 4 for parameter in model.parameters())
    assert whole / world() <= own < 1.2 * whole / world() + 100_000, (own, whole)


# ---- FSDP1


def wrapped(model=None, **options):
    return FullyShardedDataParallel(
        model or make_model(),
        device_id=device(),
        auto_wrap_policy=ModuleWrapPolicy([Block]),
        **options,
    )


def test_first_version_steps():
    train(wrapped())


def test_first_version_has_whole_parameters_to_show():
    model = wrapped()
    with FullyShardedDataParallel.summon_full_params(model):
        for own, expected in zip(model.parameters(), wrapped_order(model)):
            assert torch.equal(own.cpu(), expected)


def wrapped_order(model):
    """Returns the content that a wrapped model's parameters begin with, in their order."""
    content = make_model().state_dict()
    prefix = "_fsdp_wrapped_module."
    return [content[name.replace(prefix, "")] for name, _ in model.named_parameters()]


def test_first_version_shares_the_first_ranks_parameters():
    model = wrapped(make_model(seed=rank()), sync_module_states=True, use_orig_params=True)
    with FullyShardedDataParallel.summon_full_params(model):
        assert equal_on_all(model.parameters())
        content = make_model().state_dict()
        weight = model.head.weight
        assert torch.equal(weight.cpu(), content["head.weight"])


def test_first_version_strategies():
    for strategy in (
        ShardingStrategy.SHARD_GRAD_OP,
        ShardingStrategy.NO_SHARD,
    ):
        train(wrapped(sharding_strategy=strategy))


def test_first_version_mixed_precision():
    half = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    train(wrapped(mixed_precision=half))


def test_first_version_clipping():
    model = wrapped()
    model(tokens()).mean().backward()
    model.clip_grad_norm_(1.0)


def test_first_version_full_state():
    model = wrapped()
    settings = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FullyShardedDataParallel.state_dict_type(
        model, StateDictType.FULL_STATE_DICT, settings
    ):
        content = model.state_dict()
    if rank() == 0:
        for name, tensor in make_model().state_dict().items():
            assert torch.equal(content[name], tensor), name


def test_first_version_sharded_state():
    model = wrapped()
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        content = {"model": model.state_dict()}
        with folder() as path:
            checkpoint.save(content, checkpoint_id=path)
            checkpoint.load(content, checkpoint_id=path)
        model.load_state_dict(content["model"])


def test_recomputation():
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
        apply_activation_checkpointing,
        checkpoint_wrapper,
    )

    model = make_model()
    apply_activation_checkpointing(
        model,
        checkpoint_wrapper_fn=functools.partial(checkpoint_wrapper),
        check_fn=lambda module: isinstance(module, Block),
    )
    train(sharded(model))


if __name__ == "__main__":
    main()
