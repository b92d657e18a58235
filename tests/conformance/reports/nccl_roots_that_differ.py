# SPDX-License-Identifier: Apache-2.0
"""https://github.com/pytorch/pytorch/issues/39706:
reduce with another destination on each rank; it finishes, but later kernels hang.

GPU: A100-PCIE-40GB:2
Ranks: 2
Ends: error
Shows: Watchdog caught collective operation timeout
Shows: exitcode *: -6
"""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", timeout=timedelta(seconds=10))
x = torch.zeros(3, device=rank)
dist.reduce(x, rank, dist.ReduceOp.SUM)
torch.cuda.synchronize()
print("synchronized", flush=True)
