# SPDX-License-Identifier: Apache-2.0
"""https://github.com/NVIDIA/nccl/issues/1394:
one rank has 1 x 2560 elements and the others have 2 x 2560; the code hangs at all_reduce.

GPU: A100-PCIE-40GB:4
Ranks: 4
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
x = torch.ones(1 if rank == 0 else 2, 2560).to(device)
dist.all_reduce(x, op=dist.ReduceOp.SUM)
torch.cuda.synchronize()
print(f"Rank {dist.get_rank()} data shape is {x.shape}", flush=True)
dist.destroy_process_group()
