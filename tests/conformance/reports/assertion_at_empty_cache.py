# SPDX-License-Identifier: Apache-2.0
"""https://github.com/pytorch/pytorch/issues/25873: it shows at torch.cuda.empty_cache(), too.

GPU: A100-PCIE-40GB
Ends: 1
Shows: first: .*device-side assert triggered
Shows: empty_cache
Shows: CUDA error: device-side assert triggered
"""

import torch

x = torch.arange(10.0).cuda()
torch.empty(2**30, dtype=torch.uint8, device="cuda")
try:
    print(x[torch.tensor([12]).cuda()])
except RuntimeError as error:
    print("first:", error)
torch.cuda.empty_cache()
