# SPDX-License-Identifier: Apache-2.0
"""GPEmu's classes for sharing a GPU: names and arguments, and that programs take turns."""

import os
import subprocess
import sys
import time
import unittest

import gpemu

PROGRAM = """
import sys
from gpemu import GPUSharingEmulatorKafka as GPUSharingEmulator

emulator = GPUSharingEmulator(kafka_server=sys.argv[1], gpu="Tesla_M40", model="resnet18",
                              batch_size=256, forward_time=0.01, backward_time=0.02)
for batch in range(5):
    emulator.sync_train_batch_with_sharing(batch)
"""


class Sharing(unittest.TestCase):
    def setUp(self):
        self.server = f"test-{os.getpid()}:9092"

    def manager(self):
        manager = gpemu.GPUResourceManagerKafka(kafka_server=self.server)
        thread = manager.run_in_thread()
        self.addCleanup(thread.join)
        self.addCleanup(manager.stop)
        return manager, thread

    def programs(self, count):
        command = [sys.executable, "-c", PROGRAM, self.server]
        return [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(count)]

    def test_programs_take_turns(self):
        self.manager()
        start = time.monotonic()
        for program in self.programs(3):
            _, errors = program.communicate(timeout=60)
            self.assertEqual((program.returncode, errors), (0, b""))
        self.assertGreaterEqual(time.monotonic() - start, 3 * 5 * 0.03)

    def test_a_program_waits_for_the_manager_and_says_so(self):
        (program,) = self.programs(1)
        self.assertIn(b"waiting for a GPUResourceManager", program.stderr.readline())
        self.assertIsNone(program.poll())
        self.manager()
        program.communicate(timeout=60)
        self.assertEqual(program.returncode, 0)

    def test_a_stopped_manager_leaves_no_node(self):
        manager, thread = self.manager()
        emulator = gpemu.GPUSharingEmulator(self.server, forward_time=0, backward_time=0)
        emulator.run(2)
        manager.stop()
        thread.join()
        name = emulator._name
        gpemu.Node.open(name)  # a program is still there
        del emulator
        with self.assertRaises(gpemu.NotFoundError):
            gpemu.Node.open(name)

    def test_other_names(self):
        sharing = gpemu.GPUSharingEmulatorRabbitMQ(
            rabbitmq_server="h", request_queue="q", model="alexnet", from_database=True
        )
        self.assertGreater(sharing.emulator.get_forward_time(), 0)
        self.assertEqual(
            sharing._name, gpemu.GPUResourceManagerRabbitMQ("h", request_queue="q")._name
        )
        self.assertNotEqual(sharing._name, gpemu.GPUResourceManager("h", engine="rabbitmq")._name)


if __name__ == "__main__":
    unittest.main()
