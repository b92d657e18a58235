# SPDX-License-Identifier: Apache-2.0
"""https://github.com/openucx/ucx/pull/10065:
what UCX asks of memory of cudaMallocAsync, and the error that it got.

GPU: A100-PCIE-40GB
Shows: from a pool: True
Shows: cuIpcGetMemHandle failed: invalid argument
"""

import ctypes

import torch

torch.ones(1).cuda()
cuda = ctypes.CDLL("libcuda.so.1")
runtime = ctypes.CDLL("libcudart.so.12")
address, pool = ctypes.c_uint64(), ctypes.c_uint64()
handle, text = (ctypes.c_char * 64)(), ctypes.c_char_p()
assert runtime.cudaMallocAsync(ctypes.byref(address), ctypes.c_size_t(1 << 20), None) == 0
CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17
assert cuda.cuPointerGetAttribute(
    ctypes.byref(pool), CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address) == 0
print("from a pool:", pool.value != 0)
status = cuda.cuIpcGetMemHandle(handle, address)
cuda.cuGetErrorString(status, ctypes.byref(text))
print("cuIpcGetMemHandle failed:", text.value.decode())
