# SPDX-License-Identifier: Apache-2.0
"""A CUDA program: takes device memory, copies there and back, and looks at what is free."""

import ctypes

runtime = ctypes.CDLL("libcudart.so.12")


def check(status):
    assert status == 0, status


free, total = ctypes.c_size_t(), ctypes.c_size_t()
check(runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)))
assert 31 << 30 < total.value < 32 << 30, total.value
pointer = ctypes.c_void_p()
check(runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(1 << 30)))
left = free.value
check(runtime.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)))
assert left - free.value == 1 << 30, left - free.value
there, back = ctypes.create_string_buffer(b"gpemu" * 100), ctypes.create_string_buffer(501)
check(runtime.cudaMemcpy(pointer, there, ctypes.c_size_t(501), 1))
check(runtime.cudaMemcpy(back, pointer, ctypes.c_size_t(501), 2))
assert back.raw == there.raw
