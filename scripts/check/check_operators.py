#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own database of operators on an emulated GPU whose memory was filled with a
pattern before, and compares each result with the CPU's.

An operator is, by the worst of its samples:

  right    every result is the CPU's, within the tolerance of torch.testing
  zero     some result is not, and gpemu counted that the program read values not computed
  refused  an error said so; some samples may be right
  wrong    some result is not the CPU's, and nothing was counted
  stale    a result contains the pattern of the previous memory, which must never happen
  broken   the process ended, or took longer than 60 s

Results are kept in build/operators/, one line each; a run that was stopped goes on after the last.
One process runs the operators; where it ends, the next one begins with the operator after. The page
docs/reference/pytorch-conformance.md takes the counts when all operators were run. The exit code is
1 when an operator was stale, wrong or broken that scripts/check/check_operators.py does not name.

Usage: scripts/check/check_operators.py [--torch VERSION] [--gpu GPU] [--again] [--show RESULT]
       [--samples N] [OPERATOR...]
"""

import argparse
import collections
import contextlib
import ctypes
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/pytorch-conformance.md"
BEGIN, END = "<!-- operators: begin -->\n", "<!-- operators: end -->\n"
RESULTS = ("right", "zero", "refused", "wrong", "stale", "broken")
TIME_LIMIT_S = 60
START_LIMIT_S = 300
DTYPES = ("float32", "int64", "bool", "float16", "complex64")
PATTERN = 0xA7

# Their results are uninitialised memory, or cannot be compared.
UNINITIALISED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}


# ---- The worker: runs under gpemu, in PyTorch's Python


def loaded_library(name):
    """Returns the path of a library that this process uses."""
    for line in pathlib.Path("/proc/self/maps").read_text("utf-8").splitlines():
        if name in line:
            return line.split(None, 5)[5]
    sys.exit(f"check_operators: {name} is not loaded; run under gpemu")


class Worker:
    def __init__(self, samples):
        import torch
        from torch.testing._internal.common_methods_invocations import op_db

        self.torch = torch
        self.samples = samples
        self.operators = {}
        for operator in op_db:
            self.operators.setdefault(operator.formatted_name, operator)
        torch.cuda.init()
        self.library = ctypes.CDLL(loaded_library("/libgpemu.so"))
        self.library.gpemu_cuda_not_computed_bytes.restype = ctypes.c_uint64
        self.pattern = [
            torch.full((size << 20,), PATTERN, dtype=torch.uint8) for size in (1, 1, 1, 8)
        ]

    def not_computed(self):
        return self.library.gpemu_cuda_not_computed_bytes()

    def soil(self):
        """Writes the pattern to the blocks that PyTorch's allocator will hand out next."""
        blocks = [data.to("cuda") for data in self.pattern]
        del blocks

    def move(self, value):
        torch = self.torch
        if isinstance(value, torch.Tensor):
            if value.device.type != "cpu":
                return value
            if value.layout != torch.strided or not value.numel():
                return value.detach().to("cuda")
            # As in the samples: with strides, aliases, and the surrounding storage.
            size = value.untyped_storage().nbytes() // value.element_size()
            whole = torch.as_strided(value.detach(), (size,), (1,), 0).to("cuda")
            view = (value.size(), value.stride(), value.storage_offset())
            moved = torch.as_strided(whole, *view)
            moved = moved.conj() if value.is_conj() else moved
            return torch._neg_view(moved) if value.is_neg() else moved
        if isinstance(value, (list, tuple)):
            moved = [self.move(item) for item in value]
            return type(value)(*moved) if hasattr(value, "_fields") else type(value)(moved)
        if isinstance(value, dict):
            return {key: self.move(item) for key, item in value.items()}
        if isinstance(value, torch.device) or value == "cpu":
            return "cuda"
        return value

    def tensors(self, value):
        if isinstance(value, self.torch.Tensor):
            return [value]
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, (list, tuple)):
            return [tensor for item in value for tensor in self.tensors(item)]
        return []

    def stale(self, tensor):
        """Returns whether an element contains only the pattern."""
        torch = self.torch
        if tensor.layout != torch.strided or tensor.numel() == 0:
            return False
        data = tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        if data.is_quantized:
            data = data.int_repr()
        size = data.element_size()
        data = torch.as_strided(data, (data.numel(),), (1,)).view(torch.uint8).reshape(-1, size)
        return bool((data == PATTERN).all(dim=1).any())

    def same(self, own, reference):
        torch = self.torch
        try:
            torch.testing.assert_close(own, reference, equal_nan=True, check_device=False)
        except AssertionError:
            return False
        return True

    def results(self, name, operator, sample):
        """Yields the results of one sample, each with a note. None: there is none."""
        self.torch.manual_seed(2)
        yield self.sample(name, operator, sample)

    def sample(self, name, operator, sample):
        """Returns the result of one sample."""
        torch = self.torch
        try:
            reference = operator(sample.input, *sample.args, **sample.kwargs)
        except Exception:
            return None, ""
        try:
            self.soil()
            inputs = self.move((sample.input, sample.args, sample.kwargs))
            before = self.not_computed()
            output = operator(inputs[0], *inputs[1], **inputs[2])
            own = [tensor.cpu() for tensor in self.tensors(output)]
            counted = self.not_computed() > before
        except NotImplementedError as error:
            return "refused", str(error)
        except Exception as error:
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            # A size or flag that was not computed may break what comes after.
            return ("zero" if self.not_computed() > before else "refused"), text
        references = self.tensors(reference)
        if name.split("_variant")[0] in UNINITIALISED or operator.name in UNINITIALISED:
            return "right", ""
        plain = isinstance(output, (int, float, bool))
        right = len(own) == len(references) and (not plain or output == reference)
        for tensor, expected in zip(own, references):
            if self.stale(tensor) and not self.stale(expected):
                return "stale", f"{tuple(tensor.shape)} {tensor.dtype}"
            right = right and tensor.shape == expected.shape and self.same(tensor, expected)
        if right:
            return "right", ""
        shape = [tuple(tensor.shape) for tensor in own]
        return ("zero" if counted else "wrong"), f"{shape} {[str(t.dtype) for t in own]}"

    def run(self, name):
        torch = self.torch
        operator = self.operators[name]
        counts = collections.Counter()
        notes = {}
        for dtype_name in DTYPES:
            dtype = getattr(torch, dtype_name)
            if dtype not in operator.dtypes:
                continue
            torch.manual_seed(1)
            try:
                samples = list(operator.sample_inputs("cpu", dtype, requires_grad=False))
            except Exception:
                continue
            step = max(1, len(samples) // self.samples)
            for sample in samples[::step][: self.samples]:
                for result, note in self.results(name, operator, sample):
                    if result is None:
                        continue
                    counts[result] += 1
                    if note:
                        notes.setdefault(result, f"{dtype_name}: {note}"[:200])
        return {"operator": name, "counts": counts, "notes": notes}


def work(worker):
    print(json.dumps(list(worker.operators)), flush=True)
    for line in sys.stdin:
        print(json.dumps(worker.run(line.strip())), flush=True)


# ---- The runner


class Process:
    """A worker under gpemu, which is asked for one operator at a time."""

    def __init__(self, options):
        python = subprocess.check_output(
            [ROOT / "scripts/build/install_torch.sh", options.torch], text=True
        ).strip()
        packages = pathlib.Path(python).parents[2] / f"operators-{options.torch}"
        if not (packages / "complete").exists():  # The database's test module asks for it.
            shutil.rmtree(packages, ignore_errors=True)  # pip would not replace existing files.
            subprocess.check_call(
                [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
                + ["--no-deps", "--target", packages, "expecttest==0.3.0"]
            )
            (packages / "complete").touch()
        environment = dict(os.environ, PYTHONPATH=str(packages), OMP_NUM_THREADS="1")
        environment["PYTHONWARNINGS"] = "ignore"
        command = [options.gpemu, "run", "--quiet", "--gpu", options.gpu, "--", python]
        command += [options.script, "--worker", "--samples", str(options.samples)]
        self.log = open(options.folder / f"{options.name}.log", "ab")
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment,
            start_new_session=True,
        )
        self.operators = self.answer(START_LIMIT_S)
        if self.operators is None:
            self.stop()
            sys.exit(f"check_operators: the worker did not start; see {self.log.name}")

    def answer(self, limit_s):
        """Returns the next answer, or None if the process ended or took too long. What modules of
        PyTorch print is none."""
        end = time.monotonic() + limit_s
        text = b""
        while not text.endswith(b"\n") or text.splitlines()[-1][:1] not in (b"[", b"{"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                return None
            text += part
        return json.loads(text.splitlines()[-1])

    def run(self, operator):
        try:
            self.process.stdin.write(f"{operator}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        return self.answer(TIME_LIMIT_S)

    def stop(self):
        with contextlib.suppress(BrokenPipeError):  # A dead worker did not read it.
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            self.process.wait()
        self.log.close()


def result_of(entry):
    """The worst of the samples; an operator none of whose samples ran is refused."""
    found = [result for result in reversed(RESULTS) if entry["counts"].get(result)]
    return found[0] if found else "refused"


def line_of(entry):
    """Returns what the run prints of an entry."""
    note = next(iter(reversed(entry["notes"].values())), "")
    return f"{result_of(entry):8} {entry['operator']} {note}"


def run_all(options, path, line_of):
    """Returns the entry of each operator, and whether these are all. Those of an earlier run are
    not run again."""
    done = {}
    if path.exists() and not options.again:
        for line in path.read_text("utf-8").splitlines():
            entry = json.loads(line)
            done[entry["operator"]] = entry
    chosen = options.operators
    process = Process(options)
    try:
        names = [name for name in process.operators if not chosen or name in chosen]
        with path.open("a" if done else "w", encoding="utf-8") as file:
            for number, name in enumerate(names, 1):
                if name in done and not chosen:
                    continue
                entry = process.run(name)
                if entry is None:
                    process.stop()
                    entry = {"operator": name, "counts": {"broken": 1}, "notes": {}}
                    process = Process(options)
                done[name] = entry
                file.write(json.dumps(entry) + "\n")
                file.flush()
                print(f"{number}/{len(names)} {line_of(entry)}", flush=True)
        return [done[name] for name in names], len(names) == len(process.operators)
    finally:
        process.stop()


def section(entries, options):
    """Returns the part of the page."""
    counts = collections.Counter(result_of(entry) for entry in entries)
    samples = collections.Counter()
    for entry in entries:
        samples.update(entry["counts"])
    text = f"""## Operators

Generated by `scripts/check/check_operators.py`. It fills device memory with a pattern and then runs
the {len(entries)} operators of PyTorch's own database forward on its small samples, with PyTorch
{options.torch} on {options.gpu}. An operator gets the worst result of its samples:

* **right**: the same as on the CPU.
* **zero**: not computed, and counted as such.
* **refused**: an error says so.
* **wrong**: not the CPU's result, without a count or an error.
* **stale**: contains bytes of the pattern.
* **broken**: the process ended or took too long.

| | {" | ".join(RESULTS)} |
|---|{"---|" * len(RESULTS)}
| operators | {" | ".join(str(counts[result]) for result in RESULTS)} |
| samples | {" | ".join(str(samples[result]) for result in RESULTS)} |
"""
    for result in RESULTS:
        names = [f"`{entry['operator']}`" for entry in entries if result_of(entry) == result]
        if names:
            text += f"\n**{result}**: {', '.join(names)}\n"
    return text


def write_page(text):
    page = PAGE.read_text("utf-8")
    if BEGIN in page:
        page = re.sub(re.escape(BEGIN) + ".*" + re.escape(END), "", page, flags=re.DOTALL)
    PAGE.write_text(page.rstrip("\n") + "\n\n" + BEGIN + text + END, "utf-8")


def add_options(parser):
    parser.add_argument("operators", nargs="*", help="names as in the database; all without")
    parser.add_argument("--torch", default="2.8.0")
    parser.add_argument("--gpu", default="V100-PCIE-32GB")
    parser.add_argument("--gpemu", default=ROOT / "build/dev/tools/gpemu")
    parser.add_argument("--samples", type=int, default=6, help="of each type, at most")
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument("--show", choices=RESULTS, help="list operators of this result")
    options = parser.parse_args()
    if options.worker:
        return work(Worker(options.samples))
    options.script = __file__
    options.folder = ROOT / "build/operators"
    options.folder.mkdir(parents=True, exist_ok=True)
    options.name = f"{options.torch}-{options.gpu}"
    entries, complete = run_all(options, options.folder / f"{options.name}.jsonl", line_of)
    counts = collections.Counter(result_of(entry) for entry in entries)
    if options.show:
        for entry in entries:
            if result_of(entry) == options.show:
                print(entry["operator"], entry["counts"], entry["notes"].get(options.show, ""))
    print(", ".join(f"{counts[result]} {result}" for result in RESULTS))
    if complete and not options.operators:
        write_page(section(entries, options))
    sys.exit(1 if counts["stale"] or counts["wrong"] or counts["broken"] else 0)


if __name__ == "__main__":
    main()
