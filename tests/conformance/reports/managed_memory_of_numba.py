# SPDX-License-Identifier: Apache-2.0
"""https://github.com/numba/numba/pull/5900:
from compute capability 6.0 on, on Linux, managed memory of twice the GPU's can be allocated and
set.

GPU: P100-PCIE-16GB
Shows: capability 6
Shows: allocated True, set 0, same 1 1
"""

import ctypes

import torch

total = torch.cuda.get_device_properties(0).total_memory
print("capability", torch.cuda.get_device_capability()[0])
torch.zeros(1).cuda()
cuda = ctypes.CDLL("libcuda.so.1")
memory, size = ctypes.c_uint64(), 2 * total
status = cuda.cuMemAllocManaged(ctypes.byref(memory), ctypes.c_size_t(size), 1)
one = ctypes.c_ubyte(0x55)
setting = cuda.cuMemsetD8_v2(memory, one, ctypes.c_size_t(4096))
cuda.cuCtxSynchronize()
content = (ctypes.c_ubyte * 4096).from_address(memory.value)
print(f"allocated {status == 0}, set {setting},",
      f"same {int(content[0] == 0x55)} {int(content[4095] == 0x55)}")
