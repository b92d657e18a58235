# SPDX-License-Identifier: Apache-2.0
"""https://github.com/vllm-project/vllm/issues/46933:
cudaHostRegister fails with error 900 while another thread captures a graph.

GPU: A100-PCIE-40GB
Shows: before 0
Shows: during 900
Shows: after 0
"""

import threading

import torch

x = torch.zeros(16, device="cuda")
pages = [torch.empty(2**20, dtype=torch.uint8) for _ in range(3)]


def pin(when, tensor):
    status = torch.cuda.cudart().cudaHostRegister(tensor.data_ptr(), tensor.numel(), 0)
    print(when, int(status))


pin("before", pages[0])
graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
with torch.cuda.stream(stream):
    graph.capture_begin()
    x += 1
    thread = threading.Thread(target=pin, args=("during", pages[1]))
    thread.start()
    thread.join()
    try:
        graph.capture_end()
    except RuntimeError:
        pass
pin("after", pages[2])
