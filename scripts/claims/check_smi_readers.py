#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs from PyPI that read nvidia-smi or NVML on emulated GPUs, next to a CUDA program,
and checks that each of them finds the GPUs, their memory and the program.

nvidia-smi: GPUtil, nvsmi and pynvidiasmi (queries in CSV), nvidia-htop (the table), xmltodict (-q
-x). NVML: gpustat, nvitop, nvitop-exporter (Prometheus), py3nvml, nvidia-ml-py. They come from PyPI
into the user's cache folder. Prints one line per reader, and exits with 1 if one of them fails.

Usage: scripts/claims/check_smi_readers.py [--gpemu COMMAND]
"""

import argparse
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ["nvidia-ml-py==13.615.71", "gputil==1.4.0", "nvsmi==0.4.2", "pynvidiasmi==1.0.1",
            "nvidia-htop==1.2.0", "xmltodict==1.0.4", "gpustat==1.1.1", "nvitop==1.7.2",
            "nvitop-exporter==1.7.2", "py3nvml==0.2.7",
            # GPUtil needs the part of it that Python 3.12 no longer has.
            "setuptools==80.9.0"]
GPU, PRODUCT, COUNT = "T4", "Tesla T4", 2
MIB = 1 << 20
TAKEN_MIB = 1024

# What readers with the names of NVML's functions do.
NVML = """
nvml.nvmlInit()
gpus, pids = [], []
for index in range(nvml.nvmlDeviceGetCount()):
    gpu = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(gpu)
    gpus.append([nvml.nvmlDeviceGetName(gpu), memory.total / 2**20, memory.used / 2**20])
    pids += [process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)]
show(gpus, pids)
"""
# Each prints what it found, as JSON: for each GPU its name, its memory and what of it is used, in
# MiB; and the pids of the processes. What a reader does not tell is null.
READERS = {
    "GPUtil": """
import GPUtil
gpus = [[gpu.name, gpu.memoryTotal, gpu.memoryUsed] for gpu in GPUtil.getGPUs()]
show(gpus, None)
""",
    "nvsmi": """
import nvsmi
gpus = [[gpu.name, gpu.mem_total, gpu.mem_used] for gpu in nvsmi.get_gpus()]
show(gpus, [process.pid for process in nvsmi.get_gpu_processes()])
""",
    "pynvidiasmi": """
import pynvidiasmi
found = pynvidiasmi.query(["name", "memory.total", "memory.used"])
show([[gpu["name"], gpu["memory.total"], gpu["memory.used"]] for gpu in found], None)
""",
    "nvidia-htop": """
import pathlib, re, subprocess, sys
text = subprocess.check_output([sys.executable, str(pathlib.Path(sys.executable).parent /
                                                    "nvidia-htop.py"), "-m"], text=True,
                               stdin=subprocess.DEVNULL)
names = re.findall(r"^\\|   \\d  (.*?)  +On +\\|", text, re.MULTILINE)
memory = re.findall(r"(\\d+)MiB / +(\\d+)MiB", text)
rows = re.findall(r"^\\| +\\d+ +(\\d+) +\\S+ +(\\d+)MiB", text, re.MULTILINE)
show([[name, total, used] for name, (used, total) in zip(names, memory)], [row[0] for row in rows])
""",
    "xmltodict": """
import subprocess, xmltodict
log = xmltodict.parse(subprocess.check_output(["nvidia-smi", "-q", "-x"]),
                      force_list=("gpu", "process_info"))["nvidia_smi_log"]
assert int(log["attached_gpus"]) == len(log["gpu"])
gpus = [[gpu["product_name"], gpu["fb_memory_usage"]["total"].split()[0],
         gpu["fb_memory_usage"]["used"].split()[0]] for gpu in log["gpu"]]
show(gpus, [process["pid"] for gpu in log["gpu"] if gpu["processes"]
            for process in gpu["processes"]["process_info"]])
""",
    "gpustat": """
import gpustat
found = gpustat.new_query()
show([[gpu.name, gpu.memory_total, gpu.memory_used] for gpu in found],
     [process["pid"] for gpu in found for process in gpu.processes])
""",
    "nvitop": """
import nvitop
found = nvitop.Device.all()
show([[gpu.name(), gpu.memory_total() / 2**20, gpu.memory_used() / 2**20] for gpu in found],
     [pid for gpu in found for pid in gpu.processes()])
""",
    "nvitop-exporter": """
import prometheus_client, nvitop
from nvitop_exporter import PrometheusExporter
exporter = PrometheusExporter(nvitop.Device.all(), hostname="host", interval=1)
for device in exporter.devices:
    exporter.update_device(device)
names, total, used, pids = {}, {}, {}, set()
for family in prometheus_client.REGISTRY.collect():
    for sample in family.samples:
        labels = sample.labels
        if sample.name == "gpu_memory_total_MiB":
            total[labels["index"]] = sample.value
            names[labels["index"]] = labels["devicename"]
        elif sample.name == "gpu_memory_used_MiB":
            used[labels["index"]] = sample.value
        elif sample.name.startswith("process_gpu_memory"):
            pids.add(labels["pid"])
show([[names[index], total[index], used[index]] for index in sorted(total)], pids)
""",
    "py3nvml": "from py3nvml import py3nvml as nvml\n" + NVML,
    "nvidia-ml-py": "import pynvml as nvml\n" + NVML,
}
SHOW = """
import json
def show(gpus, pids):
    print("FOUND", json.dumps([[[name, int(float(total)), int(float(used))]
                                for name, total, used in gpus],
                               None if pids is None else sorted(int(pid) for pid in pids)]))
"""


def take():
    """Takes memory of the first GPU, says so, and waits for a line."""
    cuda = ctypes.CDLL("libcudart.so.12")
    memory = ctypes.c_void_p()
    status = cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(TAKEN_MIB * MIB))
    print(json.dumps([status, os.getpid()]), flush=True)
    sys.stdin.readline()


def python_with_readers():
    """Returns a Python of its own, outside the repository, that has the packages."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "gpemu" / "smi-readers"
    python = folder / "bin" / "python"
    wanted = "\n".join(PACKAGES)
    complete = folder / "complete"
    if not complete.exists() or complete.read_text() != wanted:
        print(f"check_smi_readers: installing the readers in {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install",
                        *PACKAGES], check=True)
        complete.write_text(wanted)
    return python


def found_by(code, words, environment):
    """Returns what a reader found, or why it failed."""
    done = subprocess.run([*words, "-c", SHOW + code], env=environment, capture_output=True,
                          text=True, check=False, timeout=120)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    if done.returncode != 0 or not lines:
        return (done.stdout + done.stderr).strip().splitlines()[-1:]
    return json.loads(lines[0].removeprefix("FOUND "))


def is_right(found, expected, pid):
    if len(found) != 2:
        return False
    gpus, pids = found
    return gpus in expected and (pids is None or pids == [pid])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpemu", default=ROOT / "build/release/tools/gpemu", type=pathlib.Path)
    parser.add_argument("--take", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.take:
        return take()
    python = python_with_readers()
    command = str(arguments.gpemu.resolve())
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("GPEMU_")} | {"GPEMU_NODE_DIR": folder}
        subprocess.run([command, "node", "create", "n", "--gpu", f"{GPU}:{COUNT}"],
                       env=environment, check=True, stdout=subprocess.DEVNULL)
        run = [command, "run", "--quiet", "--node", "n", "--"]
        with subprocess.Popen([*run, sys.executable, __file__, "--take"], env=environment,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
            status, pid = json.loads(program.stdout.readline())
            shown = subprocess.check_output(
                [command, "nvidia-smi", "-i", "0", "--format=csv,noheader,nounits",
                 "--query-gpu=memory.total,memory.reserved,memory.used"],
                env=environment | {"GPEMU_NODE": "n"}, text=True)
            total, reserved, used = (int(text) for text in shown.split(","))
            assert status == 0 and used >= TAKEN_MIB, (status, used)
            # NVML's first function, which some use, counts what is reserved as used.
            expected = [[[PRODUCT, total, used + more]] + [[PRODUCT, total, more]] * (COUNT - 1)
                        for more in (0, reserved)]
            for name, code in READERS.items():
                found = found_by(code, [*run, str(python)], environment)
                right = is_right(found, expected, pid)
                print(f"{name:16} {'reads it' if right else f'FAILS: {found}'}", flush=True)
                if not right:
                    failed.append(name)
            program.communicate("\n")
    print(f"{len(READERS) - len(failed)} of {len(READERS)} readers find the {COUNT} GPUs, "
          "their memory and the program on them")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
