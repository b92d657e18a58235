# SPDX-License-Identifier: Apache-2.0
"""torch.profiler, NVTX and debugging modes: they do not crash, and report what they can."""

import json
import pathlib
import tempfile
import warnings

import torch
from conformance import fails, main
from torch.profiler import ProfilerActivity, profile, record_function, schedule


def work():
    return torch.mm(torch.ones(64, 64, device="cuda"), torch.ones(64, 64, device="cuda"))


def test_profiler_of_host_and_device():
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        with record_function("my step"):
            work()
        torch.cuda.synchronize()
    names = {event.key for event in recorded.key_averages()}
    assert {"aten::mm", "my step"} <= names


def test_profiler_of_memory():
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        data = torch.empty(1 << 20, device="cuda")
    used = [event.self_device_memory_usage for event in recorded.key_averages()]
    assert sum(used) == data.nbytes, used


def test_profiler_schedule_and_trace():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "trace.json"
        with profile(
            activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
            schedule=schedule(wait=1, warmup=1, active=2),
            on_trace_ready=lambda recorded: recorded.export_chrome_trace(str(file)),
            record_shapes=True,
        ) as recorded:
            for _ in range(4):
                work()
                recorded.step()
        events = json.loads(file.read_text("utf-8"))["traceEvents"]
    assert sum(event.get("name") == "aten::mm" for event in events) == 2


def test_autograd_profiler_by_events():
    with torch.autograd.profiler.profile(use_device="cuda", use_kineto=False) as recorded:
        torch.cuda._sleep(10**7)
        work()
    assert any(event.name == "aten::mm" for event in recorded.function_events)


def test_nvtx():
    torch.cuda.nvtx.range_push("step")
    assert torch.cuda.nvtx.range_pop() is not None
    torch.cuda.nvtx.mark("here")
    with torch.autograd.profiler.emit_nvtx():
        work()


def test_start_and_stop_of_outer_profilers():
    with torch.cuda.profiler.profile():
        work()


def test_synchronisation_is_reported():
    torch.cuda.set_sync_debug_mode("error")
    try:
        fails(lambda: torch.zeros(1, device="cuda").item(), "synchronizing")
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_anomaly_mode():
    data = torch.ones(4, device="cuda", requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.autograd.detect_anomaly():
            data.square().sum().backward()
    assert data.grad.shape == (4,)


if __name__ == "__main__":
    main()
