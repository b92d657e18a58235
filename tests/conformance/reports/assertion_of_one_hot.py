# SPDX-License-Identifier: Apache-2.0
"""https://github.com/pytorch/pytorch/issues/74079: one_hot with a class that is too large.

GPU: A100-PCIE-40GB
Ends: 1
Shows: Class values must be smaller than num_classes
Shows: CUDA error: device-side assert triggered
"""

import torch
import torch.nn.functional as F

a = torch.arange(100) % 10
try:
    F.one_hot(a, num_classes=9)
except RuntimeError as error:
    print(error)
print(F.one_hot(a.cuda(), num_classes=9))
