# SPDX-License-Identifier: Apache-2.0
"""https://github.com/mayooot/detect-gpu/issues/3: the memory of idle A10s by NVML.

GPU: A10
Shows: total 24146608128
Within 64000000: used 541917184
Within 64000000: free 23604690944
"""

import ctypes


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


nvml = ctypes.CDLL("libnvidia-ml.so.1")
device, memory = ctypes.c_void_p(), Memory()
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)) == 0
print(f"total {memory.total} used {memory.used} free {memory.free}")
