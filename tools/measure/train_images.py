# SPDX-License-Identifier: Apache-2.0
"""Trains models on a folder of JPEG images with PyTorch's DataLoader, with different models and
numbers of workers, and writes a line of JSON for each: images per second, the share of the time in
which the program waits for data, and the median time of a step on the GPU.

    python3 train_images.py --data IMAGES --output gpu.jsonl
    gpemu run --gpu H200-SXM-141GB -- python3 train_images.py --data IMAGES --output emulated.jsonl
"""

import argparse
import json
import statistics
import time

import torch
import torchvision
from torchvision import transforms

# Model, batch, workers of the DataLoader.
SETTINGS = (("resnet18", 128, 4), ("resnet50", 128, 8), ("resnet50", 128, 14),
            ("resnet18", 128, 14), ("resnet50", 128, 4), ("vgg16", 64, 14), ("resnet18", 128, 8),
            ("vgg16", 64, 8))


def batches(loader):
    while True:
        yield from loader


def measure(dataset, name, batch, workers, seconds):
    model = torchvision.models.get_model(name, num_classes=len(dataset.classes))
    model = model.cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    source = batches(torch.utils.data.DataLoader(
        dataset, batch, shuffle=True, drop_last=True, num_workers=workers, pin_memory=True,
        persistent_workers=True))
    waited, times, began = 0.0, [], None
    warm = max(4, workers)
    for step in range(1, 1_000_000):
        before = time.perf_counter()
        images, labels = next(source)
        wait = time.perf_counter() - before
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        images = images.cuda(non_blocking=True).to(memory_format=torch.channels_last)
        labels = labels.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.float16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        end.record()
        torch.cuda.synchronize()
        if step == warm:
            began = time.perf_counter()
        if step <= warm:
            continue
        waited += wait
        times.append(begin.elapsed_time(end))
        if time.perf_counter() - began > seconds:
            break
    wall = time.perf_counter() - began
    return {"model": name, "batch": batch, "workers": workers, "steps": len(times),
            "images_per_s": len(times) * batch / wall, "data_share": waited / wall,
            "gpu_ms": statistics.median(times)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--data", required=True, help="folder with one folder per class")
    parser.add_argument("--output", required=True, help="file to add lines of JSON to")
    parser.add_argument("--seconds", type=float, default=4.5, help="to measure each setting")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dataset = torchvision.datasets.ImageFolder(arguments.data, transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]))
    for setting in SETTINGS:
        row = measure(dataset, *setting, arguments.seconds)
        with open(arguments.output, "a", encoding="ascii") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


main()
