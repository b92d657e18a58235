# SPDX-License-Identifier: Apache-2.0
"""What the conformance programs share: timing by events, and running all tests of a file.

The programs are plain PyTorch; they pass on a GPU where they do not assert that values are not
computed (marked EMULATED). Each file is run in a process of its own by run_all.py.
"""

import sys
import traceback

import torch

# On emulated GPUs the values that kernels would compute are not there: memory reads as zeros or as
# what was copied. Assertions about that hold under gpemu only.
EMULATED = True

MIB = 2**20


class Skipped(Exception):
    """Raised by a test that cannot say anything here; its text says why."""


def device_ms(work, repeat=3):
    """Returns the device time of one call of `work`, in ms, by events around `repeat` calls."""
    work()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeat):
        work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / repeat


def backward(output):
    output.float().sum().backward()


def main():
    """Runs every test_* function of the calling program; exits with 1 when one fails."""
    module = sys.modules["__main__"]
    failed = 0
    for name, test in sorted(vars(module).items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            print(f"ok {name}", flush=True)
        except Skipped as reason:
            print(f"skipped {name}: {reason}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {name}", flush=True)
            traceback.print_exc()
    sys.exit(1 if failed else 0)
