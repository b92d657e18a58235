# SPDX-License-Identifier: Apache-2.0
"""https://github.com/ROCm/rocm-systems/pull/4508:
which calls of another thread break a capture, measured on two NVIDIA GPUs.

GPU: A100-PCIE-40GB:2
Shows: thread-local, another GPU: 0 0
Shows: global, another GPU: 0 0
Shows: relaxed, another GPU: 0 0
Shows: global, the same GPU: 906 901
Shows: thread-local, the same GPU: 906 901
"""

import ctypes
import threading

import torch

for device in range(2):
    torch.zeros(1, device=device)
    torch.cuda.synchronize(device)
runtime = ctypes.CDLL("libcudart.so.12")
stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
status = None


def synchronize(device):
    global status
    runtime.cudaSetDevice(device)
    status = runtime.cudaStreamSynchronize(None)


for mode, name, device in ((1, "thread-local", 1), (0, "global", 1), (2, "relaxed", 1),
                           (0, "global", 0), (1, "thread-local", 0)):
    runtime.cudaSetDevice(0)
    assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0
    assert runtime.cudaStreamBeginCapture(stream, mode) == 0
    thread = threading.Thread(target=synchronize, args=(device,))
    thread.start()
    thread.join()
    end = runtime.cudaStreamEndCapture(stream, ctypes.byref(graph))
    print(f"{name}, {'another' if device else 'the same'} GPU: {status} {end}")
