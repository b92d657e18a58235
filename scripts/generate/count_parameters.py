#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a pack's models.csv: the parameters of torchvision models, built without their memory.

Needs torch and torchvision (`pip install torch torchvision`); no GPU. Without names it prints the
models of evidence/packs/gpemu-vldb25.
"""

import argparse

import torch
import torchvision

# The models that GPEmu's tables cover.
GPEMU_MODELS = """
alexnet
densenet121 densenet161 densenet169 densenet201
googlenet
mnasnet0_5 mnasnet0_75 mnasnet1_0 mnasnet1_3
mobilenet_v2 mobilenet_v3_large mobilenet_v3_small
resnet18 resnet34 resnet50 resnet101 resnet152
resnext50_32x4d resnext101_32x8d
shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0
squeezenet1_0 squeezenet1_1
vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn
wide_resnet50_2 wide_resnet101_2
""".split()


def count_parameters(name: str, classes: int) -> int:
    """Returns the number of trainable parameters of a torchvision classifier."""
    options = {"num_classes": classes}
    if name == "googlenet":
        # Training as GPEmu profiled it ignores the auxiliary classifiers' losses: they get no
        # gradient, which its persistent memory confirms, and nothing of them is ever exchanged.
        options |= {"aux_logits": False, "init_weights": False}
    with torch.device("meta"):
        model = torchvision.models.get_model(name, weights=None, **options)
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def main() -> None:
    """Prints one row per model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=GPEMU_MODELS, help="torchvision model names")
    parser.add_argument("--classes", type=int, default=1000, help="outputs of the classifier")
    arguments = parser.parse_args()
    print("model,parameters,channels,height,width")
    for name in sorted(arguments.models):
        print(f"{name},{count_parameters(name, arguments.classes)},3,224,224")


if __name__ == "__main__":
    main()
