# SPDX-License-Identifier: Apache-2.0
"""Trains a torchvision model on several GPUs with DataParallel, one process and a thread per GPU.

Nothing here knows of gpemu. As in PyTorch's example for ImageNet, only the convolutions of AlexNet
and VGG are replicated; the first GPU has their fully connected layers.

    gpemu run --gpu P100-PCIE-16GB:2 -- python train_data_parallel.py --gpus 2
"""

import argparse
import statistics
import time

import torch
import torchvision
from torch import nn


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet18", help="name of a model in torchvision")
    parser.add_argument("--batch", type=int, default=128, help="images per GPU and step")
    parser.add_argument("--size", type=int, default=224, help="height and width of an image")
    parser.add_argument("--gpus", type=int, default=torch.cuda.device_count())
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--no-cudnn", action="store_true",
                        help="convolve by PyTorch's own kernels and matrix products")
    return parser.parse_args()


def make_model(arguments):
    model = getattr(torchvision.models, arguments.model)().cuda()
    if arguments.gpus == 1:
        return model
    gpus = list(range(arguments.gpus))
    if arguments.model.startswith(("alexnet", "vgg")):
        model.features = nn.DataParallel(model.features, gpus)
        return model
    return nn.DataParallel(model, gpus)


class Stopwatch:
    """Sums up the time that the phases of a step take until the GPUs have done their work."""

    def __init__(self, gpus):
        self.gpus = gpus
        self.phases = {}
        self.restart()

    def restart(self):
        for gpu in range(self.gpus):
            torch.cuda.synchronize(gpu)
        self.last = time.perf_counter()

    def end(self, phase):
        before = self.last
        self.restart()
        self.phases.setdefault(phase, []).append(1000 * (self.last - before))

    def median(self, phase):
        return statistics.median(self.phases[phase])


def train_step(model, optimizer, images, labels, arguments, watch):
    """Trains with images in pinned memory of the host, which DataParallel copies to its GPUs."""
    watch.restart()
    if arguments.gpus == 1:
        images = images.cuda(non_blocking=True)
    labels = labels.cuda(non_blocking=True)
    watch.end("copy")
    output = model(images)
    watch.end("forward")
    loss = nn.functional.cross_entropy(output, labels)
    watch.end("loss")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    watch.end("backward")


def time_scatter(images, arguments, watch):
    """Times the copies of the images to the GPUs, which are a part of the forward pass, alone."""
    watch.restart()
    nn.parallel.scatter(images, list(range(arguments.gpus)))
    watch.end("scatter")


def main():
    arguments = parse_arguments()
    torch.backends.cudnn.enabled = not arguments.no_cudnn
    model = make_model(arguments)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    batch = arguments.batch * arguments.gpus
    images = torch.zeros(batch, 3, arguments.size, arguments.size).pin_memory()
    labels = torch.zeros(batch, dtype=torch.long).pin_memory()
    watch = Stopwatch(arguments.gpus)
    for step in range(arguments.steps + 2):
        if step == 2:  # The first steps allocate memory.
            watch.phases.clear()
        train_step(model, optimizer, images, labels, arguments, watch)
        if arguments.gpus > 1:
            time_scatter(images, arguments, watch)
    print("medians in ms:", ", ".join(f"{name} {watch.median(name):.2f}" for name in watch.phases))
    step = sum(watch.median(name) for name in ("forward", "loss", "backward"))
    print(f"{step:.2f} ms per step with {arguments.gpus} x {arguments.batch} images")


if __name__ == "__main__":
    main()
