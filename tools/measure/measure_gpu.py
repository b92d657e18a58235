#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a GPU with PyTorch and writes a pack of profiles for gpemu.

Needs PyTorch; with torchvision there are more models. Nothing is downloaded, weights are random.
The output is a folder: a pack that `gpemu profile check` accepts, with all measurements as text in
its folder raw/. The same command again continues where the last one ended; Ctrl-C and the end of
the budget leave a valid pack. Sections:

  launch      the time to launch kernels, on the host and on the GPU
  copies      pinned, pageable and on the device, by size
  operations  matrix products, convolutions, attention and element-wise operations, by size
  models      training steps: forward, backward and optimizer apart, steps with and without waits,
              and memory, at growing batches until the memory is full
  kernels     time of each kernel of a training step, from PyTorch's profiler
"""

import argparse
import collections
import contextlib
import csv
import ctypes
import datetime
import fnmatch
import functools
import gc
import io
import json
import math
import os
import pathlib
import platform
import re
import signal
import statistics
import sys
import tempfile
import textwrap
import time
import warnings

try:
    import torch
    from torch import nn
    from torch.nn import functional
    TORCH_ERROR = None
except (ImportError, OSError, ValueError) as error:  # main() tells; the rest works without.
    torch = nn = functional = None
    TORCH_ERROR = error

MIB = 2**20
RAW_FORMAT = "gpemu-measurements-1"
LARGEST_BATCH = 10_000_000  # that a pack can name
# Share of the time that is left, once it is a section's turn.
SECTIONS = {"launch": 0.02, "copies": 0.05, "operations": 0.2, "models": 0.85, "kernels": 1.0}
PRECISIONS = ("fp32", "tf32", "bf16-amp")

EXAMPLES = """\
Examples:
  measure_gpu.py --output my-h200
      everything; takes some hours
  measure_gpu.py --output my-h200 --budget 1500
      what fits in 25 minutes; the same command again measures what is missing
  measure_gpu.py --output quick --sections models --models 'resnet*,gpt2_124m' \\
      --precisions fp32,bf16-amp --max-batch 64
"""

# gpemu's names of GPUs, by the names that the driver reports.
GPU_NAMES = {
    "NVIDIA A10": "A10",
    "NVIDIA A100-PCIE-40GB": "A100-PCIE-40GB",
    "NVIDIA A100-SXM4-40GB": "A100-SXM4-40GB",
    "NVIDIA A100-SXM4-80GB": "A100-SXM4-80GB",
    "NVIDIA B200": "B200-SXM-180GB",
    "NVIDIA H100 PCIe": "H100-PCIE-80GB",
    "NVIDIA H100 80GB HBM3": "H100-SXM5-80GB",
    "NVIDIA H200": "H200-SXM-141GB",
    "Tesla K80": "K80",
    "NVIDIA L4": "L4",
    "Tesla M40": "M40",
    "Tesla P100-PCIE-16GB": "P100-PCIE-16GB",
    "Quadro RTX 6000": "Quadro-RTX-6000",
    "NVIDIA GeForce RTX 3090": "RTX-3090",
    "NVIDIA GeForce RTX 4090": "RTX-4090",
    "Tesla T4": "T4",
    "Tesla V100-PCIE-32GB": "V100-PCIE-32GB",
    "Tesla V100-SXM2-32GB": "V100-SXM2-32GB",
}


class Stop(Exception):
    """Ends the program in an orderly way; its text says why."""


def tell(text):
    print(text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------------------- numbers


def log_spaced(last, per_doubling=1):
    """Returns whole numbers from 1 to `last`, each but the first 2^(1/per_doubling) times the one
    before, powers of two among them. `last` itself is only there when it is one of them."""
    numbers = []
    for step in range(per_doubling * max(last, 1).bit_length()):
        number = round(2 ** (step / per_doubling))
        if number <= last and (not numbers or number > numbers[-1]):
            numbers.append(number)
    return numbers


def share(values, part):
    """Returns the smallest of `values` that `part` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(part * len(ordered)), 1) - 1]


def summary(values):
    """Returns median, 10th and 90th percentile."""
    return [statistics.median(values), share(values, 0.1), share(values, 0.9)]


def text_of(value):
    """Returns a field of a table, with six digits: more than any clock resolves."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def trim_falls(rows, deepest):
    """Returns `rows`, (batch, value) in ascending order, without those of which a later one is less
    than `deepest`: something else held that measurement up, and a review would refuse it."""
    kept, lowest = [], math.inf
    for batch, value in reversed(rows):
        if deepest * value <= lowest:
            kept.append((batch, value))
            lowest = min(lowest, value)
    return kept[::-1]


# How far a straight line between neighbours is from what lies between them, as a share of how far
# the line that skips a point is from it. Source: GPEmu's measured rows (VLDB 2025, 43684 batches of
# 36 models on 6 GPUs), of which only powers of two are kept: 0.6 times the 90th percentile of those
# covers 88.5 % of the rows left out, and 89.3 % with two batches for each doubling.
ERROR_BETWEEN_POINTS = 0.6
# The errors there in percent, for curves without inner points: mean, percentiles, largest.
ERRORS_OF_DOUBLING = (2.8, 7.1, 10.4, 100.0)


def errors_between(points):
    """Estimates the error of straight lines between points, (batch, value), where nothing was
    measured: mean, 90th and 95th percentile and largest, in percent."""
    skipped = []
    for (b0, v0), (b1, v1), (b2, v2) in zip(points, points[1:], points[2:]):
        line = v0 + (v2 - v0) * (b1 - b0) / (b2 - b0)
        skipped.append(100 * ERROR_BETWEEN_POINTS * abs(line / v1 - 1))
    if not skipped:
        return list(ERRORS_OF_DOUBLING)
    errors = [statistics.fmean(skipped), share(skipped, 0.9), share(skipped, 0.95), max(skipped)]
    return [round(min(error, 100), 3) for error in errors]


def search_limit(batches, outcome):
    """Tries growing batches until one runs out of memory, then closes in on the first that does, to
    5 %. `outcome(batch)` returns whether the batch ran, or None when the time is up."""
    good, bad = 0, None
    for batch in batches:
        ran = outcome(batch)
        if ran is None:
            return
        if not ran:
            bad = batch
            break
        good = batch
    while good > 0 and bad is not None and bad - good > max(1, good // 20):
        middle = (good + bad) // 2
        ran = outcome(middle)
        if ran is None:
            return
        good, bad = (middle, bad) if ran else (good, middle)


class Budget:
    """The time that a run may take, and its parts."""

    def __init__(self, seconds=math.inf, clock=time.monotonic):
        self.clock = clock
        self.end = clock() + seconds

    def rest(self):
        return max(self.end - self.clock(), 0)

    def part(self, share_of_rest):
        """Returns a budget for a part of the remaining time."""
        return Budget(self.rest() * share_of_rest, self.clock)

    def is_spent(self):
        return self.rest() == 0


# ---------------------------------------------------------------------------- files


def write_atomically(path, text):
    """Replaces a file as a whole, or leaves it as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("w", encoding="ascii", errors="replace", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class Table:
    """A CSV file whose first columns identify a row. It is whole after each row."""

    def __init__(self, path, keys, values):
        self.path, self.columns, self.key_count = path, [*keys, *values], len(keys)
        self.rows = {}
        if path.exists():
            with path.open(encoding="ascii", newline="") as file:
                header, *lines = list(csv.reader(file)) or [[]]
            if header != self.columns:
                raise Stop(f"{path} has columns other than those of this version; "
                           "give another --output")
            for line in lines:
                self.rows[tuple(line[:self.key_count])] = line

    def __contains__(self, key):
        return tuple(map(str, key)) in self.rows

    def get(self, key, column):
        return self.rows[tuple(map(str, key))][self.columns.index(column)]

    def dictionaries(self):
        return [dict(zip(self.columns, row)) for row in self.rows.values()]

    def put(self, *row):
        self.put_all([row])

    def put_all(self, rows):
        """Adds rows together: all of them are in the file, or none."""
        for row in rows:
            line = [text_of(value) for value in row]
            if len(line) != len(self.columns):
                raise ValueError(f"{len(line)} fields for {len(self.columns)} columns")
            self.rows[tuple(line[:self.key_count])] = line
        self.save()

    def save(self):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows.values())
        write_atomically(self.path, text.getvalue())


def spread(name, unit):
    return [f"{name}_{unit}", f"{name}_p10_{unit}", f"{name}_p90_{unit}"]


class Raw:
    """The folder raw/: everything that was measured."""

    def __init__(self, folder):
        self.folder = folder
        for left_over in folder.glob("*.tmp"):
            left_over.unlink()
        self.facts = {}
        if (folder / "facts.json").exists():
            self.facts = json.loads((folder / "facts.json").read_text(encoding="ascii"))
            if self.facts.get("format") != RAW_FORMAT:
                raise Stop(f"{folder}/facts.json is not of the format {RAW_FORMAT}")
        def table(name, keys, values):
            return Table(folder / f"{name}.csv", keys, values)
        self.launches = table("launches", ["what"], ["samples", *spread("time", "us")])
        self.copies = table("copies", ["direction", "host_memory", "bytes"],
                            ["repetitions", "samples", *spread("time", "us")])
        self.operations = table("operations", ["operation", "type", "shape"],
                                ["repetitions", "samples", *spread("time", "us")])
        self.models = table("models", ["model"],
                            ["parameters", "channels", "height", "width", "optimizer", "sample"])
        self.steps = table(
            "steps", ["model", "precision", "batch"],
            ["outcome", "samples", *spread("forward", "ms"), *spread("backward", "ms"),
             *spread("optimizer", "ms"), *spread("step", "ms"), "free_samples", "free_steps",
             *spread("free_step", "ms"), *spread("input_copy_pageable", "ms"),
             "peak_allocated_mib", "peak_reserved_mib", "persistent_mib", "device_used_mib",
             "sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w"])
        self.kernels = table("kernels", ["model", "precision", "batch", "kernel", "grid", "block"],
                             ["count", "total_us", "min_us", "max_us"])
        self.kernel_names = table("kernel_names", ["kernel"], ["name"])
        self.failures = table("failures", ["section", "what"], ["why"])

    def put_kernels(self, key, rows):
        """Adds the kernels of a step, see kernel_rows(); their long names are numbered."""
        numbers = {name: number for number, name in self.kernel_names.rows.values()}
        for (name, _, _), _ in rows:
            if name not in numbers:
                numbers[name] = str(len(numbers))
                self.kernel_names.rows[numbers[name],] = [numbers[name], name]
        self.kernel_names.save()
        self.kernels.put_all([(*key, numbers[name], grid, block, *values)
                              for (name, grid, block), values in rows])

    def save_facts(self):
        write_atomically(self.folder / "facts.json", json.dumps(self.facts, indent=1) + "\n")


# ---------------------------------------------------------------------------- the pack

METHOD = """\
Each batch on its own, with random input that is on the GPU already: three steps to warm up, \
then steps whose phases are timed by CUDA events, with the device idle before each phase; every \
number is the median of these. Forward is one call of the model in training mode; \
backward_optimizer the sum of the medians of two phases, one of loss, dropping the gradients and \
the backward pass, the other the optimizer's step. Image models train with SGD (momentum 0.9, \
weight decay 1e-4), language models with AdamW, as raw/models.csv tells; cuDNN's autotuner is \
off. fp32 is without TF32, tf32 with it in convolutions and matrix products, bf16-amp autocast \
to bfloat16 with TF32 elsewhere. The input copy is from pageable memory into memory that is \
there. Peak memory is the most that PyTorch's allocator held during the steps, persistent memory \
what it holds after one. Batches grow until one runs out of memory; between the last that ran \
and the first that did not, batches were tried until the two were within 5 %. Points that a \
later one falls far below of are left out here, not in raw/. The errors of curves.csv are \
estimates for the batches between: 0.6 of what leaving each point out would cause. Models \
without images state 1 x 1 x a quarter of their sample's bytes as input.\
"""

# What check_pack() lets a curve fall to, from docs/reference/pack-format.md.
DEEPEST_FALL = {"forward": 0.5, "backward_optimizer": 0.5, "input_copy_pageable": 0.5,
                "peak_memory": 0.9, "persistent_memory": 0.8}
UNITS = {"peak_memory": "mib", "persistent_memory": "mib"}


def step_values(row):
    """Returns the quantities of a pack that a row of steps.csv has."""
    def number(*columns):
        return sum(float(row[column]) for column in columns) if row[columns[0]] else None
    return {"forward": number("forward_ms"),
            "backward_optimizer": number("backward_ms", "optimizer_ms"),
            "input_copy_pageable": number("input_copy_pageable_ms"),
            "peak_memory": number("peak_allocated_mib"),
            "persistent_memory": number("persistent_mib")}


def toml_text(text):
    """Returns a TOML string, over several lines where it is long."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    escaped = re.sub(r"[^ -~]+", " ", escaped)
    if len(escaped) < 80:
        return f'"{escaped}"'
    lines = textwrap.wrap(escaped, 94, break_long_words=False, break_on_hyphens=False)
    return '"""\\\n' + " \\\n".join(lines) + '"""'


def is_emulated():
    """Returns whether the GPU is emulated: gpemu's library is in this process."""
    return "GPEMU_SHIMS" in os.environ or bool(first_match("/proc/self/maps", r"(libgpemu)\b"))


def pack_info(name, facts, models, samples):
    emulated = "an emulated " if facts.get("emulated") else ""
    days = sorted(run["began"][:10] for run in facts["runs"])
    host = (f"{facts['cpu']}, {facts['cores']} cores, {facts['host_memory_mib']} MiB; Linux "
            f"{facts['kernel']}, driver {facts['driver']}")
    stated = {
        "title": f"Training steps of {models} models on {emulated}{facts['gpu']}",
        "citation": "gpemu profile measure, " + " to ".join(dict.fromkeys((days[0], days[-1]))),
        "url": "not published elsewhere", "licence": "Apache-2.0", **facts.get("stated", {})}
    fields = {"name": name, "title": stated["title"], "citation": stated["citation"],
              "url": stated["url"], "licence": stated["licence"], "method": METHOD,
              "framework": f"PyTorch {facts['pytorch']}, CUDA {facts['cuda']}, cuDNN "
                           f"{facts['cudnn']}, torchvision {facts['torchvision']}",
              "host": host}
    text = "format = 1\n" + "".join(f"{key} = {toml_text(value)}\n"
                                    for key, value in fields.items())
    text += f"samples = {samples}\n"
    text += "emulated = true\n" if facts.get("emulated") else ""
    if stated.get("note"):
        text += f"\n[gpu.\"{facts['gpu']}\"]\nnote = {toml_text(stated['note'])}\n"
    return text


def device_files(rows):
    """Returns the files of one precision from its rows of steps.csv, by name."""
    by_model = collections.defaultdict(list)
    for row in rows:
        by_model[row["model"]].append(row)
    curves, limits = "", ""
    points = dict.fromkeys(DEEPEST_FALL, "")
    for model in sorted(by_model):
        ran = sorted((int(row["batch"]), row) for row in by_model[model] if row["outcome"] == "ok")
        if not ran:
            continue
        for quantity, deepest in DEEPEST_FALL.items():
            measured = [(batch, step_values(row)[quantity]) for batch, row in ran]
            measured = [(batch, round(value, 4)) for batch, value in measured if value]
            kept = trim_falls([(batch, value) for batch, value in measured if value > 0], deepest)
            points[quantity] += "".join(f"{model},{batch},{value!r}\n" for batch, value in kept)
            if kept:
                errors = ",".join(f"{error:g}" for error in errors_between(kept))
                curves += f"{model},{quantity},{len(kept)},{errors}\n"
        largest = ran[-1][0]
        too_many = [int(row["batch"]) for row in by_model[model]
                    if row["outcome"] != "ok" and int(row["batch"]) > largest]
        limits += f"{model},{largest},{min(too_many, default='')}\n"
    files = {f"{quantity}.csv": f"model,batch,{quantity}_{UNITS.get(quantity, 'ms')}\n" + text
             for quantity, text in points.items() if text}
    if files:
        files["curves.csv"] = ("model,quantity,measured_rows,mean_error_percent,p90_error_percent,"
                               "p95_error_percent,max_error_percent\n" + curves)
        files["limits.csv"] = "model,largest_batch_measured,first_batch_out_of_memory\n" + limits
    return files


def write_pack(folder, raw):
    """Writes the pack of what raw/ holds; returns how many models are in it. raw/ alone decides."""
    rows = raw.steps.dictionaries()
    ran = [row for row in rows if row["outcome"] == "ok"]
    if not ran:
        return 0
    names = sorted({row["model"] for row in ran})
    files = {"pack.toml": pack_info(folder.name, raw.facts, len(names),
                                    min(int(row["samples"]) for row in ran))}
    columns = ("model", "parameters", "channels", "height", "width")
    files["models.csv"] = ",".join(columns) + "\n" + "".join(
        ",".join(raw.models.get((name,), column) for column in columns) + "\n" for name in names)
    for precision in sorted({row["precision"] for row in ran}):
        of_precision = device_files([row for row in rows if row["precision"] == precision])
        for name, text in of_precision.items():
            files[f"{raw.facts['gpu']}/{precision}/{name}"] = text
    for name, text in files.items():
        write_atomically(folder / name, text)
    return len(names)


# ---------------------------------------------------------------------------- the machine


class Nvml:
    """Facts about the GPU from NVIDIA's management library; None if it does not report them."""

    def __init__(self, uuid):
        self.library = self.device = None
        with contextlib.suppress(OSError):
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
        if self.library is None or self.library.nvmlInit_v2() != 0:
            self.library = None
            return
        device = ctypes.c_void_p()
        found = uuid and self.ask("nvmlDeviceGetHandleByUUID", uuid.encode(), ctypes.byref(device))
        if found or self.ask("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(device)):
            self.device = device

    def ask(self, function, *arguments):
        found = getattr(self.library, function, None)
        return found is not None and found(*arguments) == 0

    def number(self, function, *arguments):
        value = ctypes.c_uint()
        if self.device and self.ask(function, self.device, *arguments, ctypes.byref(value)):
            return value.value
        return None

    def driver(self):
        text = ctypes.create_string_buffer(96)
        if self.library and self.ask("nvmlSystemGetDriverVersion", text, len(text)):
            return text.value.decode()
        return "unknown"

    def used_mib(self):
        memory = (ctypes.c_ulonglong * 3)()  # total, free, used
        if self.device and self.ask("nvmlDeviceGetMemoryInfo", self.device, memory):
            return memory[2] / MIB
        return None

    def state(self):
        """Returns clock of multiprocessors and memory in MHz, temperature in degrees, watts."""
        milliwatts = self.number("nvmlDeviceGetPowerUsage")
        return [self.number("nvmlDeviceGetClockInfo", 1), self.number("nvmlDeviceGetClockInfo", 2),
                self.number("nvmlDeviceGetTemperature", 0),
                None if milliwatts is None else milliwatts / 1000]


def first_match(path, pattern):
    with contextlib.suppress(OSError):
        found = re.search(pattern, pathlib.Path(path).read_text(errors="replace"), re.MULTILINE)
        return found[1].strip() if found else None
    return None


def gather_facts(gpu, nvml):
    properties = torch.cuda.get_device_properties(0)
    cudnn = torch.backends.cudnn.version() or 0
    try:
        import torchvision  # pylint: disable=import-outside-toplevel
        vision = torchvision.__version__
    except (ImportError, RuntimeError):
        vision = "none"
    limit = nvml.number("nvmlDeviceGetEnforcedPowerLimit")
    return {
        "format": RAW_FORMAT,
        "gpu": gpu or GPU_NAMES.get(properties.name) or re.sub(r"[^\w.-]+", "-", properties.name),
        "product_name": properties.name,
        "emulated": is_emulated(),
        "compute_capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "memory_mib": properties.total_memory // MIB,
        "driver": nvml.driver(),
        "max_sm_clock_mhz": nvml.number("nvmlDeviceGetMaxClockInfo", 1),
        "max_memory_clock_mhz": nvml.number("nvmlDeviceGetMaxClockInfo", 2),
        "power_limit_w": None if limit is None else limit / 1000,
        "pcie_generation": nvml.number("nvmlDeviceGetMaxPcieLinkGeneration"),
        "pcie_lanes": nvml.number("nvmlDeviceGetMaxPcieLinkWidth"),
        "pytorch": torch.__version__,
        "torchvision": vision,
        "cuda": torch.version.cuda,
        "cudnn": f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}" if cudnn >= 90000
                 else f"{cudnn // 1000}.{cudnn // 100 % 10}.{cudnn % 100}",
        "python": platform.python_version(),
        "cpu": first_match("/proc/cpuinfo", r"^model name\s*:(.*)$") or platform.machine(),
        "cores": os.cpu_count(),
        "host_memory_mib": int(first_match("/proc/meminfo", r"^MemTotal:\s*(\d+)") or 0) // 1024,
        "kernel": platform.release(),
        "environment": {name: os.environ[name] for name in sorted(os.environ)
                        if name.startswith(("PYTORCH_", "CUBLAS", "CUDNN_", "NVIDIA_TF32",
                                            "CUDA_LAUNCH", "CUDA_MODULE", "OMP_NUM"))},
    }


# Facts that must not differ between the runs that fill one folder.
CONSTANT_FACTS = ("gpu", "product_name", "emulated", "pytorch", "cuda", "cudnn", "driver")


def adopt_facts(raw, facts):
    """Adopts the facts of this run, or refuses to mix them with other facts."""
    for name in CONSTANT_FACTS:
        if raw.facts and raw.facts[name] != facts[name]:
            raise Stop(f"{raw.folder} was measured with {name} {raw.facts[name]}, not "
                       f"{facts[name]}; give another --output")
    raw.facts = {**raw.facts, **facts}
    raw.facts.setdefault("runs", [])


# ---------------------------------------------------------------------------- models of our own

Module = nn.Module if nn else object


class Attention(Module):
    """Self-attention, or attention to `memory`; with fewer heads for keys and values if asked."""

    def __init__(self, width, heads, *, kv_heads=None, bias=True, causal=False, scale=None):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads or heads
        self.causal, self.scale = causal, scale
        kv_width = width // heads * self.kv_heads
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, kv_width, bias=bias)
        self.value = nn.Linear(width, kv_width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)

    def forward(self, x, memory=None, *, rotation=None, position_bias=None):
        memory = x if memory is None else memory
        query = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        key = self.key(memory).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2)
        value = self.value(memory).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2)
        if rotation is not None:
            query, key = rotate(query, rotation), rotate(key, rotation)
        if self.kv_heads < self.heads:
            key = key.repeat_interleave(self.heads // self.kv_heads, 1)
            value = value.repeat_interleave(self.heads // self.kv_heads, 1)
        if position_bias is not None:
            position_bias = position_bias.to(query.dtype)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=position_bias,
            is_causal=self.causal and position_bias is None, scale=self.scale)
        return self.output(mixed.transpose(1, 2).flatten(2))


def rotate(x, rotation):
    """Turns pairs of features by angles that grow with the position (RoPE)."""
    cosine, sine = rotation
    first, second = x.chunk(2, -1)
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)
    return turned.to(x.dtype)


def rotation_table(length, features, base):
    frequency = base ** (-torch.arange(0, features, 2).float() / features)
    angle = torch.arange(length).float()[:, None] * frequency
    return angle.cos(), angle.sin()


class RootMeanSquareNorm(Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return (x * scale).to(x.dtype) * self.weight


class Bert(Module):
    """BERT-base with its masked language model's head."""

    def __init__(self, vocabulary=30522, width=768, layers=12, heads=12, length=512):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions, self.kinds = nn.Embedding(length, width), nn.Embedding(2, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(0.1)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "attention": Attention(width, heads), "norm": nn.LayerNorm(width),
            "mlp": nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width)),
            "last_norm": nn.LayerNorm(width)}) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.head_bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens):
        place = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(place) + self.kinds(torch.zeros_like(tokens))
        x = self.dropout(self.norm(x))
        for layer in self.layers:
            x = layer["norm"](x + self.dropout(layer["attention"](x)))
            x = layer["last_norm"](x + self.dropout(layer["mlp"](x)))
        return functional.linear(self.head(x), self.tokens.weight, self.head_bias)


class Gpt2(Module):
    def __init__(self, vocabulary=50257, width=768, layers=12, heads=12, length=1024):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.dropout, self.norm = nn.Dropout(0.1), nn.LayerNorm(width)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "norm": nn.LayerNorm(width), "attention": Attention(width, heads, causal=True),
            "mlp": nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width),
                                 nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))})
            for _ in range(layers))

    def forward(self, tokens):
        place = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(place))
        for layer in self.layers:
            x = x + self.dropout(layer["attention"](layer["norm"](x)))
            x = x + self.dropout(layer["mlp"](x))
        return functional.linear(self.norm(x), self.tokens.weight)


class Llama(Module):
    def __init__(self, *, vocabulary, width, layers, heads, kv_heads, hidden, length):
        super().__init__()
        self.tokens, self.norm = nn.Embedding(vocabulary, width), RootMeanSquareNorm(width)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "norm": RootMeanSquareNorm(width),
            "attention": Attention(width, heads, kv_heads=kv_heads, bias=False, causal=True),
            "mlp_norm": RootMeanSquareNorm(width),
            "gate": nn.Linear(width, hidden, bias=False),
            "up": nn.Linear(width, hidden, bias=False),
            "down": nn.Linear(hidden, width, bias=False)}) for _ in range(layers))
        cosine, sine = rotation_table(length, width // heads, 500000.0)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def forward(self, tokens):
        length = tokens.shape[1]
        rotation = (self.cosine[:length], self.sine[:length])
        x = self.tokens(tokens)
        for layer in self.layers:
            x = x + layer["attention"](layer["norm"](x), rotation=rotation)
            y = layer["mlp_norm"](x)
            x = x + layer["down"](functional.silu(layer["gate"](y)) * layer["up"](y))
        return functional.linear(self.norm(x), self.tokens.weight)


class T5Stack(Module):
    """The encoder or the decoder of T5, whose layers share one bias for relative positions."""

    def __init__(self, width, layers, heads, *, decoder):
        super().__init__()
        self.decoder, self.dropout = decoder, nn.Dropout(0.1)
        self.bias, self.norm = nn.Embedding(32, heads), RootMeanSquareNorm(width)

        def attention():
            return Attention(width, heads, bias=False, scale=1.0)
        self.layers = nn.ModuleList()
        for _ in range(layers):
            layer = {"norm": RootMeanSquareNorm(width), "attention": attention(),
                     "mlp": nn.Sequential(RootMeanSquareNorm(width),
                                          nn.Linear(width, 4 * width, bias=False), nn.ReLU(),
                                          nn.Linear(4 * width, width, bias=False))}
            if decoder:
                layer |= {"cross_norm": RootMeanSquareNorm(width), "cross": attention()}
            self.layers.append(nn.ModuleDict(layer))

    def position_bias(self, length, device):
        """Distances up to 7 or 15 have a bucket each, longer ones share them by their logarithm."""
        place = torch.arange(length, device=device)
        distance = place[None, :] - place[:, None]
        buckets = 32 if self.decoder else 16
        offset = 0 if self.decoder else (distance > 0).long() * buckets
        distance = (-distance).clamp(min=0) if self.decoder else distance.abs()
        exact = buckets // 2
        far = exact + (torch.log(distance.clamp(min=1).float() / exact) / math.log(128 / exact)
                       * (buckets - exact)).long()
        bucket = offset + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))
        bias = self.bias(bucket).permute(2, 0, 1)[None]
        if self.decoder:
            bias = bias.masked_fill(place[None, :] > place[:, None], float("-inf"))
        return bias

    def forward(self, x, memory=None):
        bias = self.position_bias(x.shape[1], x.device)
        for layer in self.layers:
            x = x + self.dropout(layer["attention"](layer["norm"](x), position_bias=bias))
            if self.decoder:
                x = x + self.dropout(layer["cross"](layer["cross_norm"](x), memory))
            x = x + self.dropout(layer["mlp"](x))
        return self.dropout(self.norm(x))


class T5(Module):
    def __init__(self, vocabulary=32128, width=768, layers=12, heads=12):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.encoder = T5Stack(width, layers, heads, decoder=False)
        self.decoder = T5Stack(width, layers, heads, decoder=True)

    def forward(self, source, target):
        memory = self.encoder(self.tokens(source))
        x = self.decoder(self.tokens(target), memory)
        return functional.linear(x * x.shape[-1] ** -0.5, self.tokens.weight)


class LstmLanguageModel(Module):
    def __init__(self, vocabulary=33278, width=650, layers=2):
        super().__init__()
        self.tokens, self.dropout = nn.Embedding(vocabulary, width), nn.Dropout(0.5)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=0.5)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        output, _ = self.lstm(self.dropout(self.tokens(tokens)))
        return self.head(self.dropout(output))


class UNet(Module):
    def __init__(self, classes=21, width=64, depth=4):
        super().__init__()
        def double(before, after):
            layers = []
            for channels in (before, after):
                layers += [nn.Conv2d(channels, after, 3, padding=1, bias=False),
                           nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
            return nn.Sequential(*layers)
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(map(double, [3, *widths], widths))
        upwards = widths[-2::-1]
        self.widen = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in upwards)
        self.up = nn.ModuleList(double(2 * w, w) for w in upwards)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skipped = []
        for level, block in enumerate(self.down):
            x = block(functional.max_pool2d(x, 2) if level else x)
            skipped.append(x)
        skipped.pop()
        for widen, block in zip(self.widen, self.up):
            x = block(torch.cat((skipped.pop(), widen(x)), 1))
        return self.head(x)


class Dlrm(Module):
    """A recommendation model: 26 tables of embeddings whose products meet a few dense layers."""

    def __init__(self, tables=26, rows=100_000, width=64, dense=13):
        super().__init__()
        def layers(*sizes):
            pairs = [(nn.Linear(a, b), nn.ReLU()) for a, b in zip(sizes, sizes[1:])]
            return nn.Sequential(*(layer for pair in pairs for layer in pair))
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(tables))
        self.bottom = layers(dense, 512, 256, width)
        self.top = nn.Sequential(layers(width + (tables + 1) * tables // 2, 512, 256),
                                 nn.Linear(256, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1),
                             persistent=False)

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        embedded = [table(sparse[:, i]).to(x.dtype) for i, table in enumerate(self.tables)]
        features = torch.stack([x, *embedded], 1)
        products = features @ features.transpose(1, 2)
        return self.top(torch.cat((x, products[:, self.pairs[0], self.pairs[1]]), 1)).flatten()


# ---------------------------------------------------------------------------- catalogue


class Entry:
    """A model that can be trained: how to build it, its data, its loss."""

    def __init__(self, make, data, *, shape, sample, optimizer="SGD", loss=None):
        self.make, self.data, self.loss = make, data, loss or cross_entropy
        self.shape, self.sample, self.optimizer = shape, sample, optimizer


def cross_entropy(output, target):
    if output.dim() == 3:  # tokens
        output, target = output.flatten(0, 1), target.flatten()
    return functional.cross_entropy(output, target)


def binary_entropy(output, target):
    return functional.binary_cross_entropy_with_logits(output, target)


def whole_numbers(limit, *size):
    return torch.randint(0, limit, size, device="cuda")


def image_entry(name, side=224):
    def make():
        import torchvision  # pylint: disable=import-outside-toplevel
        return torchvision.models.get_model(name)

    def data(batch):
        images = torch.randn(batch, 3, side, side, device="cuda")
        return (images,), whole_numbers(1000, batch)
    return Entry(make, data, shape=(3, side, side), sample=f"image {side}x{side}; 1000 classes")


def token_entry(make, vocabulary, length, optimizer="AdamW"):
    def data(batch):
        return (whole_numbers(vocabulary, batch, length),), whole_numbers(vocabulary, batch, length)
    return Entry(make, data, shape=(1, 1, 2 * length), optimizer=optimizer,
                 sample=f"{length} tokens of {vocabulary}")


def t5_data(batch):
    source, target = whole_numbers(32128, batch, 512), whole_numbers(32128, batch, 128)
    return (source, target), whole_numbers(32128, batch, 128)


def unet_data(batch):
    return (torch.randn(batch, 3, 256, 256, device="cuda"),), whole_numbers(21, batch, 256, 256)


def dlrm_data(batch):
    inputs = torch.randn(batch, 13, device="cuda"), whole_numbers(100_000, batch, 26)
    return inputs, torch.rand(batch, device="cuda")


# Those that GPEmu's authors measured, and later ones; all at the size that they were made for.
VISION_MODELS = """
alexnet densenet121 densenet161 densenet169 densenet201 googlenet
mnasnet0_5 mnasnet0_75 mnasnet1_0 mnasnet1_3 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small
resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d resnext101_32x8d
shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0
squeezenet1_0 squeezenet1_1 vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn
wide_resnet50_2 wide_resnet101_2
vit_b_16 vit_l_16 swin_t swin_b convnext_tiny convnext_base efficientnet_b0 efficientnet_b4:380
efficientnet_v2_s:384
""".split()


# One model of each family is measured first, in case the time is not enough for all.
FIRST_MODELS = ("resnet50", "vgg16", "mobilenet_v2", "densenet121", "vit_b_16", "swin_t",
                "convnext_tiny", "efficientnet_b0", "bert_base", "gpt2_124m", "llama_100m",
                "t5_base", "lstm_lm", "unet", "dlrm", "llama_1b")


def catalogue():
    """Returns all models by name, in the order in which they are measured."""
    llama = functools.partial(Llama, vocabulary=32000, width=768, layers=12, heads=12, kv_heads=12,
                              hidden=2048, length=1024)
    llama_1b = functools.partial(Llama, vocabulary=128256, width=2048, layers=16, heads=32,
                                 kv_heads=8, hidden=8192, length=2048)
    entries = {}
    for name in VISION_MODELS:
        name, _, side = name.partition(":")
        entries[name] = image_entry(name, int(side or 224))
    entries |= {
        "bert_base": token_entry(Bert, 30522, 128),
        "gpt2_124m": token_entry(Gpt2, 50257, 1024),
        "llama_100m": token_entry(llama, 32000, 1024),
        "llama_1b": token_entry(llama_1b, 128256, 2048),
        "t5_base": Entry(T5, t5_data, shape=(1, 1, 2 * 640), optimizer="AdamW",
                         sample="512 tokens in; 128 out; of 32128"),
        "lstm_lm": token_entry(LstmLanguageModel, 33278, 35, optimizer="SGD"),
        "unet": Entry(UNet, unet_data, shape=(3, 256, 256),
                      sample="image 256x256; 21 classes for each pixel"),
        "dlrm": Entry(Dlrm, dlrm_data, shape=(1, 1, 13 + 2 * 26), loss=binary_entropy,
                      sample="13 numbers and 26 indices into tables of 100000"),
    }
    return {name: entries[name] for name in dict.fromkeys((*FIRST_MODELS, *entries))}


def choose_models(patterns):
    """Returns the names that the patterns choose, in the catalogue's order."""
    names = list(catalogue())
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise Stop(f"there is no model {pattern}; --list shows all")
    return [name for name in names if any(fnmatch.fnmatchcase(name, p) for p in patterns)]


# ---------------------------------------------------------------------------- measuring


def is_out_of_memory(problem):
    return isinstance(problem, torch.cuda.OutOfMemoryError) or (
        isinstance(problem, RuntimeError)
        and re.search(r"out of memory|ALLOC_FAILED", str(problem)) is not None)


def tidy_up():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def set_precision(precision):
    """Returns the context in which forward pass and loss run."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
    return torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16-amp")


def events(count):
    return [torch.cuda.Event(enable_timing=True) for _ in range(count)]


def time_calls(function, *, seconds=0.3, samples=7):
    """Returns (repetitions, times of one call in us): calls back to back between two events, so
    many that a sample takes some milliseconds."""
    def sample(repetitions):
        begin, end = events(2)
        begin.record()
        for _ in range(repetitions):
            function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / repetitions
    sample(2)
    once = max(sample(2), 0.1)
    repetitions = int(min(max(5000 / once, 1), 50))
    samples = int(min(max(seconds * 1e6 / (once * repetitions), 3), samples))
    return repetitions, [sample(repetitions) for _ in range(samples)]


class Training:
    """A model with its optimizer on the GPU, and one batch of data at a time."""

    def __init__(self, name, entry):
        self.name, self.entry = name, entry
        with torch.device("cuda"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # GoogLeNet's about its initialisation.
            self.model = entry.make().train()
        parameters = self.model.parameters()
        if entry.optimizer == "SGD":
            self.optimizer = torch.optim.SGD(parameters, 0.01, momentum=0.9, weight_decay=1e-4)
        else:
            self.optimizer = torch.optim.AdamW(parameters, 1e-4)
        self.inputs = self.targets = self.cast = None

    def load(self, batch, precision):
        self.unload()
        self.cast = set_precision(precision)
        self.inputs, self.targets = self.entry.data(batch)

    def unload(self):
        self.inputs = self.targets = None
        self.optimizer.zero_grad(set_to_none=True)
        tidy_up()

    def forward(self):
        with self.cast:
            output = self.model(*self.inputs)
        return getattr(output, "logits", output)

    def backward(self, output):
        with self.cast:
            loss = self.entry.loss(output, self.targets)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()

    def step(self):
        self.backward(self.forward())
        self.optimizer.step()

    def parameter_count(self):
        """Returns how many parameters got a gradient in the last step."""
        return sum(p.numel() for p in self.model.parameters() if p.grad is not None)


def timed_phases(training, label):
    """Returns the times of forward, backward and optimizer on the GPU, and of the whole step on the
    host, in ms; the GPU is idle before each phase. The ranges are for profilers."""
    result, output = {}, None
    began = time.perf_counter()
    for phase in ("forward", "backward", "optimizer"):
        begin, end = events(2)
        torch.cuda.nvtx.range_push(f"{label} {phase}")
        begin.record()
        if phase == "forward":
            output = training.forward()
        elif phase == "backward":
            training.backward(output)
            output = None
        else:
            training.optimizer.step()
        end.record()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
        result[phase] = begin.elapsed_time(end)
    result["step"] = (time.perf_counter() - began) * 1000
    return result


def free_running(training, step_seconds, nvml):
    """Returns (steps of a sample, ms of a step in each sample, state of the GPU under load): steps
    one after the other, and no waiting before the last."""
    steps = int(min(max(0.1 / step_seconds, 1), 10))
    times, state = [], None
    for _ in range(5 if step_seconds < 1 else 2):
        begin, end = events(2)
        begin.record()
        for _ in range(steps):
            training.step()
        end.record()
        state = nvml.state()
        end.synchronize()
        times.append(begin.elapsed_time(end) / steps)
    return steps, times, state


def input_copies(training):
    """Returns ms of copies of the batch from pageable memory, none for batches beyond 1 GiB."""
    if sum(tensor.nbytes for tensor in training.inputs) > 2**30:
        return []
    hosts = [torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in training.inputs]
    times = []
    for _ in range(6):
        begin, end = events(2)
        begin.record()
        for tensor, host in zip(training.inputs, hosts):
            tensor.copy_(host)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return times[1:]


class Measurement:
    """What all sections use: options, tables, time, and what happens to failures."""

    def __init__(self, options, raw, nvml):
        self.options, self.raw, self.nvml = options, raw, nvml
        self.budget = self.whole = Budget(options.budget)
        self.began = time.monotonic()
        self.rows = 0
        self.training = None

    def progress(self, text):
        elapsed = int(time.monotonic() - self.began)
        tell(f"[{elapsed // 60:3}:{elapsed % 60:02}] {text}")

    @contextlib.contextmanager
    def reporting(self, section, what):
        """Records a failure and lets the measurement continue."""
        try:
            yield
        except Exception as problem:  # pylint: disable=broad-exception-caught
            if isinstance(problem, Stop):
                raise
            self.training = None  # Its state is not known.
            why = f"{type(problem).__name__}: {problem}".splitlines()[0][:200]
            self.raw.failures.put(section, what, why)
            self.progress(f"{what}: {why}")
            try:
                torch.cuda.synchronize()
            except RuntimeError as lost:
                raise Stop(f"the GPU does not answer after this failure ({lost}); the same "
                           "command again goes on behind it") from lost

    def has_failed(self, section, what):
        return (section, what) in self.raw.failures

    # ------------------------------------------------------------------ launch, copies, operations

    def launch(self):
        x = torch.zeros(1, device="cuda")

        def put(what, sample, count=21):
            if (what,) in self.raw.launches or self.budget.is_spent():
                return
            sample()
            times = [sample() for _ in range(count)]
            self.raw.launches.put(what, len(times), *summary(times))
            self.rows += 1

        def between_events(calls):
            begin, end = events(2)
            begin.record()
            for _ in range(calls):
                x.add_(1)
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) * 1000 / max(calls, 1)

        def on_host(calls, wait):
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(calls):
                x.add_(1)
            if wait:
                torch.cuda.synchronize()
            return (time.perf_counter() - began) * 1e6 / calls

        put("two_events", lambda: between_events(0))
        put("one_kernel_between_events", lambda: between_events(1))
        put("kernel_of_1000_between_events", lambda: between_events(1000))
        put("launch_on_host", lambda: on_host(500, False))
        put("launch_and_wait_on_host", lambda: on_host(1, True))
        self.progress("launch latency is measured")

    def copies(self):
        for exponent in range(10, 31, 2):
            size = 2**exponent
            kinds = [("on_device", "none")] + [(direction, memory)
                                               for direction in ("host_to_device", "device_to_host")
                                               for memory in ("pinned", "pageable")]
            kinds = [kind for kind in kinds if (*kind, size) not in self.raw.copies]
            for direction, memory in kinds:
                what = f"copy {direction} {memory} {size}"
                if self.budget.is_spent():
                    return
                if self.has_failed("copies", what):
                    continue
                with self.reporting("copies", what):
                    target = torch.zeros(size, dtype=torch.uint8, device="cuda")
                    other = torch.zeros(size, dtype=torch.uint8, pin_memory=memory == "pinned",
                                        device="cuda" if memory == "none" else "cpu")
                    if direction == "device_to_host":
                        target, other = other, target
                    repetitions, times = time_calls(
                        functools.partial(target.copy_, other, non_blocking=True))
                    self.raw.copies.put(direction, memory, size, repetitions, len(times),
                                        *summary(times))
                    self.rows += 1
                target = other = None
            if kinds:
                self.progress(f"copies of {size} bytes are measured")
        tidy_up()

    def operations(self):
        told = set()
        for name, kind, shape, make in operation_list(self.options.precisions):
            what = f"{name} {kind} {shape}"
            if (name, kind, shape) in self.raw.operations or self.has_failed("operations", what):
                continue
            if self.budget.is_spent():
                return
            with self.reporting("operations", what):
                set_precision("tf32" if kind == "tf32" else "fp32")
                try:
                    function = make()
                    repetitions, times = time_calls(function)
                finally:
                    function = None
                self.raw.operations.put(name, kind, shape, repetitions, len(times),
                                        *summary(times))
                self.rows += 1
                if (name, kind) not in told:
                    told.add((name, kind))
                    self.progress(f"{what}: {statistics.median(times):.1f} us; other sizes follow")
        tidy_up()

    # ------------------------------------------------------------------ models

    def models(self):
        jobs = [(name, precision) for name in self.options.models
                for precision in self.options.precisions]
        for index, (name, precision) in enumerate(jobs):
            if self.budget.is_spent():
                break
            # Each job may take its share of the remaining time; unused time goes to the others.
            self.measure_model(name, precision, self.budget.part(1 / (len(jobs) - index)))
        self.drop_training()

    def training_of(self, name):
        """Returns the model; builds it if it is not the current one."""
        if self.training is None or self.training.name != name:
            self.drop_training()
            self.training = Training(name, catalogue()[name])
        return self.training

    def drop_training(self):
        self.training = None
        tidy_up()

    def measure_model(self, name, precision, budget):
        """Measures growing batches within the budget, which only the last one may exceed."""
        took = 0.0

        def outcome(batch):
            nonlocal took
            key, what = (name, precision, batch), f"{name} {precision} {batch}"
            if key in self.raw.steps:
                return self.raw.steps.get(key, "outcome") == "ok"
            # A batch of twice the size takes up to twice the time.
            if budget.rest() <= 2 * took or self.has_failed("models", what):
                return None
            ran, began = None, budget.clock()
            with self.reporting("models", what):
                ran = self.measure_step(name, batch, precision)
            took = budget.clock() - began
            return ran
        search_limit(self.options.batches, outcome)

    def row_if_it_fits(self, name, batch, precision):
        try:
            return self.step_row(self.training_of(name), batch, precision)
        except Exception as problem:  # pylint: disable=broad-exception-caught
            if not is_out_of_memory(problem):
                raise
        # Outside of the handler, which keeps what the step had allocated.
        self.drop_training()
        return None

    def measure_step(self, name, batch, precision):
        """Measures one batch and returns whether it fits. What earlier batches left scattered over
        the memory must not decide: out of memory counts for a model that was just built."""
        was_there = self.training is not None and self.training.name == name
        row = self.row_if_it_fits(name, batch, precision)
        if row is None and was_there:
            row = self.row_if_it_fits(name, batch, precision)
        key = (name, precision, batch)
        if row is None:
            blank = [None] * (len(self.raw.steps.columns) - len(key) - 1)
            self.raw.steps.put(*key, "out_of_memory", *blank)
            self.progress(f"{name} {precision} batch {batch}: out of memory")
        else:
            self.raw.steps.put(*key, *row)
        self.rows += 1
        return row is not None

    def step_row(self, training, batch, precision):
        label = f"{training.name} {precision} {batch}"
        training.load(batch, precision)
        torch.cuda.reset_peak_memory_stats()
        warm_up = []
        for _ in range(3):
            warm_up.append(timed_phases(training, f"warm-up {label}")["step"])
            if sum(warm_up) > 5000:
                break
        if (training.name,) not in self.raw.models:
            entry = training.entry
            self.raw.models.put(training.name, training.parameter_count(), *entry.shape,
                                entry.optimizer, entry.sample)
        samples, began = [], time.monotonic()
        while len(samples) < self.options.samples and \
                (len(samples) < 3 or time.monotonic() - began < 5):
            samples.append(timed_phases(training, label))
        persistent = torch.cuda.memory_allocated() / MIB
        steps, free, state = free_running(training, max(samples[-1]["step"], 0.1) / 1000, self.nvml)
        memory = [torch.cuda.max_memory_allocated() / MIB, torch.cuda.max_memory_reserved() / MIB,
                  persistent, self.nvml.used_mib()]
        memory = [None if mib is None else f"{mib:.4f}" for mib in memory]
        copies = input_copies(training)
        phases = [summary([sample[phase] for sample in samples])
                  for phase in ("forward", "backward", "optimizer", "step")]
        self.progress(f"{training.name} {precision} batch {batch}: forward {phases[0][0]:.3f} ms, "
                      f"backward {phases[1][0]:.3f}, optimizer {phases[2][0]:.3f}, free-running "
                      f"{statistics.median(free):.3f}, peak {memory[0]} MiB")
        return ["ok", len(samples), *sum(phases, []), len(free), steps, *summary(free),
                *(summary(copies) if copies else [None] * 3), *memory, *state]

    # ------------------------------------------------------------------ kernels

    def kernels(self):
        known = {(row["model"], row["precision"]) for row in self.raw.kernels.dictionaries()}
        for name, precision in ((n, p) for n in self.options.models
                                for p in self.options.precisions):
            what = f"{name} {precision}"
            batch = self.kernel_batch(name, precision)
            if (name, precision) in known or self.has_failed("kernels", what) or batch is None:
                continue
            if self.budget.is_spent():
                break
            with self.reporting("kernels", what):
                rows = profile_step(self.training_of(name), batch, precision)
                if not rows:
                    self.progress("PyTorch's profiler reports no kernels here; they are left out")
                    break
                self.raw.put_kernels((name, precision, batch), rows)
                self.rows += len(rows)
                self.progress(f"{what} batch {batch}: {len(rows)} kinds of kernels")
        self.drop_training()

    def kernel_batch(self, name, precision):
        """Returns the largest batch up to 16 that ran."""
        ran = [int(row["batch"]) for row in self.raw.steps.dictionaries()
               if (row["model"], row["precision"], row["outcome"]) == (name, precision, "ok")]
        return max((batch for batch in ran if batch <= 16), default=None)


def profile_step(training, batch, precision):
    """Returns ((kernel, grid, block), (count, total, shortest, longest in us)) of one step, those
    that take longest first."""
    training.load(batch, precision)
    for _ in range(3):
        training.step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        training.step()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        found = json.loads(trace.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
    return kernel_rows(found)


def kernel_rows(found):
    """Adds up the kernels of a trace, see profile_step()."""
    times = collections.defaultdict(list)
    for event in found:
        if event.get("cat") == "kernel":
            facts = event.get("args", {})
            grid, block = ("x".join(map(str, facts.get(key, []))) for key in ("grid", "block"))
            times[event["name"][:400], grid, block].append(float(event["dur"]))
    rows = [(key, (len(values), sum(values), min(values), max(values)))
            for key, values in times.items()]
    return sorted(rows, key=lambda row: -row[1][1])


# ---------------------------------------------------------------------------- operations

PRODUCTS = [(s, s, s) for s in (64, 128, 256, 512, 1024, 2048, 4096, 8192)] + [
    (m, n, k) for m in (1, 32, 256, 2048, 16384)
    for n, k in ((1024, 1024), (4096, 1024), (1024, 4096), (32000, 1024), (1000, 2048))]
# channels, side, filters, side of a filter, stride, groups: as ResNet, ResNeXt, MobileNet, ConvNeXt
CONVOLUTIONS = [(3, 224, 64, 7, 2, 1), (64, 56, 64, 3, 1, 1), (64, 56, 256, 1, 1, 1),
                (256, 28, 512, 1, 2, 1), (128, 28, 128, 3, 1, 1), (256, 14, 256, 3, 1, 1),
                (512, 7, 512, 3, 1, 1), (512, 7, 2048, 1, 1, 1), (256, 14, 256, 3, 1, 32),
                (96, 56, 96, 3, 1, 96), (384, 14, 384, 7, 1, 384)]
# batch, heads, length, features of a head
ATTENTIONS = [(8, 12, 128, 64), (8, 12, 512, 64), (8, 12, 1024, 64), (4, 16, 2048, 64),
              (1, 32, 4096, 128)]


def random(kind, *size, grad=False):
    number = torch.bfloat16 if kind == "bf16" else torch.float32
    return torch.randn(size, device="cuda", dtype=number, requires_grad=grad)


def product(kind, m, n, k):
    return functools.partial(torch.matmul, random(kind, m, k), random(kind, k, n))


def convolution(kind, direction, batch, shape):
    channels, side, filters, size, stride, groups = shape
    x = random(kind, batch, channels, side, side)
    weight = random(kind, filters, channels // groups, size, size)
    padding = size // 2
    if direction == "forward":
        return lambda: functional.conv2d(x, weight, stride=stride, padding=padding, groups=groups)
    after = functional.conv2d(x, weight, stride=stride, padding=padding, groups=groups)
    wanted = [direction == "backward_data", direction == "backward_filter", False]
    return lambda: torch.ops.aten.convolution_backward(
        after, x, weight, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, wanted)


def attention(kind, direction, causal, shape):
    query, key, value = (random(kind, *shape, grad=True) for _ in range(3))

    def forward():
        return functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    if direction == "forward":
        def without_gradient():
            with torch.no_grad():
                return forward()
        return without_gradient
    output = forward()
    gradient = torch.randn_like(output)
    return lambda: torch.autograd.grad(output, (query, key, value), gradient, retain_graph=True)


def elementwise(kind, name, count):
    x, y = random(kind, count), random(kind, count)
    return {"copy": lambda: y.copy_(x), "relu": lambda: torch.relu(x),
            "add": lambda: torch.add(x, y, out=y), "gelu": lambda: functional.gelu(x),
            "sum": lambda: torch.sum(x)}[name]


def rowwise(kind, name, rows, width):
    x, weight = random(kind, rows, width), random(kind, width)
    return {"layer_norm": lambda: functional.layer_norm(x, (width,), weight, weight),
            "softmax": lambda: torch.softmax(x, -1)}[name]


def image_wise(kind, name, batch, channels, side):
    x = random(kind, batch, channels, side, side)
    if name == "max_pool":
        return lambda: functional.max_pool2d(x, 3, 2, 1)
    layer = nn.BatchNorm2d(channels, device="cuda")
    return lambda: layer(x)


def embedding(kind, rows, width, tokens):
    table = random(kind, rows, width)
    return functools.partial(functional.embedding, whole_numbers(rows, tokens), table)


def operation_list(precisions):
    """Yields (operation, type, shape, function that returns the function to time)."""
    kinds = [{"bf16-amp": "bf16"}.get(precision, precision) for precision in precisions]
    later = functools.partial

    def text(*sizes):
        return "x".join(map(str, sizes))
    for kind in kinds:
        for sizes in PRODUCTS:
            yield "matmul", kind, text(*sizes), later(product, kind, *sizes)
        for batch in (1, 16, 64):
            for shape in CONVOLUTIONS:
                for direction in ("forward", "backward_data", "backward_filter"):
                    yield (f"convolution_{direction}", kind, text(batch, *shape),
                           later(convolution, kind, direction, batch, shape))
        for shape in ATTENTIONS:
            for direction in ("forward", "backward"):
                for causal in (False, True):
                    yield (f"attention_{direction}{'_causal' if causal else ''}", kind,
                           text(*shape), later(attention, kind, direction, causal, shape))
    for kind in kinds:
        if kind == "tf32":  # what follows has no matrix products
            continue
        for exponent in range(10, 29, 3):
            for name in ("copy", "relu", "add", "gelu", "sum"):
                yield name, kind, text(2**exponent), later(elementwise, kind, name, 2**exponent)
        for rows, width in ((8192, 768), (8192, 4096), (8192, 32000)):
            for name in ("layer_norm", "softmax"):
                yield name, kind, text(rows, width), later(rowwise, kind, name, rows, width)
        for sizes in ((16, 64, 112), (64, 256, 56), (64, 2048, 7)):
            for name in ("batch_norm", "max_pool"):
                yield name, kind, text(*sizes), later(image_wise, kind, name, *sizes)
        for sizes in ((50257, 768, 8192), (100_000, 64, 65536)):
            yield "embedding", kind, text(*sizes), later(embedding, kind, *sizes)


# ---------------------------------------------------------------------------- command line


def names_of(text):
    return [name for name in text.split(",") if name]


def chosen_from(known):
    def parse(text):
        if not names_of(text):
            raise argparse.ArgumentTypeError(f"choose from {', '.join(known)}")
        for name in names_of(text):
            if name not in known:
                raise argparse.ArgumentTypeError(f"there is no {name}; there are "
                                                 f"{', '.join(known)}")
        return [name for name in known if name in names_of(text)]
    return parse


def batch_list(text):
    try:
        batches = sorted({int(number) for number in names_of(text)})
    except ValueError:
        batches = []
    if not batches or batches[0] < 1 or batches[-1] > LARGEST_BATCH:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of batches such as 1,8,64")
    return batches


def positive(kind):
    def parse(text):
        try:
            number = kind(text)
        except ValueError:
            number = 0
        if not number > 0:
            raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
        return number
    return parse


def parse_options(arguments):
    parser = argparse.ArgumentParser(
        prog="measure_gpu.py", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--output", type=pathlib.Path, metavar="FOLDER",
        help="folder for the pack; its name becomes the pack's")
    add("--sections", type=chosen_from(SECTIONS), default=list(SECTIONS), metavar="LIST",
        help=f"of {','.join(SECTIONS)}; default: all")
    add("--models", type=names_of, default=["*"], metavar="LIST",
        help="names or patterns such as 'resnet*'; default: all")
    add("--precisions", type=chosen_from(PRECISIONS), default=list(PRECISIONS), metavar="LIST",
        help=f"of {','.join(PRECISIONS)}; default: all that the GPU has")
    add("--batches", type=batch_list, metavar="LIST",
        help="default: 1, 2, 4 and so on until the memory is full")
    add("--max-batch", type=positive(int), default=LARGEST_BATCH, metavar="N",
        help="the largest batch to try")
    add("--per-doubling", type=positive(int), default=1, metavar="N",
        help="batches per doubling of the batch size; default: 1")
    add("--samples", type=positive(int), default=10, metavar="N",
        help="steps per measurement, fewer if they take long, at least 3; default: 10")
    add("--budget", type=positive(float), default=math.inf, metavar="SECONDS",
        help="stop after about this time; models share it")
    add("--gpu", metavar="NAME", help="gpemu's name of the GPU, if it is not recognised")
    for name, what in (("title", "what the pack holds"), ("citation", "whom to cite"),
                       ("url", "where it is published"), ("licence", "of the numbers"),
                       ("note", "what is special about this GPU's measurements")):
        add(f"--{name}", metavar="TEXT", help=f"for pack.toml: {what}")
    add("--list", action="store_true", help="list the models and stop")
    options = parser.parse_args(arguments)
    if options.output is None and not options.list:
        parser.error("give --output FOLDER")
    if options.output is not None:
        options.output = options.output.resolve()
    for name, text in (("--output", options.output and options.output.name),
                       ("--gpu", options.gpu)):
        if text and not re.fullmatch(r"[\w-][\w.-]{0,99}", text, re.ASCII):
            parser.error(f"{name} {text}: use letters, digits, '_', '-' and '.'")
    if options.batches is None:
        options.batches = log_spaced(options.max_batch, options.per_doubling)
    options.batches = [batch for batch in options.batches if batch <= options.max_batch]
    if not options.batches:
        parser.error(f"none of --batches is at most {options.max_batch}, the --max-batch")
    return options


def supported(precisions, capability):
    """Returns the precisions that the GPU has: TF32 and BF16 came with compute capability 8.0."""
    if capability >= (8, 0):
        return precisions
    left_out = [precision for precision in precisions if precision != "fp32"]
    if left_out:
        tell(f"this GPU does not have {' and '.join(left_out)}, left out")
    return [precision for precision in precisions if precision == "fp32"]


def measure(options, raw):
    """Runs the sections; returns how the run ended."""
    properties = torch.cuda.get_device_properties(0)
    uuid = str(getattr(properties, "uuid", ""))
    nvml = Nvml(f"GPU-{uuid}" if uuid else "")
    adopt_facts(raw, gather_facts(options.gpu, nvml))
    stated = {name: getattr(options, name) for name in
              ("title", "citation", "url", "licence", "note") if getattr(options, name)}
    raw.facts["stated"] = {**raw.facts.get("stated", {}), **stated}
    options.precisions = supported(options.precisions, (properties.major, properties.minor))
    if raw.facts["torchvision"] == "none":
        tell("torchvision is not installed; its models are left out")
        vision = {name.partition(":")[0] for name in VISION_MODELS}
        options.models = [name for name in options.models if name not in vision]
    run = {"began": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
           "sections": options.sections, "precisions": options.precisions}
    raw.facts["runs"].append(run)
    raw.save_facts()
    tell(f"{raw.facts['product_name']} as {raw.facts['gpu']}, PyTorch {torch.__version__}, "
         f"{len(options.models)} models")
    measurement = Measurement(options, raw, nvml)
    ended = "finished"
    try:
        for section in options.sections:
            last = section == options.sections[-1]
            measurement.budget = measurement.whole.part(1 if last else SECTIONS[section])
            getattr(measurement, section)()
            write_pack(options.output, raw)
        if measurement.whole.is_spent():
            ended = "the budget is spent"
    except KeyboardInterrupt:
        ended = "interrupted"
    except Stop as stop:
        ended = str(stop)
    finally:
        run |= {"seconds": round(time.monotonic() - measurement.began, 1), "ended": ended,
                "rows": measurement.rows}
        raw.save_facts()
    return ended


def interrupt(*_):
    raise KeyboardInterrupt


def main(arguments=None):
    options = parse_options(arguments)
    try:
        options.models = choose_models(options.models)
        if options.list:
            for name in options.models:
                entry = catalogue()[name]
                print(f"{name:20} {entry.optimizer:6} {entry.sample}")
            return 0
        if torch is None:
            raise Stop(f"there is no PyTorch for {sys.executable}: {TORCH_ERROR}")
        if not torch.cuda.is_available():
            raise Stop("PyTorch finds no GPU")
        signal.signal(signal.SIGTERM, interrupt)
        raw = Raw(options.output / "raw")
        ended = measure(options, raw)
        models = write_pack(options.output, raw)
    except Stop as stop:
        tell(f"measure_gpu: {stop}")
        return 1
    except KeyboardInterrupt:
        return 130
    tell(f"{ended}: {len(raw.steps.rows)} batches of {models} models, {len(raw.operations.rows)} "
         f"operations, {len(raw.copies.rows)} copies, {len(raw.kernels.rows)} kinds of kernels, "
         f"{len(raw.failures.rows)} failures")
    if models:
        tell(f"wrote {options.output}; review it with: gpemu profile check {options.output}")
    if ended == "interrupted":
        return 130
    return 0 if ended in ("finished", "the budget is spent") else 1


if __name__ == "__main__":
    sys.exit(main())
