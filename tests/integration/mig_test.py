#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Divides an emulated GPU by NVML, with the calls that NVIDIA's device plugin and mig-parted make,
reads the layout back by NVML and by gpemu mig, and runs CUDA programs on the MIG devices.

Needs no package: CUDA and NVML are called with ctypes, under gpemu run.

Usage: mig_test.py GPEMU_COMMAND
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import unittest

GPU = "A100-SXM4-40GB"
MIB = 1 << 20
INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, IN_USE, INSUFFICIENT_RESOURCES = 2, 3, 6, 19, 23
OUT_OF_MEMORY = 2  # of CUDA
MULTIPROCESSORS = 16  # cudaDevAttrMultiProcessorCount
GPU_PROFILES, COMPUTE_PROFILES = 16, 8  # NVML_..._PROFILE_COUNT, or more

UINT, HANDLE = ctypes.c_uint, ctypes.c_void_p


class Placement(ctypes.Structure):
    _fields_ = [("start", UINT), ("size", UINT)]


class GpuInstanceProfile(ctypes.Structure):
    _fields_ = [(name, UINT) for name in
                ("version", "id", "peer_access", "slices", "instances", "multiprocessors",
                 "copy_engines", "decoders", "encoders", "jpegs", "ofas")] + [
                     ("memory_mib", ctypes.c_ulonglong), ("name", ctypes.c_char * 96)]


class ComputeInstanceProfile(ctypes.Structure):
    _fields_ = [(name, UINT) for name in
                ("id", "slices", "instances", "multiprocessors", "copy_engines", "decoders",
                 "encoders", "jpegs", "ofas")]


class GpuInstanceInfo(ctypes.Structure):
    _fields_ = [("device", HANDLE), ("id", UINT), ("profile", UINT), ("placement", Placement)]


class ComputeInstanceInfo(ctypes.Structure):
    _fields_ = [("device", HANDLE), ("gpu_instance", HANDLE), ("id", UINT), ("profile", UINT),
                ("placement", Placement)]


class Attributes(ctypes.Structure):
    _fields_ = [(name, UINT) for name in
                ("multiprocessors", "copy_engines", "decoders", "encoders", "jpegs", "ofas",
                 "gpu_instance_slices", "compute_instance_slices")] + [
                     ("memory_mib", ctypes.c_ulonglong)]


class ProcessInfo(ctypes.Structure):
    _fields_ = [("pid", UINT), ("memory", ctypes.c_ulonglong), ("gpu_instance", UINT),
                ("compute_instance", UINT)]


class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Nvml:
    """NVML; calls that are not checked with `status` must succeed."""

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.library.nvmlErrorString.restype = ctypes.c_char_p
        self("Init_v2")

    def status(self, name, *arguments):
        return getattr(self.library, "nvml" + name)(*arguments)

    def __call__(self, name, *arguments):
        status = self.status(name, *arguments)
        if status != 0:
            raise RuntimeError(f"{name}: {self.library.nvmlErrorString(status).decode()}")

    def value(self, kind, name, *arguments):
        value = kind()
        self(name, *arguments, ctypes.byref(value))
        return value

    def handle(self, name, *arguments):
        return self.value(HANDLE, name, *arguments)

    def number(self, name, *arguments):
        return self.value(UINT, name, *arguments).value

    def text(self, name, device):
        buffer = ctypes.create_string_buffer(96)
        self(name, device, buffer, 96)
        return buffer.value.decode()

    def list(self, name, owner, profile, most):
        handles, count = (HANDLE * most)(), UINT(most)
        self(name, owner, profile, handles, ctypes.byref(count))
        return [HANDLE(handle) for handle in handles[:count.value]]

    def gpu_profiles(self, device):
        """Yields the GPU instance profiles that a GPU has."""
        for number in range(GPU_PROFILES):
            info = GpuInstanceProfile(version=ctypes.sizeof(GpuInstanceProfile) | 2 << 24)
            status = self.status("DeviceGetGpuInstanceProfileInfoV", device, number,
                                 ctypes.byref(info))
            if status == 0:
                yield info
            elif status not in (NOT_SUPPORTED, INVALID_ARGUMENT):
                raise RuntimeError(f"profile {number}: status {status}")

    def compute_profiles(self, instance):
        """Yields the compute instance profiles that a GPU instance has."""
        for number in range(COMPUTE_PROFILES):
            info = ComputeInstanceProfile()
            status = self.status("GpuInstanceGetComputeInstanceProfileInfo", instance, number, 0,
                                 ctypes.byref(info))
            if status == 0:
                yield info
            elif status != NOT_SUPPORTED:
                raise RuntimeError(f"profile {number}: status {status}")

    def instances(self, device):
        for profile in self.gpu_profiles(device):
            yield from self.list("DeviceGetGpuInstances", device, profile.id, profile.instances)

    def computes(self, instance):
        for profile in self.compute_profiles(instance):
            yield from self.list("GpuInstanceGetComputeInstances", instance, profile.id,
                                 profile.instances)

    def clear(self, device):
        for instance in list(self.instances(device)):
            for compute in list(self.computes(instance)):
                self("ComputeInstanceDestroy", compute)
            self("GpuInstanceDestroy", instance)

    def create(self, device, name):
        """Creates a GPU instance of a profile, and a compute instance that is all of it."""
        profile, = [known for known in self.gpu_profiles(device)
                    if known.name.decode() == "MIG " + name]
        instance = self.handle("DeviceCreateGpuInstance", device, profile.id)
        whole, = [known for known in self.compute_profiles(instance)
                  if known.slices == profile.slices]
        return instance, self.handle("GpuInstanceCreateComputeInstance", instance, whole.id)

    def mig_devices(self, device):
        for number in range(self.number("DeviceGetMaxMigDeviceCount", device)):
            handle = HANDLE()
            status = self.status("DeviceGetMigDeviceHandleByIndex", device, number,
                                 ctypes.byref(handle))
            if status == 0:
                yield handle
            elif status != NOT_FOUND:
                raise RuntimeError(f"MIG device {number}: status {status}")


def describe(nvml, handle):
    attributes = nvml.value(Attributes, "DeviceGetAttributes_v2", handle)
    parent = nvml.handle("DeviceGetDeviceHandleFromMigDeviceHandle", handle)
    found = HANDLE()
    uuid = nvml.text("DeviceGetUUID", handle)
    nvml("DeviceGetHandleByUUID", uuid.encode(), ctypes.byref(found))
    return {"name": nvml.text("DeviceGetName", handle),
            "uuid": uuid,
            "found": found.value == handle.value,
            "is_mig": nvml.number("DeviceIsMigDeviceHandle", handle),
            "parent_is_mig": nvml.number("DeviceIsMigDeviceHandle", parent),
            "gpu_instance": nvml.number("DeviceGetGpuInstanceId", handle),
            "compute_instance": nvml.number("DeviceGetComputeInstanceId", handle),
            "multiprocessors": attributes.multiprocessors,
            "copy_engines": attributes.copy_engines,
            "slices": [attributes.gpu_instance_slices, attributes.compute_instance_slices],
            "memory_mib": attributes.memory_mib,
            "memory": nvml.value(Memory, "DeviceGetMemoryInfo", handle).total // MIB,
            "utilization": nvml.status("DeviceGetUtilizationRates", handle, (UINT * 2)())}


def manage():
    """Sets a layout, reads it back, destroys it and sets another one."""
    nvml = Nvml()
    device = nvml.handle("DeviceGetHandleByIndex_v2", 0)
    current, pending, activation = UINT(), UINT(), ctypes.c_int(-1)
    nvml("DeviceGetMigMode", device, ctypes.byref(current), ctypes.byref(pending))
    nvml("DeviceSetMigMode", device, 1, ctypes.byref(activation))
    result = {"mode": [current.value, pending.value, activation.value],
              "profiles": {profile.name.decode(): profile.id
                           for profile in nvml.gpu_profiles(device)}}
    for name in ("3g.20gb", "1g.5gb", "2g.10gb", "1g.5gb"):
        nvml.create(device, name)
    result["free"] = {profile.name.decode(): nvml.number(
        "DeviceGetGpuInstanceRemainingCapacity", device, profile.id)
                      for profile in nvml.gpu_profiles(device)}
    placements, count = (Placement * 8)(), UINT(8)
    nvml("DeviceGetGpuInstancePossiblePlacements_v2", device, 9, placements, ctypes.byref(count))
    result["places"] = [[place.start, place.size] for place in placements[:count.value]]
    result["full"] = nvml.status("DeviceCreateGpuInstance", device, 9, ctypes.byref(HANDLE()))
    result["layout"] = []
    for instance in nvml.instances(device):
        info = nvml.value(GpuInstanceInfo, "GpuInstanceGetInfo", instance)
        computes = [nvml.value(ComputeInstanceInfo, "ComputeInstanceGetInfo_v2", compute)
                    for compute in nvml.computes(instance)]
        result["layout"].append([info.profile, info.id, info.placement.start, info.placement.size,
                                 [[known.profile, known.id] for known in computes]])
        result["occupied"] = nvml.status("GpuInstanceDestroy", instance)
    result["devices"] = [describe(nvml, handle) for handle in nvml.mig_devices(device)]
    nvml.clear(device)
    result["left"] = len(list(nvml.instances(device)))
    placement = Placement(0, 4)
    instance = HANDLE()
    nvml("DeviceCreateGpuInstanceWithPlacement", device, 9, ctypes.byref(placement),
         ctypes.byref(instance))
    nvml.handle("GpuInstanceCreateComputeInstance", instance, 1)
    nvml.handle("GpuInstanceCreateComputeInstance", instance, 0)
    result["parts"] = [describe(nvml, handle)["name"] for handle in nvml.mig_devices(device)]
    print(json.dumps(result))


def watch():
    """Shows the processes of the GPU and of its MIG devices."""
    nvml = Nvml()
    device = nvml.handle("DeviceGetHandleByIndex_v2", 0)
    lists = []
    for handle in (device, *nvml.mig_devices(device)):
        infos, count = (ProcessInfo * 8)(), UINT(8)
        nvml("DeviceGetComputeRunningProcesses_v3", handle, ctypes.byref(count), infos)
        lists.append([[info.gpu_instance, info.compute_instance, info.memory // MIB]
                      for info in infos[:count.value]])
    print(json.dumps(lists))


def compute():
    """Shows what CUDA sees, takes all memory, and waits for a line."""
    cuda = ctypes.CDLL("libcudart.so.12")
    count, number = ctypes.c_int(), ctypes.c_int()
    free, total, memory = ctypes.c_size_t(), ctypes.c_size_t(), HANDLE()
    status = cuda.cudaGetDeviceCount(ctypes.byref(count))
    if status != 0 or count.value == 0:
        print(json.dumps({"count": 0}), flush=True)
        return
    cuda.cudaDeviceGetAttribute(ctypes.byref(number), MULTIPROCESSORS, 0)
    cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total))
    taken = [cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(free.value + MIB)),
             cuda.cudaMalloc(ctypes.byref(memory), free)]
    print(json.dumps({"count": count.value, "multiprocessors": number.value,
                      "total_mib": total.value / MIB, "taken": taken}), flush=True)
    sys.stdin.readline()


class MigTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = dict(os.environ, GPEMU_NODE_DIR=folder.name)
        self.gpemu("node", "create", "n", "--gpu", GPU, "--sharing", "mig")

    def gpemu(self, *words, code=0):
        done = subprocess.run([COMMAND, *words], env=self.environment, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def start(self, role, **variables):
        return subprocess.Popen(
            [COMMAND, "run", "--quiet", "--node", "n", "--", sys.executable, __file__, COMMAND,
             role], env=self.environment | variables, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)

    def run_role(self, role, **variables):
        process = self.start(role, **variables)
        output, _ = process.communicate("\n")
        self.assertEqual(process.returncode, 0, output)
        return json.loads(output)

    def uuids(self):
        return [line.split("UUID: ")[1].rstrip(")") for line in
                self.gpemu("mig", "n", "-L").splitlines() if "MIG-" in line]

    def test_nvml_sets_a_layout_and_reads_it_back(self):
        result = self.run_role("manage")
        self.assertEqual(result["mode"], [1, 1, 0])
        self.assertEqual(result["profiles"],
                         {"MIG 1g.5gb": 19, "MIG 1g.5gb+me": 20, "MIG 1g.10gb": 15,
                          "MIG 2g.10gb": 14, "MIG 3g.20gb": 9, "MIG 4g.20gb": 5, "MIG 7g.40gb": 0})
        self.assertEqual(set(result["free"].values()), {0})
        self.assertEqual(result["places"], [[0, 4], [4, 4]])
        self.assertEqual(result["full"], INSUFFICIENT_RESOURCES)
        self.assertEqual(result["layout"], [[19, 7, 0, 1, [[0, 0]]], [19, 8, 1, 1, [[0, 0]]],
                                            [14, 4, 2, 2, [[1, 0]]], [9, 2, 4, 4, [[2, 0]]]])
        self.assertEqual(result["occupied"], IN_USE)
        devices = result["devices"]
        self.assertEqual([device["name"] for device in devices],
                         [f"NVIDIA {GPU} MIG {name}" for name in
                          ("3g.20gb", "2g.10gb", "1g.5gb", "1g.5gb")])
        self.assertEqual([device["gpu_instance"] for device in devices], [2, 4, 7, 8])
        self.assertEqual([device["multiprocessors"] for device in devices], [42, 28, 14, 14])
        self.assertEqual([device["memory_mib"] for device in devices], [19968, 9856, 4864, 4864])
        self.assertEqual([device["memory"] for device in devices], [19968, 9856, 4864, 4864])
        self.assertEqual([device["copy_engines"] for device in devices], [3, 2, 1, 1])
        self.assertEqual([device["slices"] for device in devices], [[3, 3], [2, 2], [1, 1], [1, 1]])
        for device in devices:
            self.assertEqual((device["is_mig"], device["parent_is_mig"], device["found"],
                              device["utilization"]), (1, 0, True, NOT_SUPPORTED))
        self.assertEqual(result["left"], 0)
        self.assertEqual(result["parts"], [f"NVIDIA {GPU} MIG 2c.3g.20gb",
                                           f"NVIDIA {GPU} MIG 1c.3g.20gb"])
        self.assertIn(" 9        1          0:4 ", self.gpemu("mig", "n", "-lgi"))

    def test_a_program_has_one_mig_device_with_its_share(self):
        self.gpemu("mig", "n", "-cgi", "9,14,19", "-C")
        for uuid, multiprocessors, mib in zip(self.uuids(), (42, 28, 14), (19968, 9856, 4864)):
            self.assertEqual(self.run_role("compute", CUDA_VISIBLE_DEVICES=uuid),
                             {"count": 1, "multiprocessors": multiprocessors, "total_mib": mib,
                              "taken": [OUT_OF_MEMORY, 0]})
        self.assertEqual(self.run_role("compute")["multiprocessors"], 42)
        self.assertEqual(self.run_role("compute", CUDA_VISIBLE_DEVICES="MIG-0")["count"], 0)

    def test_without_a_compute_instance_there_is_no_device(self):
        self.gpemu("mig", "n", "-cgi", "9")
        self.assertEqual(self.run_role("compute")["count"], 0)

    def test_an_instance_that_a_program_uses_stays(self):
        self.gpemu("mig", "n", "-cgi", "9", "-C")
        with self.start("compute") as process:
            process.stdout.readline()
            self.assertIn("In use by another client", self.gpemu("mig", "n", "-dci", code=9))
            self.assertEqual(self.run_role("watch"), [[[2, 0, 19968]], [[2, 0, 19968]]])
            process.stdin.write("\n")
            process.stdin.close()
        self.assertIn("Successfully destroyed", self.gpemu("mig", "n", "-dci"))


if __name__ == "__main__":
    COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
    ROLE = sys.argv[1] if len(sys.argv) > 1 else ""
    if ROLE == "manage":
        manage()
    elif ROLE == "compute":
        compute()
    elif ROLE == "watch":
        watch()
    else:
        unittest.main()
