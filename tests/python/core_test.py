# SPDX-License-Identifier: Apache-2.0
"""Nodes, devices, streams, events, memory and costs from Python, exact on the virtual clock."""

import gc
import pathlib
import threading
import unittest

import gpemu

MS = 1_000_000


class Streams(unittest.TestCase):
    def setUp(self):
        self.node = gpemu.Node("V100-PCIE-32GB", 2, virtual_clock=True)
        self.device = self.node.device(0)

    def test_copies_overlap_with_work_and_events_order_them(self):
        copies, work = self.device.stream(blocking=False), self.device.stream(blocking=False)
        loaded = gpemu.Event()
        copy = copies.copy_to_device(1 << 20, 3 * MS)
        copies.record(loaded)
        work.wait_event(loaded)
        launch = work.launch(5 * MS)
        second = copies.copy_to_device(1 << 20, 3 * MS)
        self.assertEqual((copy.start_ns, copy.end_ns), (0, 3 * MS))
        self.assertEqual((launch.start_ns, launch.end_ns), (3 * MS, 8 * MS))
        self.assertEqual((second.start_ns, second.end_ns), (3 * MS, 6 * MS))
        self.assertFalse(work.query())
        self.device.synchronize()
        self.assertTrue(work.query())
        self.assertEqual(self.node.now(), 8 * MS)

    def test_events_tell_elapsed_time(self):
        stream, start, end = self.device.default_stream(), gpemu.Event(), gpemu.Event()
        with self.assertRaises(gpemu.InvalidArgumentError):
            start.elapsed_ns(end)
        stream.record(start)
        stream.launch(7 * MS)
        stream.record(end)
        with self.assertRaises(gpemu.GpemuError):
            start.elapsed_ns(end)
        end.synchronize()
        self.assertTrue(end.query())
        self.assertEqual(start.elapsed_ns(end), 7 * MS)

    def test_waits_for_a_time(self):
        self.node.wait_until(4 * MS)
        self.assertEqual(self.node.now(), 4 * MS)

    def test_refuses_what_is_wrong_with_the_reason(self):
        with self.assertRaises(gpemu.InvalidArgumentError) as caught:
            self.device.default_stream().launch(-1)
        self.assertIsInstance(caught.exception, ValueError)
        self.assertNotEqual(str(caught.exception), "")
        with self.assertRaises(gpemu.NotFoundError):
            self.node.device(2)
        with self.assertRaises(gpemu.NotFoundError):
            gpemu.Node("V1000")

    def test_refuses_what_the_c_interface_would_cut_off(self):
        stream = self.device.default_stream()
        with self.assertRaisesRegex(gpemu.InvalidArgumentError, "18446744073709551617"):
            stream.launch((1 << 64) + 1)
        with self.assertRaises(TypeError):
            stream.launch(1.5)
        with self.assertRaises(gpemu.InvalidArgumentError):
            stream.copy_to_host(-1, MS)
        with self.assertRaises(gpemu.InvalidArgumentError):
            self.node.device(1 << 32)
        with self.assertRaises(gpemu.InvalidArgumentError):
            gpemu.Node("V100-PCIE-32GB\0")
        with self.assertRaises(TypeError):
            gpemu.Node(b"V100-PCIE-32GB")
        with self.assertRaises(TypeError):
            gpemu.Stream()

    def test_a_topology_joins_as_many_devices_as_it_describes(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        path = str(root / "catalog/topologies/dgx-1v.toml")
        node = gpemu.Node("V100-SXM2-32GB", 8, virtual_clock=True, topology=path)
        self.assertEqual(node.device_count, 8)
        with self.assertRaisesRegex(gpemu.InvalidArgumentError, "has 8 GPUs, but the node 7"):
            gpemu.Node("V100-SXM2-32GB", 7, virtual_clock=True, topology=path)
        with self.assertRaises(gpemu.NotFoundError):
            gpemu.Node("T4", topology="/no/such/file.toml")
        with self.assertRaisesRegex(gpemu.GpemuError, "core_test.py:2: "):
            gpemu.Node("T4", topology=__file__)
        with self.assertRaises(TypeError):
            gpemu.Node("T4", topology=7)

    def test_objects_keep_alive_what_they_stand_on(self):
        stream = gpemu.Node("V100-PCIE-32GB", virtual_clock=True).device().stream()
        gc.collect()
        stream.launch(MS)
        stream.synchronize()
        self.assertTrue(stream.query())


class Memory(unittest.TestCase):
    def test_devices_count_what_is_held(self):
        device = gpemu.Node("V100-PCIE-32GB", virtual_clock=True).device()
        before = device.memory()
        address = device.allocate(1000)
        self.assertEqual(before.free_bytes - device.memory().free_bytes, 1024)
        device.free(address)
        self.assertEqual(device.memory().free_bytes, before.free_bytes)
        with self.assertRaises(gpemu.InvalidArgumentError):
            device.free(address)
        with self.assertRaises(MemoryError):
            device.allocate(before.total_bytes + 1)

    def test_pinned_memory_is_a_buffer_that_views_keep_alive(self):
        view = memoryview(gpemu.PinnedMemory(4096))
        gc.collect()
        self.assertEqual((view.nbytes, view.format, view.readonly), (4096, "B", False))
        self.assertEqual(bytes(view), bytes(4096))
        view[4095] = 7
        self.assertEqual(view[4095], 7)
        with self.assertRaises(gpemu.InvalidArgumentError):
            gpemu.PinnedMemory(0)


class Locking(unittest.TestCase):
    def test_other_threads_run_while_one_waits(self):
        ran = threading.Event()
        started = gpemu.host_now()
        threading.Thread(target=ran.set).start()
        gpemu.host_wait_until(started + 200 * MS)
        self.assertTrue(ran.is_set())
        self.assertGreaterEqual(gpemu.host_now(), started + 200 * MS)


class Costs(unittest.TestCase):
    def setUp(self):
        self.database = gpemu.Database()

    def test_lists_and_finds(self):
        gpu = self.database.gpu("Tesla_V100-PCIE-32GB")
        self.assertEqual((gpu.name, gpu.compute_capability), ("V100-PCIE-32GB", (7, 0)))
        self.assertEqual((gpu.architecture, gpu.multiprocessors), ("Volta", 80))
        self.assertEqual(gpu.memory_bytes, self.device_capacity())
        self.assertTrue(5e9 < gpu.pinned_copy_bytes_per_s < 16e9, gpu)
        self.assertIn(gpu.name, [each.name for each in self.database.gpus()])
        model = self.database.model("resnet50")
        self.assertEqual(model.input_shape, (3, 224, 224))
        self.assertIn(model.name, [each.name for each in self.database.models()])
        with self.assertRaises(gpemu.NotFoundError):
            self.database.model("resnet51")
        with self.assertRaises(gpemu.NotFoundError):
            gpemu.Database("/nonexistent/profiles.db")

    def device_capacity(self):
        return gpemu.Node("V100-PCIE-32GB", virtual_clock=True).device().memory().total_bytes

    def test_prices_steps_up_to_the_largest_batch(self):
        costs = self.database.cost_model("resnet50", "P100-PCIE-16GB")
        cost = costs.step(64)
        self.assertEqual(cost.forward.evidence, "measured")
        self.assertGreater(cost.backward_optimizer.time_ns, cost.forward.time_ns)
        self.assertGreater(cost.copy_pageable.time_ns, cost.copy_pinned.time_ns)
        costs.step(costs.largest_batch)
        with self.assertRaises(gpemu.OutOfMemoryError):
            costs.step(costs.largest_batch + 1)
        with self.assertRaises(gpemu.InvalidArgumentError):
            costs.step(0)


if __name__ == "__main__":
    unittest.main()
