# SPDX-License-Identifier: Apache-2.0
"""Memory: statistics of the caching allocator, running out and recovering, bookkeeping."""

import gc

import torch
from conformance import MIB, fails, main


def bytes_on_device(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def test_allocated_is_counted():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    data = bytes_on_device(100 * MIB)
    assert torch.cuda.memory_allocated() - before == 100 * MIB
    del data
    assert torch.cuda.memory_allocated() == before


def test_allocations_are_rounded_to_512_bytes():
    before = torch.cuda.memory_allocated()
    data = bytes_on_device(1)
    assert torch.cuda.memory_allocated() - before == 512
    assert data.data_ptr() % 512 == 0


def test_segments_of_the_caching_allocator():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_stats()
    kept = [bytes_on_device(5 * MIB)]
    after = torch.cuda.memory_stats()
    # Allocations from 1 to 10 MiB are cut from segments of 20 MiB.
    assert after["reserved_bytes.all.current"] - before["reserved_bytes.all.current"] == 20 * MIB
    assert after["segment.large_pool.current"] - before["segment.large_pool.current"] == 1
    kept.append(bytes_on_device(5 * MIB))
    assert torch.cuda.memory_reserved() == after["reserved_bytes.all.current"]


def test_peak_is_remembered():
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    data = bytes_on_device(50 * MIB)
    del data
    assert torch.cuda.max_memory_allocated() - before == 50 * MIB
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == before


def test_freed_memory_is_used_again():
    torch.cuda.empty_cache()
    data = bytes_on_device(64 * MIB)
    address = data.data_ptr()
    reserved = torch.cuda.memory_reserved()
    del data
    data = bytes_on_device(64 * MIB)
    assert data.data_ptr() == address and torch.cuda.memory_reserved() == reserved


def test_memory_in_use_by_another_stream_is_not_handed_out():
    stream = torch.cuda.Stream()
    data = bytes_on_device(64 * MIB)
    address = data.data_ptr()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**9)
    data.record_stream(stream)
    del data
    other = bytes_on_device(64 * MIB)
    assert other.data_ptr() != address
    torch.cuda.synchronize()
    assert bytes_on_device(64 * MIB).data_ptr() == address


def test_cache_is_given_back():
    data = bytes_on_device(200 * MIB)
    del data
    free_before, total = torch.cuda.mem_get_info()
    torch.cuda.empty_cache()
    free_after, _ = torch.cuda.mem_get_info()
    assert free_after - free_before >= 200 * MIB
    assert free_after < total


def test_reserved_memory_is_taken_from_the_device():
    torch.cuda.empty_cache()
    free_before, _ = torch.cuda.mem_get_info()
    reserved_before = torch.cuda.memory_reserved()
    data = bytes_on_device(300 * MIB)
    taken = free_before - torch.cuda.mem_get_info()[0]
    assert taken == torch.cuda.memory_reserved() - reserved_before == 300 * MIB
    del data


def test_out_of_memory_and_recovery():
    _, total = torch.cuda.mem_get_info()
    text = fails(lambda: bytes_on_device(total + MIB), "out of memory")
    # PyTorch tells the capacity in its message.
    assert f"{total / 2**30:.2f} GiB" in text, text
    assert torch.ones(10).cuda().cpu().sum() == 10


def test_out_of_memory_empties_the_cache_and_tries_again():
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    half = int(0.6 * free) // MIB * MIB
    data = bytes_on_device(half)
    del data
    retries = torch.cuda.memory_stats()["num_alloc_retries"]
    # Does not fit beside the cached block, nor into it.
    data = bytes_on_device(int(0.8 * free))
    assert torch.cuda.memory_stats()["num_alloc_retries"] == retries + 1
    del data
    torch.cuda.empty_cache()


def test_training_recovers_with_a_smaller_batch():
    model = torch.nn.Sequential(*(torch.nn.Linear(8192, 8192) for _ in range(4))).cuda()
    _, total = torch.cuda.mem_get_info()
    batch = total // (8192 * 4)  # One activation alone takes all of the memory.
    tried = []
    while True:
        try:
            tried.append(batch)
            model(torch.empty(batch, 8192, device="cuda")).sum().backward()
            break
        except torch.cuda.OutOfMemoryError:
            model.zero_grad(set_to_none=True)
            gc.collect()
            batch //= 2
    assert 2 < len(tried) < 8, tried
    assert model[0].weight.grad is not None
    statistics = torch.cuda.memory_stats()
    assert statistics["num_ooms"] >= len(tried) - 1
    del model
    torch.cuda.empty_cache()


def test_fills_up_to_the_capacity():
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    kept = []
    try:
        while True:
            kept.append(bytes_on_device(256 * MIB))
    except torch.cuda.OutOfMemoryError:
        pass
    assert abs(len(kept) * 256 * MIB - free) <= 256 * MIB
    del kept
    torch.cuda.empty_cache()


def test_statistics_and_snapshot():
    data = bytes_on_device(30 * MIB)
    statistics = torch.cuda.memory_stats()
    assert statistics["allocated_bytes.all.current"] == torch.cuda.memory_allocated()
    assert statistics["allocation.all.allocated"] >= statistics["allocation.all.current"] > 0
    assert "Allocated memory" in torch.cuda.memory_summary()
    segments = torch.cuda.memory_snapshot()
    assert sum(segment["total_size"] for segment in segments) == torch.cuda.memory_reserved()
    assert any(segment["address"] <= data.data_ptr() for segment in segments)


def test_memory_history():
    torch.cuda.memory._record_memory_history()
    data = bytes_on_device(30 * MIB)
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    actions = [entry for entry in snapshot["device_traces"][0] if entry["action"] == "alloc"]
    assert any(entry["addr"] == data.data_ptr() for entry in actions)


def test_memory_fraction():
    torch.cuda.set_per_process_memory_fraction(0.1)
    _, total = torch.cuda.mem_get_info()
    try:
        fails(lambda: bytes_on_device(total // 2), "out of memory")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_private_pools():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        data = bytes_on_device(32 * MIB)
    assert any(segment["address"] <= data.data_ptr() for segment in pool.snapshot())


def test_large_memory_costs_the_host_little():
    def resident_kib():
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    before = resident_kib()
    free, _ = torch.cuda.mem_get_info()
    data = bytes_on_device(int(free * 0.8))
    data.zero_()
    assert resident_kib() - before < 256 * 1024
    del data
    torch.cuda.empty_cache()


def test_device_properties():
    properties = torch.cuda.get_device_properties(0)
    assert properties.multi_processor_count > 0
    assert properties.total_memory == torch.cuda.mem_get_info()[1]
    assert torch.cuda.get_device_name(0) == properties.name
    capability = (properties.major, properties.minor)
    assert torch.cuda.get_device_capability(0) == capability
    assert properties.warp_size == 32 and properties.max_threads_per_multi_processor >= 1024


if __name__ == "__main__":
    main()
