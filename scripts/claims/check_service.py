#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how the rate of training follows the number of remote workers: one to four processes of
`gpemu data work`, each of which may use a share of the cores.

A worker's share is a fifth of a core: it is stopped for the rest of each twentieth of a second. So
four of them do not need all of two cores, and the client has the rest.

Prints the images per second by the number of workers. Exits with 1 if four are not at least 2.5
times as fast as one, or if fewer are faster; or if, in a run in which two of three workers are
killed and two others join, a sample is lost or doubled, or the rate does not fall and rise again.

Usage: scripts/claims/check_service.py [--gpemu COMMAND] [--images N] (needs a build with gRPC)
"""

import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import claim_options

GPU, MODEL, BATCH = "V100-PCIE-32GB", "alexnet", 8
SHARE = 0.2  # of a core that a worker may use
PERIOD_S = 0.05


class Worker:
    """A worker process with a share of a core."""

    def __init__(self, gpemu, address):
        self.process = subprocess.Popen([gpemu, "data", "work", address, "--workers", "1"],
                                        stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.hold_back, daemon=True)
        self.thread.start()

    def hold_back(self):
        while not self.ended.wait(PERIOD_S * SHARE):
            self.process.send_signal(signal.SIGSTOP)
            time.sleep(PERIOD_S * (1 - SHARE))
            self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.ended.set()
        self.thread.join()
        self.process.kill()
        self.process.wait()


class Service:
    """A dispatcher with its workers, and training."""

    def __init__(self, gpemu, folder):
        self.gpemu, self.folder = gpemu, folder
        self.dispatcher = subprocess.Popen(
            [gpemu, "data", "dispatch", folder / "photos", "--listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE, text=True)
        self.address = self.dispatcher.stdout.readline().split(" at ")[1].split(";")[0]
        self.workers = []

    def add(self):
        self.workers.append(Worker(self.gpemu, self.address))

    def end(self):
        for worker in self.workers:
            worker.kill()
        self.dispatcher.kill()
        self.dispatcher.wait()

    def train(self, epochs):
        return subprocess.Popen(
            [self.gpemu, "train", "service", self.address, "--gpu", GPU, "--model", MODEL,
             "--batch", str(BATCH), "--no-pin-memory", "--quiet", "--epochs", str(epochs),
             "--json", self.folder / "run.json", "--log-samples", self.folder / "run.log"])

    def lines(self):
        log = self.folder / "run.log"
        return log.read_text().count("\n") if log.exists() else 0


def verdict(good, text):
    print(f"{'ok    ' if good else 'MISSED'} {text}", flush=True)
    return good


def compare(gpemu, folder):
    rates = {}
    for count in range(1, 5):
        service = Service(gpemu, folder)
        try:
            for _ in range(count):
                service.add()
            if service.train(1).wait() != 0:
                sys.exit("check_service: gpemu train failed")
            rates[count] = json.loads((folder / "run.json").read_text())["images_per_s"]
            print(f"{count} workers {rates[count]:8.1f} images/s, {rates[count] / rates[1]:.2f} "
                  "times one", flush=True)
        finally:
            service.end()
    return [verdict(rates[4] >= 2.5 * rates[1],
                    f"four are {rates[4] / rates[1]:.2f} times as fast as one: >= 2.5"),
            verdict(all(rates[n + 1] > rates[n] for n in range(1, 4)), "more are faster")]


def rate_over(service, batches):
    """Batches per second until so many more have come."""
    first, start = service.lines(), time.monotonic()
    while service.lines() < first + batches:
        time.sleep(0.01)
    return (service.lines() - first) / (time.monotonic() - start)


def kill_and_join(gpemu, folder, images):
    (folder / "run.log").unlink()
    epochs = 6
    service = Service(gpemu, folder)
    try:
        for _ in range(3):
            service.add()
        run = service.train(epochs)
        part = epochs * images // BATCH // 6
        rate_over(service, part // 2)
        rates = [rate_over(service, part)]
        service.workers.pop(0).kill()
        service.workers.pop(0).kill()
        rate_over(service, part // 4)
        rates.append(rate_over(service, part))
        service.add()
        service.add()
        rate_over(service, part // 4)
        rates.append(rate_over(service, part))
        code = run.wait()
    finally:
        service.end()
    counts = collections.Counter(
        (batch["epoch"], sample)
        for batch in map(json.loads, (folder / "run.log").read_text().splitlines())
        for sample in batch["samples"])
    text = ", ".join(f"{BATCH * rate:.0f}" for rate in rates)
    return [verdict(code == 0 and len(counts) == epochs * images and set(counts.values()) == {1},
                    f"{len(counts)} samples of {epochs} epochs of {images}, each once"),
            verdict(rates[1] < 0.7 * rates[0] and rates[2] > 1.4 * rates[1],
                    f"images/s with three workers, then one, then three again: {text}")]


def main():
    parser = claim_options.parser_of(__doc__)
    parser.add_argument("--images", type=int, default=800)
    arguments = claim_options.parse(parser)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="check_service_"))
    os.environ["GPEMU_NODE_DIR"] = str(folder / "nodes")
    try:
        subprocess.run([arguments.gpemu, "data", "make", folder / "photos", "--images",
                        str(arguments.images), "--quiet"], check=True)
        good = compare(arguments.gpemu, folder)
        good += kill_and_join(arguments.gpemu, folder, arguments.images)
        sys.exit(0 if all(good) else 1)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
