# SPDX-License-Identifier: Apache-2.0
"""https://github.com/openucx/ucx/issues/7110:
memory of cuMemCreate does not support the legacy cuIpc* functions, and by default is not exportable
either.

GPU: A100-PCIE-40GB
Shows: cuIpcGetMemHandle 1
Shows: cuMemExportToShareableHandle 1
"""

import ctypes


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int),
                ("location_type", ctypes.c_int), ("location_id", ctypes.c_int),
                ("metadata", ctypes.c_void_p), ("flags", ctypes.c_char * 8)]


class Access(ctypes.Structure):
    _fields_ = [("location_type", ctypes.c_int), ("location_id", ctypes.c_int),
                ("flags", ctypes.c_int)]


cuda = ctypes.CDLL("libcuda.so.1")
size = ctypes.c_size_t(2 << 20)
zero = ctypes.c_uint64(0)
context, physical, address = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_uint64()
properties, access = Properties(1, 0, 1, 0), Access(1, 0, 3)
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemCreate(ctypes.byref(physical), size, ctypes.byref(properties), zero) == 0
assert cuda.cuMemAddressReserve(ctypes.byref(address), size, zero, zero, zero) == 0
assert cuda.cuMemMap(address, size, zero, physical, zero) == 0
assert cuda.cuMemSetAccess(address, size, ctypes.byref(access), ctypes.c_size_t(1)) == 0
print("cuIpcGetMemHandle", cuda.cuIpcGetMemHandle((ctypes.c_char * 64)(), address))
descriptor = ctypes.c_int(-1)
print("cuMemExportToShareableHandle",
      cuda.cuMemExportToShareableHandle(ctypes.byref(descriptor), physical, 1, zero))
