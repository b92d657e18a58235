# SPDX-License-Identifier: Apache-2.0
"""The C interface of gpemu. Times are nanoseconds, sizes are bytes; gpemu.h has the contracts.

Objects may be used from any thread and in any order of ending: each keeps alive what it stands on.
Methods raise GpemuError or the subclass that is named.
"""

from typing import Optional

__version__: str

def host_now() -> int:
    """Returns the host's CLOCK_MONOTONIC, which all nodes on the real clock share."""

def host_wait_until(time_ns: int) -> None:
    """Waits for a time on host_now()'s clock; other Python threads run meanwhile."""

def host_burn(load: float, duration_ns: int, slice_ns: int) -> None:
    """Uses a share (0 to 1) of a core for a duration; other Python threads run meanwhile."""

class Interval:
    """When a piece of work runs, on the node's clock."""

    @property
    def start_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...

class Memory:
    """A device's memory: what no process holds, and the capacity."""

    @property
    def free_bytes(self) -> int: ...
    @property
    def total_bytes(self) -> int: ...

class Event:
    """A point in a stream's work; over when it was never recorded."""

    def __init__(self) -> None: ...
    def query(self) -> bool:
        """Tells whether it is over."""

    def synchronize(self) -> None:
        """Waits until it is over; other Python threads run meanwhile."""

    def elapsed_ns(self, end: Event) -> int:
        """Returns the time from this event to `end`. Raises InvalidArgumentError when one was never
        recorded, GpemuError when one is not over."""

class Stream:
    """A queue of a device's work, which runs in order. Made by Device."""

    def launch(self, duration_ns: int) -> Interval:
        """Queues work on the compute engine and returns at once, with when it will run. Raises
        InvalidArgumentError for a negative duration."""

    def copy_to_device(self, nbytes: int, duration_ns: int) -> Interval:
        """Queues a copy on the engine for copies to the device; otherwise as launch."""

    def copy_to_host(self, nbytes: int, duration_ns: int) -> Interval:
        """Queues a copy on the engine for copies to the host; otherwise as launch."""

    def record(self, event: Event) -> None:
        """Makes the event stand for all work queued so far."""

    def wait_event(self, event: Event) -> None:
        """Lets work queued later start only after the event."""

    def query(self) -> bool:
        """Tells whether all work queued so far has ended."""

    def synchronize(self) -> None:
        """Waits until all work queued so far has ended; other Python threads run meanwhile."""

class Device:
    """This process's context on a device. Made by Node; its end gives back the memory."""

    @property
    def gpu(self) -> str: ...
    @property
    def uuid(self) -> str: ...
    @property
    def pci_bus_id(self) -> str: ...
    def allocate(self, nbytes: int) -> int:
        """Takes memory, rounded up to 256 bytes, and returns its address, which is not to be
        dereferenced. Raises OutOfMemoryError."""

    def free(self, address: int) -> None:
        """Gives memory back. Raises InvalidArgumentError when it is no live allocation's start."""

    def memory(self) -> Memory: ...
    def stream(self, blocking: bool = True) -> Stream:
        """Makes a stream; a blocking one synchronises with the default stream."""

    def default_stream(self) -> Stream:
        """Returns CUDA's legacy default stream."""

    def synchronize(self) -> None:
        """Waits until all work of this context has ended; other Python threads run meanwhile."""

class Node:
    """An emulated machine with 1 to 4096 devices of a kind.

    With a name it is seen by all processes and disappears with its last user. With the virtual
    clock, which private nodes may have, time starts at 0 and jumps when somebody waits.

    Raises InvalidArgumentError (a name that is taken, too), NotFoundError for an unknown GPU.
    """

    def __init__(
        self,
        gpu: str,
        device_count: int = 1,
        *,
        name: Optional[str] = None,
        virtual_clock: bool = False,
    ) -> None: ...
    @staticmethod
    def open(name: str) -> Node:
        """Attaches to a node that exists. Raises NotFoundError."""

    @property
    def device_count(self) -> int: ...
    def now(self) -> int:
        """Returns the present on the node's clock."""

    def wait_until(self, time_ns: int) -> None:
        """Waits for a time on the node's clock; other Python threads run meanwhile."""

    def device(self, index: int = 0) -> Device:
        """Opens a device. Raises NotFoundError; GpemuError when another process has it alone."""

class PinnedMemory:
    """Host memory that is really page-locked and zero-filled, 1-dimensional bytes to
    `memoryview(...)` or `numpy.frombuffer(...)`, which keep it alive. Raises GpemuError with the
    command that raises the limit when it is too low."""

    def __init__(self, nbytes: int) -> None: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Estimate:
    """A duration; in 9 of 10 cases the truth lies within time_ns * (1 +- relative_error)."""

    @property
    def time_ns(self) -> int: ...
    @property
    def relative_error(self) -> float: ...
    @property
    def evidence(self) -> str:
        """ "measured", "interpolated", "extrapolated", "scaled", "calibrated", "transferred" or
        "analytic"."""

class StepCost:
    """What one training step costs."""

    @property
    def forward(self) -> Estimate: ...
    @property
    def backward_optimizer(self) -> Estimate: ...
    @property
    def copy_pageable(self) -> Estimate:
        """One batch of input to the device, from pageable memory."""

    @property
    def copy_pinned(self) -> Estimate: ...
    @property
    def persistent_bytes(self) -> int:
        """Held between steps."""

    @property
    def peak_bytes(self) -> int:
        """Held at most, as the framework's allocator counts."""

    @property
    def reserved_bytes(self) -> int:
        """Beyond the allocator: context, workspaces, fragmentation."""

class CostModel:
    """What is known about training a model on a GPU. Made by Database, which it outlives."""

    def step(self, batch: int) -> StepCost:
        """Prices a step with `batch` samples. Raises InvalidArgumentError below 1, OutOfMemoryError
        when it does not fit."""

    @property
    def largest_batch(self) -> int: ...

class Gpu:
    """A kind of GPU; rates are the datasheet's."""

    @property
    def name(self) -> str: ...
    @property
    def product_name(self) -> str: ...
    @property
    def architecture(self) -> str: ...
    @property
    def compute_capability(self) -> tuple[int, int]: ...
    @property
    def multiprocessors(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def memory_bandwidth_bytes_per_s(self) -> float: ...
    @property
    def fp32_flops(self) -> float:
        """Per second, without tensor cores."""

    @property
    def pinned_copy_bytes_per_s(self) -> float: ...

class Model:
    """A model that was profiled."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> int: ...
    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one FP32 sample."""

class Database:
    """GPUs, models and measurements: the installed database and the user's over it, or one file.

    Raises NotFoundError or GpemuError when it cannot be read.
    """

    def __init__(self, file: Optional[str] = None) -> None: ...
    def gpus(self) -> list[Gpu]: ...
    def gpu(self, name: str) -> Gpu:
        """Finds a GPU by name, alias or TOML file. Raises NotFoundError with the nearest names."""

    def models(self) -> list[Model]: ...
    def model(self, name: str) -> Model:
        """Finds a model. Raises NotFoundError with the nearest names."""

    def cost_model(self, model: str, gpu: str, precision: Optional[str] = None) -> CostModel:
        """Reads what was measured; without a precision, the only one. Raises NotFoundError,
        UnsupportedError when the pair was not measured."""
