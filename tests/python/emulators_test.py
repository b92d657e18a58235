# SPDX-License-Identifier: Apache-2.0
"""GPEmu's classes: names, arguments, modes, and where their numbers come from.

Waits are checked exactly against a clock of the test's own, except that really waiting never ends
early.
"""

import asyncio
import pathlib
import tempfile
import unittest
from unittest import mock

import gpemu
from gpemu import (
    ComputeTimeEmulator,
    GPUMemoryEmulator,
    GPUPreprocessingEmulator,
    TransferTimeEmulator,
)

MS = 1_000_000


class FakeHost:
    """A host clock that jumps when somebody waits."""

    def __init__(self):
        self.now = 0
        patches = mock.patch.multiple(
            "gpemu.emulators._core",
            host_now=lambda: self.now,
            host_wait_until=self.wait_until,
        )
        self.patches = patches

    def wait_until(self, time_ns):
        self.now = max(self.now, time_ns)

    def __enter__(self):
        self.patches.start()
        return self

    def __exit__(self, *_):
        self.patches.stop()


def write_profiles(root, batches=(1, 2, 3, 4, 5)):
    """Writes tables in GPEmu's layout: forward b, backward 2b, copies b/10 s; 10b and 5b MiB."""
    below = pathlib.Path("GPU") / "net"

    def table(folder, name, header, rows):
        place = root / folder / below
        place.mkdir(parents=True)
        (place / name).write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")

    time = "Batch_Size,Time_In_SECONDS"
    table("time/compute/forward", "time_by_batch_size.csv", time, [f"{b},{b}" for b in batches])
    table(
        "time/compute/backward", "time_by_batch_size.csv", time, [f"{b},{2 * b}" for b in batches]
    )
    name = "data_transfer_time_by_batch_size.csv"
    table("time/transfer", name, time, [f"{b},{b / 10}" for b in batches])
    weights = root / "time/transfer" / below / "model_transfer_time.txt"
    weights.write_text("0.25\n", encoding="utf-8")
    table(
        "memory",
        "memory.csv",
        "batch_size,peak,persistent",
        [f"{b},{10 * b},{5 * b}" for b in batches],
    )


class Modes(unittest.TestCase):
    def test_sync_takes_the_times_given(self):
        with FakeHost() as host:
            compute = ComputeTimeEmulator(forward_time=0.1, backward_time=0.2, mode="sync")
            self.assertIsNone(compute.emulate_compute())
            self.assertEqual(host.now, 300 * MS)
            compute.sync_emulate_forward_pass()
            self.assertEqual(host.now, 400 * MS)
            compute.sync_emulate_backward_pass()
            self.assertEqual(host.now, 600 * MS)
            self.assertIsNone(TransferTimeEmulator(transfer_time=0.01).emulate_transfer())
            self.assertEqual(host.now, 610 * MS)

    def test_async_overlaps_and_never_ends_early(self):
        async def overlapped():
            compute = ComputeTimeEmulator(forward_time=0.02, backward_time=0.03, mode="async")
            transfer = TransferTimeEmulator(transfer_time=0.04, mode="async")
            ends = {}

            async def timed(name, work):
                await work
                ends[name] = gpemu.host_now()

            start = gpemu.host_now()
            await asyncio.gather(
                timed("compute", compute.emulate_compute()),
                timed("transfer", transfer.emulate_transfer()),
            )
            return {name: end - start for name, end in ends.items()}, list(ends)

        elapsed, order = asyncio.run(overlapped())
        self.assertEqual(order, ["transfer", "compute"], "started together, the shorter ends first")
        self.assertGreaterEqual(elapsed["transfer"], 40 * MS)
        self.assertGreaterEqual(elapsed["compute"], 50 * MS)

    def test_preprocessing_waits_for_gpu_and_cores(self):
        work = GPUPreprocessingEmulator(0.03, cpu_usage=50, cpu_cores=2, cpu_processing_time=0.01)
        start = gpemu.host_now()
        asyncio.run(work.emulate_preprocessing())
        self.assertGreaterEqual(gpemu.host_now() - start, 30 * MS)
        work = GPUPreprocessingEmulator(
            0.0, cpu_usage=50, cpu_cores=2, cpu_processing_time=0.03, mode="sync"
        )
        start = gpemu.host_now()
        self.assertIsNone(work.emulate_preprocessing())
        self.assertGreaterEqual(gpemu.host_now() - start, 30 * MS)

    def test_refuses_what_makes_no_sense(self):
        for arguments in (
            {"mode": "later"},
            {"num_gpus": 0},
            {"num_gpus": 1.5},
            {"batch_size": 0},
            {"forward_time": -1},
        ):
            with self.subTest(arguments), self.assertRaises(gpemu.InvalidArgumentError):
                ComputeTimeEmulator(**arguments)
        with self.assertRaises(gpemu.InvalidArgumentError):
            GPUPreprocessingEmulator(cpu_usage=201, cpu_cores=2)


class Gpus(unittest.TestCase):
    def test_given_times_are_shared(self):
        compute = ComputeTimeEmulator("Tesla_M40", "resnet18", 256, 0.4, 0.8, num_gpus=4)
        self.assertEqual((compute.get_forward_time(), compute.get_backward_time()), (0.1, 0.2))
        self.assertEqual(TransferTimeEmulator(transfer_time=0.4, num_gpus=4).transfer_time, 0.1)
        self.assertEqual(GPUPreprocessingEmulator(gpu_wait_time=0.4, num_gpus=4).gpu_wait_time, 0.1)

    def test_database_times_are_those_of_the_largest_share(self):
        one = ComputeTimeEmulator(batch_size=64, from_databse=True)
        four = ComputeTimeEmulator(batch_size=255, from_databse=True, num_gpus=4)
        self.assertEqual(four.batch_size, 64)
        self.assertEqual(four.get_forward_time(), one.get_forward_time())
        self.assertEqual(
            GPUMemoryEmulator(batch_size=256, num_gpus=4).get_peak_memory(),
            GPUMemoryEmulator(batch_size=64).get_peak_memory(),
        )


class OurDatabase(unittest.TestCase):
    def test_both_spellings_read_it(self):
        cost = gpemu.Database().cost_model("resnet18", "M40").step(128)
        for spelling in ("from_databse", "from_database"):
            compute = ComputeTimeEmulator(batch_size=128, **{spelling: True})
            self.assertEqual(compute.get_forward_time(), cost.forward.time_ns / 1e9)
            self.assertEqual(compute.get_backward_time(), cost.backward_optimizer.time_ns / 1e9)
            transfer = TransferTimeEmulator(batch_size=128, **{spelling: True})
            self.assertEqual(transfer.get_transfer_time(), cost.copy_pageable.time_ns / 1e9)
            self.assertGreater(transfer.get_model_transfer_time(), 0)

    def test_memory_is_checked_against_the_capacity_given(self):
        memory = GPUMemoryEmulator()
        self.assertGreater(memory.get_peak_memory(), memory.get_persistent_memory())
        self.assertTrue(memory.check_memory())
        with self.assertRaisesRegex(Exception, "Peak memory usage exceeds GPU capacity"):
            GPUMemoryEmulator(gpu_cap=1000).check_memory()

    def test_batches_that_do_not_fit_are_refused_with_the_reason(self):
        with self.assertRaises(gpemu.OutOfMemoryError):
            ComputeTimeEmulator(batch_size=100_000, from_databse=True)
        memory = GPUMemoryEmulator(batch_size=100_000)
        for ask in (memory.check_memory, memory.get_peak_memory):
            with self.assertRaisesRegex(MemoryError, "Peak memory usage exceeds GPU capacity"):
                ask()


class TheirFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = folder.name
        write_profiles(pathlib.Path(self.path), batches=(1, 2, 4, 5))

    def compute(self, batch_size):
        emulator = ComputeTimeEmulator(
            "GPU", "net", batch_size, from_databse=True, database_path=self.path
        )
        return emulator.get_forward_time(), emulator.get_backward_time()

    def test_rows_lines_between_them_and_the_trend_beyond(self):
        self.assertEqual(self.compute(4), (4, 8))
        self.assertEqual(self.compute(3), (3, 6))
        self.assertEqual(self.compute(1000), (1000, 2000))

    def test_copies_and_memory(self):
        transfer = TransferTimeEmulator(
            "GPU", "net", 8, from_databse=True, database_path=self.path, num_gpus=2
        )
        self.assertEqual(transfer.get_transfer_time(), 0.4)
        self.assertEqual(transfer.get_model_transfer_time(), 0.25)
        memory = GPUMemoryEmulator(45, "GPU", "net", 5, self.path)
        self.assertEqual((memory.get_peak_memory(), memory.get_persistent_memory()), (50, 25))
        with self.assertRaisesRegex(MemoryError, "50 MiB > 45 MiB"):
            memory.check_memory()

    def test_what_is_not_there_is_named(self):
        with self.assertRaisesRegex(gpemu.NotFoundError, "other"):
            ComputeTimeEmulator("GPU", "other", 1, from_databse=True, database_path=self.path)
        with self.assertRaisesRegex(gpemu.NotFoundError, "nowhere"):
            ComputeTimeEmulator(from_databse=True, database_path="/nowhere")

    def test_tables_that_are_none_are_refused(self):
        place = pathlib.Path(self.path) / "memory/GPU/net/memory.csv"
        header = "batch_size,peak,persistent\n"
        for text in ("", header, "a,b\n1,2\n", header + "1,x,1\n2,3,1\n"):
            place.write_text(text, encoding="utf-8")
            with self.subTest(text), self.assertRaises(gpemu.InvalidArgumentError):
                GPUMemoryEmulator(gpu="GPU", model="net", batch_size=1, database_path=self.path)


if __name__ == "__main__":
    unittest.main()
