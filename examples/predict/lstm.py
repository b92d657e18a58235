# SPDX-License-Identifier: Apache-2.0
"""Trains an LSTM language model on sequences of different lengths that it makes up: an unmodified
script for `gpemu predict`, which reads its batch size from GPEMU_BATCH.

    gpemu predict --gpu T4,A100-SXM4-80GB --batch 64,128 -- python lstm.py
"""

import os
import random

import torch
from torch import nn

BATCH = int(os.environ.get("GPEMU_BATCH", "64"))
WORDS, WIDTH, LAYERS = 33278, 650, 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, LAYERS, dropout=0.5, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        hidden, _ = self.lstm(self.words(tokens))
        return self.head(hidden)


torch.manual_seed(1)
random.seed(1)
model = Model().cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(1000):
    length = random.randrange(30, 40)
    text = torch.randint(0, WORDS, (BATCH, length + 1), device="cuda")
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    print(f"step {step}: loss {loss.item():.3f}", flush=True)
