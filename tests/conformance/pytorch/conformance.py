# SPDX-License-Identifier: Apache-2.0
"""What the conformance programs share: times on the device, bounds from the GPU's specification,
and running all tests of a file.

The programs are plain PyTorch; they pass on a GPU where they do not assert that values are not
computed (marked EMULATED). Each file is run in a process of its own by run_all.py.
"""

import functools
import os
import pathlib
import sys
import time
import tomllib
import traceback

import torch

# On emulated GPUs the values that kernels would compute are not there: memory reads as zeros or as
# what was copied. Assertions about that hold under gpemu only.
EMULATED = bool(os.environ.get("GPEMU_NODE"))

MIB = 2**20
GPU_FILES = pathlib.Path(__file__).resolve().parents[3] / "catalog/gpus"


class Skipped(Exception):
    """Raised by a test that cannot run here; its text says why."""


def only_emulated():
    """Skips a test of what memory holds in place of values that are not computed."""
    if not EMULATED:
        raise Skipped("a real GPU computes the values")


class Refused(Exception):
    """Raised by a test if the emulator clearly reports that the feature is not supported."""


def refused_or(work, *words):
    """Returns what `work` returns. A RuntimeError must contain one of `words`, and is Refused."""
    try:
        return work()
    except RuntimeError as error:
        text = str(error)
        assert any(word in text for word in words), text
        raise Refused(text.strip().splitlines()[0]) from error


def fails(work, *words, kind=(RuntimeError, ValueError)):
    """Asserts that `work` raises an error that contains all `words`; returns the error's text."""
    try:
        work()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{missing} not in: {error}"
        return str(error)
    raise AssertionError("no error was raised")


def device_ms(work, repeat=3):
    """Returns the device time of one call of `work`, in ms, by events around `repeat` calls.

    The device is kept busy until the calls are queued, so that how fast the host is does not
    count; work that waits for the device takes the host's time too.
    """
    work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for cycles in (10**7, 10**8, 10**9):
        torch.cuda.synchronize()
        torch.cuda._sleep(cycles)
        start.record()
        for _ in range(repeat):
            work()
        end.record()
        queued_in_time = not start.query()
        end.synchronize()
        if queued_in_time:
            break
    return start.elapsed_time(end) / repeat


@functools.cache
def gpu_spec():
    """Returns the tables of catalog/gpus/*.toml for this GPU, each entry by its value."""
    for file in GPU_FILES.glob("*.toml"):
        with open(file, "rb") as content:
            spec = tomllib.load(content)
        if spec.get("product_name") == torch.cuda.get_device_name():
            return {
                name: entry["value"]
                for table in spec.values()
                if isinstance(table, dict)
                for name, entry in table.items()
                if isinstance(entry, dict) and "value" in entry
            }
    raise Skipped(f"no file in catalog/gpus/ describes {torch.cuda.get_device_name()}")


def assert_roofline(ms, flops=0.0, moved_bytes=0.0, peak="fp32_tflops", slack=3.0):
    """Asserts that `ms` is not below what the GPU's datasheet allows, nor `slack` times above."""
    spec = gpu_spec()
    compute_ms = flops / (spec[peak] * 1e9)
    memory_ms = moved_bytes / (spec["bandwidth_gb_per_s"] * 1e6)
    least = max(compute_ms, memory_ms)
    assert least <= ms * 1.001, f"{ms} ms is faster than the datasheet allows, {least} ms"
    assert ms <= slack * least, f"{ms} ms is over {slack} times the datasheet's {least} ms"


def backward(output):
    output.float().sum().backward()


def main():
    """Runs every test_* function of the calling program, or those named on the command line."""
    module = sys.modules["__main__"]
    failed = 0
    for name, test in sorted(vars(module).items()):
        if not name.startswith("test_") or (sys.argv[1:] and name not in sys.argv[1:]):
            continue
        try:
            test()
            print(f"ok {name}", flush=True)
        except Skipped as reason:
            print(f"skipped {name}: {reason}", flush=True)
        except Refused as reason:
            print(f"refused {name}: {reason}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {name}", flush=True)
            traceback.print_exc(file=sys.stdout)
    # Autograd's threads may still be freeing what the last backward pass left. One that asks for
    # the interpreter while it ends aborts the process, on GPUs too (pytorch issue 190489).
    time.sleep(0.5)
    sys.exit(1 if failed else 0)
