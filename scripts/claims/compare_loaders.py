#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares gpemu's data loader with torchvision's DataLoader on the same files and cores, and with
libjpeg-turbo merely decoding them. First checks that both loaders make the same samples of the same
crops. scripts/claims/compare_loaders.sh runs it with all that it needs.

Usage: compare_loaders.py --gpemu PROGRAM --cache FOLDER [--data FOLDER] [--rounds N] [--json FILE]
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import PIL
import PIL.features
import PIL.Image
import torch
import torchvision
from torchvision.transforms import InterpolationMode, functional, transforms

ALL_CORES = os.sched_getaffinity(0)
SIZE = 224
MEAN = (0.485, 0.456, 0.406)
STDDEV = (0.229, 0.224, 0.225)
BATCH = 64
IMAGES = 1000  # Of the data set that is made when none is named.
CHECKED_IMAGES = 40
# Pillow rounds to whole grey levels after each of two passes and gpemu does not: half a level each.
MAX_DIFFERENCE = 1.01


def run_gpemu(program, *arguments):
    result = subprocess.run([program, *map(str, arguments)], stdout=subprocess.PIPE, check=True)
    return json.loads(result.stdout)


def reference_sample(path, crop, flip):
    """What torchvision makes of a crop. Shape: [3, size, size]."""
    left, top, width, height = crop
    image = PIL.Image.open(path).convert("RGB")
    image = functional.resized_crop(image, top, left, height, width, [SIZE, SIZE],
                                    InterpolationMode.BILINEAR)
    if flip:
        image = functional.hflip(image)
    return functional.normalize(functional.to_tensor(image), MEAN, STDDEV).numpy()


def check_samples(program, data):
    """Returns the largest and the mean difference to torchvision's samples, in grey levels."""
    paths = sorted(data.glob("*/*.jpg"))
    largest, means = 0.0, []
    to_levels = 255 * numpy.array(STDDEV).reshape(3, 1, 1)
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "sample.f32"
        for index, path in enumerate(paths[:: max(1, len(paths) // CHECKED_IMAGES)]):
            drawn = run_gpemu(program, "data", "transform", path, "--sample", index, "--output",
                              output)
            ours = numpy.fromfile(output, dtype=numpy.float32).reshape(drawn["shape"])
            theirs = reference_sample(path, drawn["crop"], drawn["flip"])
            difference = numpy.abs(ours - theirs) * to_levels
            largest = max(largest, float(difference.max()))
            means.append(float(difference.mean()))
    return largest, statistics.mean(means)


class TorchvisionLoader:
    """The usual input pipeline of ImageNet training in PyTorch."""

    def __init__(self, data, workers):
        transform = transforms.Compose([
            transforms.RandomResizedCrop(SIZE),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STDDEV),
        ])
        dataset = torchvision.datasets.ImageFolder(data, transform)
        self.images = len(dataset)
        self.loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH, shuffle=True,
                                                  num_workers=workers, persistent_workers=True)
        self.read_epoch()  # Starts the worker processes and fills the page cache.

    def read_epoch(self):
        for _ in self.loader:
            pass

    def cpu_time(self):
        """Seconds of CPU time of this process and the workers."""
        total = time.process_time()
        for child in multiprocessing.active_children():
            fields = pathlib.Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return total

    def rates(self):
        """Images a second of elapsed time and of CPU time."""
        start, cpu_start = time.monotonic(), self.cpu_time()
        self.read_epoch()
        elapsed, cpu = time.monotonic() - start, self.cpu_time() - cpu_start
        return self.images / elapsed, self.images / cpu


def gpemu_rates(program, data, workers, *options):
    """The same of `gpemu data bench`, after an epoch to warm up."""
    result = run_gpemu(program, "data", "bench", data, "--workers", workers, "--epochs", 2,
                       "--batch", BATCH, "--json", *options)
    return result["images_per_s"][-1], result["images_per_cpu_s"][-1]


def compare(program, data, workers, rounds):
    """Takes turns, so that other load on the machine hits all three alike; returns medians."""
    os.sched_setaffinity(0, sorted(ALL_CORES)[:workers])
    loader = TorchvisionLoader(data, workers)
    measured = {"torchvision": [], "gpemu": [], "decode_only": []}
    for number in range(rounds):
        print(f"{workers} worker(s), round {number + 1} of {rounds}", file=sys.stderr)
        measured["torchvision"].append(loader.rates())
        measured["gpemu"].append(gpemu_rates(program, data, workers))
        measured["decode_only"].append(gpemu_rates(program, data, workers, "--decode-only"))
    os.sched_setaffinity(0, ALL_CORES)
    result = {"workers": workers}
    for unit, index in (("images_per_s_per_core", 0), ("images_per_cpu_s", 1)):
        share = workers if index == 0 else 1
        rates = {name: statistics.median(pair[index] for pair in pairs) / share
                 for name, pairs in measured.items()}
        rates["gpemu_over_torchvision"] = rates["gpemu"] / rates["torchvision"]
        rates["gpemu_over_decode_only"] = rates["gpemu"] / rates["decode_only"]
        result[unit] = rates
    return result


def host_facts():
    cpu = next((line.split(": ", 1)[1].strip() for line in open("/proc/cpuinfo")
                if line.startswith("model name")), "unknown")
    return {"cpu": cpu, "cores": len(ALL_CORES), "load_average": os.getloadavg()[0],
            "python": sys.version.split()[0], "torch": torch.__version__,
            "torchvision": torchvision.__version__, "pillow": PIL.__version__,
            "pillow_libjpeg_turbo": PIL.features.version("libjpeg_turbo")}


def print_result(result):
    host, check = result["host"], result["check"]
    print(f"{host['cpu']}, {host['cores']} cores, load {host['load_average']:.1f}; "
          f"torchvision {host['torchvision']}, Pillow {host['pillow']} with libjpeg-turbo "
          f"{host['pillow_libjpeg_turbo']}")
    print(f"{result['images']} images; samples of the same crops differ by at most "
          f"{check['largest']:.2f} grey levels, by {check['mean']:.2f} on average\n")
    columns = ("workers", "torchvision", "gpemu", "decode only", "gpemu / torchvision",
               "gpemu / decode only")
    for unit, title in (("images_per_s_per_core", "images/s per core"),
                        ("images_per_cpu_s", "images per second of CPU time")):
        print(title)
        print("  ".join(columns))
        for run in result["runs"]:
            rates = run[unit]
            cells = (str(run["workers"]), f"{rates['torchvision']:.1f}", f"{rates['gpemu']:.1f}",
                     f"{rates['decode_only']:.1f}", f"{rates['gpemu_over_torchvision']:.2f}",
                     f"{rates['gpemu_over_decode_only']:.2f}")
            print("  ".join(cell.rjust(len(name)) for cell, name in zip(cells, columns)))
        print()


def main():
    parser = argparse.ArgumentParser(description="Compares data loaders.")
    parser.add_argument("--gpemu", required=True, help="the gpemu program")
    parser.add_argument("--cache", type=pathlib.Path, required=True,
                        help="folder for the data set that is made when none is named")
    parser.add_argument("--data", type=pathlib.Path, help="folder data set of JPEG files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="also write the result as JSON")
    options = parser.parse_args()

    data = options.data or options.cache / f"images_{IMAGES}"
    if not data.exists() and not options.data:
        subprocess.run([options.gpemu, "data", "make", data, "--images", str(IMAGES)], check=True)
    facts = host_facts()
    largest, mean = check_samples(options.gpemu, data)
    result = {
        "host": facts,
        "images": run_gpemu(options.gpemu, "data", "show", data, "--json")["images"],
        "check": {"largest": largest, "mean": mean},
        "runs": [compare(options.gpemu, data, workers, options.rounds)
                 for workers in sorted({1, len(ALL_CORES)})],
    }
    print_result(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    if largest > MAX_DIFFERENCE:
        sys.exit(f"compare_loaders: the samples differ by more than {MAX_DIFFERENCE} grey levels")


if __name__ == "__main__":
    main()
