#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A GPU of a compute capability that gpemu does not know is one file: everything shows or uses the
facts in its table [generation]. Without the table, everything refuses it and names the keys.

Usage: new_gpu_test.py GPEMU_COMMAND
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
MIB = 1 << 20
MULTIPROCESSORS = 100

FACTS = {
    "threads_per_multiprocessor": 1792, "blocks_per_multiprocessor": 20,
    "shared_kib_per_multiprocessor": 300, "shared_kib_per_block": 296,
    "reserved_shared_kib_per_block": 2, "registers_per_multiprocessor": 98304, "copy_engines": 5,
    "cooperative_launch": True, "concurrent_managed_access": False, "cluster_launch": True,
    "synchronize_depth": False, "fetch_granularity_bytes": 32,
    "printf_kib_per_multiprocessor": 16, "context_mib": 700,
    "context_kib_per_multiprocessor": 1024, "time_slice_us": 3000, "context_switch_us": 1000,
    "interrupts_kernels": True, "mps_clients": 7, "nvml_architecture": 11,
    "graph_kernel_saving_ns": 700, "copy_latency_ns": 900000, "pageable_share": 0.5,
    "flash_attention_share": 0.5, "efficient_attention_share": 0.4, "grouped_tensor_cores": True,
    "pointwise_in_place": True, "along_sum_share": 1, "along_sum_least_share": 1,
    "operand_rate": 4000, "convolution_operand_rate": 1500, "half_convolution_bar": 0.4,
    "half_grouped_bar": 0.6, "half_direct_bar": 0.3, "informs_other_gpus": True,
    "nccl_tuning": "blackwell", "nvlink_version": 5.0, "nvlink_link_gb_per_s": 100,
    "nvlink_copy_share": 0.8, "nvlink_switches": True}

FILE = """\
name = "X-137"
product_name = "NVIDIA X-137"
architecture = "Invented"

[compute]
capability = { value = 13.7, source = "made_up" }
multiprocessors = { value = %d, source = "made_up" }
cuda_cores = { value = 12800, source = "made_up" }
boost_clock_mhz = { value = 2000, source = "made_up" }
fp32_tflops = { value = 50, source = "made_up" }
tf32_tensor_tflops = { value = 400, source = "made_up" }
fp16_tensor_tflops = { value = 800, source = "made_up" }
bf16_tensor_tflops = { value = 800, source = "made_up" }

[memory]
capacity_mib = { value = 65536, source = "made_up" }
bandwidth_gb_per_s = { value = 4000, source = "made_up" }
bus_bits = { value = 4096, source = "made_up" }
l2_cache_mib = { value = 64, source = "made_up" }

[power]
max_w = { value = 600, source = "made_up" }

[links]
pcie_generation = { value = 6, source = "made_up" }
pcie_lanes = { value = 16, source = "made_up" }
pinned_copy_gb_per_s = { value = 100, source = "made_up" }
nvlink_gb_per_s = { value = 900, source = "made_up" }
nvlink_gpus = { value = 8, source = "made_up" }

[sources]
made_up = "a test"

[calibration]
like = "P100-PCIE-16GB"
""" % MULTIPROCESSORS

# Prints what CUDA and NVML say of the first of two GPUs, and what a copy takes.
PROGRAM = """
import ctypes, json
cuda, nvml = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libnvidia-ml.so.1")
driver = ctypes.CDLL("libcuda.so.1")
said = {}
def value(library, name, kind, *arguments):
    found = kind()
    status = getattr(library, name)(*arguments, ctypes.byref(found))
    return found.value if status == 0 else -status
def attribute(number):
    found = ctypes.c_int()
    assert cuda.cudaDeviceGetAttribute(ctypes.byref(found), number, 0) == 0
    return found.value
said["threads_per_multiprocessor"] = attribute(39)
said["blocks_per_multiprocessor"] = attribute(106)
said["shared_kib_per_multiprocessor"] = attribute(81) / 1024
said["shared_kib_per_block"] = attribute(97) / 1024
said["reserved_shared_kib_per_block"] = attribute(111) / 1024
said["registers_per_multiprocessor"] = attribute(82)
said["copy_engines"] = attribute(40)
said["cooperative_launch"] = bool(attribute(95))
said["concurrent_managed_access"] = bool(attribute(89))
said["cluster_launch"] = bool(attribute(120))
said["capability"] = [attribute(75), attribute(76)]
free, total, size = (ctypes.c_size_t() for _ in range(3))
before = ctypes.c_size_t()
assert cuda.cudaFree(None) == 0
assert cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
said["context"] = total.value - free.value
assert driver.cuCtxGetLimit(ctypes.byref(size), 5) == 0
said["fetch_granularity_bytes"] = size.value
assert driver.cuCtxGetLimit(ctypes.byref(size), 1) == 0
said["printf"] = size.value
said["synchronize_depth"] = driver.cuCtxGetLimit(ctypes.byref(size), 3) == 0
assert nvml.nvmlInit_v2() == 0
device = ctypes.c_void_p()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
uint = ctypes.c_uint
said["nvml_architecture"] = value(nvml, "nvmlDeviceGetArchitecture", uint, device)
major, minor = ctypes.c_int(), ctypes.c_int()
assert nvml.nvmlDeviceGetCudaComputeCapability(
    device, ctypes.byref(major), ctypes.byref(minor)) == 0
said["nvml_capability"] = [major.value, minor.value]
said["nvlink_version"] = value(nvml, "nvmlDeviceGetNvLinkVersion", uint, device, 0)
said["nvlinks"] = sum(value(nvml, "nvmlDeviceGetNvLinkState", uint, device, link) == 1
                      for link in range(18))
said["nvlink_end"] = value(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", uint, device, 0)
said["mig"] = value(nvml, "nvmlDeviceGetMigMode", uint, device, ctypes.byref(uint()))
memory, host = ctypes.c_void_p(), ctypes.create_string_buffer(64)
start, end, ms = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
assert cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(64)) == 0
for event in (start, end):
    assert cuda.cudaEventCreate(ctypes.byref(event)) == 0
assert cuda.cudaEventRecord(start, None) == 0
assert cuda.cudaMemcpyAsync(memory, host, ctypes.c_size_t(64), 1, None) == 0
assert cuda.cudaEventRecord(end, None) == 0
assert cuda.cudaDeviceSynchronize() == 0
assert cuda.cudaEventElapsedTime(ctypes.byref(ms), start, end) == 0
said["copy_ms"] = ms.value
print(json.dumps(said))
"""

STEPS = """
import ctypes
cuda = ctypes.CDLL("libcudart.so.12")
nvtx = ctypes.CDLL("libnvToolsExt.so.1")
device = ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(1 << 30)) == 0
for step in range(20):
    nvtx.nvtxRangePushA(b"step %d" % step)
    assert cuda.cudaMemsetAsync(device, 0, ctypes.c_size_t(1 << 30), None) == 0
    assert cuda.cudaDeviceSynchronize() == 0
    nvtx.nvtxRangePop()
"""


def written(value):
    return json.dumps(value)  # Numbers, truth values and words are the same in TOML.


def file_with(facts):
    table = "".join(f'{key} = {{ value = {written(value)}, source = "made_up" }}\n'
                    for key, value in facts.items())
    return FILE + "\n[generation]\n" + table


class NewGpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="gpemu_new_gpu_")
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.environment = {name: value for name, value in os.environ.items()
                           if not name.startswith("GPEMU_GPU")}
        cls.environment |= {"GPEMU_NODE_DIR": str(cls.folder / "nodes"),
                            "XDG_DATA_HOME": str(cls.folder / "home")}
        cls.gpu = cls.file("X-137.toml", file_with(FACTS))
        cls.bare = cls.file("bare.toml", FILE)

    @classmethod
    def file(cls, name, text):
        path = cls.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def call(self, *words, fails=False):
        result = subprocess.run([COMMAND, *map(str, words)], env=self.environment, text=True,
                                capture_output=True, timeout=120, check=False)
        self.assertEqual(result.returncode != 0, fails, result.stdout + result.stderr)
        return result.stderr if fails else result.stdout

    def test_profile_show_lists_the_facts(self):
        shown = json.loads(self.call("profile", "show", "--gpu", self.gpu, "--json"))
        self.assertEqual(shown["generation"],
                         {key: {"value": value, "source": "a test"}
                          for key, value in FACTS.items()})

    def test_cuda_and_nvml_report_the_facts(self):
        said = json.loads(self.call("run", "--gpu", f"{self.gpu}:2", "--quiet", "--clock",
                                    "virtual", "--", sys.executable, "-c", PROGRAM))
        for key in said.keys() & FACTS.keys() - {"nvlink_version"}:
            self.assertEqual(said[key], FACTS[key], key)
        self.assertEqual(said["capability"], [13, 7])
        self.assertEqual(said["nvml_capability"], [13, 7])
        self.assertEqual(said["context"], 700 * MIB + MULTIPROCESSORS * MIB)
        self.assertEqual(said["printf"], MULTIPROCESSORS * 16 * 1024)
        self.assertEqual(said["nvlink_version"], 7)  # NVML_NVLINK_VERSION_5_0
        self.assertEqual(said["nvlinks"], 9)
        self.assertEqual(said["nvlink_end"], 2)  # a switch
        self.assertEqual(said["mig"], -3)  # It has no table [mig].
        # The host's time between two calls comes on top, on a busy machine.
        self.assertGreaterEqual(round(said["copy_ms"], 3), FACTS["copy_latency_ns"] / 1e6)

    def test_nvidia_smi_reports_the_facts(self):
        self.call("node", "create", "x", "--gpu", self.gpu)
        self.addCleanup(self.call, "node", "rm", "x")
        said = self.call("run", "--node", "x", "--quiet", "--", "nvidia-smi",
                         "--query-gpu=name,compute_cap,mig.mode.current", "--format=csv,noheader")
        self.assertEqual(said.strip(), "NVIDIA X-137, 13.7, [N/A]")
        log = self.call("run", "--node", "x", "--quiet", "--", "nvidia-smi", "-q")
        self.assertRegex(log, r"Product Architecture +: Invented")

    def times(self, *words):
        """Returns what a command says with the file, and with one in which products are slower."""
        slower = self.file("slower.toml", file_with({**FACTS, "along_sum_share": 0.1}))
        return [self.call(*words, "--gpu", gpu) for gpu in (self.gpu, slower)]

    def test_cost_uses_the_facts(self):
        forward, slower = [json.loads(said)["costs"][0]["forward"]["ms"] for said in
                           self.times("cost", "--model", "vgg16", "--batch", 64, "--json")]
        self.assertGreater(slower, 1.005 * forward)

    def test_train_uses_the_facts(self):
        step, slower = [json.loads(said)["step_ms"]["mean"] for said in self.times(
            "train", "synthetic", "--model", "vgg16", "--steps", 4, "--clock", "virtual",
            "--quiet", "--json", "-")]
        self.assertGreater(slower, 1.002 * step)

    def test_predict_uses_the_facts(self):
        program = self.file("steps.py", STEPS)
        said = json.loads(self.call("predict", "--gpu", self.gpu, "--with", program, "--json", "-",
                                    "--", sys.executable, program))["answers"][0]
        self.assertEqual(said["memory_mib"], 2 * (1024 + 700 + MULTIPROCESSORS))
        # A millisecond in four goes to switches between the programs, which are always busy.
        speed = said["programs"][0]["together"]["speed"]
        self.assertGreater(speed, 0.36)
        self.assertLess(speed, 0.42)

    def test_without_the_table_the_keys_are_named(self):
        for words in (("profile", "show"), ("cost", "--model", "vgg16", "--batch", 64),
                      ("train", "synthetic", "--model", "vgg16"), ("node", "create", "y")):
            said = self.call(*words, "--gpu", self.bare, fails=True)
            self.assertIn(f"{self.bare}:6: generation: catalog/generations.toml does not give "
                          "compute capability 13.7 these keys: ", said)
            named = re.search(r"these keys: (.*?);", said)[1].split(", ")
            self.assertEqual(named, list(FACTS))
        self.assertIn("these keys: ", self.call("run", "--gpu", self.bare, "--", "true",
                                                fails=True))

    def test_what_is_missing_is_named(self):
        facts = {key: value for key, value in FACTS.items() if key != "mps_clients"}
        said = self.call("profile", "show", "--gpu", self.file("less.toml", file_with(facts)),
                         fails=True)
        self.assertIn("these keys: mps_clients; ", said)


if __name__ == "__main__":
    unittest.main()
