# SPDX-License-Identifier: Apache-2.0
"""https://github.com/pytorch/pytorch/issues/55027: "index out of bounds" of IndexKernel.cu.

GPU: A100-PCIE-40GB
Ends: 1
Shows: index.*out of bounds
Shows: CUDA error: device-side assert triggered
"""

import torch

values = torch.rand(100, 4).cuda()
print(values[torch.tensor([3, 100]).cuda()].cpu())
