# SPDX-License-Identifier: Apache-2.0
"""Trains as the programs of GPEmu's study of DataParallel did, for check_data_parallel.py, and
prints the fastest times of the phases of a step.

The study (github.com/mengwanguc/gpufs, branch Haoran_inter_gpu_study) has two programs, both made
from PyTorch's example for ImageNet. Both compute the accuracy, read the loss and train. The one of
emulator/profile waits for the GPU only before and after a step. That of emulator/inter-gpu-study
(--phases) also waits after each phase, and prints the loss. Their PyTorch, 1.8, cleared gradients
by writing zeros and updated one parameter after the other; so does this program with any version.

    data_parallel_program.py --model alexnet --batch 64 --gpus 2 --phases
"""

import argparse
import os
import time

import torch
import torchvision
from torch import nn


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet18", help="name of a model in torchvision")
    parser.add_argument("--batch", type=int, default=128, help="images per GPU and step")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--phases", action="store_true", help="wait for the GPUs after each phase")
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


class Meter:
    """Sums up a value of each image."""

    def __init__(self):
        self.total, self.count, self.mean = 0, 0, 0

    def update(self, value, images):
        self.total += value * images
        self.count += images
        self.mean = self.total / self.count


@torch.no_grad()
def accuracy(output, target, ranks):
    """Returns for some numbers n in how many percent of images the class is among the first n."""
    _, classes = output.topk(max(ranks), 1, True, True)
    is_right = classes.t().eq(target.view(1, -1).expand_as(classes.t()))
    return [is_right[:rank].reshape(-1).float().sum(0, keepdim=True).mul_(100 / target.size(0))
            for rank in ranks]


class Stopwatch:
    """Sums up the time that the phases of a step take until the GPUs have done their work."""

    def __init__(self, gpus, stops_at_phases):
        self.gpus, self.stops_at_phases = gpus, stops_at_phases
        self.times = {}
        self.start()

    def wait(self):
        for gpu in range(self.gpus):
            torch.cuda.synchronize(gpu)

    def start(self):
        self.wait()
        self.began = self.last = time.perf_counter()

    def note(self, name, since):
        self.times.setdefault(name, []).append(1000 * (time.perf_counter() - since))

    def end_phase(self, name):
        if self.stops_at_phases:
            self.wait()
            self.note(name, self.last)
            self.last = time.perf_counter()

    def end_step(self):
        self.wait()
        self.note("step", self.began)


class Trainer:
    def __init__(self, arguments):
        self.model = make_model(arguments)
        self.criterion = nn.CrossEntropyLoss().cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9,
                                         weight_decay=1e-4, foreach=False)
        self.gpus, self.prints_loss = arguments.gpus, arguments.phases
        self.losses, self.first, self.first_five = Meter(), Meter(), Meter()
        self.sink = open(os.devnull, "w", encoding="utf-8")  # pylint: disable=consider-using-with

    def step(self, images, target, watch):
        """Trains with images in pinned memory, which DataParallel copies to its GPUs."""
        watch.start()
        if self.gpus == 1:
            images = images.cuda()
        target = target.cuda()
        watch.end_phase("copy")
        watch.start()
        output = self.model(images)
        watch.end_phase("forward")
        loss = self.criterion(output, target)
        if self.prints_loss:
            print(f"The loss is: {loss}", file=self.sink)
        watch.end_phase("loss")
        first, first_five = accuracy(output, target, (1, 5))
        self.losses.update(loss.item(), images.size(0))
        self.first.update(first[0], images.size(0))
        self.first_five.update(first_five[0], images.size(0))
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        self.optimizer.step()
        watch.end_phase("backward")
        watch.end_step()


def time_scatter(images, arguments, watch):
    """Times the copies of the images to the GPUs, which are a part of the forward pass, alone."""
    watch.start()
    nn.parallel.scatter(images, list(range(arguments.gpus)))
    watch.wait()
    watch.note("scatter", watch.began)


def main():
    arguments = parse_arguments()
    torch.backends.cudnn.enabled = False
    trainer = Trainer(arguments)
    batch = arguments.batch * arguments.gpus
    images = torch.zeros(batch, 3, 224, 224).pin_memory()
    target = torch.zeros(batch, dtype=torch.long).pin_memory()
    watch = Stopwatch(arguments.gpus, arguments.phases)
    for step in range(arguments.steps + 2):
        if step == 2:  # The first steps allocate memory.
            watch.times.clear()
        trainer.step(images, target, watch)
        if arguments.gpus > 1:
            time_scatter(images, arguments, watch)
    # The emulated GPUs are exact, and what disturbs the host only adds.
    print("fastest in ms:", ", ".join(f"{name} {min(times):.2f}"
                                      for name, times in watch.times.items()))


if __name__ == "__main__":
    main()
