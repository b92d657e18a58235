# SPDX-License-Identifier: Apache-2.0
"""The classes of the `gpemu` package of GPEmu (VLDB 2025), with the same names and arguments.

Rewritten on gpemu's clock and profiles. Where GPEmu's classes do not do what they promise, these
do: `num_gpus` has an effect, batches beyond the tables get an answer or a reason for the refusal,
and waits end at deadlines, so that lateness does not add up within a batch.

Times are seconds, memory is MiB, as in GPEmu. `mode` is "sync" (a call returns when the work is
over) or "async" (a call returns an awaitable). Other values raise InvalidArgumentError.

`num_gpus` GPUs share a batch evenly; the largest share decides. Given times are those of the whole
batch on one GPU and are divided by `num_gpus`; times and memory from a database are those of one
share. `batch_size` of an object is the share.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
from collections.abc import Awaitable
from typing import Optional, Union

from . import _core
from ._errors import InvalidArgumentError, OutOfMemoryError
from ._tables import open_tables, share

__all__ = [
    "ComputeTimeEmulator",
    "GPUMemoryEmulator",
    "GPUPreprocessingEmulator",
    "TransferTimeEmulator",
]

Path = Union[str, "os.PathLike[str]", None]

_NS_PER_S = 1_000_000_000
# epoll_wait(2) rounds asyncio's timers up to milliseconds; the rest of a wait yields in a loop.
_ASYNC_MARGIN_NS = 1_500_000


def _duration_ns(name: str, seconds: float) -> int:
    if not 0 <= seconds < float("inf"):
        raise InvalidArgumentError(f"{name} is {seconds}; it must be 0 seconds or more")
    return round(seconds * _NS_PER_S)


def _checked_mode(mode: str) -> str:
    if mode not in ("sync", "async"):
        raise InvalidArgumentError(f"mode is {mode!r}; it must be 'sync' or 'async'")
    return mode


async def _until(deadline_ns: int) -> None:
    """Lets other coroutines run until a time on the host's clock."""
    remaining = deadline_ns - _core.host_now()
    if remaining > _ASYNC_MARGIN_NS:
        await asyncio.sleep((remaining - _ASYNC_MARGIN_NS) / _NS_PER_S)
    else:
        await asyncio.sleep(0)
    while _core.host_now() < deadline_ns:
        await asyncio.sleep(0)


class ComputeTimeEmulator:
    """Takes the time of training a batch: a forward pass, then backward pass and optimizer step.

    Args:
        gpu: a GPU by gpemu's or GPEmu's name; unused with given times.
        model: a profiled model; unused with given times.
        batch_size: samples of the whole batch, over all GPUs.
        forward_time: seconds of the forward pass of the whole batch on one GPU.
        backward_time: the same for backward pass and optimizer step.
        from_databse: takes both times from `database_path` instead; spelled as GPEmu does.
        database_path: GPEmu's folder `profiled_data`, one of our database files, or None for the
            installed database.
        mode: "sync" or "async": what `emulate_compute` does.
        num_gpus: GPUs that share the batch.
        from_database: the same as `from_databse`.

    Raises:
        NotFoundError: no such GPU, model or path.
        OutOfMemoryError: our database knows that the batch does not fit the GPU.
        InvalidArgumentError: an argument is outside its range, or below the tables.
    """

    def __init__(
        self,
        gpu: str = "Tesla_M40",
        model: str = "resnet18",
        batch_size: int = 256,
        forward_time: float = 0.05,
        backward_time: float = 0.05,
        from_databse: bool = False,
        database_path: Path = None,
        mode: str = "sync",
        num_gpus: int = 1,
        *,
        from_database: bool = False,
    ) -> None:
        self.gpu = gpu
        self.model = model
        self.batch_size = share(batch_size, num_gpus)
        self.mode = _checked_mode(mode)
        if from_databse or from_database:
            tables = open_tables(database_path, gpu, model)
            self.forward_time, self.backward_time = tables.compute(self.batch_size)
        else:
            self.forward_time = forward_time / num_gpus
            self.backward_time = backward_time / num_gpus
        _duration_ns("forward_time", self.forward_time)
        _duration_ns("backward_time", self.backward_time)

    def get_forward_time(self) -> float:
        """Returns the seconds that a forward pass takes."""
        return self.forward_time

    def get_backward_time(self) -> float:
        """Returns the seconds that backward pass and optimizer step take."""
        return self.backward_time

    def sync_emulate_forward_pass(self) -> None:
        """Returns when a forward pass that starts now is over; other threads run meanwhile."""
        start = _core.host_now()
        _core.host_wait_until(start + _duration_ns("forward_time", self.forward_time))

    def sync_emulate_backward_pass(self) -> None:
        """The same for backward pass and optimizer step."""
        start = _core.host_now()
        _core.host_wait_until(start + _duration_ns("backward_time", self.backward_time))

    def sync_train_batch(self) -> None:
        """Returns when both passes are over."""
        start = _core.host_now()
        _core.host_wait_until(start + self._batch_ns())

    async def async_emulate_forward_pass(self) -> None:
        """Waits for a forward pass that starts now; other coroutines run meanwhile."""
        await _until(_core.host_now() + _duration_ns("forward_time", self.forward_time))

    async def async_emulate_backward_pass(self) -> None:
        """The same for backward pass and optimizer step."""
        await _until(_core.host_now() + _duration_ns("backward_time", self.backward_time))

    async def async_train_batch(self) -> None:
        """Waits for both passes."""
        await _until(_core.host_now() + self._batch_ns())

    def emulate_compute(self) -> Optional[Awaitable[None]]:
        """Trains a batch: with mode "sync" before it returns, with "async" when awaited."""
        if self.mode == "async":
            return self.async_train_batch()
        self.sync_train_batch()
        return None

    def _batch_ns(self) -> int:
        forward = _duration_ns("forward_time", self.forward_time)
        return forward + _duration_ns("backward_time", self.backward_time)


class TransferTimeEmulator:
    """Takes the time of copying a batch of input to the GPU, from pageable memory.

    Args:
        transfer_time: seconds for the whole batch to one GPU.
        model_transfer_time: seconds for the model's weights, whose copies to all GPUs overlap. With
            our database: the weights at the rate of the largest batch.

    The other arguments and the exceptions are those of ComputeTimeEmulator.
    """

    def __init__(
        self,
        gpu: str = "Tesla_M40",
        model: str = "resnet18",
        batch_size: int = 256,
        transfer_time: float = 0.01,
        model_transfer_time: float = 0.1,
        from_databse: bool = False,
        database_path: Path = None,
        mode: str = "sync",
        num_gpus: int = 1,
        *,
        from_database: bool = False,
    ) -> None:
        self.gpu = gpu
        self.model = model
        self.batch_size = share(batch_size, num_gpus)
        self.mode = _checked_mode(mode)
        if from_databse or from_database:
            tables = open_tables(database_path, gpu, model)
            self.transfer_time = tables.transfer(self.batch_size)
            self.model_transfer_time = tables.model_transfer()
        else:
            self.transfer_time = transfer_time / num_gpus
            self.model_transfer_time = model_transfer_time
        _duration_ns("transfer_time", self.transfer_time)

    def get_transfer_time(self) -> float:
        """Returns the seconds that a batch takes."""
        return self.transfer_time

    def get_model_transfer_time(self) -> float:
        """Returns the seconds that the model's weights take."""
        return self.model_transfer_time

    def sync_emulate_transfer(self) -> None:
        """Returns when a copy that starts now is over; other threads run meanwhile."""
        start = _core.host_now()
        _core.host_wait_until(start + _duration_ns("transfer_time", self.transfer_time))

    async def async_emulate_transfer(self) -> None:
        """Waits for a copy that starts now; other coroutines run meanwhile."""
        await _until(_core.host_now() + _duration_ns("transfer_time", self.transfer_time))

    def emulate_transfer(self) -> Optional[Awaitable[None]]:
        """Copies a batch: with mode "sync" before it returns, with "async" when awaited."""
        if self.mode == "async":
            return self.async_emulate_transfer()
        self.sync_emulate_transfer()
        return None


class GPUMemoryEmulator:
    """Checks whether training fits into a GPU's memory.

    Args:
        gpu_cap: MiB that the GPU has.

    The other arguments and the exceptions are those of ComputeTimeEmulator; but if our database
    knows that a batch does not fit, the methods refuse it, not the constructor.
    """

    def __init__(
        self,
        gpu_cap: float = 11448,
        gpu: str = "Tesla_M40",
        model: str = "resnet18",
        batch_size: int = 256,
        database_path: Path = None,
        num_gpus: int = 1,
    ) -> None:
        self.gpu_cap = gpu_cap
        self.gpu = gpu
        self.model = model
        self.batch_size = share(batch_size, num_gpus)
        self.database_path = database_path
        self._refusal: Optional[str] = None
        self.peak_memory = self.persistent_memory = float("inf")
        try:
            tables = open_tables(database_path, gpu, model)
            self.peak_memory, self.persistent_memory = tables.memory(self.batch_size)
        except OutOfMemoryError as error:
            self._refusal = f"Peak memory usage exceeds GPU capacity: {error}"

    def get_peak_memory(self) -> float:
        """Returns the most memory in MiB that is held during a step.

        Raises:
            OutOfMemoryError: the batch does not fit the GPU, so its peak is not known.
        """
        self._refuse()
        return self.peak_memory

    def get_persistent_memory(self) -> float:
        """Returns the memory in MiB that is held between steps; raises like get_peak_memory."""
        self._refuse()
        return self.persistent_memory

    def check_memory(self) -> bool:
        """Returns True if training fits.

        Raises:
            OutOfMemoryError: it does not fit; "Peak memory usage exceeds GPU capacity" and why.
        """
        self._refuse()
        if self.peak_memory > self.gpu_cap:
            raise OutOfMemoryError(
                "Peak memory usage exceeds GPU capacity: "
                f"{self.peak_memory:.0f} MiB > {self.gpu_cap:.0f} MiB"
            )
        return True

    def _refuse(self) -> None:
        if self._refusal is not None:
            raise OutOfMemoryError(self._refusal)


class GPUPreprocessingEmulator:
    """Takes the time of preprocessing a batch on the GPU, and the host's cores that it occupies.

    The cores really work, in threads that do not hold Python's lock. If the host has fewer cores,
    the threads share them.

    Args:
        gpu_wait_time: seconds for the whole batch on one GPU; divided by `num_gpus`.
        cpu_usage: percent of a core that all threads together use; 300 means three cores.
        cpu_cores: threads that use them, at most 100 percent each.
        cpu_processing_time: seconds that the threads work.
        mode: "sync" or "async": what `emulate_preprocessing` does.
        time_slice: seconds that a thread sleeps when it is ahead of its share.
        num_gpus: GPUs that share the batch.

    Raises:
        InvalidArgumentError: an argument is outside its range.
    """

    def __init__(
        self,
        gpu_wait_time: float = 0.05,
        cpu_usage: float = 300,
        cpu_cores: int = 6,
        cpu_processing_time: float = 0.1,
        mode: str = "async",
        time_slice: float = 0.01,
        num_gpus: int = 1,
    ) -> None:
        share(1, num_gpus)
        if cpu_cores != int(cpu_cores) or cpu_cores < 1:
            raise InvalidArgumentError(
                f"cpu_cores is {cpu_cores}; it must be a whole number of at least 1"
            )
        if not 0 <= cpu_usage <= 100 * cpu_cores:
            raise InvalidArgumentError(
                f"cpu_usage is {cpu_usage} %; for {cpu_cores} cores it must be "
                f"0 to {100 * cpu_cores} %"
            )
        self.gpu_wait_time = gpu_wait_time / num_gpus
        self.cpu_usage = cpu_usage
        self.cpu_cores = int(cpu_cores)
        self.cpu_processing_time = cpu_processing_time
        self.mode = _checked_mode(mode)
        self.time_slice = time_slice
        _duration_ns("gpu_wait_time", self.gpu_wait_time)
        _duration_ns("cpu_processing_time", cpu_processing_time)
        _duration_ns("time_slice", time_slice)

    def cpu_task(self, load: float) -> None:
        """Uses `load` percent of a core for `cpu_processing_time`; other threads run meanwhile."""
        _core.host_burn(
            load / 100,
            _duration_ns("cpu_processing_time", self.cpu_processing_time),
            _duration_ns("time_slice", self.time_slice),
        )

    def sync_emulate_gpu_wait(self) -> None:
        """Returns when GPU work that starts now is over; other threads run meanwhile."""
        start = _core.host_now()
        _core.host_wait_until(start + _duration_ns("gpu_wait_time", self.gpu_wait_time))

    async def async_emulate_gpu_wait(self) -> None:
        """Waits for GPU work that starts now; other coroutines run meanwhile."""
        await _until(_core.host_now() + _duration_ns("gpu_wait_time", self.gpu_wait_time))

    def sync_emulate_preprocessing(self) -> None:
        """Returns when both the GPU's and the cores' work is over."""
        with concurrent.futures.ThreadPoolExecutor(self.cpu_cores) as pool:
            tasks = [pool.submit(self.cpu_task, self._load()) for _ in range(self.cpu_cores)]
            self.sync_emulate_gpu_wait()
            for task in tasks:
                task.result()

    async def async_emulate_preprocessing(self) -> None:
        """Waits for both the GPU's and the cores' work."""
        loop = asyncio.get_running_loop()
        pool = concurrent.futures.ThreadPoolExecutor(self.cpu_cores)
        try:
            tasks = [
                loop.run_in_executor(pool, self.cpu_task, self._load())
                for _ in range(self.cpu_cores)
            ]
            await asyncio.gather(self.async_emulate_gpu_wait(), *tasks)
        finally:
            pool.shutdown(wait=False)

    def emulate_preprocessing(self) -> Optional[Awaitable[None]]:
        """Preprocesses a batch: with mode "sync" before it returns, with "async" when awaited."""
        if self.mode == "async":
            return self.async_emulate_preprocessing()
        self.sync_emulate_preprocessing()
        return None

    def _load(self) -> float:
        return self.cpu_usage / self.cpu_cores
