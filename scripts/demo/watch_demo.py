#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains ResNet-50 on an emulated GPU while nvtop, gpustat, nvidia-ml-py and gpemu smi watch, and
compares what they show with what the run reports. The captures are those of docs/how-to/watch.md.

Needs nvtop and tmux (Debian: apt-get install nvtop tmux) and a PyTorch of
scripts/build/install_torch.sh; gpustat and nvidia-ml-py come from PyPI into the user's cache
folder.

Usage: watch_demo.py --gpemu build/release/tools/gpemu
           --python "$(scripts/build/install_torch.sh 2.8.0)"
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ["nvidia-ml-py==13.615.71", "gpustat==1.1.1"]
PANE = ["-x", "100", "-y", "20"]
WARM_UP_S, WINDOW_S = 5, 25

# Prints time, utilisation and memory of NVML's periods, without a gap between two.
NVML_WATCHER = """
import pynvml, time
pynvml.nvmlInit()
device = pynvml.nvmlDeviceGetHandleByIndex(0)
while True:
    rates = pynvml.nvmlDeviceGetUtilizationRates(device)
    memory = pynvml.nvmlDeviceGetMemoryInfo(device)
    print(time.monotonic(), rates.gpu, memory.used / 2**20, flush=True)
    time.sleep(0.2)
"""
GPUSTAT_WATCHER = """
import gpustat, time
while True:
    [gpu] = gpustat.new_query()
    print(time.monotonic(), gpu.utilization, gpu.memory_used, flush=True)
"""


class Demo:

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.out = arguments.out
        self.out.mkdir(parents=True, exist_ok=True)
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("GPEMU_")},
            "GPEMU_NODE_DIR": str(folder / "nodes"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "LC_ALL": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
        }
        self.socket = folder / "tmux"
        self.readings = {}
        self.started = []

    def gpemu(self, *words):
        return [str(self.arguments.gpemu), *map(str, words)]

    def call(self, *words, program=()):
        command = self.gpemu(*words, *(["--", *map(str, program)] if program else []))
        return subprocess.run(command, env=self.environment, check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def tmux(self, *words):
        return subprocess.run(["tmux", "-u", "-S", str(self.socket), *words], check=True, text=True,
                              env=self.environment, stdout=subprocess.PIPE).stdout

    def follow(self, name, *command):
        """Collects the lines "time utilisation memory" that a watcher prints."""
        process = subprocess.Popen(command, env=self.environment, text=True, stdout=subprocess.PIPE)
        self.started.append(process)
        readings = self.readings[name] = []

        def collect():
            for line in process.stdout:
                readings.append([float(word) for word in line.split()])

        threading.Thread(target=collect, daemon=True).start()

    def follow_smi(self):
        process = subprocess.Popen(
            self.gpemu("smi", "-l", "1", "--query-gpu=utilization.gpu,memory.used",
                       "--format=csv,noheader,nounits"),
            env=self.environment, text=True, stdout=subprocess.PIPE)
        self.started.append(process)
        readings = self.readings["gpemu smi"] = []

        def collect():
            for line in process.stdout:
                readings.append([time.monotonic(), *map(float, line.split(","))])

        threading.Thread(target=collect, daemon=True).start()

    def watch(self, python):
        """Lets all watchers run for WINDOW_S seconds and captures their output in the middle."""
        self.follow("nvidia-ml-py", *self.gpemu("run", "--quiet", "--", python, "-c", NVML_WATCHER))
        self.follow("gpustat", *self.gpemu("run", "--quiet", "--", python, "-c", GPUSTAT_WATCHER))
        self.follow_smi()
        self.tmux("-f", "/dev/null", "new-session", "-d", *PANE,
                  " ".join(self.gpemu("run", "--quiet", "--", "nvtop")))
        readings = self.readings["nvtop"] = []
        end = time.monotonic() + WINDOW_S
        while time.monotonic() < end:
            pane = self.tmux("capture-pane", "-p")
            found = re.search(r"GPU\[[^\]]*?(\d+)%\]\s*MEM\[[^\]]*?([\d.]+)Gi/", pane)
            if found:
                readings.append([time.monotonic(), float(found[1]), float(found[2]) * 1024])
                (self.out / "nvtop.txt").write_text(pane.rstrip() + "\n")
            time.sleep(0.5)
        (self.out / "smi.txt").write_text(self.call("smi", "--period-ms", 1000))
        (self.out / "query.txt").write_text(self.call(
            "smi", "--query-gpu=name,utilization.gpu,memory.used,power.draw,temperature.gpu,pstate",
            "--format=csv", "--period-ms", 1000))
        (self.out / "gpustat.txt").write_text(self.call(
            "run", "--quiet", program=[python.parent / "gpustat", "-cpP", "--no-header"]))

    def stop(self):
        # nvtop outlives its terminal and then uses a whole core, so it is asked to quit first.
        for words in (["send-keys", "q"], ["kill-server"]):
            subprocess.run(["tmux", "-S", str(self.socket), *words], check=False,
                           stderr=subprocess.DEVNULL)
            time.sleep(1)
        for process in self.started:
            process.terminate()

    def run(self):
        python = install_watchers()
        images = self.out / "images"
        if not images.exists():
            self.call("data", "make", images, "--classes", 4, "--images", 400)
        self.call("node", "create", "demo", "--gpu", self.arguments.gpu)
        command = self.gpemu("run", "--json", self.out / "run.json", "--trace",
                             self.out / "trace.json", "--", "python", "train_resnet50.py",
                             "--batch", 64, "--steps", self.arguments.steps, "--data", images)
        with open(self.out / "training.txt", "w", encoding="utf-8") as log:
            training = subprocess.Popen(command, stdout=log, stderr=log,
                                        cwd=ROOT / "examples" / "pytorch",
                                        env={**self.environment, "PATH": self.path()})
        self.started.append(training)
        self.wait_for_work(training)
        self.watch(python)
        if training.poll() is not None:
            sys.exit("watch_demo: the training ended before the watching; give more --steps")
        training.wait()
        return self.compare()

    def path(self):
        """Returns a search path on which the Python with PyTorch comes first."""
        return f"{pathlib.Path(self.arguments.python).parent}:{self.environment['PATH']}"

    def wait_for_work(self, training):
        """Waits until the training has given the GPU work for some seconds."""
        while training.poll() is None:
            [device] = json.loads(self.call("smi", "--json"))
            if device["processes"] and device["kernels"] > 0:
                time.sleep(WARM_UP_S)
                return
        sys.exit(f"watch_demo: the training failed; {self.out / 'training.txt'} says why")

    def compare(self):
        """Returns whether all watchers are within 5 points of what the run reports."""
        events = json.loads((self.out / "trace.json").read_text())["traceEvents"]
        kernels = [(event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6) for event in events
                   if event["ph"] == "X" and event["cat"] != "copy"]
        [device] = json.loads((self.out / "run.json").read_text())["devices"]
        peak = 100 * device["peak_memory_bytes"] / device["memory_bytes"]
        lines = [f"{'':14}{'utilisation: run':>22}{'seen':>8}{'memory: run':>20}{'seen':>8}"]
        agree = True
        for name, readings in self.readings.items():
            # Over the time between the first reading and the last.
            begin, end = readings[0][0], readings[-1][0]
            busy = sum(max(0, min(stop, end) - max(start, begin)) for start, stop in kernels)
            reported = 100 * busy / (end - begin)
            seen = weighted_mean(readings)
            held = 100 * max(reading[2] for reading in readings) / (device["memory_bytes"] / 2**20)
            agree = agree and abs(seen - reported) <= 5 and abs(held - peak) <= 5
            lines.append(f"{name:14}{reported:20.1f} %{seen:6.1f} %{peak:18.1f} %{held:6.1f} %")
        text = "\n".join(lines) + "\n"
        (self.out / "table.txt").write_text(text)
        print(text, end="")
        return agree


def weighted_mean(readings):
    """Returns the mean utilisation, where each reading counts as long as its period was."""
    pairs = list(zip(readings, readings[1:]))
    return sum((b[0] - a[0]) * b[1] for a, b in pairs) / sum(b[0] - a[0] for a, b in pairs)


def install_watchers():
    """Returns the Python of an environment with the watchers from PyPI."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    folder = cache / "gpemu" / "watchers"
    if not (folder / "bin" / "gpustat").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "--quiet", *PACKAGES], check=True)
    return folder / "bin" / "python"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpemu", type=pathlib.Path, required=True)
    parser.add_argument("--python", required=True, help="one that has PyTorch")
    parser.add_argument("--gpu", default="T4")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "watch_demo")
    arguments = parser.parse_args()
    arguments.gpemu = arguments.gpemu.resolve()
    arguments.out = arguments.out.resolve()
    with tempfile.TemporaryDirectory(prefix="gpemu_watch_") as folder:
        demo = Demo(arguments, pathlib.Path(folder))
        try:
            agree = demo.run()
        finally:
            demo.stop()
    if not agree:
        sys.exit("watch_demo: somebody is more than 5 points away from the run")


if __name__ == "__main__":
    main()
