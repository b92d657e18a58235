#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what a training step of ResNet-50 costs the host.

Prints the processor time of one step on the emulated GPU beside that of the same step on PyTorch's
`meta` device, where operators only work out shapes: that is the host time of PyTorch itself. Start
it with a PyTorch that scripts/build/install_torch.sh installed:

    gpemu run --gpu A100-SXM4-40GB -- PYTHON scripts/claims/host_time.py [STEPS]
"""

import statistics
import sys
import time

import torch
import torchvision

BATCH = 32
WARM_UP_STEPS = 3


def step_times(device, steps):
    """Returns the processor time and the time that passed, in ms, of each step; nothing waits for
    the GPU."""
    with torch.device(device):
        model = torchvision.models.resnet50()
        images = torch.empty(BATCH, 3, 224, 224)
        labels = torch.empty(BATCH, dtype=torch.long)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=True)
    times = []
    for _ in range(WARM_UP_STEPS + steps):
        before = time.process_time_ns(), time.perf_counter_ns()
        optimizer.zero_grad(set_to_none=True)
        criterion(model(images), labels).backward()
        optimizer.step()
        after = time.process_time_ns(), time.perf_counter_ns()
        times.append([(b - a) / 1e6 for a, b in zip(before, after)])
    return times[WARM_UP_STEPS:]


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    torch.set_num_threads(1)
    print(f"ResNet-50, batch {BATCH}, {torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print(f"{'device':8}{'processor ms/step':>20}{'passed ms/step':>20}")
    medians = []
    for device in ("meta", "cuda"):
        processor, passed = (statistics.median(times) for times in zip(*step_times(device, steps)))
        medians.append(processor)
        print(f"{device:8}{processor:20.2f}{passed:20.2f}")
    print(f"emulated over meta: {medians[1] / medians[0]:.2f}")


if __name__ == "__main__":
    main()
