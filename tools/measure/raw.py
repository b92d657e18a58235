#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times single operations and writes CSV: what tools/measure/measure_gpu.py does not have.

    raw.py --output FILE.csv [--seconds S] [--only PREFIX]

Calls run back to back between two events, behind a product that keeps the GPU busy until they are
launched. Rows that FILE has are skipped; begun but unfinished ones (FILE.begun), too.
"""

import argparse
import csv
import gc
import os
import statistics
import sys
import threading
import time
import warnings

warnings.simplefilter("ignore")
BEGAN = time.monotonic()  # before the imports that take long
import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

KINDS = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32,
         "tf32": torch.float32, "fp64": torch.float64}
SIZES = {"fp16": 2, "bf16": 2, "fp32": 4, "tf32": 4, "fp64": 8, "int8": 1, "fp8": 1}
LISTS = []
MIB = 2**20


def rnd(kind, *size):
    return torch.randn(*size, device="cuda", dtype=KINDS[kind])


# ---- each entry: (op, kind, shape text, flops, bytes, make) with make() -> callable

def product(kind, m, n, k):
    def make():
        if kind == "int8":
            a = torch.randint(-9, 9, (m, k), device="cuda", dtype=torch.int8)
            b = torch.randint(-9, 9, (n, k), device="cuda", dtype=torch.int8).t()
            return lambda: torch._int_mm(a, b)
        if kind == "fp8":
            a = torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn)
            b = torch.randn(n, k, device="cuda").to(torch.float8_e4m3fn).t()
            one = torch.ones((), device="cuda")
            return lambda: torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16)
        a, b = rnd(kind, m, k), rnd(kind, n, k).t()
        return lambda: a @ b
    size = SIZES[kind]
    out = {"int8": 4, "fp8": 2}.get(kind, size)
    return ("matmul", kind, f"{m}x{n}x{k}", 2 * m * n * k,
            size * (m * k + n * k) + out * m * n, make)


def batched(kind, b, m, n, k):
    def make():
        x, y = rnd(kind, b, m, k), rnd(kind, b, k, n)
        return lambda: torch.bmm(x, y)
    return ("bmm", kind, f"{b}x{m}x{n}x{k}", 2 * b * m * n * k,
            SIZES[kind] * b * (m * k + n * k + m * n), make)


def convolution(kind, layout, direction, batch, shape):
    c, side, f, window, stride, groups = shape
    out = (side + stride - 1) // stride

    def make():
        form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
        x = rnd(kind, batch, c, side, side).contiguous(memory_format=form)
        w = rnd(kind, f, c // groups, window, window).contiguous(memory_format=form)
        pad = window // 2
        if direction == "forward":
            return lambda: functional.conv2d(x, w, None, stride, pad, 1, groups)
        y = functional.conv2d(x, w, None, stride, pad, 1, groups)
        mask = [direction == "data", direction == "filter", False]
        back = torch.ops.aten.convolution_backward
        return lambda: back(y, x, w, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], groups,
                            mask)
    flops = 2 * batch * out * out * f * (c // groups) * window * window
    moved = SIZES[kind] * (batch * (c * side * side + f * out * out)
                           + f * c // groups * window * window)
    return (f"conv_{direction}_{layout}", kind,
            f"n{batch}c{c}s{side}f{f}k{window}st{stride}g{groups}", flops, moved, make)


BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
            "math": SDPBackend.MATH, "cudnn": SDPBackend.CUDNN_ATTENTION}


def attention(kind, backend, direction, causal, batch, heads, queries, keys, width):
    def make():
        q = rnd(kind, batch, heads, queries, width)
        k, v = rnd(kind, batch, heads, keys, width), rnd(kind, batch, heads, keys, width)
        if direction == "backward":
            for tensor in (q, k, v):
                tensor.requires_grad_()
            with sdpa_kernel(BACKENDS[backend]):
                out = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            g = torch.randn_like(out)
            return lambda: torch.autograd.grad(out, (q, k, v), g, retain_graph=True)

        def run():
            with sdpa_kernel(BACKENDS[backend]):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return run
    flops = 4 * batch * heads * queries * keys * width // (2 if causal else 1)
    moved = SIZES[kind] * batch * heads * width * (2 * queries + 2 * keys)
    if direction == "backward":
        flops, moved = flops * 5 // 2, 2 * moved
    return (f"attention_{direction}_{backend}{'_causal' if causal else ''}", kind,
            f"{batch}x{heads}x{queries}x{keys}x{width}", flops, moved, make)


def stream(kind, name, size):
    """`size` bytes in each array."""
    count = size // SIZES[kind]
    arrays = {"add": 3, "copy": 2, "mul_": 2, "sum": 1, "fill": 1, "add_cold": 3, "sigmoid": 2}

    def make():
        if name == "add_cold":  # another array each time, until 512 MiB have passed
            sets = [[torch.ones(count, device="cuda", dtype=KINDS[kind]) for _ in range(3)]
                    for _ in range(max(2, (512 * MIB) // (3 * size)))]
            turn = [0]

            def cold():
                a, b, c = sets[turn[0] % len(sets)]
                turn[0] += 1
                torch.add(a, b, out=c)
            return cold
        a = torch.ones(count, device="cuda", dtype=KINDS[kind])
        b, c = (torch.ones_like(a), torch.empty_like(a)) if name == "add" else (None, None)
        out = torch.empty_like(a) if name in ("copy", "sigmoid") else None
        return {"add": lambda: torch.add(a, b, out=c), "copy": lambda: out.copy_(a),
                "mul_": lambda: a.mul_(1.0), "sum": lambda: a.sum(), "fill": lambda: a.fill_(1.0),
                "sigmoid": lambda: torch.sigmoid(a, out=out)}[name]
    return name, kind, str(size), 0, arrays[name] * size, make


def simple(name, kind, shape, moved, make, flops=0):
    return name, kind, "x".join(map(str, shape)), flops, moved, make


def backward_of(function, *inputs):
    for tensor in inputs:
        tensor.requires_grad_()
    out = function(*inputs)
    g = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, inputs, g, retain_graph=True)


def rows_and_others():
    for kind in ("fp16", "bf16", "fp32"):
        for rows, width in ((4096, 768), (8192, 1024), (2048, 4096), (16384, 4096), (8192, 128),
                            (50432, 768)):
            size, shape = SIZES[kind], (rows, width)
            total = size * rows * width

            def norm(kind=kind, shape=shape):
                x, w, b = rnd(kind, *shape), rnd(kind, shape[1]), rnd(kind, shape[1])
                return lambda: functional.layer_norm(x, shape[1:], w, b)

            def norm_back(kind=kind, shape=shape):
                x, w, b = rnd(kind, *shape), rnd(kind, shape[1]), rnd(kind, shape[1])
                return backward_of(lambda x, w, b: functional.layer_norm(x, shape[1:], w, b),
                                   x, w, b)

            def soft(kind=kind, shape=shape):
                x = rnd(kind, *shape)
                return lambda: torch.softmax(x, -1)

            def soft_back(kind=kind, shape=shape):
                return backward_of(lambda x: torch.softmax(x, -1), rnd(kind, *shape))

            def gelu(kind=kind, shape=shape):
                x = rnd(kind, *shape)
                return lambda: functional.gelu(x)

            def drop(kind=kind, shape=shape):
                x = rnd(kind, *shape)
                return lambda: functional.dropout(x, 0.1)

            def total_of(kind=kind, shape=shape):
                x = rnd(kind, *shape)
                return lambda: x.sum(0)

            def turn(kind=kind, shape=shape):
                x = rnd(kind, *shape)
                return lambda: x.t().contiguous()
            for name, moved, make in (("layer_norm", 2, norm), ("layer_norm_back", 3, norm_back),
                                      ("softmax", 2, soft), ("softmax_back", 3, soft_back),
                                      ("gelu", 2, gelu), ("dropout", 2, drop),
                                      ("sum_rows", 1, total_of), ("transpose", 2, turn)):
                yield simple(name, kind, shape, moved * total, make)
        if kind == "fp32":
            continue
        for batch, c, side in ((64, 64, 112), (64, 256, 56), (64, 512, 28), (64, 2048, 7)):
            for layout in ("nchw", "nhwc"):
                form = torch.channels_last if layout == "nhwc" else torch.contiguous_format
                shape = (batch, c, side, side)
                total = SIZES[kind] * batch * c * side * side

                def bn(kind=kind, shape=shape, form=form):
                    x = rnd(kind, *shape).contiguous(memory_format=form)
                    w, b, m, v = (torch.ones(shape[1], device="cuda") for _ in range(4))
                    return lambda: functional.batch_norm(x, m, v, w, b, True)

                def bn_back(kind=kind, shape=shape, form=form):
                    x = rnd(kind, *shape).contiguous(memory_format=form)
                    w, b, m, v = (torch.ones(shape[1], device="cuda") for _ in range(4))
                    return backward_of(lambda x, w, b: functional.batch_norm(x, m, v, w, b, True),
                                       x, w, b)

                def pool(kind=kind, shape=shape, form=form):
                    x = rnd(kind, *shape).contiguous(memory_format=form)
                    return lambda: functional.max_pool2d(x, 3, 2, 1)

                def change(kind=kind, shape=shape, layout=layout):
                    x = rnd(kind, *shape)
                    if layout == "nchw":
                        x = x.contiguous(memory_format=torch.channels_last)
                        return lambda: x.contiguous()
                    return lambda: x.contiguous(memory_format=torch.channels_last)
                for name, moved, make in (("batch_norm", 3, bn), ("batch_norm_back", 5, bn_back),
                                          ("max_pool", 1.25, pool), ("to_layout", 2, change)):
                    yield simple(f"{name}_{layout}", kind, shape, int(moved * total), make)
    for rows, width, count in ((50257, 768, 8192), (30522, 1024, 4096), (1000000, 64, 32768),
                               (128256, 4096, 2048)):
        def lookup(rows=rows, width=width, count=count):
            table = rnd("fp32", rows, width)
            ids = torch.randint(0, rows, (count,), device="cuda")
            return lambda: functional.embedding(ids, table)

        def lookup_back(rows=rows, width=width, count=count):
            ids = torch.randint(0, rows, (count,), device="cuda")
            return backward_of(lambda t: functional.embedding(ids, t), rnd("fp32", rows, width))
        shape = (rows, width, count)
        yield simple("embedding", "fp32", shape, 8 * count * width, lookup)
        yield simple("embedding_back", "fp32", shape, 4 * rows * width + 8 * count * width,
                     lookup_back)
    for rows, width in ((8192, 50257), (4096, 30522), (256, 1000)):
        def entropy(rows=rows, width=width):
            x, t = rnd("fp32", rows, width), torch.randint(0, width, (rows,), device="cuda")
            return lambda: functional.cross_entropy(x, t)
        yield simple("cross_entropy", "fp32", (rows, width), 16 * rows * width, entropy)
    for count in (2**20, 2**24, 2**28):
        def cast(count=count):
            x = rnd("fp32", count)
            return lambda: x.half()

        def cast_up(count=count):
            x = rnd("fp16", count)
            return lambda: x.float()

        def sort(count=count):
            x = rnd("fp32", count // 16)
            return lambda: torch.sort(x)

        def scan(count=count):
            x = rnd("fp32", count)
            return lambda: torch.cumsum(x, 0)

        def gather(count=count):
            x, i = rnd("fp32", count), torch.randint(0, count, (count // 4,), device="cuda")
            return lambda: x[i]
        yield simple("cast_down", "fp32", (count,), 6 * count, cast)
        yield simple("cast_up", "fp16", (count,), 6 * count, cast_up)
        yield simple("sort", "fp32", (count // 16,), count // 2, sort)
        yield simple("cumsum", "fp32", (count,), 8 * count, scan)
        yield simple("gather", "fp32", (count,), 4 * count, gather)
    for name, more in (("sgd", {}), ("adamw", {}), ("adamw", {"fused": True})):
        def optimizer(name=name, more=more):
            values = [torch.ones(2**20, device="cuda", requires_grad=True) for _ in range(100)]
            for value in values:
                value.grad = torch.ones_like(value)
            kind = torch.optim.SGD if name == "sgd" else torch.optim.AdamW
            if name == "sgd":
                more = {"momentum": 0.9}
            return kind(values, 1e-4, **more).step
        yield simple(f"optimizer_{name}{'_fused' if more else ''}", "fp32", (100, 2**20),
                     100 * 2**20 * 4 * (5 if name == "sgd" else 7), optimizer)


def products():
    squares = (256, 512, 1024, 2048, 4096, 8192, 16384)
    for kind in ("fp16", "fp8", "int8"):
        for s in squares:
            yield product(kind, s, s, s)
    for s in (3072, 5120, 6144, 12288, 16384, 4000, 4100):
        yield product("bf16", s, s, s)
    for s in (1024, 4096, 8192, 12288):
        yield product("tf32", s, s, s)
    for kind in ("bf16", "fp16", "fp8"):
        for n, k in ((4096, 4096), (11008, 4096), (4096, 11008), (32000, 4096), (768, 768),
                     (3072, 768), (768, 3072)):
            for m in (1, 8, 16, 32, 64, 128, 512, 4096):
                if kind != "fp16" or n in (4096, 768):
                    yield product(kind, m, n, k)
    for kind in ("bf16", "tf32", "fp32"):
        for b, m, n, k in ((384, 128, 128, 64), (384, 128, 64, 128), (96, 1024, 1024, 64),
                           (96, 1024, 64, 1024), (8192, 27, 27, 64)):
            yield batched(kind, b, m, n, k)
    for s in (2048, 8192):
        yield product("fp64", s, s, s)
    for s in (2048, 4096, 8192):
        yield product("fp32", s, s, s)


def convolutions():
    shapes = ((64, 56, 64, 3, 1, 1), (64, 56, 256, 1, 1, 1), (256, 56, 64, 1, 1, 1),
              (128, 28, 128, 3, 1, 1), (256, 14, 256, 3, 1, 1), (512, 7, 512, 3, 1, 1),
              (512, 7, 2048, 1, 1, 1), (256, 28, 512, 1, 2, 1), (3, 224, 64, 7, 2, 1),
              (3, 224, 96, 4, 4, 1), (128, 112, 128, 3, 1, 1), (512, 28, 512, 3, 1, 1),
              (128, 56, 128, 3, 1, 32), (512, 14, 512, 3, 1, 32),
              (32, 112, 32, 3, 1, 32), (144, 56, 144, 3, 1, 144), (96, 56, 96, 7, 1, 96),
              (384, 14, 384, 7, 1, 384), (960, 7, 960, 3, 1, 960), (240, 28, 240, 5, 1, 240))
    for direction in ("forward", "data", "filter"):
        for kind, layout in (("fp16", "nhwc"), ("fp16", "nchw"), ("tf32", "nhwc"),
                             ("bf16", "nhwc")):
            for shape in shapes:
                if direction == "data" and shape[0] == 3:
                    continue
                yield convolution(kind, layout, direction, 64, shape)
    for layout in ("nhwc", "nchw"):
        for shape in ((320, 64, 320, 3, 1, 1), (640, 32, 640, 3, 1, 1), (1280, 16, 1280, 3, 1, 1)):
            yield convolution("fp16", layout, "forward", 8, shape)
    for shape in shapes:
        if shape[0] != 3:
            yield convolution("fp16", "nhwc", "forward", 1, shape)
            yield convolution("fp16", "nhwc", "forward", 256, shape)


def attentions():
    for direction in ("forward", "backward"):
        for backend in ("flash", "cudnn", "efficient", "math"):
            for shape in ((32, 12, 128, 128, 64), (8, 12, 1024, 1024, 64), (64, 12, 197, 197, 64),
                          (4, 32, 2048, 2048, 64), (1, 32, 4096, 4096, 128),
                          (2, 16, 8192, 8192, 128)):
                for causal in (False, True):
                    if backend == "math" and shape[2] > 4096:
                        continue
                    yield attention("bf16", backend, direction, causal, *shape)
    for shape in ((8, 12, 1024, 1024, 64), (1, 32, 4096, 4096, 128)):
        yield attention("fp32", "efficient", "forward", False, *shape)
        yield attention("fp32", "efficient", "backward", False, *shape)
    for batch, keys in ((1, 512), (1, 4096), (8, 2048), (32, 2048), (32, 8192)):
        for backend in ("flash", "efficient", "math"):
            yield attention("bf16", backend, "forward", False, batch, 32, 1, keys, 128)


def streams():
    sizes = [2**e for e in range(10, 31, 2)] + [m * MIB for m in (2, 8, 12, 16, 20, 24, 28, 32, 40,
                                                                  48, 56, 64, 80, 96, 128, 512)]
    for name, kind in (("copy", "fp16"), ("add", "fp32"), ("sum", "fp32"), ("mul_", "fp16"),
                       ("fill", "fp32"), ("sigmoid", "fp16")):
        for size in sorted(set(sizes)):
            yield stream(kind, name, size)
    for size in (1, 4, 8, 16, 32, 64):
        yield stream("fp32", "add_cold", size * MIB)


def interleaved(*lists):
    lists = [list(entries) for entries in lists]
    order = sorted((((i + 0.5) / len(entries), n, i) for n, entries in enumerate(lists)
                    for i in range(len(entries))))
    return [lists[n][i] for _, n, i in order]


# ---------------------------------------------------------------------------- timing


def timer():
    block = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
    out = torch.empty_like(block)

    def sample(function, count, blocks):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(blocks):
            torch.mm(block, block, out=out)
        began = time.perf_counter()
        begin.record()
        for _ in range(count):
            function()
        end.record()
        launched = time.perf_counter() - began
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / count, launched * 1e6 / count

    def measure(function):
        for _ in range(2):
            function()
        torch.cuda.synchronize()
        once, launch = sample(function, 2, 1)
        count = int(min(max(2000 / max(once, 0.1), 2), 40))
        # About 1.4 ms for each product that blocks.
        blocks = int(min(max(1.5 * count * launch / 1400, 1), 6))
        if once > 500:
            blocks = 1
        samples = [sample(function, count, blocks) for _ in range(3)]
        return count, [s[0] for s in samples], min(s[1] for s in samples)
    return measure


def sustained(path):
    """Writes times, clocks and power while one kind of product runs for a second."""
    handle = None
    try:
        import pynvml
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    except Exception:
        pass

    def state():
        values = []
        for ask in (lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
                    lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                    lambda: pynvml.nvmlDeviceGetTemperature(handle, 0),
                    lambda: hex(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))):
            try:
                values.append(ask())
            except Exception:
                values.append("")
        return values
    shape = (256, 56, 256, 3, 1, 1)
    cases = [product("fp16", 8192, 8192, 8192), product("bf16", 8192, 8192, 8192),
             product("fp8", 8192, 8192, 8192), convolution("fp16", "nhwc", "forward", 64, shape),
             product("fp32", 4096, 4096, 4096), stream("fp32", "add", 512 * MIB)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(("op", "kind", "shape", "chunk", "ms_per_call", "tflops", "gb_per_s",
                      "sm_mhz", "power_w", "temperature", "reasons"))
        for op, kind, shape, flops, moved, make in cases:
            try:
                torch.backends.cuda.matmul.allow_tf32 = False
                function = make()
                function()
                torch.cuda.synchronize()
                ends = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
                ends[0].record()
                function()
                ends[1].record()
                torch.cuda.synchronize()
                count = int(min(max(80 / max(ends[0].elapsed_time(ends[1]), 0.05), 2), 400))
                for chunk in range(10):
                    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    begin.record()
                    for _ in range(count):
                        function()
                    end.record()
                    now = state()
                    end.synchronize()
                    ms = begin.elapsed_time(end) / count
                    out.writerow((op, kind, shape, chunk, round(ms, 5),
                                  round(flops / ms / 1e9, 2), round(moved / ms / 1e6, 1), *now))
            except Exception as problem:
                out.writerow((op, kind, shape, str(problem)[:100]))
            file.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    began = BEGAN
    gc.freeze()
    sustained_path = os.path.splitext(options.output)[0] + "_sustained.csv"
    if not os.path.exists(sustained_path) and not options.only:
        sustained(sustained_path)
    torch.backends.cudnn.benchmark = False
    entries = interleaved(products(), convolutions(), attentions(), streams(), rows_and_others())
    begun, known = options.output + ".begun", set()
    if os.path.exists(begun):
        with open(begun, encoding="utf-8") as file:
            known = set(file.read().splitlines())
    measure, failures = timer(), 0
    new = not os.path.exists(options.output)
    alive = [time.monotonic()]

    def watch():
        while True:
            time.sleep(1)
            if time.monotonic() - alive[0] > 12:
                os._exit(9)
    threading.Thread(target=watch, daemon=True).start()
    with open(options.output, "a", encoding="utf-8", newline="") as file, \
            open(begun, "a", encoding="utf-8") as log:
        out = csv.writer(file)
        if new:
            out.writerow(("op", "kind", "shape", "flops", "bytes", "count", "median_us", "min_us",
                          "max_us", "launch_us", "tflops", "gb_per_s", "outcome"))
        for op, kind, shape, flops, moved, make in entries:
            key = f"{op} {kind} {shape}"
            if key in known or not op.startswith(options.only):
                continue
            if time.monotonic() - began > options.seconds:
                break
            log.write(key + "\n")
            log.flush()
            alive[0] = time.monotonic()
            torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
            torch.backends.cudnn.allow_tf32 = kind == "tf32"
            function = None
            try:
                function = make()
                count, times, launch = measure(function)
                median = statistics.median(times)
                row = (count, *(round(t, 3) for t in (median, min(times), max(times), launch)),
                       round(flops / median / 1e6, 3), round(moved / median / 1e3, 2), "ok")
                failures = 0
            except Exception as problem:
                row = ("",) * 7 + (f"{type(problem).__name__}: {str(problem)[:120]}".replace(
                    "\n", " "),)
                failures += 1
            out.writerow((op, kind, shape, flops, moved, *row))
            file.flush()
            function = None
            try:
                if moved > 64 * MIB:
                    gc.collect()
                torch.cuda.synchronize()
            except Exception:
                return 3
            if failures > 30:
                return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
