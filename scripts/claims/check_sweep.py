#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what `gpemu sweep` adds to the time of the commands that it runs.

    scripts/claims/check_sweep.py --gpemu build/release/tools/gpemu --cells 2000

Runs cells of `gpemu train synthetic --clock virtual` in loops of a shell, as many at the same time
as the sweep runs, and as a sweep, by turns; then as a sweep that is killed at random moments and
goes on. It fails if the sweep adds more than 30 ms to a cell, or if the tables are not the same to
the byte.
"""

import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import typing

import claim_options

MOST_OVERHEAD_S = 0.030
SWEEP = """
name = "cells"
command = ["train", "synthetic", "--clock", "virtual", "--steps", "{steps}", "--gpu", "{gpu}",
           "--model", "{model}", "--batch", "{batch}"]
[factor]
steps = { from = 5, to = 14 }
gpu = ["V100-PCIE-32GB", "A100-SXM4-40GB", "P100-PCIE-16GB", "H100-SXM5-80GB"]
model = ["resnet18", "resnet50", "alexnet", "vgg16", "mobilenet_v2"]
batch = BATCHES
[[column]]
name = "speed"
value = "images_per_s"
[[column]]
name = "step_ms"
value = "step_ms.mean"
"""
BATCHES = [8, 16, 24, 32, 48, 64, 96, 128, 192, 256]
MOST_CELLS = 2000


PARTS = 20  # in which commands and sweep take turns, so that other programs slow both alike.


def sweep_text(cells):
    """The file of a sweep with so many cells: 200, 400, ... MOST_CELLS."""
    batches = cells // (MOST_CELLS // len(BATCHES))
    return SWEEP.replace("BATCHES", str(BATCHES[:batches]))


def started(words):
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def timed(commands):
    """The seconds that commands take at the same time, and those of processors."""
    before, begin = os.times(), time.monotonic()
    for process in [started(words) for words in commands]:
        if process.wait() not in (0, 1):  # Some cells do not fit into the memory.
            sys.exit(f"check_sweep: {process.args} failed")
    after = os.times()
    processors = sum(after[2:4]) - sum(before[2:4])
    return Seconds(time.monotonic() - begin, processors)


class Seconds(typing.NamedTuple):
    clock: float
    processors: float

    def __add__(self, other):
        return Seconds(self.clock + other.clock, self.processors + other.processors)


class Sweep:

    def __init__(self, options, folder):
        self.options, self.file = options, folder / "cells.toml"
        self.file.write_text(sweep_text(options.cells))
        self.words = [options.gpemu, "sweep", self.file, "--quiet", "--jobs", str(options.jobs)]

    def scripts(self, part):
        """The commands of a part, as loops of a shell."""
        lines = subprocess.run([*self.words, "--part", part, "--print"], check=True, text=True,
                               stdout=subprocess.PIPE).stdout.splitlines()
        commands = [line.partition(": gpemu ")[2] for line in lines]
        return ["".join(f"{self.options.gpemu} {command}\n"
                        for command in commands[first::self.options.jobs]) + "true"
                for first in range(self.options.jobs)]

    def compared(self, folder):
        """What commands in loops, and what a sweep with its table and its page take."""
        loops = sweep = Seconds(0, 0)
        for number in range(PARTS):
            part = f"{number}/{PARTS}"
            loops += timed([["sh", "-c", script] for script in self.scripts(part)])
            sweep += timed([[*self.words, "--folder", folder, "--part", part]])
        return loops, sweep + timed([[*self.words, "--folder", folder, "--collect"]])

    def killed(self, folder, whole_s):
        """Runs the sweep, kills it at random moments, and lets it go on."""
        draw = random.Random(self.options.seed)
        for _ in range(self.options.kills):
            process = started([*self.words, "--folder", folder])
            time.sleep(draw.uniform(0, 2 * whole_s / self.options.kills))
            process.send_signal(draw.choice((signal.SIGKILL, signal.SIGINT)))
            process.wait()
        timed([[*self.words, "--folder", folder]])


def main():
    parser = claim_options.parser_of(__doc__)
    parser.add_argument("--cells", type=int, default=200, choices=range(200, MOST_CELLS + 1, 200),
                        metavar="N", help=f"200, 400, ... {MOST_CELLS}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = claim_options.parse(parser)
    options.gpemu = options.gpemu.resolve()
    with tempfile.TemporaryDirectory(prefix="gpemu_check_sweep_") as name:
        folder = pathlib.Path(name)
        sweep = Sweep(options, folder)
        loops, whole = sweep.compared(folder / "whole")
        sweep.killed(folder / "killed", whole.clock)
        same = ((folder / "whole/table.csv").read_bytes() ==
                (folder / "killed/table.csv").read_bytes())
    overhead_s = (whole.clock - loops.clock) * options.jobs / options.cells
    processors_s = (whole.processors - loops.processors) / options.cells
    print(f"{options.cells} cells, {options.jobs} at a time: {loops.clock:.1f} s as commands in "
          f"loops, {whole.clock:.1f} s as a sweep")
    print(f"overhead {1000 * overhead_s:.1f} ms for each cell, {1000 * processors_s:.1f} ms of "
          f"processors (at most {1000 * MOST_OVERHEAD_S:.0f})")
    print(f"the table after {options.kills} kills is {'the same' if same else 'NOT the same'} to "
          "the byte")
    most_s = max(overhead_s, processors_s)
    return 0 if same and most_s <= MOST_OVERHEAD_S else 1


if __name__ == "__main__":
    sys.exit(main())
