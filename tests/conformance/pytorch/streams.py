# SPDX-License-Identifier: Apache-2.0
"""Streams and events: order, overlap and times."""

import threading
import time

import torch
from conformance import MIB, device_ms, fails, gpu_spec, main


def events(count=2):
    return [torch.cuda.Event(enable_timing=True) for _ in range(count)]


def heavy(size=4096):
    data = torch.empty(size, size, device="cuda")
    return lambda: torch.mm(data, data)


def test_sleeping_kernel_takes_its_cycles():
    cycles = 10**8
    expected_ms = cycles / gpu_spec()["boost_clock_mhz"] / 1e3
    assert 0.99 < device_ms(lambda: torch.cuda._sleep(cycles)) / expected_ms < 2


def test_event_is_over_when_its_work_is():
    before, after = events()
    before.record()
    torch.cuda._sleep(10**9)
    after.record()
    assert not after.query()
    after.synchronize()
    assert after.query() and before.query()
    assert before.elapsed_time(after) > 100


def test_event_errors():
    first, second = events()
    fails(lambda: first.elapsed_time(second), "recorded")
    untimed = torch.cuda.Event()
    first.record()
    untimed.record()
    torch.cuda.synchronize()
    fails(lambda: first.elapsed_time(untimed), "timing")


def test_elapsed_time_of_unfinished_events_is_an_error():
    first, second = events()
    first.record()
    torch.cuda._sleep(10**9)
    second.record()
    fails(lambda: first.elapsed_time(second), "completed")
    torch.cuda.synchronize()


def test_unrecorded_events_are_over():
    assert torch.cuda.Event().query()
    torch.cuda.Event().synchronize()


def test_elapsed_times_add_up():
    first, second, third = events(3)
    torch.cuda._sleep(10**7)
    first.record()
    torch.cuda._sleep(10**7)
    second.record()
    torch.cuda._sleep(2 * 10**7)
    third.record()
    torch.cuda.synchronize()
    parts = first.elapsed_time(second) + second.elapsed_time(third)
    assert abs(first.elapsed_time(third) - parts) < 1e-3
    assert 1.8 < second.elapsed_time(third) / first.elapsed_time(second) < 2.2


def test_recording_again_moves_the_event():
    event, start = events()
    start.record()
    event.record()
    torch.cuda._sleep(10**7)
    event.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(event) > 1


def test_queueing_returns_before_the_work_ends():
    torch.cuda.synchronize()
    end = torch.cuda.Event()
    for _ in range(10):
        torch.cuda._sleep(10**8)
    end.record()
    assert not end.query()
    torch.cuda.synchronize()


def test_device_time_is_wall_time():
    work = heavy(8192)
    expected_ms = 5 * device_ms(work)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(5):
        work()
    torch.cuda.synchronize()
    elapsed_ms = 1e3 * (time.perf_counter() - start)
    assert elapsed_ms > 0.99 * expected_ms, (elapsed_ms, expected_ms)


def test_streams_wait_for_events():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    done, late = events()
    with torch.cuda.stream(first):
        torch.cuda._sleep(10**8)
        done.record()
    second.wait_event(done)
    with torch.cuda.stream(second):
        late.record()
    torch.cuda.synchronize()
    assert done.elapsed_time(late) >= 0


def test_streams_do_not_wait_unless_told_to():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    slow, quick = torch.cuda.Event(), torch.cuda.Event()
    with torch.cuda.stream(first):
        torch.cuda._sleep(10**9)
        slow.record()
    with torch.cuda.stream(second):
        quick.record()
    quick.synchronize()
    assert not slow.query()
    torch.cuda.synchronize()


def test_a_wait_is_for_the_event_as_recorded_then():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    event, later = events()
    event.record(first)
    second.wait_event(event)
    with torch.cuda.stream(first):
        torch.cuda._sleep(10**9)
        event.record()
    later.record(second)
    later.synchronize()
    assert not event.query()
    torch.cuda.synchronize()


def test_wait_stream_orders_both():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    before, after = events()
    with torch.cuda.stream(first):
        torch.cuda._sleep(10**8)
        before.record()
    second.wait_stream(first)
    after.record(second)
    second.synchronize()
    assert before.query() and before.elapsed_time(after) >= 0


def test_streams_of_pytorch_do_not_block_the_default_stream():
    # They are made non-blocking.
    stream = torch.cuda.Stream()
    slow, quick = torch.cuda.Event(), torch.cuda.Event()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**9)
        slow.record()
    quick.record()
    quick.synchronize()
    assert not slow.query()
    torch.cuda.synchronize()


def test_stream_synchronize_waits_for_its_stream_only():
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    slow = torch.cuda.Event()
    host = torch.empty(MIB, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        torch.cuda._sleep(10**9)
        slow.record()
    with torch.cuda.stream(second):
        device.copy_(host, non_blocking=True)
    second.synchronize()
    assert second.query() and not first.query() and not slow.query()
    torch.cuda.synchronize()
    assert first.query()


def test_kernels_that_fill_the_gpu_do_not_gain_from_streams():
    work = heavy()
    first, second = torch.cuda.Stream(), torch.cuda.Stream()

    def both():
        for stream in (first, second):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                work()
            torch.cuda.current_stream().wait_stream(stream)

    assert device_ms(both) > 1.9 * device_ms(work)


def test_stream_priorities():
    least, greatest = torch.cuda.Stream.priority_range()
    assert greatest < least == 0
    assert torch.cuda.Stream(priority=greatest).priority == greatest
    assert torch.cuda.Stream().priority == 0


def test_current_stream():
    before = torch.cuda.current_stream()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
    assert torch.cuda.current_stream() == before


def test_external_stream():
    stream = torch.cuda.Stream()
    other = torch.cuda.ExternalStream(stream.cuda_stream)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10**9)
    assert not other.query()
    other.synchronize()
    assert stream.query()


def test_threads_have_their_own_current_stream():
    seen = []

    def ask():
        seen.append(torch.cuda.current_stream() == torch.cuda.default_stream())
        torch.cuda._sleep(1000)
        torch.cuda.current_stream().synchronize()

    with torch.cuda.stream(torch.cuda.Stream()):
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert seen == [True]


def test_blocking_events():
    event = torch.cuda.Event(blocking=True)
    torch.cuda._sleep(10**8)
    event.record()
    event.synchronize()
    assert event.query()


if __name__ == "__main__":
    main()
