#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the program nvidia-smi that comes with gpemu, next to CUDA programs, and checks what it
shows and what it changes: compute modes, MIG devices, time slices.

Needs no package: CUDA and NVML are called with ctypes, under gpemu run.

Usage: nvidia_smi_test.py GPEMU_COMMAND
"""

import csv
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

MIB = 1 << 20
DEVICES_UNAVAILABLE = 46  # of CUDA
COMPUTE_MODE = 20  # cudaDevAttrComputeMode


def compute():
    """Makes a context, takes 64 MiB, prints the status, and waits for a line."""
    cuda = ctypes.CDLL("libcudart.so.12")
    memory, mode, device = ctypes.c_void_p(), ctypes.c_int(-1), ctypes.c_int(-1)
    status = cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(64 * MIB))
    cuda.cudaDeviceGetAttribute(ctypes.byref(mode), COMPUTE_MODE, 0)
    cuda.cudaGetDevice(ctypes.byref(device))
    print(json.dumps({"status": status, "pid": os.getpid(), "mode": mode.value,
                      "device": device.value}), flush=True)
    sys.stdin.readline()


def show():
    """Runs nvidia-smi from PATH, as programs do."""
    print(subprocess.check_output(["nvidia-smi", "-L"], text=True))


def set_mode():
    """Changes the compute mode by NVML, and prints it as NVML has it."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    device, mode = ctypes.c_void_p(), ctypes.c_uint()
    statuses = [nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)),
                nvml.nvmlDeviceSetComputeMode(device, 2),
                nvml.nvmlDeviceGetComputeMode(device, ctypes.byref(mode))]
    print(json.dumps([statuses, mode.value]))


class NvidiaSmiTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = {**os.environ, "GPEMU_NODE_DIR": folder.name}
        for name in ("GPEMU_NODE", "GPEMU_GPU", "GPEMU_DEVICES"):
            self.environment.pop(name, None)

    def gpemu(self, *words, code=0):
        done = subprocess.run([COMMAND, *words], env=self.environment, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def smi(self, *words, code=0):
        """Runs nvidia-smi as programs under emulation find it."""
        return self.gpemu("run", "--quiet", "--node", "n", "--", "nvidia-smi", *words, code=code)

    def words_of(self, role):
        return [COMMAND, "run", "--quiet", "--node", "n", "--", sys.executable, __file__, COMMAND,
                role]

    def start(self, role="compute", **variables):
        """Starts a program, and returns it with what it prints."""
        process = subprocess.Popen(self.words_of(role), env=self.environment | variables,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        return process, json.loads(process.stdout.readline())

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.communicate("\n")

    def status(self, **variables):
        """Returns the status that a program gets for its first allocation."""
        process, printed = self.start(**variables)
        self.end(process)
        return printed["status"]

    def test_a_run_has_it_in_its_path(self):
        output = self.gpemu("run", "--quiet", "--gpu", "T4", "--", sys.executable, __file__,
                            COMMAND, "show")
        self.assertRegex(output, r"^GPU 0: Tesla T4 \(UUID: GPU-[0-9a-f-]{36}\)\n")
        output = self.gpemu("run", "--quiet", "--gpu", "T4:3", "--", "nvidia-smi",
                            "--query-gpu=index,name", "--format=csv,noheader")
        self.assertEqual(output, "0, Tesla T4\n1, Tesla T4\n2, Tesla T4\n")

    def test_it_shows_a_program_in_all_forms(self):
        self.gpemu("node", "create", "n", "--gpu", "T4:2")
        _, printed = self.start()
        pid, memory = str(printed["pid"]), 64 + 400  # with the context
        rows = list(csv.DictReader(self.smi("--query-compute-apps=pid,used_memory,gpu_bus_id",
                                            "--format=csv").splitlines(), skipinitialspace=True))
        self.assertEqual([row["pid"] for row in rows], [pid])
        used = rows[0]["used_gpu_memory [MiB]"]
        self.assertRegex(used, r"^\d+ MiB$")
        self.assertGreaterEqual(int(used.split()[0]), 64)
        self.assertLess(int(used.split()[0]), 2 * memory)
        table = self.smi()
        self.assertRegex(table, rf"\n\|    0   N/A  N/A +{pid}      C   \S+ +"
                         rf"{used.replace(' ', '')} \|\n")
        self.assertEqual({len(line) for line in table.splitlines()[1:] if line}, {91})
        text = self.smi("-q", "-x")
        self.assertIn("\n\t<gpu id=\"00000000:01:00.0\">\n\t\t<product_name>Tesla T4<", text)
        tree = xml.etree.ElementTree.fromstring(text)
        gpus = tree.findall("gpu")
        self.assertEqual(tree.findtext("attached_gpus"), "2")
        self.assertEqual([gpu.get("id") for gpu in gpus],
                         ["00000000:01:00.0", "00000000:02:00.0"])
        self.assertEqual([[process.findtext("pid") for process in gpu.iter("process_info")]
                          for gpu in gpus], [[pid], []])
        self.assertEqual(gpus[0].findtext("processes/process_info/used_memory"), used)
        self.assertEqual(gpus[0].findtext("fb_memory_usage/used"), used)
        self.assertEqual(gpus[0].findtext("performance_state"), "P0")
        self.assertEqual(gpus[1].findtext("performance_state"), "P8")
        log = self.smi("-q", "-i", "0", "-d", "PIDS,MEMORY")
        self.assertRegex(log, rf"\n        Process ID +: {pid}\n            Type +: C\n")
        self.assertRegex(log, r"\n    FB Memory Usage\n        Total +: 15360 MiB\n        "
                         rf"Reserved +: 265 MiB\n        Used +: {used}\n")
        self.assertNotIn("Temperature", log)
        lines = self.smi("pmon", "-c", "1").splitlines()
        self.assertEqual(lines[2].split()[:3], ["0", pid, "C"])
        self.assertEqual(lines[3].split()[:2], ["1", "-"])
        self.assertEqual(len(self.smi("dmon", "-c", "2").splitlines()), 2 + 2 * 2)

    def test_a_compute_mode_holds_for_all_processes(self):
        self.gpemu("node", "create", "n", "--gpu", "T4:2")
        first, printed = self.start()
        self.assertEqual((printed["status"], printed["mode"]), (0, 0))
        self.assertIn("Set compute mode to EXCLUSIVE_PROCESS for GPU 00000000:01:00.0.",
                      self.smi("-i", "0", "-c", "3"))
        self.assertEqual(self.status(CUDA_VISIBLE_DEVICES="0"), DEVICES_UNAVAILABLE)
        self.assertEqual(self.status(CUDA_VISIBLE_DEVICES="1"), 0)
        self.end(first)
        second, printed = self.start(CUDA_VISIBLE_DEVICES="0")
        self.assertEqual((printed["status"], printed["mode"]), (0, 3))
        self.end(second)
        self.smi("-i", "0", "-c", "PROHIBITED")
        self.assertEqual(self.status(CUDA_VISIBLE_DEVICES="0"), DEVICES_UNAVAILABLE)
        self.smi("-c", "0")
        self.assertEqual(self.status(CUDA_VISIBLE_DEVICES="0"), 0)

    def test_a_program_that_chooses_no_device_gets_the_next_that_is_free(self):
        self.gpemu("node", "create", "n", "--gpu", "T4:2")
        self.smi("-c", "EXCLUSIVE_PROCESS")
        programs = [self.start() for _ in range(3)]
        self.assertEqual([(printed["status"], printed["device"]) for _, printed in programs],
                         [(0, 0), (0, 1), (DEVICES_UNAVAILABLE, 0)])

    def test_nvml_and_nvidia_smi_agree_on_the_compute_mode(self):
        self.gpemu("node", "create", "n", "--gpu", "T4")
        output = subprocess.check_output(self.words_of("set_mode"), env=self.environment, text=True)
        self.assertEqual(json.loads(output), [[0, 0, 0, 0], 2])
        self.assertRegex(self.smi("-q", "-d", "COMPUTE"), r"\n    Compute Mode +: Prohibited\n")
        self.assertEqual(json.loads(self.gpemu("smi", "n", "--json"))[0]["compute_mode"],
                         "Prohibited")

    def test_mig_is_switched_while_the_node_lives(self):
        self.gpemu("node", "create", "n", "--gpu", "A100-SXM4-40GB:2", "--sharing", "mig")
        modes = ["--query-gpu=mig.mode.current,mig.mode.pending", "--format=csv,noheader"]
        self.smi("-i", "1", "-mig", "0")
        self.assertEqual(self.smi(*modes), "Enabled, Enabled\nDisabled, Disabled\n")
        whole, printed = self.start()
        self.assertEqual((printed["status"], printed["device"]), (0, 0))
        self.assertRegex(self.smi(), rf"\n\|    1   N/A  N/A +{printed['pid']}      C ")
        self.assertIn("Warning: MIG mode is in pending enable state for GPU 00000000:02:00.0:",
                      self.smi("-i", "1", "-mig", "1"))
        self.assertEqual(self.smi(*modes), "Enabled, Enabled\nDisabled, Enabled\n")
        self.end(whole)
        # While CUDA sees a MIG device, it sees nothing else.
        self.smi("-i", "0", "mig", "-cgi", "9", "-C")
        part, printed = self.start()
        self.assertRegex(self.smi(), rf"\n\|    0    2    0 +{printed['pid']}      C ")
        self.assertIn("Warning: MIG mode is in pending disable state for GPU 00000000:01:00.0:",
                      self.smi("-i", "0", "-mig", "0"))
        self.end(part)
        self.assertIn("Disabled MIG Mode for GPU 00000000:01:00.0\n",
                      self.smi("-i", "0", "-mig", "0"))
        self.assertIn("Enabled MIG Mode for GPU 00000000:02:00.0\n",
                      self.smi("-i", "1", "-mig", "1"))
        self.assertEqual(self.smi(*modes), "Disabled, Disabled\nEnabled, Enabled\n")
        whole, printed = self.start()
        self.assertRegex(self.smi(), rf"\n\|    0   N/A  N/A +{printed['pid']}      C ")

    def test_processes_have_their_instances(self):
        self.gpemu("node", "create", "n", "--gpu", "A100-SXM4-40GB", "--sharing", "mig")
        self.smi("mig", "-cgi", "9,14", "-C")
        uuids = re.findall(r"UUID: (MIG-[0-9a-f-]+)", self.smi("-L"))
        self.assertEqual(len(uuids), 2)
        _, printed = self.start(CUDA_VISIBLE_DEVICES=uuids[1])
        table = self.smi()
        self.assertRegex(table, rf"\n\|    0    3    0 +{printed['pid']}      C ")
        self.assertRegex(table, r"\n\|  0    2   0   0  \|               0MiB / 19968MiB    \| 42 ")
        self.assertRegex(table, r"\n\|  0    3   0   1  \| +\d+MiB /  9856MiB    \| 28 ")
        self.assertRegex(table, r"\| +N/A      Default \|\n.* Enabled \|")
        tree = xml.etree.ElementTree.fromstring(self.smi("-q", "-x"))
        self.assertEqual([device.findtext("gpu_instance_id") for device in tree.iter("mig_device")],
                         ["2", "3"])
        process = tree.find("gpu/processes/process_info")
        self.assertEqual((process.findtext("gpu_instance_id"), process.findtext("pid")),
                         ("3", str(printed["pid"])))
        [gpu] = json.loads(self.gpemu("smi", "n", "--json"))
        self.assertEqual(gpu["processes"][0]["mig"], uuids[1])
        self.assertEqual([device["uuid"] for device in gpu["mig_devices"]], uuids)

    def test_wrong_words_have_the_exit_codes_of_nvidia_smi(self):
        self.gpemu("node", "create", "n", "--gpu", "T4")
        self.smi("--no-such-option", code=255)
        self.smi("-i", "7", "-q", code=6)
        self.smi("nvlink", "-s", code=3)
        self.gpemu("node", "remove", "n")
        self.gpemu("nvidia-smi", code=9)


if __name__ == "__main__":
    COMMAND = os.path.realpath(sys.argv[1])
    roles = {"compute": compute, "show": show, "set_mode": set_mode}
    if len(sys.argv) == 3 and sys.argv[2] in roles:
        roles[sys.argv[2]]()
    else:
        unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
