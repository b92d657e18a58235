# SPDX-License-Identifier: Apache-2.0
"""https://github.com/wookayin/gpustat/issues/130:
of an idle board, NVML's first function shows what the driver reserves as used, and nvidia-smi does
not.

GPU: P100-PCIE-16GB
Within 1: NVML 103 / 16384 MB
Shows: nvidia-smi 0 / 16384
"""

import ctypes
import subprocess


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


nvml = ctypes.CDLL("libnvidia-ml.so.1")
device, memory = ctypes.c_void_p(), Memory()
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == 0
print(f"NVML {memory.used >> 20} / {memory.total >> 20} MB")
query = ["nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits"]
print("nvidia-smi", subprocess.check_output(query, text=True).replace(",", " /"))
