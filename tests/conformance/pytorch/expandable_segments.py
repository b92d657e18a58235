# SPDX-License-Identifier: Apache-2.0
"""The caching allocator on virtual memory management."""

import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch  # noqa: E402
from conformance import MIB, main  # noqa: E402


def test_segments_grow():
    data = [torch.empty(30 * MIB, dtype=torch.uint8, device="cuda") for _ in range(20)]
    assert torch.cuda.memory_allocated() >= 600 * MIB
    data.clear()
    free_before, _ = torch.cuda.mem_get_info()
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] - free_before >= 600 * MIB


def test_content_stays():
    data = torch.arange(10_000_000)
    assert torch.equal(data.cuda().cpu(), data)


def test_one_range_of_addresses_grows():
    torch.cuda.empty_cache()
    first = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    second = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    assert second.data_ptr() - first.data_ptr() == first.nbytes
    del first, second
    larger = torch.empty(60 * MIB, dtype=torch.uint8, device="cuda")
    # Without expandable segments the two would have been cached apart.
    assert torch.cuda.memory_reserved() - larger.nbytes < 30 * MIB


def test_out_of_memory():
    refused = False
    try:
        torch.empty(torch.cuda.mem_get_info()[1] + MIB, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        refused = True
    assert refused


if __name__ == "__main__":
    main()
