# SPDX-License-Identifier: Apache-2.0
"""https://github.com/pytorch/pytorch/issues/29966:
max_embedding has three entries, and its index is 3.

GPU: A100-PCIE-40GB
Ends: 1
Shows: CUDA error: device-side assert triggered
"""

import torch

max_embedding = torch.nn.Embedding(3, 5).cuda()
item_embedding = torch.nn.Embedding(10, 20).cuda()
max = torch.tensor([3]).cuda()
item = torch.tensor([7]).cuda()
embedded = torch.cat((max_embedding(max), item_embedding(item)), 1)
print(embedded.sum().item())
