# SPDX-License-Identifier: Apache-2.0
"""The numbers behind GPEmu's classes: from GPEmu's folder of CSV files, or from our database."""

from __future__ import annotations

import bisect
import csv
import os
import pathlib

from ._core import CostModel, Database
from ._errors import InvalidArgumentError, NotFoundError

_NS_PER_S = 1e9
_MIB = 1 << 20
_FP32_BYTES = 4


class Table:
    """One quantity by batch size, from a CSV file with a header."""

    def __init__(self, file: pathlib.Path, batch_column: str, column: str) -> None:
        try:
            with file.open(newline="", encoding="utf-8") as rows:
                points = sorted(
                    (int(float(row[batch_column])), float(row[column]))
                    for row in csv.DictReader(rows)
                )
        except FileNotFoundError:
            raise NotFoundError(f"{file}: no such profile") from None
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"{file}: not a table of {batch_column} and {column}: {error}"
            ) from None
        if len(points) < 2:
            raise InvalidArgumentError(f"{file}: {len(points)} rows; at least two are needed")
        self._file = file
        self._batches = [batch for batch, _ in points]
        self._values = [value for _, value in points]

    def at(self, batch: int) -> float:
        """Returns the value of a row; between two rows, of the line through them; beyond the last
        row, of the line from the middle row to the last. Refuses batches below the first row."""
        batches, values = self._batches, self._values
        if batch < batches[0]:
            raise InvalidArgumentError(
                f"{self._file}: batch {batch} lies below the first row, {batches[0]}"
            )
        index = bisect.bisect_left(batches, batch)
        if index < len(batches) and batches[index] == batch:
            return values[index]
        if index < len(batches):
            low, high = index - 1, index
        else:
            low, high = (len(batches) - 1) // 2, len(batches) - 1
        slope = (values[high] - values[low]) / (batches[high] - batches[low])
        return values[high] + slope * (batch - batches[high])


class _Folder:
    """GPEmu's own layout: one folder for each quantity, GPU and model."""

    def __init__(self, root: pathlib.Path, gpu: str, model: str) -> None:
        self._root, self._below = root, pathlib.Path(gpu) / model

    def compute(self, batch: int) -> tuple[float, float]:
        forward, backward = (
            Table(
                self._root / "time" / "compute" / phase / self._below / "time_by_batch_size.csv",
                "Batch_Size",
                "Time_In_SECONDS",
            ).at(batch)
            for phase in ("forward", "backward")
        )
        return forward, backward

    def transfer(self, batch: int) -> float:
        name = "data_transfer_time_by_batch_size.csv"
        file = self._root / "time" / "transfer" / self._below / name
        return Table(file, "Batch_Size", "Time_In_SECONDS").at(batch)

    def model_transfer(self) -> float:
        file = self._root / "time" / "transfer" / self._below / "model_transfer_time.txt"
        try:
            return float(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise NotFoundError(f"{file}: no such profile") from None

    def memory(self, batch: int) -> tuple[float, float]:
        file = self._root / "memory" / self._below / "memory.csv"
        return (
            Table(file, "batch_size", "peak").at(batch),
            Table(file, "batch_size", "persistent").at(batch),
        )


class _OwnDatabase:
    """Our database. Batches that do not fit the GPU raise OutOfMemoryError."""

    def __init__(self, file: str | None, gpu: str, model: str) -> None:
        database = Database(file)
        self._model = database.model(model)
        self._costs: CostModel = database.cost_model(model, gpu)

    def compute(self, batch: int) -> tuple[float, float]:
        cost = self._costs.step(batch)
        return cost.forward.time_ns / _NS_PER_S, cost.backward_optimizer.time_ns / _NS_PER_S

    def transfer(self, batch: int) -> float:
        return self._costs.step(batch).copy_pageable.time_ns / _NS_PER_S

    def model_transfer(self) -> float:
        """Returns the time of the weights at the rate of the largest batch of input."""
        batch = self._costs.largest_batch
        channels, height, width = self._model.input_shape
        input_bytes = batch * channels * height * width * _FP32_BYTES
        return self.transfer(batch) * self._model.parameters * _FP32_BYTES / input_bytes

    def memory(self, batch: int) -> tuple[float, float]:
        cost = self._costs.step(batch)
        return cost.peak_bytes / _MIB, cost.persistent_bytes / _MIB


def open_tables(
    path: str | os.PathLike[str] | None, gpu: str, model: str
) -> _Folder | _OwnDatabase:
    """Opens the tables of a model on a GPU.

    Args:
        path: GPEmu's folder `profiled_data`, one of our database files, or None for the installed
            database.
    """
    if path is None:
        return _OwnDatabase(None, gpu, model)
    place = pathlib.Path(path).expanduser()
    if place.is_dir():
        return _Folder(place, gpu, model)
    if place.is_file():
        return _OwnDatabase(str(place), gpu, model)
    raise NotFoundError(
        f"{place}: no such folder or database; leave database_path out for the installed database"
    )


def share(batch_size: int, num_gpus: int) -> int:
    """Returns the batch of each of `num_gpus` GPUs: the largest share."""
    if num_gpus != int(num_gpus) or num_gpus < 1:
        raise InvalidArgumentError(
            f"num_gpus is {num_gpus}; it must be a whole number of at least 1"
        )
    if batch_size != int(batch_size) or batch_size < 1:
        raise InvalidArgumentError(
            f"batch_size is {batch_size}; it must be a whole number of at least 1"
        )
    return -(-int(batch_size) // int(num_gpus))
