# SPDX-License-Identifier: Apache-2.0
"""https://github.com/NVIDIA/nccl/issues/1417:
one rank has 409600 elements and the others have 32768000; they hang, and that one ends.

GPU: A100-PCIE-40GB:2
Ranks: 2
Ends: error
Shows: Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=\d+, OpType=ALLREDUCE
Shows: exitcode *: -6
"""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl", timeout=timedelta(seconds=10))
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
x = torch.ones(409600 if rank == 0 else 32768000).to(device)
dist.all_reduce(x, op=dist.ReduceOp.SUM)
torch.cuda.synchronize()
print(f"Rank {dist.get_rank()} data shape is {x.shape}", flush=True)
dist.destroy_process_group()
