# SPDX-License-Identifier: Apache-2.0
"""The language model of train_fsdp.py and train_zero.py, and the random text that they train it on.
By default, it has the size of GPT-2's smallest."""

import argparse

import torch
from torch import nn

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


def make_parser(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--words", type=int, default=50257, help="size of the vocabulary")
    parser.add_argument("--length", type=int, default=1024, help="tokens per sequence")
    parser.add_argument("--width", type=int, default=768, help="a multiple of 64")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4, help="sequences per GPU and step")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--checkpoint", help="folder to save to, and to load from again")
    return parser


def make_model(arguments):
    torch.manual_seed(0)
    return Model(arguments.words, arguments.length, arguments.width, arguments.layers)


def loss_of(model, device, arguments):
    text = torch.randint(0, arguments.words, (arguments.batch, arguments.length + 1)).to(device)
    logits = model(text[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), text[:, 1:].flatten())
