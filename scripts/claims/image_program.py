# SPDX-License-Identifier: Apache-2.0
"""Prints how long a worker of PyTorch's DataLoader takes for an image, in ms, for
check_data_parallel.py. It reads files of a folder from the page cache and prepares them as
PyTorch's example for ImageNet does, in batches of 256. The fastest batch counts.

    gpemu run --gpu T4 -- PYTHON image_program.py FOLDER
"""

import sys
import time

from torch.utils import data
from torchvision import datasets, transforms

BATCH = 256
BATCHES = 12


def main():
    images = datasets.ImageFolder(sys.argv[1], transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])]))
    chosen = data.RandomSampler(images, replacement=True, num_samples=BATCH * BATCHES)
    ends = [time.perf_counter() for _ in data.DataLoader(images, BATCH, sampler=chosen,
                                                         num_workers=1)]
    # Before the first batch ends, the worker starts.
    print(f"{min(after - before for before, after in zip(ends, ends[1:])) / BATCH * 1e3:.3f}")


if __name__ == "__main__":
    main()
