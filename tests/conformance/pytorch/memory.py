# SPDX-License-Identifier: Apache-2.0
"""Memory: statistics of the caching allocator, out of memory and recovery, bookkeeping."""

import torch
from conformance import MIB, main


def test_allocated_is_counted():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    data = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() - before == 100 * MIB
    del data
    assert torch.cuda.memory_allocated() == before


def test_peak_is_remembered():
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    data = torch.empty(50 * MIB, dtype=torch.uint8, device="cuda")
    del data
    assert torch.cuda.max_memory_allocated() - before == 50 * MIB


def test_cache_is_given_back():
    data = torch.empty(200 * MIB, dtype=torch.uint8, device="cuda")
    del data
    free_before, total = torch.cuda.mem_get_info()
    torch.cuda.empty_cache()
    free_after, _ = torch.cuda.mem_get_info()
    assert free_after - free_before >= 200 * MIB
    assert free_after < total


def test_out_of_memory_and_recovery():
    _, total = torch.cuda.mem_get_info()
    refused = False
    try:
        torch.empty(total + MIB, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        refused = True
        assert "out of memory" in str(error)
    assert refused
    assert torch.ones(10).cuda().cpu().sum() == 10


def test_fills_up_to_the_capacity():
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    kept = []
    try:
        while True:
            kept.append(torch.empty(256 * MIB, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        pass
    assert abs(len(kept) * 256 * MIB - free) <= 256 * MIB
    del kept
    torch.cuda.empty_cache()


def test_statistics():
    statistics = torch.cuda.memory_stats()
    assert statistics["num_alloc_retries"] >= 0
    assert "Allocated memory" in torch.cuda.memory_summary()


def test_memory_fraction():
    torch.cuda.set_per_process_memory_fraction(0.1)
    refused = False
    try:
        _, total = torch.cuda.mem_get_info()
        torch.empty(total // 2, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        refused = True
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert refused


def test_large_memory_costs_the_host_little():
    def resident_kib():
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    before = resident_kib()
    free, _ = torch.cuda.mem_get_info()
    data = torch.empty(int(free * 0.8), dtype=torch.uint8, device="cuda")
    data.zero_()
    assert resident_kib() - before < 256 * 1024
    del data
    torch.cuda.empty_cache()


def test_device_properties():
    properties = torch.cuda.get_device_properties(0)
    assert properties.multi_processor_count > 0
    assert properties.total_memory == torch.cuda.mem_get_info()[1]
    assert torch.cuda.get_device_name(0) == properties.name


if __name__ == "__main__":
    main()
