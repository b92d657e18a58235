# SPDX-License-Identifier: Apache-2.0
"""Trains torchvision's ResNet-50 on a folder of images, as any PyTorch script does it.

Nothing here knows of gpemu: the script says "cuda" and gets the GPU that is there.

    gpemu run --gpu V100-PCIE-32GB -- python train_resnet50.py --data FOLDER
"""

import argparse
import time

import torch
import torchvision
from torchvision import transforms


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with one folder per class")
    parser.add_argument("--batch", type=int, default=32, help="images per step")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2, help="processes of the DataLoader")
    parser.add_argument("--amp", action="store_true", help="mixed precision")
    parser.add_argument("--checkpoint", help="file to save to, and to load from again")
    return parser.parse_args()


def make_loader(arguments):
    transform = transforms.Compose(
        [
            transforms.RandomResizedCrop(224),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    return torch.utils.data.DataLoader(
        torchvision.datasets.ImageFolder(arguments.data, transform),
        batch_size=arguments.batch,
        shuffle=True,
        drop_last=True,
        num_workers=arguments.workers,
        pin_memory=True,
        persistent_workers=arguments.workers > 0,
    )


def batches(loader):
    while True:
        yield from loader


def save_and_load(path, model, optimizer):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    before = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    checkpoint = torch.load(path, map_location="cuda")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    for name, tensor in model.state_dict().items():
        if not torch.equal(tensor.cpu(), before[name]):
            raise SystemExit(f"{path}: {name} came back changed")
    print(f"checkpoint of {len(before)} tensors saved to {path} and loaded again")


def main():
    arguments = parse_arguments()
    loader = make_loader(arguments)
    if len(loader) == 0:
        raise SystemExit(f"{arguments.data} holds less than one batch of {arguments.batch} images")
    model = torchvision.models.resnet50(num_classes=len(loader.dataset.classes)).cuda()
    criterion = torch.nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scaler = torch.amp.GradScaler("cuda", enabled=arguments.amp)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")

    start = time.perf_counter()
    for step, (images, labels) in enumerate(batches(loader)):
        if step == arguments.steps:
            break
        images = images.cuda(non_blocking=True)
        labels = labels.cuda(non_blocking=True)
        with torch.autocast("cuda", enabled=arguments.amp):
            loss = criterion(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    torch.cuda.synchronize()
    elapsed = time.perf_counter() - start
    print(f"{arguments.steps} steps of {arguments.batch} images: {elapsed:.3f} s,")
    print(f"{arguments.steps * arguments.batch / elapsed:.1f} images/s,")
    print(f"peak memory {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")
    if arguments.checkpoint:
        save_and_load(arguments.checkpoint, model, optimizer)


if __name__ == "__main__":
    main()
