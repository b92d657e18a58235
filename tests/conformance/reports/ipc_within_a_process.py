# SPDX-License-Identifier: Apache-2.0
"""https://github.com/muskie82/MonoGS/issues/127:
a process that takes its own CUDA tensor from a queue.

GPU: A100-PCIE-40GB
Ends: 1
Shows: _new_shared_cuda
Shows: CUDA error: invalid device context
"""

import torch
import torch.multiprocessing as mp

if __name__ == "__main__":
    queue = mp.get_context("spawn").Queue()
    queue.put(torch.ones(3).cuda())
    print(queue.get())
