# SPDX-License-Identifier: Apache-2.0
"""Trains torchvision's ResNet-50 on all GPUs with DistributedDataParallel, on made-up images.

Nothing here knows of gpemu: torchrun starts a process for each GPU.

    gpemu run --gpu A100-SXM4-40GB:4 -- torchrun --standalone --nproc-per-node 4 train_ddp.py
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torchvision
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32, help="images per GPU and step")
    parser.add_argument("--size", type=int, default=224, help="height and width of an image")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--accumulate", type=int, default=1, help="batches per step")
    parser.add_argument("--bf16-gradients", action="store_true", help="send gradients in BF16")
    parser.add_argument("--static-graph", action="store_true")
    parser.add_argument("--checkpoint", help="file to save to, and to load from again")
    return parser.parse_args()


def make_model(device, arguments):
    torch.manual_seed(dist.get_rank())  # DistributedDataParallel makes them all the same.
    model = torchvision.models.resnet50().to(device)
    model = DistributedDataParallel(
        model,
        device_ids=[device.index],
        gradient_as_bucket_view=True,
        static_graph=arguments.static_graph,
    )
    if arguments.bf16_gradients:
        model.register_comm_hook(None, bf16_compress_hook)
    return model


def train_step(model, optimizer, device, arguments):
    optimizer.zero_grad()
    for i in range(arguments.accumulate):
        images = torch.randn(arguments.batch, 3, arguments.size, arguments.size).to(device)
        labels = torch.randint(0, 1000, (arguments.batch,)).to(device)
        model.require_backward_grad_sync = i == arguments.accumulate - 1  # As no_sync() does.
        torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def are_equal_on_all_ranks(model):
    """Returns whether all ranks have the parameters of the first one."""
    same = True
    for parameter in model.parameters():
        first = parameter.detach().clone()
        dist.broadcast(first, 0)
        same &= torch.equal(first.cpu(), parameter.cpu())
    answers = [None] * dist.get_world_size()
    dist.all_gather_object(answers, same)
    return all(answers)


def save_and_load(model, optimizer, device, path):
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    dist.barrier()
    content = torch.load(path, map_location=device)
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])


def main():
    arguments = parse_arguments()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    model = make_model(device, arguments)
    same = are_equal_on_all_ranks(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train_step(model, optimizer, device, arguments)
    torch.cuda.synchronize()
    dist.barrier()
    start = time.monotonic()
    for _ in range(arguments.steps):
        train_step(model, optimizer, device, arguments)
    torch.cuda.synchronize()
    seconds = (time.monotonic() - start) / max(arguments.steps, 1)
    if arguments.checkpoint:
        save_and_load(model, optimizer, device, arguments.checkpoint)
    if dist.get_rank() == 0:
        images = arguments.batch * arguments.accumulate * dist.get_world_size()
        print(f"{dist.get_world_size()} ranks, all with the same parameters: {same}")
        print(f"{seconds * 1000:.1f} ms per step, {images / seconds:.1f} images/s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
