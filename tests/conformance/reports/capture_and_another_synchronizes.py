# SPDX-License-Identifier: Apache-2.0
"""https://github.com/NVIDIA/TensorRT/issues/2888:
cudaDeviceSynchronize of another thread breaks a capture, regardless of its mode.

GPU: A100-PCIE-40GB
Shows: global: thread .*operation not permitted when stream is capturing
Shows: global: end .*operation failed due to a previous error during capture
Shows: thread_local: thread .*operation not permitted when stream is capturing
Shows: thread_local: end .*operation failed due to a previous error during capture
"""

import threading

import torch

x = torch.zeros(16, device="cuda")


def synchronize(mode):
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        print(f"{mode}: thread {str(error).splitlines()[0]}")


for mode in ("global", "thread_local"):
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode=mode)
        thread = threading.Thread(target=synchronize, args=(mode,))
        thread.start()
        thread.join()
        try:
            graph.capture_end()
        except RuntimeError as error:
            print(f"{mode}: end {str(error).splitlines()[0]}")
