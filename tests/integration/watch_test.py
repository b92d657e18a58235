#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads an emulated GPU to a known share of the time and checks that NVML, gpemu smi and the
summary of gpemu run agree on it, and that NVML answers wrong arguments as documented.

Needs no package: CUDA and NVML are called with ctypes, under gpemu run.

Usage: watch_test.py GPEMU_COMMAND
"""

import ctypes
import datetime
import json
import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import time
import unittest

FUNCTIONS = pathlib.Path(__file__).resolve().parents[2] / "shims" / "nvml" / "functions.def"
GPU = "V100-PCIE-32GB"
DRIVER_KEEPS = 258 << 20  # of a V100-PCIE-32GB, as catalog/gpus/V100-PCIE-32GB.toml says
MIB = 1 << 20
MEMORY = 1024 * MIB
# Sets of memory are the kernels: each takes a known time on the device.
CHUNK = 256 * MIB

UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = 1, 2, 3, 6, 7
VERSION_MISMATCH = 25
GPU_UTILIZATION = 1  # of nvmlSamplingType_t

SMI_FIELDS = ("timestamp", "index", "name", "uuid", "utilization.gpu", "memory.used",
              "memory.total", "power.draw")


class ProcessInfo(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong),
                ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


class ProcessSample(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("time_us", ctypes.c_ulonglong), ("sm", ctypes.c_uint),
                ("memory", ctypes.c_uint), ("encoder", ctypes.c_uint), ("decoder", ctypes.c_uint)]


class Sample(ctypes.Structure):
    _fields_ = [("time_us", ctypes.c_ulonglong), ("value", ctypes.c_ulonglong)]


class MemoryV2(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong),
                ("reserved", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class PciInfo(ctypes.Structure):
    _fields_ = [("bus_id_legacy", ctypes.c_char * 16), ("domain", ctypes.c_uint),
                ("bus", ctypes.c_uint), ("device", ctypes.c_uint), ("pci_device_id", ctypes.c_uint),
                ("pci_subsystem_id", ctypes.c_uint), ("bus_id", ctypes.c_char * 32)]


# nvmlPciInfo_t of nvmlDeviceGetPciInfo and of its _v2: the ids, then reserved words. Source: nvml.h
# of NVML 2.285 and 8.
class PciInfoV1(ctypes.Structure):
    _fields_ = PciInfo._fields_[:5]


class PciInfoV2(ctypes.Structure):
    _fields_ = PciInfo._fields_[:6] + [("reserved", ctypes.c_uint * 4)]


class Nvml:
    """NVML; calls that are not checked with `status` must succeed."""

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.library.nvmlErrorString.restype = ctypes.c_char_p

    def status(self, name, *arguments):
        return getattr(self.library, "nvml" + name)(*arguments)

    def __call__(self, name, *arguments):
        status = self.status(name, *arguments)
        if status != 0:
            raise RuntimeError(f"{name}: {self.library.nvmlErrorString(status).decode()}")

    def device(self, index=0):
        handle = ctypes.c_void_p()
        self("DeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
        return handle

    def number(self, name, *arguments, kind=ctypes.c_uint):
        value = kind()
        self(name, *arguments, ctypes.byref(value))
        return value.value

    def text(self, name, device):
        buffer = ctypes.create_string_buffer(96)
        self(name, device, buffer, 96)
        return buffer.value.decode()


def time_of(timestamp):
    """Returns the seconds since 1970 of a timestamp of smi."""
    return datetime.datetime.strptime(timestamp, "%Y/%m/%d %H:%M:%S.%f").timestamp()


def worker(share, seconds):
    """Keeps the device busy for a share of the time, by its own clock, and says when it begins."""
    cuda = ctypes.CDLL("libcudart.so.12")

    def check(status):
        if status != 0:
            sys.exit(f"CUDA status {status}")

    memory = ctypes.c_void_p()
    check(cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(MEMORY)))
    events = [ctypes.c_void_p() for _ in range(2)]
    for event in events:
        check(cuda.cudaEventCreate(ctypes.byref(event)))

    def set_memory(times):
        for _ in range(times):
            check(cuda.cudaMemsetAsync(memory, 0, ctypes.c_size_t(CHUNK), None))

    # What a set takes on the device, from events.
    check(cuda.cudaEventRecord(events[0], None))
    set_memory(10)
    check(cuda.cudaEventRecord(events[1], None))
    check(cuda.cudaDeviceSynchronize())
    elapsed_ms = ctypes.c_float()
    check(cuda.cudaEventElapsedTime(ctypes.byref(elapsed_ms), *events))
    one_s = elapsed_ms.value / 1000 / 10
    per_slot = max(1, round(0.02 * share / one_s))
    slot_s = per_slot * one_s / share
    print("ready", flush=True)
    start = time.monotonic()
    # Each slot begins at its time, whatever the one before took, so lateness does not add up.
    for slot in range(int(seconds / slot_s)):
        time.sleep(max(0, start + slot * slot_s - time.monotonic()))
        set_memory(per_slot)
    check(cuda.cudaDeviceSynchronize())
    sys.stdin.read()  # until nobody wants to watch any more


def null_arguments():
    """Prints what functions that need an argument return without any, before and after Init."""
    nvml = Nvml()
    names = re.findall(r"^IMPLEMENTED\((\w+)\)", FUNCTIONS.read_text(encoding="utf-8"), re.M)
    names = [name.removeprefix("nvml") for name in names if not name.startswith((
        "nvmlInit", "nvmlShutdown", "nvmlErrorString"))]
    nulls = [ctypes.c_void_p()] * 6
    before = {name: nvml.status(name, *nulls) for name in names}
    nvml("Init_v2")
    device = nvml.device()
    after = {name: nvml.status(name, *nulls) for name in names}
    # A handle by itself: what takes one lacks the place for its answer.
    of_device = {name: nvml.status(name, device, *nulls[1:]) for name in names
                 if name.startswith("DeviceGet") and "Handle" not in name and "Count" not in name}
    print(json.dumps([before, after, of_device]))


def watch():
    """Prints what NVML reports about the node's only device, a line for each period that it
    measured, until somebody closes the standard input."""
    nvml = Nvml()
    nvml("Init_v2")
    device = nvml.device()
    seen_us = ctypes.c_ulonglong(0)
    idle_w = nvml.number("DeviceGetPowerUsage", device) / 1000
    while True:
        sample, kind, count = Sample(), ctypes.c_int(), ctypes.c_uint(1)
        status = nvml.status("DeviceGetSamples", device, GPU_UTILIZATION, seen_us,
                             ctypes.byref(kind), ctypes.byref(count), ctypes.byref(sample))
        if status == 0:
            seen_us = ctypes.c_ulonglong(sample.time_us)
            print(json.dumps(reading(nvml, device, sample, idle_w)), flush=True)
        elif status != NOT_FOUND:
            sys.exit(f"NVML status {status}")
        if select.select([sys.stdin], [], [], 0.2)[0]:
            break
    nvml("Shutdown")


def reading(nvml, device, sample, idle_w):
    memory = (ctypes.c_ulonglong * 3)()
    nvml("DeviceGetMemoryInfo", device, memory)
    infos, count = (ProcessInfo * 8)(), ctypes.c_uint(8)
    nvml("DeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), infos)
    processes = {info.pid: info.memory for info in infos[:count.value]}
    samples, count = (ProcessSample * 8)(), ctypes.c_uint(8)
    status = nvml.status("DeviceGetProcessUtilization", device, samples, ctypes.byref(count),
                         ctypes.c_ulonglong(0))
    return {
        "time_us": sample.time_us,
        "gpu": sample.value,
        "of_processes": {s.pid: s.sm for s in samples[:count.value]} if status == 0 else {},
        "before_energy_ns": time.monotonic_ns(),
        "energy_mj": nvml.number("DeviceGetTotalEnergyConsumption", device,
                                 kind=ctypes.c_ulonglong),
        "after_energy_ns": time.monotonic_ns(),
        "idle_w": idle_w,
        "limit_w": nvml.number("DeviceGetEnforcedPowerLimit", device) / 1000,
        "memory": list(memory),
        "processes": processes,
        "name": nvml.text("DeviceGetName", device),
        "uuid": nvml.text("DeviceGetUUID", device),
    }


def wrong_arguments():
    """Prints the statuses of calls with wrong arguments."""
    nvml = Nvml()
    status = nvml.status
    results = {"before init": status("DeviceGetCount_v2", ctypes.byref(ctypes.c_uint()))}
    results["shutdown before init"] = status("Shutdown")
    nvml("Init_v2")
    nvml("Init_v2")
    nvml("Shutdown")
    device = nvml.device()
    handle, number = ctypes.c_void_p(), ctypes.c_uint()
    results["null count"] = status("DeviceGetCount_v2", None)
    results["index"] = status("DeviceGetHandleByIndex_v2", 9, ctypes.byref(handle))
    results["null handle"] = status("DeviceGetPowerUsage", None, ctypes.byref(number))
    results["stray handle"] = status("DeviceGetPowerUsage", ctypes.byref(number),
                                     ctypes.byref(number))
    results["null result"] = status("DeviceGetUtilizationRates", device, None)
    results["short name"] = status("DeviceGetName", device, ctypes.create_string_buffer(4), 4)
    results["clock type"] = status("DeviceGetClockInfo", device, 4, ctypes.byref(number))
    results["sensor"] = status("DeviceGetTemperature", device, 7, ctypes.byref(number))
    results["memory version"] = status("DeviceGetMemoryInfo_v2", device,
                                       ctypes.byref(MemoryV2(version=1)))
    memory = MemoryV2(version=ctypes.sizeof(MemoryV2) | 2 << 24)
    results["memory v2"] = status("DeviceGetMemoryInfo_v2", device, ctypes.byref(memory))
    results["uuid"] = status("DeviceGetHandleByUUID", b"GPU-0", ctypes.byref(handle))
    results["bus id"] = status("DeviceGetHandleByPciBusId_v2", b"00000000:77:00.0",
                               ctypes.byref(handle))
    results["fan"] = status("DeviceGetFanSpeed", device, ctypes.byref(number))
    results["not supported"] = status("DeviceSetTemperatureThreshold", device, 0,
                                      ctypes.byref(number))
    info = PciInfo()
    nvml("DeviceGetPciInfo_v3", device, ctypes.byref(info))
    for name, older in (("PciInfo", PciInfoV1()), ("PciInfo_v2", PciInfoV2())):
        size = ctypes.sizeof(older)
        buffer = ctypes.create_string_buffer(b"#" * 128, 128)
        nvml("DeviceGet" + name, device, buffer)
        results[name] = {
            "filled": buffer.raw[:size] == bytes(info)[:min(size, 36)].ljust(size, b"\0"),
            "kept": buffer.raw[size:] == b"#" * (128 - size)}
    nvml("DeviceGetHandleByPciBusId_v2", info.bus_id, ctypes.byref(handle))
    results["found again"] = handle.value == device.value
    nvml("DeviceGetHandleByUUID", nvml.text("DeviceGetUUID", device).encode(), ctypes.byref(handle))
    results["found by uuid"] = handle.value == device.value
    nvml("Shutdown")
    results["after shutdown"] = status("DeviceGetPowerUsage", device, ctypes.byref(number))
    print(json.dumps(results))


class WatchTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="gpemu_watch_")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.environment = {key: value for key, value in os.environ.items()
                            if not key.startswith(("GPEMU_", "CUDA_VISIBLE"))}
        self.environment["GPEMU_NODE_DIR"] = str(self.folder / "nodes")

    def call(self, *arguments):
        return subprocess.run([COMMAND, *map(str, arguments)], env=self.environment, check=True,
                              capture_output=True, text=True).stdout

    def start(self, *role, options=()):
        return subprocess.Popen(
            [COMMAND, "run", *options, "--", sys.executable, __file__, COMMAND, *map(str, role)],
            env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)

    def result(self, process):
        output, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)
        return json.loads(output), errors

    def watch_worker(self, share):
        """Runs a worker on a node that NVML and smi watch from before to after it; returns what
        these and the run's summary tell."""
        self.call("node", "create", "n0", "--gpu", GPU)
        watcher = self.start("watch", options=("--quiet",))
        smi = subprocess.Popen([COMMAND, "smi", "-l", "0.3", f"--query-gpu={','.join(SMI_FIELDS)}",
                                "--format=csv,noheader,nounits"], env=self.environment,
                               stdout=subprocess.PIPE, text=True)
        readings = [json.loads(watcher.stdout.readline())]
        lines = [smi.stdout.readline()]
        summary = self.folder / "run.json"
        run = self.start("worker", share, 3, options=("--json", summary))
        self.assertEqual(run.stdout.readline(), "ready\n")
        apps = self.call("smi", "--query-compute-apps=pid,used_memory",
                         "--format=csv,noheader,nounits")
        _, errors = run.communicate()
        self.assertEqual(run.returncode, 0, errors)
        ended = time.time()
        # Until a period that begins after the worker has ended is over.
        while readings[-1]["time_us"] < (ended + 1) * 1e6:
            readings.append(json.loads(watcher.stdout.readline()))
        watcher.communicate("end")
        while time_of(lines[-1].split(", ")[0]) < ended + 1:
            lines.append(smi.stdout.readline())
        smi.terminate()
        smi.communicate()
        smi_readings = [dict(zip(SMI_FIELDS, line.rstrip("\n").split(", "))) for line in lines]
        return readings, smi_readings, apps, json.loads(summary.read_text())

    def check_agreement(self, share):
        nvml, smi, apps, run = self.watch_worker(share)
        busy_s = sum(entry["time_ns"] for entry in run["classes"]) / 1e9
        span_s = (run["last_ns"] - run["first_ns"]) / 1e9
        self.assertLessEqual(busy_s / span_s, share + 0.01)
        self.assertAlmostEqual(run["utilization"], busy_s / span_s, places=9)
        [device] = run["devices"]
        pid = str(device["pid"])

        # Within 5 points of utilisation, whatever the pace of this host: the periods of all
        # readings cover the worker's life, so that what they add up to is known.
        def busy(times_s, percents):
            return sum((end - start) * percent / 100 for start, end, percent in zip(
                times_s, times_s[1:], percents[1:]))

        times_s = [reading["time_us"] / 1e6 for reading in nvml]
        for seen_s in (
            busy(times_s, [reading["gpu"] for reading in nvml]),
            busy(times_s, [reading["of_processes"].get(pid, 0) for reading in nvml]),
            busy([time_of(reading["timestamp"]) for reading in smi],
                 [float(reading["utilization.gpu"]) for reading in smi]),
        ):
            self.assertAlmostEqual(100 * seen_s / span_s, 100 * busy_s / span_s, delta=5)
        # Energy counts every nanosecond, at idle power and at that of a usual kernel.
        first, last = nvml[0], nvml[-1]
        joules = (last["energy_mj"] - first["energy_mj"]) / 1000
        for begin, end, sign in (("before", "after", 1), ("after", "before", -1)):
            wall_s = (last[f"{end}_energy_ns"] - first[f"{begin}_energy_ns"]) / 1e9
            kernels_w = 0.64 * (first["limit_w"] - first["idle_w"])
            counted_s = (joules - first["idle_w"] * wall_s) / kernels_w
            self.assertLessEqual(sign * counted_s, sign * busy_s + 0.01 * span_s)

        self.assertEqual(first["name"], "Tesla V100-PCIE-32GB")
        self.assertEqual((smi[0]["name"], smi[0]["uuid"]), (first["name"], first["uuid"]))
        total, free, used = max((reading["memory"] for reading in nvml), key=lambda m: m[2])
        self.assertEqual(free + used, total)
        # This version of NVML's call counts what the driver keeps for itself; nvidia-smi does not.
        used -= DRIVER_KEEPS
        self.assertEqual(max(int(reading["memory.used"]) for reading in smi), used // MIB)
        self.assertEqual(int(smi[0]["memory.total"]), total // MIB)
        # The context takes memory beside the allocation; the summary counts the allocation.
        self.assertGreaterEqual(used, device["peak_memory_bytes"])
        self.assertAlmostEqual(100 * used / total, 100 * device["peak_memory_bytes"] / total,
                               delta=5)
        self.assertIn({pid: used}, [reading["processes"] for reading in nvml])
        self.assertEqual(apps, f"{pid}, {used // MIB}\n")
        # What the worker held is given back.
        self.assertEqual((last["memory"][2], last["processes"]), (DRIVER_KEEPS, {}))

    def test_half_a_load_is_seen_as_half(self):
        self.check_agreement(0.5)

    def test_a_small_load_is_not_lost(self):
        self.check_agreement(0.1)

    def test_wrong_arguments_are_answered_as_documented(self):
        self.call("node", "create", "n0", "--gpu", GPU)
        results, errors = self.result(self.start("wrong_arguments", options=("--quiet",)))
        self.assertEqual(results, {
            "before init": UNINITIALIZED,
            "shutdown before init": UNINITIALIZED,
            "null count": INVALID_ARGUMENT,
            "index": INVALID_ARGUMENT,
            "null handle": INVALID_ARGUMENT,
            "stray handle": INVALID_ARGUMENT,
            "null result": INVALID_ARGUMENT,
            "short name": INSUFFICIENT_SIZE,
            "clock type": INVALID_ARGUMENT,
            "sensor": INVALID_ARGUMENT,
            "memory version": VERSION_MISMATCH,
            "memory v2": 0,
            "uuid": NOT_FOUND,
            "bus id": NOT_FOUND,
            "fan": NOT_SUPPORTED,
            "not supported": NOT_SUPPORTED,
            "PciInfo": {"filled": True, "kept": True},
            "PciInfo_v2": {"filled": True, "kept": True},
            "found again": True,
            "found by uuid": True,
            "after shutdown": UNINITIALIZED,
        })
        # What is missing in the shim is logged; what boards lack is not.
        self.assertEqual(errors.count("is not supported"), 1, errors)
        self.assertIn("nvmlDeviceSetTemperatureThreshold", errors)

    def test_null_arguments_are_refused_by_every_function(self):
        self.call("node", "create", "n0", "--gpu", "A100-SXM4-40GB")
        (before, after, of_device), _ = self.result(self.start("null_arguments",
                                                               options=("--quiet",)))
        self.assertGreater(len(before), 100)
        for statuses in (before, after, of_device):
            for name, status in statuses.items():
                self.assertIn(status, (UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED), name)
        self.assertNotIn(UNINITIALIZED, [*after.values(), *of_device.values()])

    def test_a_private_node_has_memory_but_no_load(self):
        results, _ = self.result(self.start("private", options=(
            "--gpu", GPU, "--clock", "gpu-only", "--quiet")))
        self.assertEqual(results, {"devices": 1, "utilization": NOT_SUPPORTED, "held": True})

    def test_the_node_of_a_run_ends_while_it_is_watched(self):
        smi = subprocess.Popen([COMMAND, "smi", "-l", "0.02", "--period-ms", "10",
                                "--query-gpu=node,count", "--format=csv,noheader"],
                               env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(smi.communicate)
        self.addCleanup(smi.terminate)
        run = subprocess.Popen([COMMAND, "run", "--quiet", "--gpu", GPU, "--", "cat"],
                               env=self.environment, stdin=subprocess.PIPE)
        while not select.select([smi.stdout], [], [], 0.1)[0]:
            self.assertIsNone(run.poll(), "the run ended before it was watched")
        self.assertTrue(smi.stdout.readline().startswith(f"run-{run.pid}, "), "it is watched")
        run.communicate()
        for _ in range(200):
            if not list((self.folder / "nodes").iterdir()):
                return
            time.sleep(0.02)
        self.fail("the node outlives the run")

    def test_several_nodes_need_a_name(self):
        self.call("node", "create", "n0", "--gpu", GPU)
        self.call("node", "create", "n1", "--gpu", "T4:2")
        refused = subprocess.run([COMMAND, "run", "--", "true"], env=self.environment, check=False,
                                 capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("there are 2 nodes", refused.stderr)
        lines = self.call("smi", "--query-gpu=node,index,name", "--format=csv,noheader")
        self.assertEqual(lines.splitlines(), ["n0, 0, Tesla V100-PCIE-32GB", "n1, 0, Tesla T4",
                                              "n1, 1, Tesla T4"])


def private():
    """Prints what NVML tells a process of its own node."""
    cuda = ctypes.CDLL("libcudart.so.12")
    memory = ctypes.c_void_p()
    cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(MEMORY))
    nvml = Nvml()
    nvml("Init_v2")
    device = nvml.device()
    count = ctypes.c_uint(1)
    infos = (ProcessInfo * 1)()
    nvml("DeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), infos)
    print(json.dumps({
        "devices": nvml.number("DeviceGetCount_v2"),
        "utilization": nvml.status("DeviceGetUtilizationRates", device, (ctypes.c_uint * 2)()),
        "held": infos[0].pid == os.getpid() and infos[0].memory >= MEMORY,
    }))


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
    role = sys.argv[1] if len(sys.argv) > 1 else ""
    if role == "worker":
        worker(float(sys.argv[2]), float(sys.argv[3]))
    elif role == "watch":
        watch()
    elif role == "wrong_arguments":
        wrong_arguments()
    elif role == "null_arguments":
        null_arguments()
    elif role == "private":
        private()
    else:
        unittest.main()
