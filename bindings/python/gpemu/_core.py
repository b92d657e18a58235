# SPDX-License-Identifier: Apache-2.0
"""The C interface of gpemu as Python classes, by ctypes: one package for every Python version.

Times are nanoseconds, sizes are bytes; gpemu.h has the contracts. Objects may be used from any
thread and may end in any order: each keeps alive what it depends on. Methods raise GpemuError or
the subclass that is named.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import operator
import pathlib
import time
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_int, c_int32, c_int64
from ctypes import c_size_t, c_uint64, c_void_p
from typing import NamedTuple, NoReturn, Optional

from ._errors import InvalidArgumentError, error_for

# Values from gpemu/base/error_codes.def.
_RESOURCE_LIMIT = 5
_NOT_READY = 11


def _library_path() -> str:
    """Finds libgpemu.so in the package; in a build tree it is a link, which is resolved."""
    folder = pathlib.Path(__file__).parent / "lib"
    files = sorted(folder.glob("libgpemu.so.*"))
    if not files:
        raise ImportError(f"gpemu is not installed completely: {folder} has no libgpemu.so")
    return str(files[0].resolve())


_PATH = _library_path()
# Functions that wait go through _waiting, which lets other Python threads run meanwhile; the others
# return in nanoseconds and keep the interpreter's lock.
_direct = ctypes.PyDLL(_PATH)
_waiting = ctypes.CDLL(_PATH)


def _declare(library, name: str, *arguments, result=c_int):
    function = library[name]
    function.argtypes = arguments
    function.restype = result
    return function


def _call(name: str, *arguments):
    return _declare(_direct, name, *arguments)


def _wait(name: str, *arguments):
    return _declare(_waiting, name, *arguments)


def _end(name: str):
    return _declare(_direct, name, c_void_p, result=None)


_last_error = _declare(_direct, "gpemu_last_error", result=c_char_p)
_status_name = _declare(_direct, "gpemu_status_name", c_int, result=c_char_p)

__version__ = _declare(_direct, "gpemu_version", result=c_char_p)().decode()


def _refuse(status: int) -> NoReturn:
    message = _last_error()
    raise error_for(status, _status_name(status).decode(), (message or b"").decode())


def _has_ended(status: int) -> bool:
    if status == _NOT_READY:
        return False
    if status:
        _refuse(status)
    return True


# ctypes silently truncates integers that are too large and strings at a NUL; these refuse them.
_INT32 = (-(1 << 31), (1 << 31) - 1)
_INT64 = (-(1 << 63), (1 << 63) - 1)
_UINT64 = (0, (1 << 64) - 1)


def _integer(value, bounds: tuple[int, int], name: str) -> int:
    number = operator.index(value)
    if not bounds[0] <= number <= bounds[1]:
        raise InvalidArgumentError(f"{name} is {number}; it must be {bounds[0]} to {bounds[1]}")
    return number


def _text(value: str, name: str) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    if "\0" in value:
        raise InvalidArgumentError(f"{name} contains a NUL character")
    return value.encode()


def _optional_text(value: Optional[str], name: str) -> Optional[bytes]:
    return None if value is None else _text(value, name)


class _Handle:
    """Owns a handle of the C interface and destroys it at the end."""

    __slots__ = ("_handle",)
    _destroy = None

    def __init__(self) -> None:
        raise TypeError(f"{type(self).__name__} objects are made by the methods that return them")

    @classmethod
    def _own(cls, handle: c_void_p):
        made = cls.__new__(cls)
        made._handle = handle
        return made

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            type(self)._destroy(handle)


# ---- Results


class ExpectedInterval(NamedTuple):
    """When a piece of work runs, on the node's clock, if nothing else is queued. What this or
    another process queues later may still move it: Event.time tells when it really ended."""

    start_ns: int
    end_ns: int


class Memory(NamedTuple):
    """A device's memory: what is free of all processes, and the capacity."""

    free_bytes: int
    total_bytes: int


class Estimate(NamedTuple):
    """A duration; in 9 of 10 cases the truth is between time_ns / (1 + relative_error) and
    time_ns * (1 + relative_error).

    `evidence` is "measured", "interpolated", "extrapolated", "scaled", "calibrated", "transferred",
    "analytic", "guessed", "emulated" or "published".
    """

    time_ns: int
    relative_error: float
    evidence: str


class StepCost(NamedTuple):
    """What one training step costs.

    Attributes:
        backward_optimizer: loss, backward pass and optimizer step.
        copy_pageable: one batch of input to the device, from pageable memory.
        copy_pinned: the same from page-locked memory.
        persistent_bytes: held between steps.
        peak_bytes: the most that is held, as the framework's allocator counts.
        reserved_bytes: outside the allocator: context, workspaces, fragmentation.
    """

    forward: Estimate
    backward_optimizer: Estimate
    copy_pageable: Estimate
    copy_pinned: Estimate
    persistent_bytes: int
    peak_bytes: int
    reserved_bytes: int


class Gpu(NamedTuple):
    """A kind of GPU. Rates are from the datasheet, but `pinned_copy_bytes_per_s` is what copies
    achieve; `fp32_flops` is per second, without tensor cores."""

    name: str
    product_name: str
    architecture: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    memory_bandwidth_bytes_per_s: float
    fp32_flops: float
    pinned_copy_bytes_per_s: float


class Model(NamedTuple):
    """A model that was profiled; `input_shape` is channels, height and width of an FP32 sample."""

    name: str
    parameters: int
    input_shape: tuple[int, int, int]


# ---- The host's clock

_gpemu_host_now = _call("gpemu_host_now", POINTER(c_int64))
_gpemu_host_wait_until = _wait("gpemu_host_wait_until", c_int64)


def host_now() -> int:
    """Returns the host's CLOCK_MONOTONIC, which all nodes on the real clock share."""
    now = c_int64()
    if status := _gpemu_host_now(byref(now)):
        _refuse(status)
    return now.value


def host_wait_until(time_ns: int) -> None:
    """Waits for a time on host_now()'s clock; other Python threads run meanwhile."""
    if status := _gpemu_host_wait_until(_integer(time_ns, _INT64, "time_ns")):
        _refuse(status)


_WORK = bytes(1 << 16)  # Hashing it takes some 50 us, without the interpreter's lock.


def host_burn(load: float, duration_ns: int, slice_ns: int) -> None:
    """Uses a share (0 to 1) of a core for a duration; other Python threads run meanwhile.

    The thread works whenever it has used less than its share of CPU time, and sleeps for a slice
    otherwise.
    """
    start, used_before = time.monotonic_ns(), time.thread_time_ns()
    end = start + duration_ns
    while (now := time.monotonic_ns()) < end:
        if time.thread_time_ns() - used_before < (now - start) * load:
            hashlib.sha256(_WORK)
        else:
            time.sleep(min(slice_ns, end - now) / 1e9)


# ---- Streams and events


class _Interval(Structure):
    _fields_ = [("start_ns", c_int64), ("end_ns", c_int64)]


_gpemu_event_create = _call("gpemu_event_create", POINTER(c_void_p))
_gpemu_event_query = _call("gpemu_event_query", c_void_p)
_gpemu_event_synchronize = _wait("gpemu_event_synchronize", c_void_p)
_gpemu_event_record = _call("gpemu_event_record", c_void_p, c_void_p)
_gpemu_event_elapsed = _call("gpemu_event_elapsed", c_void_p, c_void_p, POINTER(c_int64))
_gpemu_event_time = _call("gpemu_event_time", c_void_p, POINTER(c_int64))
_gpemu_stream_launch = _wait("gpemu_stream_launch", c_void_p, c_int64, POINTER(_Interval))
_gpemu_stream_copy = _call(
    "gpemu_stream_copy", c_void_p, c_int, c_uint64, c_int64, POINTER(_Interval)
)
_gpemu_stream_query = _call("gpemu_stream_query", c_void_p)
_gpemu_stream_synchronize = _wait("gpemu_stream_synchronize", c_void_p)
_gpemu_stream_wait_event = _call("gpemu_stream_wait_event", c_void_p, c_void_p)
_TO_DEVICE, _TO_HOST = 0, 1


class Event(_Handle):
    """A point in a stream's work; counts as over if it was never recorded."""

    __slots__ = ()
    _destroy = _end("gpemu_event_destroy")

    def __init__(self) -> None:
        handle = c_void_p()
        if status := _gpemu_event_create(byref(handle)):
            _refuse(status)
        self._handle = handle

    def query(self) -> bool:
        """Returns whether it is over."""
        return _has_ended(_gpemu_event_query(self._handle))

    def synchronize(self) -> None:
        """Waits until it is over; other Python threads run meanwhile."""
        if status := _gpemu_event_synchronize(self._handle):
            _refuse(status)

    def elapsed_ns(self, end: Event) -> int:
        """Returns the time from this event to `end`. Raises InvalidArgumentError if one was never
        recorded, GpemuError if one is not over."""
        elapsed = c_int64()
        if status := _gpemu_event_elapsed(self._handle, end._handle, byref(elapsed)):
            _refuse(status)
        return elapsed.value

    def time(self) -> int:
        """Returns the time at which it was reached, on the node's clock. Raises
        InvalidArgumentError if it was never recorded, GpemuError if it is not over."""
        time_ns = c_int64()
        if status := _gpemu_event_time(self._handle, byref(time_ns)):
            _refuse(status)
        return time_ns.value


class Stream(_Handle):
    """A queue of a device's work, which runs in order. Made by Device."""

    __slots__ = ()
    _destroy = _end("gpemu_stream_destroy")

    def launch(self, duration_ns: int) -> ExpectedInterval:
        """Queues work on the compute engine and returns the time at which it is expected to run;
        what is queued later, by this or another process, may move it. Waits as long as the node's
        sharing policy holds this process back. Raises InvalidArgumentError for a negative
        duration."""
        interval = _Interval()
        duration = _integer(duration_ns, _INT64, "duration_ns")
        if status := _gpemu_stream_launch(self._handle, duration, byref(interval)):
            _refuse(status)
        return ExpectedInterval(interval.start_ns, interval.end_ns)

    def copy_to_device(self, nbytes: int, duration_ns: int) -> ExpectedInterval:
        """Queues a copy on the engine for copies to the device; otherwise like launch."""
        return self._copy(_TO_DEVICE, nbytes, duration_ns)

    def copy_to_host(self, nbytes: int, duration_ns: int) -> ExpectedInterval:
        """Queues a copy on the engine for copies to the host; otherwise like launch."""
        return self._copy(_TO_HOST, nbytes, duration_ns)

    def _copy(self, direction: int, nbytes: int, duration_ns: int) -> ExpectedInterval:
        interval = _Interval()
        size = _integer(nbytes, _UINT64, "nbytes")
        duration = _integer(duration_ns, _INT64, "duration_ns")
        if status := _gpemu_stream_copy(self._handle, direction, size, duration, byref(interval)):
            _refuse(status)
        return ExpectedInterval(interval.start_ns, interval.end_ns)

    def record(self, event: Event) -> None:
        """Makes the event stand for all work queued so far."""
        if status := _gpemu_event_record(event._handle, self._handle):
            _refuse(status)

    def wait_event(self, event: Event) -> None:
        """Lets work queued later start only after the event."""
        if status := _gpemu_stream_wait_event(self._handle, event._handle):
            _refuse(status)

    def query(self) -> bool:
        """Returns whether all work queued so far has ended."""
        return _has_ended(_gpemu_stream_query(self._handle))

    def synchronize(self) -> None:
        """Waits until all work queued so far has ended; other Python threads run meanwhile."""
        if status := _gpemu_stream_synchronize(self._handle):
            _refuse(status)


# ---- Rendezvous


class RoundStatistics(NamedTuple):
    """How well a process keeps up with the rounds of all its groups.

    Attributes:
        rounds: how many have ended.
        median_late_ns: for how long after a round's end nobody could tell it, because a party had
            not published its arrival; a longer median than a millisecond is given as a
            millisecond.
        latest_ns: the longest of these.
        settling_cpu_ns: the CPU time of the thread that settles rounds.
    """

    rounds: int
    median_late_ns: int
    latest_ns: int
    settling_cpu_ns: int


class _RoundStatistics(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("rounds", c_uint64),
        ("median_late_ns", c_int64),
        ("latest_ns", c_int64),
        ("settling_cpu_ns", c_int64),
    ]


_GROUP_ID_BYTES = 64
_gpemu_rendezvous_create_group = _call(
    "gpemu_rendezvous_create_group", c_void_p, c_int32, c_char * _GROUP_ID_BYTES
)
_gpemu_rendezvous_join = _call(
    "gpemu_rendezvous_join", c_void_p, c_char_p, c_int32, POINTER(c_void_p)
)
_gpemu_rendezvous_arrive = _call(
    "gpemu_rendezvous_arrive", c_void_p, c_void_p, c_int64, c_void_p
)
_gpemu_rendezvous_check = _call("gpemu_rendezvous_check", c_void_p)
_gpemu_rendezvous_synchronize = _wait(
    "gpemu_rendezvous_synchronize", c_void_p, c_void_p, c_int64
)
_gpemu_rendezvous_statistics = _call(
    "gpemu_rendezvous_statistics", c_void_p, POINTER(_RoundStatistics)
)


class Rendezvous(_Handle):
    """One party of a group whose rounds end for all parties together, as collectives do. Made by
    Node.join. When it ends, the parties that wait for it fail."""

    __slots__ = ()
    _destroy = _end("gpemu_rendezvous_leave")

    def arrive(self, stream: Stream, cost_ns: int, end: Optional[Event] = None) -> None:
        """Queues a round: it ends for all parties when the last party's stream has reached it and
        the largest cost that any of them gave has passed. `end` is recorded at that point. Raises
        GpemuError if the group has failed."""
        cost = _integer(cost_ns, _INT64, "cost_ns")
        event = None if end is None else end._handle
        if status := _gpemu_rendezvous_arrive(self._handle, stream._handle, cost, event):
            _refuse(status)

    def check(self) -> None:
        """Raises GpemuError once a party for which this one waits has died or left."""
        if status := _gpemu_rendezvous_check(self._handle):
            _refuse(status)

    def synchronize(self, stream: Stream, timeout_ns: int = -1) -> None:
        """Waits until all work of the stream has ended; other Python threads run meanwhile. Raises
        GpemuError if the group fails, or after the timeout unless that is negative."""
        timeout = _integer(timeout_ns, _INT64, "timeout_ns")
        if status := _gpemu_rendezvous_synchronize(self._handle, stream._handle, timeout):
            _refuse(status)

    def statistics(self) -> RoundStatistics:
        """Returns how well this process keeps up with the rounds of all its groups."""
        filled = _RoundStatistics(ctypes.sizeof(_RoundStatistics))
        if status := _gpemu_rendezvous_statistics(self._handle, byref(filled)):
            _refuse(status)
        return RoundStatistics(
            filled.rounds, filled.median_late_ns, filled.latest_ns, filled.settling_cpu_ns
        )


# ---- Nodes, devices and memory


class _NodeConfig(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("gpu", c_char_p),
        ("device_count", c_int32),
        ("clock", c_int),
        ("topology", c_char_p),
    ]


class _DeviceInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("gpu", c_char * 64),
        ("uuid", c_char * 48),
        ("pci_bus_id", c_char * 32),
        ("memory_bytes", c_uint64),
    ]


_gpemu_node_create = _call("gpemu_node_create", POINTER(_NodeConfig), POINTER(c_void_p))
_gpemu_node_open = _call("gpemu_node_open", c_char_p, POINTER(c_void_p))
_gpemu_node_device_count = _call("gpemu_node_device_count", c_void_p, POINTER(c_int32))
_gpemu_node_now = _call("gpemu_node_now", c_void_p, POINTER(c_int64))
_gpemu_node_wait_until = _wait("gpemu_node_wait_until", c_void_p, c_int64)
_gpemu_device_open = _call("gpemu_device_open", c_void_p, c_int32, POINTER(c_void_p))
_gpemu_device_get_info = _call("gpemu_device_get_info", c_void_p, POINTER(_DeviceInfo))
_gpemu_device_synchronize = _wait("gpemu_device_synchronize", c_void_p)
_gpemu_device_allocate = _call("gpemu_device_allocate", c_void_p, c_uint64, POINTER(c_uint64))
_gpemu_device_free = _call("gpemu_device_free", c_void_p, c_uint64)
_gpemu_device_memory = _call("gpemu_device_memory", c_void_p, POINTER(c_uint64), POINTER(c_uint64))
_gpemu_stream_create = _call("gpemu_stream_create", c_void_p, c_int, POINTER(c_void_p))
_gpemu_stream_default = _call("gpemu_stream_default", c_void_p, POINTER(c_void_p))
_gpemu_pinned_lock = _wait("gpemu_pinned_lock", c_void_p, c_uint64)


class Device(_Handle):
    """This process's context on a device. Made by Node; gives its memory back when it ends."""

    __slots__ = ()
    _destroy = _end("gpemu_device_close")

    def _info(self) -> _DeviceInfo:
        info = _DeviceInfo(ctypes.sizeof(_DeviceInfo))
        if status := _gpemu_device_get_info(self._handle, byref(info)):
            _refuse(status)
        return info

    @property
    def gpu(self) -> str:
        return self._info().gpu.decode()

    @property
    def uuid(self) -> str:
        return self._info().uuid.decode()

    @property
    def pci_bus_id(self) -> str:
        return self._info().pci_bus_id.decode()

    def allocate(self, nbytes: int) -> int:
        """Allocates memory, rounded up to 256 bytes, and returns its address, which must not be
        dereferenced. Raises OutOfMemoryError."""
        address = c_uint64()
        size = _integer(nbytes, _UINT64, "nbytes")
        if status := _gpemu_device_allocate(self._handle, size, byref(address)):
            _refuse(status)
        return address.value

    def free(self, address: int) -> None:
        """Frees memory. Raises InvalidArgumentError if no live allocation starts at `address`."""
        if status := _gpemu_device_free(self._handle, _integer(address, _UINT64, "address")):
            _refuse(status)

    def memory(self) -> Memory:
        """Returns what is free of all processes, and the capacity."""
        free, total = c_uint64(), c_uint64()
        if status := _gpemu_device_memory(self._handle, byref(free), byref(total)):
            _refuse(status)
        return Memory(free.value, total.value)

    def stream(self, blocking: bool = True) -> Stream:
        """Makes a stream; a blocking one synchronises with the default stream."""
        handle = c_void_p()
        if status := _gpemu_stream_create(self._handle, 0 if blocking else 1, byref(handle)):
            _refuse(status)
        return Stream._own(handle)

    def default_stream(self) -> Stream:
        """Returns CUDA's legacy default stream."""
        handle = c_void_p()
        if status := _gpemu_stream_default(self._handle, byref(handle)):
            _refuse(status)
        return Stream._own(handle)

    def synchronize(self) -> None:
        """Waits until all work of this context has ended; other Python threads run meanwhile."""
        if status := _gpemu_device_synchronize(self._handle):
            _refuse(status)


class Node(_Handle):
    """A node: an emulated computer with 1 to 4096 devices of one kind.

    A node with a name is visible to all processes and disappears with its last user. With the
    virtual clock, which only private nodes may have, time starts at 0 and jumps to the end of each
    wait. `topology` is the path of a file that says what joins the devices.

    Raises InvalidArgumentError (also if the name is taken), NotFoundError for an unknown GPU or
    file, and GpemuError for a fault in the file.
    """

    __slots__ = ()
    _destroy = _end("gpemu_node_close")

    def __init__(
        self,
        gpu: str,
        device_count: int = 1,
        *,
        name: Optional[str] = None,
        virtual_clock: bool = False,
        topology: Optional[str] = None,
    ) -> None:
        config = _NodeConfig(
            ctypes.sizeof(_NodeConfig),
            _optional_text(name, "name"),
            _text(gpu, "gpu"),
            _integer(device_count, _INT32, "device_count"),
            1 if virtual_clock else 0,
            _optional_text(topology, "topology"),
        )
        handle = c_void_p()
        if status := _gpemu_node_create(byref(config), byref(handle)):
            _refuse(status)
        self._handle = handle

    @staticmethod
    def open(name: str) -> Node:
        """Attaches to a node that exists. Raises NotFoundError."""
        handle = c_void_p()
        if status := _gpemu_node_open(_text(name, "name"), byref(handle)):
            _refuse(status)
        return Node._own(handle)

    @property
    def device_count(self) -> int:
        count = c_int32()
        if status := _gpemu_node_device_count(self._handle, byref(count)):
            _refuse(status)
        return count.value

    def now(self) -> int:
        """Returns the current time on the node's clock."""
        now = c_int64()
        if status := _gpemu_node_now(self._handle, byref(now)):
            _refuse(status)
        return now.value

    def wait_until(self, time_ns: int) -> None:
        """Waits for a time on the node's clock; other Python threads run meanwhile."""
        if status := _gpemu_node_wait_until(self._handle, _integer(time_ns, _INT64, "time_ns")):
            _refuse(status)

    def device(self, index: int = 0) -> Device:
        """Opens a device. Raises NotFoundError; GpemuError if another process has exclusive use."""
        handle = c_void_p()
        position = _integer(index, _INT32, "index")
        if status := _gpemu_device_open(self._handle, position, byref(handle)):
            _refuse(status)
        return Device._own(handle)

    def create_group(self, parties: int) -> str:
        """Makes a group for rendezvous and returns its id, with which each party joins. Raises
        InvalidArgumentError for less than one party; GpemuError if the node has no room left."""
        group = ctypes.create_string_buffer(_GROUP_ID_BYTES)
        count = _integer(parties, _INT32, "parties")
        if status := _gpemu_rendezvous_create_group(self._handle, count, group):
            _refuse(status)
        return group.value.decode()

    def join(self, group: str, seat: int) -> Rendezvous:
        """Takes a seat in a group, 0 to parties - 1. Raises InvalidArgumentError if it does not
        exist or is taken, NotFoundError if the group has ended."""
        handle = c_void_p()
        place = _integer(seat, _INT32, "seat")
        if status := _gpemu_rendezvous_join(
            self._handle, _text(group, "group"), place, byref(handle)
        ):
            _refuse(status)
        return Rendezvous._own(handle)


class PinnedMemory(mmap.mmap):
    """Page-locked, zero-filled host memory. `memoryview(...)` and `numpy.frombuffer(...)` see it as
    one-dimensional bytes and keep it alive. If the user's limit on locked memory is too low, it is
    not locked, and one line on standard error says so. Raises GpemuError if the host is out of
    memory."""

    def __new__(cls, nbytes: int) -> PinnedMemory:
        size = _integer(nbytes, (1, _INT64[1]), "nbytes")
        try:
            memory = super().__new__(cls, -1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as error:
            raise error_for(_RESOURCE_LIMIT, "", f"cannot allocate {size} bytes: {error}") from None
        start = c_char.from_buffer(memory)
        status = _gpemu_pinned_lock(ctypes.addressof(start), size)
        del start
        if status:
            memory.close()
            _refuse(status)
        return memory


# ---- Costs

_EVIDENCE = (
    "measured",
    "interpolated",
    "extrapolated",
    "scaled",
    "calibrated",
    "transferred",
    "analytic",
    "guessed",
    "emulated",
    "published",
)


class _Estimate(Structure):
    _fields_ = [("time_ns", c_int64), ("relative_error", c_double), ("evidence", c_int)]

    def named(self) -> Estimate:
        return Estimate(self.time_ns, self.relative_error, _EVIDENCE[self.evidence])


class _StepCost(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("forward", _Estimate),
        ("backward_optimizer", _Estimate),
        ("copy_pageable", _Estimate),
        ("copy_pinned", _Estimate),
        ("persistent_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("reserved_bytes", c_uint64),
    ]


class _GpuInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char * 64),
        ("product_name", c_char * 96),
        ("architecture", c_char * 32),
        ("compute_capability_major", c_int32),
        ("compute_capability_minor", c_int32),
        ("multiprocessors", c_int32),
        ("reserved", c_int32),
        ("memory_bytes", c_uint64),
        ("memory_bandwidth_bytes_per_s", c_double),
        ("fp32_flops", c_double),
        ("pinned_copy_bytes_per_s", c_double),
    ]

    def named(self) -> Gpu:
        return Gpu(
            self.name.decode(),
            self.product_name.decode(),
            self.architecture.decode(),
            (self.compute_capability_major, self.compute_capability_minor),
            self.multiprocessors,
            self.memory_bytes,
            self.memory_bandwidth_bytes_per_s,
            self.fp32_flops,
            self.pinned_copy_bytes_per_s,
        )


class _ModelInfo(Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char * 64),
        ("parameters", c_uint64),
        ("input_shape", c_int32 * 3),
        ("reserved", c_int32),
    ]

    def named(self) -> Model:
        channels, height, width = self.input_shape
        return Model(self.name.decode(), self.parameters, (channels, height, width))


_gpemu_cost_model_step = _call("gpemu_cost_model_step", c_void_p, c_int32, POINTER(_StepCost))
_gpemu_cost_model_largest_batch = _call(
    "gpemu_cost_model_largest_batch", c_void_p, POINTER(c_int32)
)
_gpemu_database_open = _call("gpemu_database_open", c_char_p, POINTER(c_void_p))
_gpemu_database_gpu_count = _call("gpemu_database_gpu_count", c_void_p, POINTER(c_int32))
_gpemu_database_gpu = _call("gpemu_database_gpu", c_void_p, c_int32, POINTER(_GpuInfo))
_gpemu_database_find_gpu = _call("gpemu_database_find_gpu", c_void_p, c_char_p, POINTER(_GpuInfo))
_gpemu_database_model_count = _call("gpemu_database_model_count", c_void_p, POINTER(c_int32))
_gpemu_database_model = _call("gpemu_database_model", c_void_p, c_int32, POINTER(_ModelInfo))
_gpemu_database_find_model = _call(
    "gpemu_database_find_model", c_void_p, c_char_p, POINTER(_ModelInfo)
)
_gpemu_database_cost_model = _call(
    "gpemu_database_cost_model", c_void_p, c_char_p, c_char_p, c_char_p, POINTER(c_void_p)
)


class CostModel(_Handle):
    """The costs of training a model on a GPU. Made by Database, which it may outlive."""

    __slots__ = ()
    _destroy = _end("gpemu_cost_model_destroy")

    def step(self, batch: int) -> StepCost:
        """Returns the cost of a step with `batch` samples. Raises InvalidArgumentError below 1,
        OutOfMemoryError if it does not fit."""
        cost = _StepCost(ctypes.sizeof(_StepCost))
        size = _integer(batch, _INT32, "batch")
        if status := _gpemu_cost_model_step(self._handle, size, byref(cost)):
            _refuse(status)
        return StepCost(
            cost.forward.named(),
            cost.backward_optimizer.named(),
            cost.copy_pageable.named(),
            cost.copy_pinned.named(),
            cost.persistent_bytes,
            cost.peak_bytes,
            cost.reserved_bytes,
        )

    @property
    def largest_batch(self) -> int:
        """The largest batch that fits."""
        batch = c_int32()
        if status := _gpemu_cost_model_largest_batch(self._handle, byref(batch)):
            _refuse(status)
        return batch.value


class Database(_Handle):
    """GPUs, models and measurements: one file, or the installed database with the user's on top.

    Raises NotFoundError or GpemuError if it cannot be read.
    """

    __slots__ = ()
    _destroy = _end("gpemu_database_close")

    def __init__(self, file: Optional[str] = None) -> None:
        handle = c_void_p()
        if status := _gpemu_database_open(_optional_text(file, "file"), byref(handle)):
            _refuse(status)
        self._handle = handle

    def gpus(self) -> list[Gpu]:
        """Returns all GPUs, in the order of their names."""
        return self._all(_gpemu_database_gpu_count, _gpemu_database_gpu, _GpuInfo)

    def gpu(self, name: str) -> Gpu:
        """Finds a GPU by name, alias or TOML file. Raises NotFoundError with similar names."""
        return self._find(_gpemu_database_find_gpu, name, _GpuInfo)

    def models(self) -> list[Model]:
        """Returns all models, in the order of their names."""
        return self._all(_gpemu_database_model_count, _gpemu_database_model, _ModelInfo)

    def model(self, name: str) -> Model:
        """Finds a model. Raises NotFoundError with similar names."""
        return self._find(_gpemu_database_find_model, name, _ModelInfo)

    def cost_model(self, model: str, gpu: str, precision: Optional[str] = None) -> CostModel:
        """Returns the costs of a pair; `precision` may be omitted if only one was measured. Raises
        NotFoundError, UnsupportedError if the pair was not measured."""
        handle = c_void_p()
        names = _text(model, "model"), _text(gpu, "gpu"), _optional_text(precision, "precision")
        if status := _gpemu_database_cost_model(self._handle, *names, byref(handle)):
            _refuse(status)
        return CostModel._own(handle)

    def _all(self, count_of, get, kind) -> list:
        count = c_int32()
        if status := count_of(self._handle, byref(count)):
            _refuse(status)
        rows = []
        for index in range(count.value):
            info = kind(ctypes.sizeof(kind))
            if status := get(self._handle, index, byref(info)):
                _refuse(status)
            rows.append(info.named())
        return rows

    def _find(self, find, name: str, kind):
        info = kind(ctypes.sizeof(kind))
        if status := find(self._handle, _text(name, "name"), byref(info)):
            _refuse(status)
        return info.named()
