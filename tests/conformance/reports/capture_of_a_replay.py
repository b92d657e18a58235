# SPDX-License-Identifier: Apache-2.0
"""https://github.com/microsoft/onnxruntime/pull/32081:
a graph is launched into a stream that captures; on an H200, driver 580.

GPU: H200-SXM-141GB
Shows: replay: operation not permitted when stream is capturing
Shows: end: operation failed due to a previous error during capture
"""

import ctypes

import torch

runtime = ctypes.CDLL("libcudart.so.12")
runtime.cudaGetErrorString.restype = ctypes.c_char_p
cudaStreamCaptureModeThreadLocal = 1


def text(status):
    return runtime.cudaGetErrorString(status).decode()


x = torch.zeros(16, device="cuda")
inner = torch.cuda.CUDAGraph(keep_graph=True)
with torch.cuda.graph(inner):
    x += 1
executable, graph = ctypes.c_void_p(), ctypes.c_void_p(inner.raw_cuda_graph())
assert runtime.cudaGraphInstantiate(ctypes.byref(executable), graph, 0) == 0
stream = ctypes.c_void_p(torch.cuda.Stream().cuda_stream)
assert runtime.cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == 0
print("replay:", text(runtime.cudaGraphLaunch(executable, stream)))
print("end:", text(runtime.cudaStreamEndCapture(stream, ctypes.byref(graph))))
