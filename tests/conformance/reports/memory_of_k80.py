# SPDX-License-Identifier: Apache-2.0
"""https://github.com/lllyasviel/Fooocus/issues/2436: what such a board is out of.

GPU: K80
Ends: 1
Shows: OutOfMemoryError: CUDA out of memory\. Tried to allocate [0-9.]+ [GM]iB\. GPU 0
Within 0.06: has a total capacity of 11.17 GiB
Shows: GiB is allocated by PyTorch, and .* is reserved by PyTorch but unallocated
"""

import torch

kept = []
while True:
    kept.append(torch.empty(2**30, dtype=torch.uint8, device="cuda"))
