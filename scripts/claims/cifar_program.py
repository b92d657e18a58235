#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a network on made-up images of 32 x 32, for check_interference.py: torchvision's
ResNet-18, MobileNetV2 or VGG-16, with as few strides as is usual for such images.

Usage: cifar_program.py resnet18|mobilenet_v2|vgg16_bn   (the batch size: in GPEMU_BATCH)
"""

import os
import sys

import torch
import torchvision
from torch import nn


def network(name):
    model = getattr(torchvision.models, name)(num_classes=10)
    if name == "resnet18":
        model.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        model.maxpool = nn.Identity()
    elif name == "mobilenet_v2":
        model.features[0][0].stride = (1, 1)
        model.features[2].conv[1][0].stride = (1, 1)
    else:
        model.avgpool = nn.Identity()
        model.classifier = nn.Linear(512, 10)
    return model


def main():
    batch = int(os.environ.get("GPEMU_BATCH", "32"))
    model = network(sys.argv[1]).cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=5e-4)
    images = torch.randn(batch, 3, 32, 32).pin_memory()
    labels = torch.randint(0, 10, (batch,)).pin_memory()
    for _ in range(1000):
        optimizer.zero_grad()
        loss = criterion(model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
        loss.item()


if __name__ == "__main__":
    main()
