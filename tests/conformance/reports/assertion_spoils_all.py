# SPDX-License-Identifier: Apache-2.0
"""https://github.com/pytorch/pytorch/issues/2300:
after an embedding's index out of range, any valid statement fails as well.

GPU: A100-PCIE-40GB
Ends: 1
Shows: first: .*device-side assert triggered
Shows: CUDA error: device-side assert triggered
"""

import torch
from torch import nn

v = torch.LongTensor([0, 1, 20]).cuda()
emb = nn.Embedding(10, 1).cuda()
try:
    print(emb(v))
except RuntimeError as error:
    print("first:", error)
v2 = torch.LongTensor([0, 1, 2]).cuda()
