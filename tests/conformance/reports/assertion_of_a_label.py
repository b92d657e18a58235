# SPDX-License-Identifier: Apache-2.0
"""https://github.com/pytorch/pytorch/issues/21825: a target of CrossEntropyLoss that no class has.

GPU: A100-PCIE-40GB
Ends: 1
Shows: CUDA error: device-side assert triggered
"""

import torch

criterion = torch.nn.CrossEntropyLoss()
output = torch.rand(4, 10).cuda()
trg = torch.tensor([1, 2, 10, 3]).cuda()
loss = criterion(output, trg)
print(loss.item())
