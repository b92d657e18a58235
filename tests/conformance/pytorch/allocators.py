# SPDX-License-Identifier: Apache-2.0
"""Allocators other than the caching one, each in its own process: CUDA's pools, and no cache."""

import os
import subprocess
import sys

import torch
from conformance import MIB, main


def in_process(code, **environment):
    """Runs code in a new process; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", "import torch\n" + code],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_pools_of_cuda():
    code = f"""
data = torch.empty({100 * MIB}, dtype=torch.uint8, device="cuda")
assert torch.cuda.get_allocator_backend() == "cudaMallocAsync"
used = torch.cuda.memory_allocated()
del data
torch.cuda.synchronize()
torch.cuda.empty_cache()
print(used, torch.cuda.memory_allocated(), torch.arange(3).cuda().tolist())
"""
    printed = in_process(code, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
    assert printed == f"{100 * MIB} 0 [0, 1, 2]", printed


def test_pools_of_cuda_run_out_of_memory():
    code = f"""
try:
    torch.empty(torch.cuda.mem_get_info()[1] + {MIB}, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError:
    print("refused", torch.ones(3).cuda().cpu().sum().item())
"""
    printed = in_process(code, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
    assert printed == "refused 3.0", printed


def test_no_cache():
    code = f"""
torch.ones(1).cuda()
free, _ = torch.cuda.mem_get_info()
data = torch.empty({100 * MIB}, dtype=torch.uint8, device="cuda")
taken = free - torch.cuda.mem_get_info()[0]
del data
print(taken, free - torch.cuda.mem_get_info()[0])
"""
    printed = in_process(code, PYTORCH_NO_CUDA_MEMORY_CACHING="1")
    assert printed == f"{100 * MIB} 0", printed


def test_largest_split_is_respected():
    code = f"""
data = torch.empty({100 * MIB}, dtype=torch.uint8, device="cuda")
address = data.data_ptr()
del data
# A block beyond the limit is not cut for a smaller request.
other = torch.empty({30 * MIB}, dtype=torch.uint8, device="cuda")
print(other.data_ptr() == address)
"""
    assert in_process(code, PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:50") == "False"
    assert in_process(code, PYTORCH_CUDA_ALLOC_CONF="") == "True"


def test_visible_devices():
    code = "print(torch.cuda.device_count(), torch.cuda.is_available())"
    assert in_process(code, CUDA_VISIBLE_DEVICES="0") == "1 True"
    assert in_process(code, CUDA_VISIBLE_DEVICES="") == "0 False"
    if torch.cuda.device_count() > 1:
        code = "print(torch.cuda.device_count(), torch.cuda.get_device_properties(0).uuid)"
        expected = torch.cuda.get_device_properties(1).uuid
        assert in_process(code, CUDA_VISIBLE_DEVICES="1") == f"1 {expected}"


def test_blocking_launches():
    code = """
torch.cuda._sleep(10**8)
print(torch.cuda.current_stream().query())
"""
    assert in_process(code, CUDA_LAUNCH_BLOCKING="1") == "True"
    assert in_process(code) == "False"


if __name__ == "__main__":
    main()
