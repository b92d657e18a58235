#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what sharing a GPU by time slices costs the host.

For each number of processes that always have work: the CPU time of all of them for each turn of the
GPU, while their main threads sleep; and how long it takes to launch a kernel, in the median. Exits
with 1 when a turn costs more than 5 us.

With --rabbitmq, also turns through a message broker, as GPEmu shares a GPU: needs Debian's packages
rabbitmq-server and librabbitmq-dev, and starts a broker of its own.

Usage: PYTHONPATH=build/dev/python scripts/claims/check_arbitration.py [--gpemu COMMAND]
       [--processes N]... [--seconds S] [--rabbitmq] [--json FILE]
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import gpemu

ROOT = pathlib.Path(__file__).resolve().parents[2]
MS = 10**6
TURN_S = 2.145e-3  # A time slice and a context switch.
MOST_US = 5


def share(node_name, processes, seconds, barrier, results):
    """One process: keeps the GPU busy while its main thread sleeps, then launches kernels."""
    node = gpemu.Node.open(node_name)
    stream = node.device(0).stream()
    barrier.wait()
    # Enough for the time until the others are ready, too.
    for _ in range(int((seconds + 3) * 1000 / processes)):
        stream.launch(MS)
    barrier.wait()
    time.sleep(0.2)
    before = time.process_time_ns()
    time.sleep(seconds)
    used = time.process_time_ns() - before
    barrier.wait()
    launches = []
    for _ in range(2000):
        start = time.perf_counter_ns()
        stream.launch(1000)
        launches.append(time.perf_counter_ns() - start)
    results.put((used, statistics.median(launches)))
    barrier.wait()


def measure(gpemu_command, processes, seconds):
    name = f"arbitration-{os.getpid()}"
    subprocess.run([gpemu_command, "node", "create", name, "--gpu", "V100-PCIE-32GB",
                    "--sharing", "time-slices"], check=True, stdout=subprocess.DEVNULL)
    try:
        spawn = multiprocessing.get_context("spawn")
        barrier, results = spawn.Barrier(processes), spawn.Queue()
        sharers = [spawn.Process(target=share, args=(name, processes, seconds, barrier, results))
                   for _ in range(processes)]
        for sharer in sharers:
            sharer.start()
        seen = [results.get() for _ in sharers]
        for sharer in sharers:
            sharer.join()
    finally:
        subprocess.run([gpemu_command, "node", "remove", name, "--force"], check=True)
    return {"processes": processes,
            "turn_us": sum(used for used, _ in seen) / 1e3 / (seconds / TURN_S),
            "launch_ns": statistics.median(launch for _, launch in seen)}


def cpu_s(process):
    """Returns the CPU time that a process and its ended children have used."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def broker_process(server):
    """Returns the pid of the broker's Erlang machine, a child of its script."""
    listed = subprocess.check_output(["ps", "-eo", "pid,ppid,comm"], text=True).splitlines()[1:]
    children = {}
    for line in listed:
        pid, parent, name = line.split(None, 2)
        children.setdefault(int(parent), []).append((int(pid), name))
    waiting = [server]
    while waiting:
        for pid, name in children.get(waiting.pop(), []):
            if name.startswith("beam"):
                return pid
            waiting.append(pid)
    sys.exit("check_arbitration: the broker has ended")


def measure_rabbitmq(turns=2000, port=25673):
    """Returns the time of a turn through RabbitMQ, and the CPU time of all that take part."""
    with tempfile.TemporaryDirectory(prefix="gpemu_rabbitmq_") as folder:
        program = f"{folder}/rabbitmq_turns"
        subprocess.run(["cc", "-O2", "-o", program, ROOT / "scripts/claims/rabbitmq_turns.c",
                        "-lrabbitmq"], check=True)
        environment = {**os.environ, "RABBITMQ_NODENAME": f"gpemu{os.getpid()}@localhost",
                       "RABBITMQ_NODE_PORT": str(port), "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
                       "RABBITMQ_MNESIA_BASE": folder, "RABBITMQ_LOG_BASE": folder,
                       "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins", "HOME": folder,
                       "RABBITMQ_DIST_PORT": str(port + 1)}
        server = subprocess.Popen(["/usr/lib/rabbitmq/bin/rabbitmq-server"], env=environment,
                                  stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            for _ in range(300):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            time.sleep(3)  # What it does after it has started does not count.
            broker = broker_process(server.pid)
            before = cpu_s(broker) + sum(os.times()[2:4])
            manager = subprocess.Popen([program, "manager", str(port), str(turns)])
            took = subprocess.run([program, "client", str(port), str(turns)], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
            manager.wait()
            used = cpu_s(broker) + sum(os.times()[2:4]) - before
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait()
    return {"turn_us": float(took), "cpu_us": used * 1e6 / turns}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gpemu", default=str(ROOT / "build/dev/tools/gpemu"))
    parser.add_argument("--processes", type=int, action="append")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rabbitmq", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    results = []
    print("processes  CPU a turn  launch from Python")
    for processes in options.processes or [1, 2, 4, 8]:
        results.append(measure(options.gpemu, processes, options.seconds))
        print("{processes:9d}  {turn_us:7.2f} us  {launch_ns:10.0f} ns".format(**results[-1]),
              flush=True)
    if options.rabbitmq:
        broker = measure_rabbitmq()
        results.append({"rabbitmq": broker})
        print("RabbitMQ  {cpu_us:8.0f} us of CPU; a turn takes {turn_us:.0f} us".format(**broker))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any(result.get("turn_us", 0) > MOST_US for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
