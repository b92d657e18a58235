# SPDX-License-Identifier: Apache-2.0
"""Emulated GPUs with a time model.

Nodes, devices, streams, events and memory are those of the C interface, gpemu.h. `Database` and
`CostModel` hold what is known about GPUs and models. The emulators at the end are the classes of
the `gpemu` package of GPEmu (VLDB 2025), with the same names and arguments.

Times are integers in nanoseconds and sizes are bytes, except in GPEmu's classes, which take and
return seconds and MiB.
"""

from ._core import (
    CostModel,
    Database,
    Device,
    Estimate,
    Event,
    ExpectedInterval,
    Gpu,
    Memory,
    Model,
    Node,
    PinnedMemory,
    Rendezvous,
    RoundStatistics,
    StepCost,
    Stream,
    __version__,
    host_now,
    host_wait_until,
)
from ._errors import (
    GpemuError,
    InvalidArgumentError,
    NotFoundError,
    OutOfMemoryError,
    UnsupportedError,
)
from .emulators import (
    ComputeTimeEmulator,
    GPUMemoryEmulator,
    GPUPreprocessingEmulator,
    TransferTimeEmulator,
)
from .sharing import (
    GPUResourceManager,
    GPUResourceManagerKafka,
    GPUResourceManagerRabbitMQ,
    GPUSharingEmulator,
    GPUSharingEmulatorKafka,
    GPUSharingEmulatorRabbitMQ,
)

__all__ = [
    "ComputeTimeEmulator",
    "CostModel",
    "Database",
    "Device",
    "Estimate",
    "Event",
    "ExpectedInterval",
    "GPUMemoryEmulator",
    "GPUResourceManager",
    "GPUResourceManagerKafka",
    "GPUResourceManagerRabbitMQ",
    "GPUSharingEmulator",
    "GPUSharingEmulatorKafka",
    "GPUSharingEmulatorRabbitMQ",
    "GPUPreprocessingEmulator",
    "GpemuError",
    "Gpu",
    "InvalidArgumentError",
    "Memory",
    "Model",
    "Node",
    "NotFoundError",
    "OutOfMemoryError",
    "PinnedMemory",
    "Rendezvous",
    "RoundStatistics",
    "StepCost",
    "Stream",
    "TransferTimeEmulator",
    "UnsupportedError",
    "__version__",
    "host_now",
    "host_wait_until",
]
