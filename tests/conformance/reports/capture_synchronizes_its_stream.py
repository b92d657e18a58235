# SPDX-License-Identifier: Apache-2.0
"""https://github.com/microsoft/onnxruntime/issues/15002:
cudaStreamSynchronize of the capturing stream.

GPU: A100-PCIE-40GB
Ends: 1
Shows: CUDA error: operation not permitted when stream is capturing
"""

import torch

x = torch.zeros(16, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    x += 1
    torch.cuda.current_stream().synchronize()
