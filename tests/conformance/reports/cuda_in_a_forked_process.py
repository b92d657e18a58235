# SPDX-License-Identifier: Apache-2.0
"""https://github.com/traveller59/spconv/issues/408:
CUDA in a process that is forked from one that used it.

GPU: A100-PCIE-40GB
Shows: RuntimeError: Cannot re-initialize CUDA in forked subprocess\. To use CUDA with
Shows: multiprocessing, you must use the 'spawn' start method
"""

import torch
import torch.multiprocessing as mp


def work():
    torch.ones(1).cuda()


if __name__ == "__main__":
    torch.ones(1).cuda()
    process = mp.get_context("fork").Process(target=work)
    process.start()
    process.join()
