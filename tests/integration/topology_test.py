#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program on the GPUs of a DGX-1 and checks that CUDA, NCCL, NVML and gpemu node topo agree
on what joins them. Times are the devices' own, from events, so they do not depend on the host.

Needs no package: the libraries are called with ctypes, under gpemu run.

Usage: topology_test.py GPEMU_COMMAND
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import unittest

MIB = 1 << 20
LARGE, SMALL = 64 * MIB, 1024
PEERS = (1, 3, 5)  # of GPU 0: one NVLink, two, and none.
FLOAT32, SUM = 7, 0  # of ncclDataType_t and ncclRedOp_t
HOST_TO_DEVICE = 1


def checked(library, name, *arguments):
    status = getattr(library, name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name}: status {status}")


def cuda_results():
    """Returns for each peer of GPU 0 whether it has access, and the seconds of copies to it, of an
    all-reduce with it, and of a copy from the host to it that begins with one to GPU 0."""
    cuda, nccl = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libnccl.so.2")
    results = {}

    def allocate(device):
        memory = ctypes.c_void_p()
        checked(cuda, "cudaSetDevice", device)
        checked(cuda, "cudaMalloc", ctypes.byref(memory), ctypes.c_size_t(LARGE))
        return memory

    def seconds(queue):
        """What queued work takes on GPU 0."""
        checked(cuda, "cudaSetDevice", 0)
        events = [ctypes.c_void_p() for _ in range(2)]
        for event in events:
            checked(cuda, "cudaEventCreate", ctypes.byref(event))
        # Keeps the device busy while the host queues what is timed.
        for _ in range(200):
            checked(cuda, "cudaMemsetAsync", first, 0, ctypes.c_size_t(LARGE), None)
        checked(cuda, "cudaEventRecord", events[0], None)
        queue()
        checked(cuda, "cudaSetDevice", 0)
        checked(cuda, "cudaEventRecord", events[1], None)
        checked(cuda, "cudaEventSynchronize", events[1])
        elapsed_ms = ctypes.c_float()
        checked(cuda, "cudaEventElapsedTime", ctypes.byref(elapsed_ms), *events)
        return elapsed_ms.value / 1000

    first = allocate(0)
    host = ctypes.c_void_p()
    checked(cuda, "cudaMallocHost", ctypes.byref(host), ctypes.c_size_t(LARGE))

    def from_host(memory, device):
        checked(cuda, "cudaSetDevice", device)
        checked(cuda, "cudaMemcpyAsync", memory, host, ctypes.c_size_t(LARGE), HOST_TO_DEVICE, None)

    def from_host_beside(memory, device):
        """What a copy from the host takes that begins when one to GPU 0 does."""
        free, begin, end = (ctypes.c_void_p() for _ in range(3))
        for event, owner in ((begin, device), (end, device), (free, 0)):
            checked(cuda, "cudaSetDevice", owner)
            checked(cuda, "cudaEventCreate", ctypes.byref(event))
        for _ in range(1000):
            checked(cuda, "cudaMemsetAsync", first, 0, ctypes.c_size_t(LARGE), None)
        checked(cuda, "cudaEventRecord", free, None)
        from_host(first, 0)
        checked(cuda, "cudaSetDevice", device)
        checked(cuda, "cudaStreamWaitEvent", None, free, 0)
        checked(cuda, "cudaEventRecord", begin, None)
        from_host(memory, device)
        checked(cuda, "cudaEventRecord", end, None)
        checked(cuda, "cudaEventSynchronize", end)
        elapsed_ms = ctypes.c_float()
        checked(cuda, "cudaEventElapsedTime", ctypes.byref(elapsed_ms), begin, end)
        return elapsed_ms.value / 1000

    for peer in PEERS:
        second = allocate(peer)
        can = ctypes.c_int(-1)
        checked(cuda, "cudaDeviceCanAccessPeer", ctypes.byref(can), 0, peer)

        def copy(size, peer=peer, second=second):
            return seconds(lambda: checked(cuda, "cudaMemcpyPeerAsync", second, peer, first, 0,
                                           ctypes.c_size_t(size), None))

        communicators = (ctypes.c_void_p * 2)()
        checked(nccl, "ncclCommInitAll", communicators, 2, (ctypes.c_int * 2)(0, peer))

        def all_reduce(peer=peer, second=second, communicators=communicators):
            checked(nccl, "ncclGroupStart")
            for device, memory, communicator in ((0, first, communicators[0]),
                                                 (peer, second, communicators[1])):
                checked(cuda, "cudaSetDevice", device)
                checked(nccl, "ncclAllReduce", memory, memory, ctypes.c_size_t(LARGE // 4),
                        FLOAT32, SUM, ctypes.c_void_p(communicator), None)
            checked(nccl, "ncclGroupEnd")

        results[peer] = {"access": can.value, "large": copy(LARGE), "small": copy(SMALL),
                         "all_reduce": seconds(all_reduce),
                         "from_host": seconds(lambda: from_host(first, 0)),
                         "from_host_beside": from_host_beside(second, peer)}
        for communicator in communicators:
            checked(nccl, "ncclCommDestroy", ctypes.c_void_p(communicator))
    return results


def nvml_results():
    """Returns for each peer of GPU 0 the level of the common ancestor, and how many links of GPU 0
    lead to it."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    checked(nvml, "nvmlInit_v2")

    def device(index):
        handle = ctypes.c_void_p()
        checked(nvml, "nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
        return handle

    def bus_id(name, *arguments):
        info = ctypes.create_string_buffer(68)  # nvmlPciInfo_t, which begins with the short form.
        checked(nvml, name, *arguments, info)
        return info.raw[:16].split(b"\0")[0].decode()

    ends = [bus_id("nvmlDeviceGetNvLinkRemotePciInfo_v2", device(0), link) for link in range(6)]
    results = {}
    for peer in PEERS:
        level = ctypes.c_uint()
        checked(nvml, "nvmlDeviceGetTopologyCommonAncestor", device(0), device(peer),
                ctypes.byref(level))
        results[peer] = {
            "level": level.value,
            "links": ends.count(bus_id("nvmlDeviceGetPciInfo_v3", device(peer)))}
    checked(nvml, "nvmlShutdown")
    return results


class TopologyTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="gpemu_topology_") as nodes:
            environment = {key: value for key, value in os.environ.items()
                           if not key.startswith(("GPEMU_", "CUDA_VISIBLE"))}
            environment["GPEMU_NODE_DIR"] = nodes
            run = subprocess.run(
                [COMMAND, "run", "--topology", "dgx-1v", "--quiet", "--", sys.executable, __file__,
                 COMMAND, "program"], env=environment, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise RuntimeError(run.stderr)
        found = json.loads(run.stdout)
        cls.cuda, cls.nvml = ({peer: found[part][str(peer)] for peer in PEERS}
                              for part in ("cuda", "nvml"))
        cls.matrix, cls.smi = found["matrix"], found["smi"]

    def test_gpus_with_links_have_access(self):
        self.assertEqual([self.cuda[peer]["access"] for peer in PEERS], [1, 1, 0])

    def test_copies_take_the_measured_times(self):
        # 22.8 GB/s of each link: V100 with three links, POWER9; staged: 64 % of PCIe 3.0 x16.
        for peer, gb_per_s in zip(PEERS, (22.8, 45.7, 10.1)):
            self.assertAlmostEqual(LARGE / self.cuda[peer]["large"] / 1e9 / gb_per_s, 1, delta=0.1)
        for peer, microseconds in zip(PEERS, (1.85, 1.85, 13)):
            self.assertAlmostEqual(self.cuda[peer]["small"] * 1e6 / microseconds, 1, delta=0.3)

    def test_collectives_use_the_links_between_their_gpus(self):
        one, two, none = (self.cuda[peer]["all_reduce"] for peer in PEERS)
        self.assertLess(1.5 * two, one)
        self.assertLess(1.5 * one, none)

    def test_gpus_below_one_switch_share_its_link_to_the_host(self):
        slower = [self.cuda[peer]["from_host_beside"] / self.cuda[peer]["from_host"]
                  for peer in PEERS]
        for found, expected in zip(slower, (2, 1, 1)):
            self.assertAlmostEqual(found, expected, delta=0.15)

    def test_nvml_and_the_matrix_agree(self):
        self.assertEqual([self.nvml[peer] for peer in PEERS],
                         [{"level": 10, "links": 1}, {"level": 30, "links": 2},
                          {"level": 50, "links": 0}])
        self.assertEqual([self.matrix[0][peer] for peer in PEERS], ["NV1", "NV2", "SYS"])

    def test_nvidia_smi_prints_the_matrix(self):
        lines = self.smi.splitlines()
        rows = [line.split("\t") for line in lines[:lines.index("")]]
        self.assertEqual(rows[0], ["", *(f"GPU{i}" for i in range(8)),
                                   *(f"NIC{i}" for i in range(4)), "CPU Affinity",
                                   "NUMA Affinity", "GPU NUMA ID"])
        self.assertEqual([[word.strip() for word in row[1:13]] for row in rows[1:]], self.matrix)
        last = os.sysconf("SC_NPROCESSORS_CONF") - 1
        near = f"0-{last}" if last else "0"
        self.assertEqual([row[13:] for row in rows[1:]],
                         [[near, str(i // 4), "", "N/A"] for i in range(8)] + [["", ""]] * 4)
        self.assertEqual(lines[-4:], [f"  NIC{i}: mlx5_{i}" for i in range(4)])


def program():
    matrix = json.loads(subprocess.run(
        [COMMAND, "node", "topo", os.environ["GPEMU_NODE"], "--json"], check=True,
        capture_output=True, text=True).stdout)["matrix"]
    smi = subprocess.run(["nvidia-smi", "topo", "-m"], check=True, capture_output=True,
                         text=True).stdout
    print(json.dumps({"cuda": cuda_results(), "nvml": nvml_results(), "matrix": matrix,
                      "smi": smi}))


if __name__ == "__main__":
    COMMAND = sys.argv[1]
    if sys.argv[2:] == ["program"]:
        program()
    else:
        unittest.main(argv=sys.argv[:1])
