# SPDX-License-Identifier: Apache-2.0
"""Trains a language model of the size of GPT-2's smallest on all GPUs with FSDP2, on random text.

Nothing here knows of gpemu: torchrun starts a process for each GPU.

    gpemu run --gpu A100-SXM4-40GB:4 -- torchrun --standalone --nproc-per-node 4 train_fsdp.py
"""

import os
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from language_model import loss_of, make_model, make_parser


def shard(model):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    return fully_shard(model, mp_policy=policy)


def train_step(model, optimizer, device, arguments):
    loss = loss_of(model, device, arguments)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def save_and_load(model, optimizer, folder):
    names = ("model", "optimizer")
    content = dict(zip(names, get_state_dict(model, optimizer)))
    checkpoint.save(content, checkpoint_id=folder)
    checkpoint.load(content, checkpoint_id=folder)
    set_state_dict(
        model,
        optimizer,
        model_state_dict=content["model"],
        optim_state_dict=content["optimizer"],
    )


def main():
    arguments = make_parser(__doc__.splitlines()[0]).parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    model = shard(make_model(arguments).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1)
    train_step(model, optimizer, device, arguments)
    torch.cuda.synchronize()
    dist.barrier()
    start = time.monotonic()
    for _ in range(arguments.steps):
        train_step(model, optimizer, device, arguments)
    torch.cuda.synchronize()
    seconds = (time.monotonic() - start) / max(arguments.steps, 1)
    if arguments.checkpoint:
        save_and_load(model, optimizer, arguments.checkpoint)
    if dist.get_rank() == 0:
        tokens = arguments.batch * arguments.length * dist.get_world_size()
        whole = sum(parameter.numel() for parameter in model.parameters()) / 1e6
        own = sum(parameter.to_local().numel() for parameter in model.parameters()) / 1e6
        print(f"{dist.get_world_size()} ranks with {own:.1f} of {whole:.1f} M parameters each")
        print(f"{seconds * 1000:.1f} ms per step, {tokens / seconds:.0f} tokens/s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
