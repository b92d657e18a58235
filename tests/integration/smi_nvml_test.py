#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""nvidia-smi and NVML say the same to a program, in every fact that both show: on plain GPUs, under
limits of memory (gpemu's fraction, HAMi's variables), on a part of a node, on a GPU that MIG
divides, and with power limits and locked clocks.

Usage: smi_nvml_test.py GPEMU_COMMAND
"""

import ctypes
import os
import subprocess
import sys
import unittest

MIB = 1 << 20
UINT, U64, HANDLE = ctypes.c_uint, ctypes.c_ulonglong, ctypes.c_void_p
NOT_SUPPORTED = 3
GRAPHICS, SM, MEMORY = 0, 1, 2


class MemoryV1(ctypes.Structure):
    _fields_ = [(name, U64) for name in ("total", "free", "used")]


class MemoryV2(ctypes.Structure):
    _fields_ = [("version", UINT), *[(name, U64) for name in ("total", "reserved", "free", "used")]]


class Utilization(ctypes.Structure):
    _fields_ = [("gpu", UINT), ("memory", UINT)]


class ProcessInfo(ctypes.Structure):
    _fields_ = [("pid", UINT), ("memory", U64), ("gpu_instance", UINT), ("compute_instance", UINT)]


class Nvml:
    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        assert self.library.nvmlInit_v2() == 0

    def value(self, kind, name, *arguments, initial=None):
        """Returns what a function yields; None if the device does not support it."""
        value = initial if initial is not None else kind()
        status = getattr(self.library, "nvml" + name)(*arguments, ctypes.byref(value))
        if status == NOT_SUPPORTED:
            return None
        assert status == 0, (name, status)
        return value

    def number(self, name, *arguments):
        value = self.value(UINT, name, *arguments)
        return None if value is None else value.value

    def text(self, name, *arguments):
        buffer = ctypes.create_string_buffer(96)
        assert getattr(self.library, "nvml" + name)(*arguments, buffer, 96) == 0, name
        return buffer.value.decode()

    def bus_id(self, device):
        class Pci(ctypes.Structure):
            _fields_ = [("legacy", ctypes.c_char * 16), *[(n, UINT) for n in "abcde"],
                        ("bus_id", ctypes.c_char * 32)]
        return self.value(Pci, "DeviceGetPciInfo_v3", device).bus_id.decode()


def number(value):
    return "[N/A]" if value is None else str(value)


def switch(value):
    return "[N/A]" if value is None else ("Disabled", "Enabled")[value]


def milliwatts(value):
    return "[N/A]" if value is None else f"{value / 1000:.2f}"


def mib(value):
    """As nvidia-smi shows it: to the nearest MiB."""
    return str((value + MIB // 2) // MIB)


def pair(value):
    return "[N/A]" if value is None else f"{value[0]}.{value[1]}"


def facts_of(nvml, device):
    """Returns what NVML says of a device, by nvidia-smi's names, as nvidia-smi prints it."""
    second = nvml.value(MemoryV2, "DeviceGetMemoryInfo_v2", device,
                        initial=MemoryV2(ctypes.sizeof(MemoryV2) | 2 << 24))
    first = nvml.value(MemoryV1, "DeviceGetMemoryInfo", device)
    assert first.total == second.total and first.free == second.free
    assert first.used == second.used + second.reserved, "what is reserved counts as used"
    rates = nvml.value(Utilization, "DeviceGetUtilizationRates", device)
    least, most = UINT(), UINT()
    assert nvml.library.nvmlDeviceGetPowerManagementLimitConstraints(
        device, ctypes.byref(least), ctypes.byref(most)) == 0
    major, minor = ctypes.c_int(), ctypes.c_int()
    assert nvml.library.nvmlDeviceGetCudaComputeCapability(
        device, ctypes.byref(major), ctypes.byref(minor)) == 0
    current, pending = UINT(), UINT()
    has_mig = nvml.library.nvmlDeviceGetMigMode(device, ctypes.byref(current),
                                                ctypes.byref(pending)) == 0
    modes = {0: "Default", 2: "Prohibited", 3: "Exclusive_Process"}
    reasons = U64()
    assert nvml.library.nvmlDeviceGetCurrentClocksEventReasons(device, ctypes.byref(reasons)) == 0
    return {
        "index": number(nvml.number("DeviceGetIndex", device)),
        "name": nvml.text("DeviceGetName", device),
        "uuid": nvml.text("DeviceGetUUID", device),
        "pci.bus_id": nvml.bus_id(device),
        "count": number(nvml.number("DeviceGetCount_v2")),
        "driver_version": nvml.text("SystemGetDriverVersion"),
        "memory.total": mib(second.total),
        "memory.reserved": mib(second.reserved),
        "memory.used": mib(second.used),
        "memory.free": mib(second.free),
        "utilization.gpu": number(rates and rates.gpu),
        "utilization.memory": number(rates and rates.memory),
        "temperature.gpu": number(nvml.number("DeviceGetTemperature", device, 0)),
        "power.draw": milliwatts(nvml.number("DeviceGetPowerUsage", device)),
        "power.limit": milliwatts(nvml.number("DeviceGetPowerManagementLimit", device)),
        "enforced.power.limit": milliwatts(nvml.number("DeviceGetEnforcedPowerLimit", device)),
        "power.default_limit":
            milliwatts(nvml.number("DeviceGetPowerManagementDefaultLimit", device)),
        "power.min_limit": milliwatts(least.value),
        "power.max_limit": milliwatts(most.value),
        "clocks.current.sm": number(nvml.number("DeviceGetClockInfo", device, SM)),
        "clocks.current.graphics": number(nvml.number("DeviceGetClockInfo", device, GRAPHICS)),
        "clocks.current.memory": number(nvml.number("DeviceGetClockInfo", device, MEMORY)),
        "clocks.max.sm": number(nvml.number("DeviceGetMaxClockInfo", device, SM)),
        "clocks.max.memory": number(nvml.number("DeviceGetMaxClockInfo", device, MEMORY)),
        "pstate": f"P{nvml.number('DeviceGetPerformanceState', device)}",
        "compute_mode": modes[nvml.number("DeviceGetComputeMode", device)],
        "compute_cap": f"{major.value}.{minor.value}",
        "pcie.link.gen.current": number(nvml.number("DeviceGetCurrPcieLinkGeneration", device)),
        "pcie.link.gen.max": number(nvml.number("DeviceGetMaxPcieLinkGeneration", device)),
        "pcie.link.width.current": number(nvml.number("DeviceGetCurrPcieLinkWidth", device)),
        "pcie.link.width.max": number(nvml.number("DeviceGetMaxPcieLinkWidth", device)),
        "mig.mode.current": switch(current.value) if has_mig else "[N/A]",
        "mig.mode.pending": switch(pending.value) if has_mig else "[N/A]",
        "persistence_mode": switch(nvml.number("DeviceGetPersistenceMode", device)),
        "display_active": switch(nvml.number("DeviceGetDisplayActive", device)),
        "fan.speed": number(nvml.number("DeviceGetFanSpeed", device)),
        "clocks_event_reasons.active": f"0x{reasons.value:016X}",
    }


def smi(*words):
    return subprocess.check_output(["nvidia-smi", *words], text=True)


def processes_of(nvml, device):
    count, infos = UINT(64), (ProcessInfo * 64)()
    assert nvml.library.nvmlDeviceGetComputeRunningProcesses_v3(
        device, ctypes.byref(count), infos) == 0
    return [[str(info.pid), mib(info.memory)] for info in infos[:count.value]]


def compare():
    """Holds a context and some memory, and compares what both say of each device. NVML's loads are
    those of the last period; the GPU is idle, so they do not depend on the time."""
    cuda, memory = ctypes.CDLL("libcudart.so.12"), HANDLE()
    assert cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(64 * MIB)) == 0
    nvml = Nvml()
    for index in range(nvml.number("DeviceGetCount_v2")):
        device = nvml.value(HANDLE, "DeviceGetHandleByIndex_v2", index)
        facts = facts_of(nvml, device)
        printed = smi("-i", str(index), "--format=csv,noheader,nounits",
                      "--query-gpu=" + ",".join(facts)).strip().split(", ")
        differing = {name: (ours, theirs) for (name, ours), theirs
                     in zip(facts.items(), printed, strict=True) if ours != theirs}
        assert not differing, f"GPU {index}, as (NVML, nvidia-smi): {differing}"
        log = smi("-q", "-i", str(index), "-d", "MEMORY")
        for name in ("Total", "Reserved", "Used", "Free"):
            line = next(line for line in log.splitlines() if line.strip().startswith(name))
            assert line.split(":")[1].strip() == facts["memory." + name.lower()] + " MiB", line
        table = smi("-i", str(index))
        assert f"{facts['memory.used']}MiB / {facts['memory.total']:>6}MiB" in table, table
        apps = smi("-i", str(index), "--query-compute-apps=pid,used_memory",
                   "--format=csv,noheader,nounits").splitlines()
        assert [line.split(", ") for line in apps] == processes_of(nvml, device), apps


        compare_mig(nvml, device, table)


def compare_mig(nvml, device, table):
    """Compares the MIG devices of a GPU."""
    listed = smi("-L")
    most = nvml.number("DeviceGetMaxMigDeviceCount", device) or 0
    for index in range(most):
        mig = HANDLE()
        if nvml.library.nvmlDeviceGetMigDeviceHandleByIndex(device, index, ctypes.byref(mig)) != 0:
            continue
        memory = nvml.value(MemoryV1, "DeviceGetMemoryInfo", mig)
        assert nvml.text("DeviceGetUUID", mig) in listed, listed
        instance = nvml.number("DeviceGetGpuInstanceId", mig)
        compute = nvml.number("DeviceGetComputeInstanceId", mig)
        row = f"{instance:5}{compute:4}{index:4}"
        shown = f"{mib(memory.used)}MiB / {mib(memory.total):>5}MiB"
        lines = table.splitlines()
        assert any(row in line and shown in line for line in lines), (row, shown, table)


class SmiAndNvml(unittest.TestCase):
    command = "gpemu"

    def check(self, *options, before="", **variables):
        environment = {**os.environ, **variables}
        script = f"{before} {sys.executable} {__file__} --compare"
        done = subprocess.run([self.command, "run", "--quiet", *options, "--", "sh", "-ec", script],
                              env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_plain_gpus(self):
        for gpu in ("T4", "V100-PCIE-32GB", "K80", "H100-SXM5-80GB", "RTX-4090"):
            self.check("--gpu", gpu + ":2")

    def test_fractions(self):
        for fraction in ("0.5", "0.123"):
            self.check("--gpu", "A100-SXM4-40GB:2", GPEMU_GPU_FRACTION=fraction)

    def test_hamis_variables(self):
        self.check("--gpu", "T4:2", CUDA_DEVICE_MEMORY_LIMIT="3000m")
        self.check("--gpu", "T4:2", CUDA_DEVICE_MEMORY_LIMIT_1="2g")
        self.check("--gpu", "T4:2", CUDA_DEVICE_MEMORY_LIMIT="3000m", GPEMU_GPU_FRACTION="0.1")

    def test_a_part_of_the_node(self):
        self.check("--gpu", "T4:3", GPEMU_DEVICES="1,2", CUDA_DEVICE_MEMORY_LIMIT_0="1g")

    def test_mig(self):
        node = f"smi-nvml-{os.getpid()}"
        subprocess.run([self.command, "node", "create", node, "--gpu", "A100-SXM4-40GB:2",
                        "--sharing", "mig"], check=True, stdout=subprocess.DEVNULL)
        try:
            self.check("--node", node, before="nvidia-smi mig -i 0 -cgi 9,14 -C;")
        finally:
            subprocess.run([self.command, "node", "remove", node], check=True)

    def test_power_and_clocks(self):
        self.check("--gpu", "A100-SXM4-40GB", before="nvidia-smi -pl 200; nvidia-smi -lgc 900;")

    def test_modes(self):
        self.check("--gpu", "T4:2", before="nvidia-smi -i 1 -c PROHIBITED;")


if __name__ == "__main__":
    if sys.argv[1:] == ["--compare"]:
        compare()
    else:
        SmiAndNvml.command = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
        unittest.main()
