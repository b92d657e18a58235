# SPDX-License-Identifier: Apache-2.0
"""https://github.com/gittensor-ai-lab/sparkinfer/pull/968:
a thread uses the legacy stream while a blocking stream captures; a non-blocking one does not mind.

GPU: A100-PCIE-40GB
Shows: blocking: operation would make the legacy stream depend on a capturing blocking stream
Shows: blocking: operation failed due to a previous error during capture
Shows: non-blocking: no error
Shows: non-blocking: no error
"""

import ctypes
import threading

import torch

x = torch.zeros(16, device="cuda")
torch.cuda.synchronize()
runtime = ctypes.CDLL("libcudart.so.12")
runtime.cudaGetErrorString.restype = ctypes.c_char_p
memory, stream, graph = ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(), ctypes.c_void_p()
cudaStreamCaptureModeThreadLocal = 1


def show(name, status):
    print(f"{name}: {runtime.cudaGetErrorString(status).decode()}")


def use_legacy_stream(name):
    show(name, runtime.cudaMemsetAsync(memory, 0, ctypes.c_size_t(64), None))


for flags, name in ((0, "blocking"), (1, "non-blocking")):
    assert runtime.cudaStreamCreateWithFlags(ctypes.byref(stream), flags) == 0
    assert runtime.cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == 0
    thread = threading.Thread(target=use_legacy_stream, args=(name,))
    thread.start()
    thread.join()
    show(name, runtime.cudaStreamEndCapture(stream, ctypes.byref(graph)))
