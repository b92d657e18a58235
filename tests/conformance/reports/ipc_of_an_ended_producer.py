# SPDX-License-Identifier: Apache-2.0
"""https://github.com/vllm-project/vllm/issues/6025:
the warning of a producer that ends before its consumers.

GPU: A100-PCIE-40GB
Shows: Producer process has been terminated before all shared CUDA tensors released\.
Shows: See Note \[Sharing CUDA tensors\]
"""

import torch
import torch.multiprocessing as mp


def produce(queue, taken):
    queue.put(torch.ones(3).cuda())
    taken.wait()


if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue, taken = context.Queue(), context.Event()
    producer = context.Process(target=produce, args=(queue, taken))
    producer.start()
    tensor = queue.get()
    taken.set()
    producer.join()
    print(tensor.shape)
