#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own databases of operators, also those of lists, on an emulated GPU with guards of
known values beside everything that an operator may write, and checks that no guard changes.

Each operator runs in four ways: forward and backward, with its results in small holes between
guards of 512 bytes and more; with `out=` a slice of a known tensor; in place on such a slice. The
result of a way is

  kept     no guard changed
  damaged  a guard changed, which must never happen
  refused  an error said so, or the operator does not have this way
  broken   the process ended, or took longer than 60 s

Results are kept in build/guards/, one line each; a run that was stopped goes on after the last. The
exit code is 1 if an operator damaged a guard or broke the process.

Usage: scripts/check/check_guards.py [--torch VERSION] [--gpu GPU] [--again] [--samples N]
       [OPERATOR...]
"""

import argparse
import collections
import ctypes
import itertools
import json
import sys

import check_operators
from check_operators import DTYPES, PATTERN, ROOT

WAYS = ("forward", "backward", "out", "in place")
GUARD = 0x3C
# Holes for results, by their size; blocks of PyTorch's allocator are multiples of 512 bytes.
HOLES = {512: 64, 1024: 32, 1536: 16, 2048: 16, 4096: 12, 8192: 8, 16384: 4, 65536: 2}
COPY_TO_HOST = 2  # cudaMemcpyDeviceToHost


class Arena:
    """Small blocks of device memory, of which every second one is a guard and the others are free,
    with the content that a program left there."""

    def __init__(self, torch):
        self.torch = torch
        self.runtime = ctypes.CDLL(check_operators.loaded_library("/libcudart.so"))
        self.runtime.cudaMemcpy.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t, ctypes.c_int]
        self.guards = []
        holes = []
        for size, count in HOLES.items():
            for _ in range(count):
                holes.append(torch.full((size,), PATTERN, dtype=torch.uint8).to("cuda"))
                self.guards.append(torch.full((size,), GUARD, dtype=torch.uint8).to("cuda"))
        del holes

    def damaged(self):
        """Returns which guards have changed, and mends them."""
        found = []
        for guard in self.guards:
            content = (ctypes.c_uint8 * guard.numel())()
            self.runtime.cudaMemcpy(content, guard.data_ptr(), guard.numel(), COPY_TO_HOST)
            if bytes(content) != bytes([GUARD]) * guard.numel():
                found.append(guard.numel())
                guard.copy_(self.torch.full((guard.numel(),), GUARD, dtype=self.torch.uint8))
        return found


class Slice:
    """A tensor within a larger one, whose other elements are known: behind `before` elements, and
    each `step` elements apart."""

    def __init__(self, torch, shape, dtype, before, step):
        self.torch = torch
        self.before = before
        count = 1
        for size in shape:
            count *= size
        width = torch.empty(0, dtype=dtype).element_size()
        whole = torch.full(((2 * before + count * step) * width,), GUARD, dtype=torch.uint8)
        if dtype == torch.bool:
            whole.fill_(1)
        self.known = whole
        self.whole = whole.to("cuda").view(dtype)
        self.view = self.whole[before : before + count * step : step].view(shape)
        self.own = self.torch.zeros(self.whole.shape, dtype=torch.bool)
        self.take_view()

    def take_view(self):
        """Notes which elements the tensor has now."""
        places = (self.view.size(), self.view.stride(), self.view.storage_offset())
        self.torch.as_strided(self.own, *places).fill_(True)

    def damaged(self):
        """Returns the elements that changed beside the slice, counted from its start."""
        content = self.whole.cpu().view(self.torch.uint8)
        changed = (content != self.known).view(-1, self.whole.element_size()).any(dim=1)
        self.take_view()  # Operators in place may have resized it.
        return [int(place) - self.before for place in (changed & ~self.own).nonzero()]


class Worker(check_operators.Worker):
    def __init__(self, samples):
        super().__init__(samples)
        from torch.testing._internal import common_methods_invocations as invocations

        for kind in ("unary", "binary", "pointwise", "reduce", "other"):
            for operator in getattr(invocations, f"foreach_{kind}_op_db"):
                self.operators.setdefault(operator.formatted_name, operator)
        self.arena = Arena(self.torch)
        self.kinds = itertools.cycle([(64, 1), (61, 1), (64, 3)])  # Aligned, not, with gaps.

    def slices_like(self, tensors):
        kind = next(self.kinds)
        return [Slice(self.torch, tuple(t.shape), t.dtype, *kind) for t in tensors]

    def forward(self, operator, sample):
        inputs = self.move((sample.input, sample.args, sample.kwargs))
        operator(inputs[0], *inputs[1], **inputs[2])
        return []

    def backward(self, operator, sample):
        torch = self.torch
        inputs = self.move((sample.input, sample.args, sample.kwargs))
        leaves = [
            tensor.requires_grad_()
            for tensor in self.tensors(inputs)
            if tensor.is_leaf and tensor.dtype.is_floating_point
        ]
        outputs = self.tensors(operator(inputs[0], *inputs[1], **inputs[2]))
        outputs = [tensor for tensor in outputs if tensor.requires_grad]
        if not outputs or not leaves:
            return None
        known = [torch.ones(t.shape, dtype=t.dtype).to("cuda") for t in outputs]
        torch.autograd.grad(outputs, leaves, known, allow_unused=True)
        return []

    def out(self, operator, sample):
        if not operator.supports_out:
            return None
        if operator.name == "nn.functional.avg_pool2d":
            return None  # PyTorch writes the result without gaps, whatever the strides are.
        results = operator(sample.input, *sample.args, **sample.kwargs)
        inputs = self.move((sample.input, sample.args, sample.kwargs))
        slices = self.slices_like(self.tensors(results))
        views = tuple(part.view for part in slices)
        if not views:
            return None
        out = views if isinstance(results, (list, tuple)) else views[0]
        operator(inputs[0], *inputs[1], **inputs[2], out=out)
        return slices

    def in_place(self, operator, sample):
        if operator.name == "as_strided":
            return None  # Its result is memory beside the slice.
        function = operator.inplace_variant
        if function is None:
            return None
        if operator.name == "mvlgamma" and not sample.input.is_floating_point():
            return None  # PyTorch divides by zero.
        inputs = self.move((sample.input, sample.args, sample.kwargs))
        tensors = self.tensors(inputs[0])
        slices = self.slices_like(tensors)
        if not slices:
            return None
        for part, tensor in zip(slices, tensors, strict=True):
            part.view.copy_(tensor)
        views = [part.view for part in slices]
        function(views if isinstance(inputs[0], list) else views[0], *inputs[1], **inputs[2])
        return slices

    def way(self, way, operator, sample):
        """Returns the result of a sample in one way."""
        try:
            self.soil()
            slices = getattr(self, way.replace(" ", "_"))(operator, sample)
            if slices is None:
                return None, ""
        except Exception as error:
            slices, text = [], f"{type(error).__name__}: {error}".splitlines()[0]
            result = "refused"
        else:
            result, text = "kept", ""
        guards = self.arena.damaged()
        if guards:
            return "damaged", f"guards of {guards[:8]} bytes"
        for part in slices:
            if places := part.damaged():
                about = f"{tuple(part.view.shape)} {part.view.dtype}"
                return "damaged", f"beside {about}: elements {places[0]} to {places[-1]}"
        return result, text

    def results(self, name, operator, sample):
        for way in WAYS:
            self.torch.manual_seed(2)
            result, note = self.way(way, operator, sample)
            yield result and f"{way}: {result}", note


def damages(entry):
    return [key for key in entry["counts"] if key.endswith("damaged") or key == "broken"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    check_operators.add_options(parser)
    options = parser.parse_args()
    if options.worker:
        return check_operators.work(Worker(options.samples))
    options.folder = ROOT / "build/guards"
    options.folder.mkdir(parents=True, exist_ok=True)
    options.name = f"{options.torch}-{options.gpu}"
    options.script = __file__

    def line(entry):
        bad = damages(entry)
        return f"{'damages' if bad else 'keeps':8} {entry['operator']} " + "; ".join(
            f"{key} ({entry['notes'].get(key, '')})" for key in bad
        )

    path = options.folder / f"{options.name}.jsonl"
    entries, _ = check_operators.run_all(options, path, line)
    total = collections.Counter()
    for entry in entries:
        total.update(entry["counts"])
    bad = [entry for entry in entries if damages(entry)]
    print(", ".join(f"{key} {number}" for key, number in sorted(total.items())))
    print(f"{len(entries)} operators, of which {len(bad)} damage a guard or break the process")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
