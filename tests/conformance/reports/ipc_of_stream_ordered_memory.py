# SPDX-License-Identifier: Apache-2.0
"""https://github.com/chelsea0x3b/cudarc/issues/521: cuIpcGetMemHandle of cuMemAllocAsync's memory.

GPU: A100-PCIE-40GB
Shows: cuIpcGetMemHandle result: 1 \(CUDA_ERROR_INVALID_VALUE\)
"""

import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
context, a = ctypes.c_void_p(), ctypes.c_uint64()
handle, name = (ctypes.c_char * 64)(), ctypes.c_char_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAllocAsync(ctypes.byref(a), ctypes.c_size_t(80), None) == 0
r = cuda.cuIpcGetMemHandle(handle, a)
cuda.cuGetErrorName(r, ctypes.byref(name))
print(f"cuIpcGetMemHandle result: {r} ({name.value.decode()})")
