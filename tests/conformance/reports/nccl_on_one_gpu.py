# SPDX-License-Identifier: Apache-2.0
"""https://github.com/verl-project/verl/issues/161: two ranks use the same GPU.

GPU: A100-PCIE-40GB
Ranks: 2
Ends: error
Shows: DistBackendError: NCCL error in: .*invalid usage
Shows: run with NCCL_DEBUG=WARN for details\), NCCL version
Shows: ncclInvalidUsage: This usually reflects invalid usage of NCCL library\.
Shows: Duplicate GPU detected : rank [01] and rank [01] both on CUDA device
"""

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
x = torch.ones(4, device="cuda:0")
dist.all_reduce(x)
print(x)
