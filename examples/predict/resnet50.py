# SPDX-License-Identifier: Apache-2.0
"""Trains torchvision's ResNet-50 on images that it makes up: an unmodified script for
`gpemu predict`, which reads its batch size from GPEMU_BATCH.

    gpemu predict --gpu V100-PCIE-32GB,A100-SXM4-80GB --batch 32,64 -- python resnet50.py
"""

import os

import torch
import torchvision

BATCH = int(os.environ.get("GPEMU_BATCH", "32"))

model = torchvision.models.resnet50().cuda()
criterion = torch.nn.CrossEntropyLoss().cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
images = torch.randn(BATCH, 3, 224, 224).pin_memory()
labels = torch.randint(0, 1000, (BATCH,)).pin_memory()
for step in range(1000):
    loss = criterion(model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.3f}", flush=True)
