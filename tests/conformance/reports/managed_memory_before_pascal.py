# SPDX-License-Identifier: Apache-2.0
"""https://github.com/owl-project/owl/issues/43:
cudaMemAdvise of a preferred location fails with code 101 on a device without concurrent managed
access.

GPU: M40
Shows: concurrentManagedAccess 0
Shows: cudaMemAdviseSetPreferredLocation 101
"""

import ctypes

runtime = ctypes.CDLL("libcudart.so.12")
memory, value, size = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_size_t(1 << 20)
cudaDevAttrConcurrentManagedAccess, cudaMemAdviseSetPreferredLocation = 89, 3
runtime.cudaDeviceGetAttribute(ctypes.byref(value), cudaDevAttrConcurrentManagedAccess, 0)
print("concurrentManagedAccess", value.value)
assert runtime.cudaMallocManaged(ctypes.byref(memory), size, 1) == 0
print("cudaMemAdviseSetPreferredLocation",
      runtime.cudaMemAdvise(memory, size, cudaMemAdviseSetPreferredLocation, 0))
