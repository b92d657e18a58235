# SPDX-License-Identifier: Apache-2.0
"""https://github.com/NVIDIA/cccl/pull/11360:
during a global or thread-local capture, the attributes of a pool fail with error 900 and break it,
and the lookup of the default pool does not.

GPU: A100-PCIE-40GB
Shows: global: lookup 0, attribute 900, end 901
Shows: thread-local: lookup 0, attribute 900, end 901
Shows: relaxed: lookup 0, attribute 0, end 0
"""

import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
context, stream, pool = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
graph, threshold = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4
for mode, name in enumerate(("global", "thread-local", "relaxed")):
    assert cuda.cuStreamBeginCapture_v2(stream, mode) == 0
    lookup = cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0)
    attribute = cuda.cuMemPoolGetAttribute(
        pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ctypes.byref(threshold))
    end = cuda.cuStreamEndCapture(stream, ctypes.byref(graph))
    print(f"{name}: lookup {lookup}, attribute {attribute}, end {end}")
