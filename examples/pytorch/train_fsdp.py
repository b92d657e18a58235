# SPDX-License-Identifier: Apache-2.0
"""Trains a language model of the size of GPT-2's smallest on all GPUs with FSDP2, on random text.

Nothing here knows of gpemu: torchrun starts a process for each GPU.

    gpemu run --gpu A100-SXM4-40GB:4 -- torchrun --standalone --nproc-per-node 4 train_fsdp.py
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

HEAD_WIDTH = 64


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, width // HEAD_WIDTH, HEAD_WIDTH).transpose(1, 2)
            for part in self.attention(self.norm_1(x)).split(width, dim=2)
        )
        y = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm_2(x))


class Model(nn.Module):
    def __init__(self, words, length, width, layers):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, default=50257, help="size of the vocabulary")
    parser.add_argument("--length", type=int, default=1024, help="tokens per sequence")
    parser.add_argument("--width", type=int, default=768, help="a multiple of 64")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4, help="sequences per GPU and step")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--checkpoint", help="folder to save to, and to load from again")
    return parser.parse_args()


def make_model(device, arguments):
    torch.manual_seed(0)
    model = Model(arguments.words, arguments.length, arguments.width, arguments.layers)
    model = model.to(device)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    return fully_shard(model, mp_policy=policy)


def train_step(model, optimizer, device, arguments):
    text = torch.randint(0, arguments.words, (arguments.batch, arguments.length + 1)).to(device)
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1).float(), text[:, 1:].flatten())
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
    arguments = parse_arguments()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    model = make_model(device, arguments)
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
