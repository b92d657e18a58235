#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the rates at which gpemu reads data sets of each format, cached and from a slow disk.

Makes a data set of single files, converts it to each format, and measures three things:
* the loader in the page cache, in turns with single files, by the work that an image costs the
  processor, so that other programs hardly matter;
* reading alone from the disk that catalog/storage/hdd.toml describes, which keeps its own time;
* reading single files from that disk one at a time and asynchronously.

Prints one table; exits with 1 if tar or TFRecord files are slower than 0.9 times single files in
the page cache or than 3 times single files on the disk, or if asynchronous reading is slower than
1.5 times synchronous reading.

Usage: scripts/claims/check_formats.py [--gpemu COMMAND] [--images N] [--folder FOLDER]
       (the folder must not lie in memory; it needs 600 MB for 1000 images on the disk)
"""

import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import claim_options

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORMATS = ("webdataset", "tfrecord", "groups", "pages")
JUDGED = ("webdataset", "tfrecord")
LEAST_CACHED = 0.9
LEAST_ON_DISK = 3
LEAST_ASYNC = 1.5
ROUNDS = 3
CACHED_IMAGES = 512


def call(gpemu, *arguments):
    done = subprocess.run([gpemu, "data", *map(str, arguments)], stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"check_formats: gpemu data {arguments[0]} ended with {done.returncode}")
    return done.stdout


def bench(gpemu, place, *options):
    return json.loads(call(gpemu, "bench", place, "--epochs", 1, "--json", *options))


def make(gpemu, folder, images):
    """Returns the places of the data sets by format."""
    places = {"folder": folder / "photos"}
    call(gpemu, "make", places["folder"], "--images", images, "--quiet")
    for name in FORMATS:
        places[name] = folder / ("photos.pages" if name == "pages" else name)
        call(gpemu, "convert", places["folder"], places[name], "--format", name, "--shard-mib", 64,
             "--quiet")
    return places


def cached_ratios(gpemu, places):
    """Returns by format the median rate per processor second, relative to single files."""
    ratios = {name: [] for name in FORMATS}
    for _ in range(ROUNDS):
        for name in FORMATS:
            rates = [bench(gpemu, places[kind])["images_per_cpu_s"][0] for kind in ("folder", name)]
            ratios[name].append(rates[1] / rates[0])
    return {name: statistics.median(values) for name, values in ratios.items()}


def disk_rate(gpemu, place, *options):
    result = bench(gpemu, place, "--storage", "hdd", "--no-decode", *options)
    return result["images_per_s"][0]


def row(name, value, least, unit="x"):
    verdict = "" if least is None else "ok" if value >= least else "MISSED"
    wanted = "" if least is None else f"at least {least} {unit}"
    print(f"{name:56} {value:8.2f} {unit:9} {wanted:15} {verdict}", flush=True)
    return least is None or value >= least


def main():
    parser = claim_options.parser_of(__doc__)
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build")
    arguments = claim_options.parse(parser)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="check_formats_", dir=arguments.folder))
    try:
        good = []
        places = make(arguments.gpemu, folder / "cached", CACHED_IMAGES)
        for name, ratio in cached_ratios(arguments.gpemu, places).items():
            good.append(row(f"{name} in the page cache, against single files", ratio,
                            LEAST_CACHED if name in JUDGED else None))
        places = make(arguments.gpemu, folder / "disk", arguments.images)
        single = disk_rate(arguments.gpemu, places["folder"])
        row("single files on the disk", single, None, "images/s")
        for name in FORMATS:
            ratio = disk_rate(arguments.gpemu, places[name]) / single
            good.append(row(f"{name} on the disk, against single files", ratio,
                            LEAST_ON_DISK if name in JUDGED else None))
        ratio = disk_rate(arguments.gpemu, places["folder"], "--read", "async") / single
        good.append(row("single files on the disk, asynchronously", ratio, LEAST_ASYNC))
        sys.exit(0 if all(good) else 1)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
