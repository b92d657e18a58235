# SPDX-License-Identifier: Apache-2.0
"""https://github.com/ggml-org/llama.cpp/issues/5026:
cudaMalloc fails once the memory of the GPU is exceeded, and cudaMallocManaged can oversubscribe it.

GPU: H100-SXM5-80GB
Shows: cudaMalloc 2
Shows: cudaMallocManaged 0
Shows: cudaMemset 0 0
"""

import ctypes

import torch

torch.ones(1).cuda()
runtime = ctypes.CDLL("libcudart.so.12")
memory, size = ctypes.c_void_p(), ctypes.c_size_t(147 * 10**9)
print("cudaMalloc", runtime.cudaMalloc(ctypes.byref(memory), size))
print("cudaMallocManaged", runtime.cudaMallocManaged(ctypes.byref(memory), size, 1))
print("cudaMemset", runtime.cudaMemset(memory, 0, size), runtime.cudaDeviceSynchronize())
