# SPDX-License-Identifier: Apache-2.0
"""GPEmu's classes for programs that share one GPU, with the same names and arguments.

No broker is needed: the manager makes a named node with one device, and the programs on its machine
queue their batches on it. Batches run one at a time, in the order of the requests. The addresses of
the broker and of the queue only name the node: managers with different addresses offer different
GPUs.
"""

from __future__ import annotations

import re
import sys
import threading
from typing import Optional

from . import _core
from ._errors import NotFoundError
from .emulators import ComputeTimeEmulator, Path, _duration_ns

__all__ = [
    "GPUResourceManager",
    "GPUResourceManagerKafka",
    "GPUResourceManagerRabbitMQ",
    "GPUSharingEmulator",
    "GPUSharingEmulatorKafka",
    "GPUSharingEmulatorRabbitMQ",
]

# Programs bring their own times, so only the device's order of work matters. It is the GPU with the
# most memory, because every program's context takes some.
_GPU = "B200-SXM-180GB"
_RETRY_NS = 10_000_000
_KAFKA = "localhost:9092"
_RABBITMQ = "localhost"
_QUEUE = "gpu_requests"


def _node_name(server: str, queue: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", f"{queue}-{server}")


class GPUSharingEmulator:
    """Trains batches on the GPU that the GPUResourceManager of the same server offers.

    Args:
        server: names the GPU, together with `request_queue`.
        from_database: takes the times from `database_path` instead of the arguments.
        engine: ignored; in GPEmu it chooses the broker.

    The other arguments and the exceptions are those of ComputeTimeEmulator. The first batch waits
    for the manager, and a line on standard error says so.
    """

    def __init__(
        self,
        server: str = _KAFKA,
        gpu: str = "Tesla_M40",
        model: str = "resnet18",
        batch_size: int = 256,
        forward_time: float = 0.05,
        backward_time: float = 0.05,
        from_database: bool = False,
        database_path: Path = None,
        engine: str = "kafka",
        *,
        request_queue: str = _QUEUE,
    ) -> None:
        self._name = _node_name(server, request_queue)
        self._stream: Optional[_core.Stream] = None
        self.emulator = ComputeTimeEmulator(
            gpu,
            model,
            batch_size,
            forward_time,
            backward_time,
            from_database=from_database,
            database_path=database_path,
        )

    def request_gpu_time(self, batch_id: int) -> None:
        """Returns when the GPU has finished all earlier requests and this batch."""
        stream = self._stream = self._stream or self._wait_for_manager().device(0).stream()
        seconds = self.emulator.get_forward_time() + self.emulator.get_backward_time()
        stream.launch(_duration_ns("forward and backward time", seconds))
        stream.synchronize()

    def sync_train_batch_with_sharing(self, batch_id: int) -> None:
        """The same as request_gpu_time."""
        self.request_gpu_time(batch_id)

    def run(self, num_batches: int) -> None:
        """Trains `num_batches` batches, one after the other."""
        for batch_id in range(num_batches):
            self.sync_train_batch_with_sharing(batch_id)

    def _wait_for_manager(self) -> _core.Node:
        told = False
        while True:
            try:
                return _core.Node.open(self._name)
            except NotFoundError:
                if not told:
                    print("gpemu: waiting for a GPUResourceManager to start", file=sys.stderr)
                told = True
                _core.host_wait_until(_core.host_now() + _RETRY_NS)


class GPUSharingEmulatorKafka(GPUSharingEmulator):
    """GPUSharingEmulator with `server` named `kafka_server`."""

    def __init__(self, kafka_server: str = _KAFKA, *args, **kwargs) -> None:
        super().__init__(kafka_server, *args, **kwargs)


class GPUSharingEmulatorRabbitMQ(GPUSharingEmulator):
    """GPUSharingEmulator with `server` named `rabbitmq_server`, and a queue of any name."""

    def __init__(
        self, rabbitmq_server: str = _RABBITMQ, request_queue: str = _QUEUE, *args, **kwargs
    ) -> None:
        super().__init__(rabbitmq_server, *args, request_queue=request_queue, **kwargs)


class GPUResourceManager:
    """Offers one GPU to the programs on this machine while `start` runs.

    Args:
        server, request_queue: name the GPU.
        engine: ignored; in GPEmu it chooses the broker.
    """

    def __init__(
        self, server: str = _KAFKA, request_queue: str = _QUEUE, engine: str = "kafka"
    ) -> None:
        self._name = _node_name(server, request_queue)
        self._stopped = threading.Event()

    def start(self) -> None:
        """Serves until `stop` is called or Ctrl-C is pressed."""
        # Programs may still use the node of an earlier manager; it is kept.
        try:
            node = _core.Node.open(self._name)
        except NotFoundError:
            node = _core.Node(_GPU, name=self._name)
        print("GPUResourceManager started.", flush=True)
        try:
            self._stopped.wait()
        finally:
            del node
        print("GPUResourceManager stopped.", flush=True)

    def stop(self) -> None:
        """Makes `start` return; queued batches still run."""
        self._stopped.set()

    def run_in_thread(self) -> threading.Thread:
        """Runs `start` in a thread and returns it."""
        thread = threading.Thread(target=self.start)
        thread.start()
        return thread


class GPUResourceManagerKafka(GPUResourceManager):
    """GPUResourceManager with the argument names of its Kafka variant."""

    def __init__(self, kafka_server: str = _KAFKA, request_topic: str = _QUEUE) -> None:
        super().__init__(kafka_server, request_topic)


class GPUResourceManagerRabbitMQ(GPUResourceManager):
    """GPUResourceManager with the argument names of its RabbitMQ variant."""

    def __init__(self, rabbitmq_server: str = _RABBITMQ, request_queue: str = _QUEUE) -> None:
        super().__init__(rabbitmq_server, request_queue)
