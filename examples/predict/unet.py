# SPDX-License-Identifier: Apache-2.0
"""Trains a U-Net on images that it makes up, with an optimizer that works on one tensor at a time
and without an NVTX range: an unmodified script for `gpemu predict`, whose steps are recognised
by the operations that recur.

    gpemu predict --gpu V100-PCIE-32GB,A10 --batch 2,4 -- python unet.py {batch}
"""

import sys

import torch
from torch import nn

BATCH = int(sys.argv[1]) if len(sys.argv) > 1 else 2
SIZE, CLASSES, CHANNELS = 256, 2, (64, 128, 256, 512, 1024)


def block(inputs, outputs):
    layers = []
    for channels in (inputs, outputs):
        layers += [
            nn.Conv2d(channels, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        pairs = list(zip(CHANNELS, CHANNELS[1:]))
        self.first = block(3, CHANNELS[0])
        self.down = nn.ModuleList(block(small, large) for small, large in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(l, s, 2, 2) for s, l in reversed(pairs))
        self.join = nn.ModuleList(block(l, s) for s, l in reversed(pairs))
        self.last = nn.Conv2d(CHANNELS[0], CLASSES, 1)

    def forward(self, x):
        levels = [self.first(x)]
        for down in self.down:
            levels.append(down(nn.functional.max_pool2d(levels[-1], 2)))
        x = levels.pop()
        for up, join in zip(self.up, self.join):
            x = join(torch.cat((up(x), levels.pop()), dim=1))
        return self.last(x)


model = UNet().cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.99, foreach=False)
images = torch.randn(BATCH, 3, SIZE, SIZE).pin_memory()
masks = torch.randint(0, CLASSES, (BATCH, SIZE, SIZE)).pin_memory()
for step in range(1000):
    logits = model(images.cuda(non_blocking=True))
    loss = nn.functional.cross_entropy(logits, masks.cuda(non_blocking=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
