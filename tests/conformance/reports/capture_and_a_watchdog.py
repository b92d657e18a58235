# SPDX-License-Identifier: Apache-2.0
"""https://github.com/pytorch/pytorch/pull/104555:
an event of work before the capture, which a watchdog asks about in another thread, breaks a global
capture but not a thread-local one.

GPU: A100-PCIE-40GB
Shows: global: watchdog .*operation not permitted when stream is capturing
Shows: global: end .*operation failed due to a previous error during capture
Shows: thread_local: watchdog True
Shows: thread_local: end fine
"""

import threading

import torch

x = torch.zeros(16, device="cuda")
event = torch.cuda.Event()
event.record()
torch.cuda.synchronize()


def watch(mode):
    try:
        print(f"{mode}: watchdog {event.query()}")
    except RuntimeError as error:
        print(f"{mode}: watchdog {str(error).splitlines()[0]}")


for mode in ("global", "thread_local"):
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode=mode)
        x += 1
        thread = threading.Thread(target=watch, args=(mode,))
        thread.start()
        thread.join()
        try:
            graph.capture_end()
            print(f"{mode}: end fine")
        except RuntimeError as error:
            print(f"{mode}: end {str(error).splitlines()[0]}")
