#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each GPU has the memory that docs/reference/gpu-memory.md says, whoever is asked: CUDA, NVML,
nvidia-smi and the GPU's file. None differs from what owners reported by more than 0.06 GiB.

Usage: gpu_memory_test.py GPEMU_COMMAND
"""

import ctypes
import json
import pathlib
import subprocess
import sys
import tomllib
import unittest

COMMAND = sys.argv.pop(1) if len(sys.argv) == 2 and sys.argv[1] != "--ask" else "gpemu"
ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_OFF_GIB = 0.06
MIB = 1 << 20
SIZE, U64 = ctypes.c_size_t, ctypes.c_ulonglong


class MemoryV1(ctypes.Structure):
    _fields_ = [(name, U64) for name in ("total", "free", "used")]


class MemoryV2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint),
                *[(name, U64) for name in ("total", "reserved", "free", "used")]]


def ask():
    """Prints what NVML, nvidia-smi and CUDA say, in this order: CUDA makes a context."""
    nvml, device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
    assert nvml.nvmlInit_v2() == 0
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
    first, second = MemoryV1(), MemoryV2(ctypes.sizeof(MemoryV2) | 2 << 24)
    assert nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(first)) == 0
    assert nvml.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(second)) == 0
    names = ["total", "reserved", "used", "free"]
    values = subprocess.check_output(
        ["nvidia-smi", "--format=csv,noheader,nounits",
         "--query-gpu=" + ",".join(f"memory.{name}" for name in names)], text=True).split(",")
    cuda, driver = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libcuda.so.1")
    free, total, driver_total = SIZE(), SIZE(), SIZE()
    assert cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
    assert driver.cuDeviceTotalMem_v2(ctypes.byref(driver_total), 0) == 0
    properties = (ctypes.c_char * 4096)()
    assert cuda.cudaGetDeviceProperties_v2(properties, 0) == 0
    # Behind the name, the UUID and the LUID with its mask.
    of_properties = SIZE.from_buffer(properties, 256 + 16 + 8 + 4 + 4)
    print(json.dumps({
        "v1": {name: getattr(first, name) for name in ("total", "free", "used")},
        "v2": {name: getattr(second, name) for name in names},
        "smi": {name: int(value) for name, value in zip(names, values)},
        "cuda": [total.value, driver_total.value, of_properties.value]}))


def rows():
    """Returns the page's rows of GPUs, by name."""
    page = (ROOT / "docs/reference/gpu-memory.md").read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split("|")]
             for line in page.splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row for row in cells if len(row) == 8}


class GpuMemory(unittest.TestCase):
    def test_the_page_has_all_gpus(self):
        files = (ROOT / "catalog/gpus").glob("*.toml")
        self.assertEqual(sorted(rows()), sorted(path.stem for path in files))

    def test_reports_are_near(self):
        for name, row in rows().items():
            for reported in row[6].split(","):
                if reported != "-":
                    with self.subTest(gpu=name):
                        self.assertLessEqual(abs(float(reported) - float(row[4])), MOST_OFF_GIB)

    def test_all_say_the_same(self):
        for name, (_, board, reserved, total, gib, idle, *_) in rows().items():
            memory = tomllib.loads((ROOT / f"catalog/gpus/{name}.toml").read_text())["memory"]
            board, reserved, total, idle = (round(float(text) * MIB)
                                            for text in (board, reserved, total, idle))
            words = [COMMAND, "run", "--quiet", "--gpu", name, "--", sys.executable, __file__]
            said = json.loads(subprocess.check_output([*words, "--ask"]))
            with self.subTest(gpu=name):
                self.assertEqual(memory["capacity_mib"]["value"] * MIB, board)
                self.assertEqual(memory.get("reserved_mib", {"value": 0})["value"] * MIB, reserved)
                self.assertEqual(board - reserved, total)
                self.assertEqual(gib, f"{total / 2**30:.2f}")
                self.assertEqual(said["cuda"], [total] * 3)
                self.assertEqual(said["v1"], {"total": board, "free": total, "used": idle})
                self.assertEqual(said["v2"], {"total": board, "reserved": reserved, "used": 0,
                                              "free": total})
                # nvidia-smi rounds to MiB.
                self.assertEqual(said["smi"]["total"], board // MIB)
                self.assertEqual(said["smi"]["used"], 0)
                self.assertLessEqual(abs(said["smi"]["reserved"] * MIB - reserved), MIB)
                self.assertLessEqual(abs(said["smi"]["free"] * MIB - total), MIB)


if __name__ == "__main__":
    if sys.argv[1:] == ["--ask"]:
        ask()
    else:
        unittest.main()
