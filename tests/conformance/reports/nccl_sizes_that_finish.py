# SPDX-License-Identifier: Apache-2.0
"""https://github.com/NVIDIA/nccl/issues/1394: with 100 x 2560 and 200 x 2560 elements, it finishes.

GPU: A100-PCIE-40GB:4
Ranks: 4
Shows: (?s)(?=.*Rank 0 data shape is torch.Size\(\[100, 2560\]\))
Shows: (?s)(?=.*Rank 3 data shape is torch.Size\(\[200, 2560\]\))
"""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl", timeout=timedelta(seconds=10))
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
x = torch.ones(100 if rank == 0 else 200, 2560).to(device)
dist.all_reduce(x, op=dist.ReduceOp.SUM)
torch.cuda.synchronize()
print(f"Rank {dist.get_rank()} data shape is {x.shape}", flush=True)
dist.destroy_process_group()
