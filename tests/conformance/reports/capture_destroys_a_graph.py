# SPDX-License-Identifier: Apache-2.0
"""https://github.com/pytorch/pytorch/pull/161037:
a graph that the garbage collector destroys while another is captured.

GPU: A100-PCIE-40GB
Ends: 1
Shows: CUDA warning: operation not permitted when stream is capturing \(function reset\)
Shows: CUDA error: operation failed due to a previous error during capture
"""

import gc

import torch


class MakeSelfRef:
    def __init__(self, obj):
        self.obj = obj
        self.self_ref = self


# Capture CUDA Graph and leak ref
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    torch.zeros(1, device="cuda")
gc.disable()
collect, gc.collect = gc.collect, lambda *_: 0  # PyTorch 2.8 collects before a capture
MakeSelfRef(graph)
del graph

# Perform garbage collection when capturing CUDA Graph
with torch.cuda.graph(torch.cuda.CUDAGraph()):
    torch.zeros(1, device="cuda")
    gc.enable()
    collect()
