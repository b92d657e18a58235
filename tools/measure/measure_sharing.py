#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how a GPU is shared: between processes, between the streams of one, and with the host.

It starts workers (measure_sharing.cu, which nvcc builds first), lets them work at the same moment,
and writes what it finds into a folder:

  results.json  all figures, by step; times in microseconds unless a name says otherwise
  slices.csv    60 stretches of each step: which process had the GPU from when to when
  power.csv     NVML's figures each 20 ms
  texts.txt     what nvidia-smi and the MPS daemon print, its logs, errors of workers

A kernel does a fixed amount of work, so time in which it is interrupted does not count as work. The
first thread of its first block reads the GPU's timer about each 4 us and notes each pause above 15
us. That of its last block does the same, because the blocks of a multiprocessor do not advance
alike: the older one can be done after half of the time. A stretch is a time in which a process had
the GPU: kernels with shorter pauses between them, cut where one was stopped.

Needs NVIDIA's driver, nvcc (or --program) and numpy; the power step needs pynvml, and its matrix
products PyTorch. MPS steps start a daemon of their own and stop it. Nothing else should run on the
GPU.
"""

import argparse
import collections
import csv
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time

try:
    import numpy as np
except ImportError:
    np = None

EXAMPLES = """\
Examples:
  measure_sharing.py --output sharing
      everything; takes a minute or two
  measure_sharing.py --output slices --steps timer,solo,slices --seconds 40
      time slices only
  measure_sharing.py --output x --program ./measure_sharing
      with a program that was built before: nvcc -O2 -o measure_sharing measure_sharing.cu
"""
SOURCE = pathlib.Path(__file__).with_suffix(".cu")


def parse_options(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", required=True, type=pathlib.Path, help="the folder to write")
    parser.add_argument("--program", help="the worker, if it is built (default: nvcc builds it)")
    parser.add_argument(
        "--steps", default="", help="starts of the names of the steps to take, by commas"
    )
    parser.add_argument(
        "--seconds", type=float, default=120, help="no step begins that may take longer (120)"
    )
    parser.add_argument(
        "--scale", type=float, default=1, help="of the time for which kernels repeat (1)"
    )
    return parser.parse_args(arguments)


began = time.monotonic()
deadline = began
results = {"started": time.strftime("%F %T"), "steps": {}}
only = set()
scale = 1.0  # of windows
out = program = scratch = slices_file = slices_csv = None


def begin(options):
    """Prepares the folder, the worker and what the steps share."""
    global deadline, scale, out, program, scratch, slices_file, slices_csv
    out = str(options.output)
    options.output.mkdir(parents=True, exist_ok=True)
    deadline = began + options.seconds
    scale = options.scale
    only.update(filter(None, options.steps.split(",")))
    scratch = tempfile.mkdtemp(prefix="sharing")
    for name, folder in (("CUDA_MPS_PIPE_DIRECTORY", "mps"), ("CUDA_MPS_LOG_DIRECTORY", "mpslog")):
        mps_env[name] = os.path.join(scratch, folder)
    program = options.program or build()
    slices_file = open(os.path.join(out, "slices.csv"), "w")
    slices_csv = csv.writer(slices_file)
    slices_csv.writerow(["step", "process", "start_us", "end_us"])


def build():
    """Builds the worker for the GPU of this machine."""
    made = os.path.join(scratch, "measure_sharing")
    nvcc = shutil.which("nvcc", path=os.environ["PATH"] + ":/usr/local/cuda/bin")
    if nvcc is None:
        raise SystemExit(
            "measure_sharing: there is no nvcc; build the worker elsewhere and name it "
            "with --program"
        )
    command = [
        nvcc,
        "-O2",
        "-std=c++17",
        "-arch=native",
        "-cudart",
        "static",
        str(SOURCE),
        "-o",
        made,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"measure_sharing: {' '.join(command)} failed:\n{done.stderr}")
    return made


def left():
    return deadline - time.monotonic()


def save():
    results["seconds"] = round(time.monotonic() - began, 1)
    temporary = os.path.join(out, "results.json.new")
    with open(temporary, "w") as f:
        json.dump(results, f, indent=1)
    os.replace(temporary, os.path.join(out, "results.json"))
    slices_file.flush()


class Broken(Exception):
    pass


class Worker:
    everybody = []

    def __init__(self, name, env=None):
        self.name = name
        self.errors = open(os.path.join(scratch, name + ".err"), "wb")
        self.process = subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, **(env or {})},
        )
        self.data = b""
        self.hello = None
        Worker.everybody.append(self)

    def line(self, timeout):
        end = time.monotonic() + timeout
        fd = self.process.stdout.fileno()
        while b"\n" not in self.data:
            rest = end - time.monotonic()
            if rest <= 0:
                raise Broken(f"{self.name}: silent for {timeout:.0f} s")
            if select.select([fd], [], [], min(rest, 1))[0]:
                more = os.read(fd, 1 << 20)
                if not more:
                    raise Broken(f"{self.name}: ended, {self.process.poll()}")
                self.data += more
        first, self.data = self.data.split(b"\n", 1)
        return first.decode(errors="replace")

    def expect(self, word, timeout):
        end = time.monotonic() + timeout
        while True:
            text = self.line(max(0.1, end - time.monotonic()))
            if text.startswith("DONE ") and word == "READY":
                raise Broken(f"{self.name}: {text[5:300]}")
            if text.startswith(word):
                return text[len(word) :].strip()

    def greet(self, timeout=20):
        if self.hello is None:
            self.hello = json.loads(self.expect("DONE", timeout))
        if "error" in self.hello:
            raise Broken(f"{self.name}: {self.hello['error']}")
        return self

    def send(self, text):
        try:
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as e:
            raise Broken(f"{self.name}: {e}")

    @property
    def alive(self):
        return self.process.poll() is None

    def kill(self):
        if self.alive:
            self.process.kill()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            pass

    def quit(self):
        try:
            self.send("quit")
            self.process.wait(4)
        except (Broken, subprocess.TimeoutExpired):
            self.kill()


def together(jobs, timeout=15):
    """Runs [(worker, command)] at the same time; returns their answers."""
    for worker, command in jobs:
        worker.greet()
        worker.send(command)
    try:
        for worker, _ in jobs:
            worker.expect("READY", timeout)
        go = time.monotonic_ns() + 20_000_000
        for worker, _ in jobs:
            worker.send(f"GO {go}")
        return [json.loads(worker.expect("DONE", timeout)) for worker, _ in jobs]
    except (Broken, ValueError):
        for worker, _ in jobs:  # whoever waits for another is out of step now
            worker.kill()
        raise


def alone(worker, command, timeout=15):
    return together([(worker, command)], timeout)[0]


pool = {}


def worker(name, env=None):
    found = pool.get(name)
    if found is None or not found.alive:
        found = pool[name] = Worker(name, env)
    return found


def dismiss(*names):
    going = [pool.pop(name) for name in names or list(pool) if name in pool]
    for w in going:
        try:
            w.send("quit")
        except Broken:
            pass
    end = time.monotonic() + 4
    for w in going:
        try:
            w.process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            w.kill()


# ------------------------------------------------------------------ analysis
def percentiles(values, digits=2):
    values = np.asarray(values, dtype=float)
    if values.size == 0:
        return {"n": 0}
    p = np.percentile(values, [0, 5, 10, 25, 50, 75, 90, 95, 99, 100])
    names = ["min", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "max"]
    return {
        "n": int(values.size),
        "mean": round(float(values.mean()), digits),
        **{k: round(float(v), digits) for k, v in zip(names, p)},
    }


def read_loop(path):
    raw = np.fromfile(path, dtype=np.int64)
    n, gaps, host = (int(x) for x in raw[:3])
    recs = raw[3 : 3 + 2 * n].reshape(n, 2)
    stops = raw[3 + 2 * n : 3 + 2 * (n + gaps)].reshape(gaps, 2)
    hosts = raw[3 + 2 * (n + gaps) : 3 + 2 * (n + gaps + host)].reshape(host, 2)
    recs = recs[recs[:, 1] > 0]
    return recs, merged(stops), hosts


def merged(stops):
    """The stops that two blocks noticed, once each: while both were stopped."""
    one = []
    for first, last in sorted(map(tuple, stops)):
        if one and first < one[-1][1]:
            one[-1] = (max(first, one[-1][0]), min(last, one[-1][1]))
        else:
            one.append((first, last))
    return np.array(one, dtype=np.int64).reshape(-1, 2)


def stretches(recs, stops, join_ns=15000):
    """Intervals in which a process had the GPU: kernels, joined, cut where blocks were stopped."""
    if len(recs) == 0:
        return np.zeros((0, 2), dtype=np.int64)
    recs = recs[np.argsort(recs[:, 0])]
    pause = recs[1:, 0] - recs[:-1, 1]
    between = np.nonzero(pause > join_ns)[0]
    off = np.concatenate([recs[between, 1], stops[:, 0], recs[-1:, 1]])
    on = np.concatenate([recs[:1, 0], recs[between + 1, 0], stops[:, 1]])
    return np.stack([np.sort(on), np.sort(off)], axis=1)


def cover(parts, begin, end):
    """Time of intervals within [begin, end]."""
    return int(
        np.clip(np.minimum(parts[:, 1], end) - np.maximum(parts[:, 0], begin), 0, None).sum()
    )


def analyse(step, logs, alone_us=None):
    """logs: {process: (recs, stops, hosts)}; times in us."""
    answer = {}
    have = {p: log for p, log in logs.items() if len(log[0])}
    if not have:
        return {"error": "no records"}
    parts = {p: stretches(log[0], log[1]) for p, log in have.items()}
    begin = max(int(x[0, 0]) for x in parts.values())
    end = min(int(x[-1, 1]) for x in parts.values())
    answer["window_ms"] = (end - begin) / 1e6
    merged = sorted(
        (int(s), int(e), p) for p, x in parts.items() for s, e in x if e > begin and s < end
    )
    gaps, follow = collections.defaultdict(list), collections.Counter()
    same, overlap = [], 0
    for (s0, e0, p0), (s1, e1, p1) in zip(merged, merged[1:]):
        if p0 == p1:
            same.append((s1 - e0) / 1e3)
        else:
            gaps[p0 + ">" + p1].append((s1 - e0) / 1e3)
            follow[p0 + ">" + p1] += 1
            overlap += max(0, min(e0, e1) - s1)
    answer["switch_gap_us"] = percentiles([g for v in gaps.values() for g in v])
    if len(have) > 1:
        answer["switch_gap_by_pair_us"] = {k: percentiles(v) for k, v in list(gaps.items())[:12]}
    answer["pause_before_same_process_us"] = percentiles(same)
    answer["transitions"] = dict(follow.most_common(16))
    answer["order"] = " ".join(p for _, _, p in merged[20:60])
    answer["overlap_share"] = overlap / max(1, end - begin)
    for p, log in have.items():
        inner = [(e - s) / 1e3 for s, e in parts[p][1:-1] if s >= begin and e <= end]
        kernels = log[0]
        lengths = (kernels[:, 1] - kernels[:, 0]) / 1e3
        done = kernels[(kernels[:, 0] >= begin) & (kernels[:, 1] <= end)]
        one = {
            "slice_us": percentiles(inner),
            "had_gpu_share": cover(parts[p], begin, end) / max(1, end - begin),
            "kernel_us": percentiles(lengths),
            "kernels": int(len(done)),
            "stops_in_kernels": int(len(log[1])),
            "stop_us": percentiles((log[1][:, 1] - log[1][:, 0]) / 1e3),
            "kernels_per_s": len(done) / max(1e-9, (end - begin) / 1e9),
        }
        quick = kernels[1:, 0] - kernels[:-1, 1]
        one["gap_in_slice_us"] = percentiles(quick[(quick < 15000)] / 1e3)
        if alone_us and alone_us.get(p):
            one["speed_against_alone"] = len(done) * alone_us[p] / max(1e-9, (end - begin) / 1e3)
        if len(log[2]):
            latency = (log[2][:, 1] - log[2][:, 0]) / 1e3
            one["launch_to_done_us"] = percentiles(latency)
        answer[p] = one
    base = begin
    first = [m for m in merged if m[0] > begin + (end - begin) // 3][:60]
    for s, e, p in first:
        slices_csv.writerow([step, p, round((s - base) / 1e3, 2), round((e - base) / 1e3, 2)])
    return answer


rates = {}  # ns per unit of work, by blocks and shared memory


def spec(us, blocks, smem=0, kind="c"):
    """A kernel that takes `us` alone."""
    per, fixed = rates.get((kind, blocks, smem), (520.0, 0.0))
    return f"{kind}:{blocks}:1024:{smem}:{max(1, round((us * 1e3 - fixed) / per))}"


def loops(step, jobs, ms, solo=None, timeout=20):
    """jobs: {name: (worker, spec, extra)}; returns analysis and the workers' own answers."""
    ms = int(ms * scale)
    order = list(jobs)
    paths = {n: os.path.join(scratch, f"{step}.{n}.bin") for n in order}
    answers = together(
        [
            (jobs[n][0], f"loop spec={jobs[n][1]} ms={ms} out={paths[n]} {jobs[n][2]}")
            for n in order
        ],
        timeout,
    )
    logs = {}
    result = {
        "jobs": {n: jobs[n][1] + " " + jobs[n][2] for n in order},
        "workers": dict(zip(order, answers)),
    }
    for n in order:
        if os.path.exists(paths[n]):
            logs[n] = read_loop(paths[n])
            os.unlink(paths[n])
    if logs:
        result["analysis"] = analyse(step, logs, solo)
    return result


def step(name, need, function):
    if only and not any(name.startswith(o) for o in only):
        return
    if left() < need:
        results["steps"][name] = {"skipped": f"{left():.1f} s left"}
        return
    t = time.monotonic()
    try:
        value = function()
    except Exception as e:  # whatever it is, the next step runs
        value = {"failed": f"{type(e).__name__}: {e}"}
    took = round(time.monotonic() - t, 2)
    if isinstance(value, dict):
        value["took_s"] = took
    results["steps"][name] = value
    print(
        f"{time.monotonic() - began:6.1f} s  {name}: {took} s"
        + (
            f"  FAILED {value['failed'][:150]}"
            if isinstance(value, dict) and "failed" in value
            else ""
        ),
        flush=True,
    )
    save()


def text(name, command, seconds=6, **more):
    """Keeps what a command prints."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=min(seconds, max(1, left())), **more
        )
        said = f"rc {done.returncode}\n{done.stdout}{done.stderr}"
    except (OSError, subprocess.TimeoutExpired) as e:
        said = f"{type(e).__name__}: {e}\n"
    with open(os.path.join(out, "texts.txt"), "a") as f:
        f.write(
            f"==== {name}: {command if isinstance(command, str) else ' '.join(command)}"
            f"{' <<< ' + more['input'].strip() if 'input' in more else ''}\n{said[:6000]}\n"
        )
    return said


# ------------------------------------------------------------------ 0, 5: one process
names = [f"p{i}" for i in range(8)]
sms = 132
ONE = 122880  # of shared memory: one such block per multiprocessor


def timer():
    global sms
    w = worker("p0")
    w.greet(25)
    answer = {"hello": w.hello, "timer": alone(w, "timer"), "attr": alone(w, "attr")}
    sms = int(answer["attr"].get("sms_seen", 132)) or 132
    for kind, blocks, smem, amount in (
        ("c", 2 * sms, 0, 200),
        ("c", 1, 0, 400),
        ("c", sms, ONE, 400),
    ):
        got = alone(w, f"calib spec={kind}:{blocks}:1024:{smem}:{amount}")
        answer[f"calib {kind}:{blocks}:{smem}"] = got
        if got.get("ns_per_unit", 0) > 10:
            rates[(kind, blocks, smem)] = (got["ns_per_unit"], max(0.0, got.get("ns_fixed", 0)))
    base = rates.get(("c", sms, ONE))
    for blocks in (sms // 4, sms // 2, sms * 3 // 4, sms - sms // 4, sms - sms // 8, sms // 8):
        if base:
            rates[("c", blocks, ONE)] = base
    full = rates.get(("c", 2 * sms, 0))
    if full:
        rates[("c", 8 * sms, 0)] = full
    rates.setdefault(("c", 2 * sms, 0), (520.0, 0.0))
    return answer


solo = {}


def solo_loops():
    answer = {}
    for label, us, blocks, batch in (
        ("100us", 100, 2 * sms, 20),
        ("20ms", 20000, 2 * sms, 1),
        ("5us", 5, 2 * sms, 300),
        ("small", 100, 1, 20),
    ):
        got = loops(
            "solo_" + label,
            {"p0": (worker("p0"), spec(us, blocks), f"batch={batch}")},
            400 if label != "20ms" else 600,
        )
        answer[label] = got
        try:  # time per kernel when it repeats alone
            solo[label] = 1e6 / got["analysis"]["p0"]["kernels_per_s"]
        except (KeyError, ZeroDivisionError):
            pass
    # A job that pauses: launch, wait, sleep.
    for label, think in (("every10ms", 10000), ("pause50us", 50)):
        answer[label] = loops(
            "solo_" + label, {"p0": (worker("p0"), spec(100, 2 * sms), f"think={think}")}, 300
        )
    return answer


def start(some):
    for n in some:
        worker(n)
    return {n: worker(n).greet(30).hello for n in some}


# ------------------------------------------------------------------ 1: time slices
def pair_of_loops(name, one, two, ms=1000):
    """one, two: (label, us, blocks, extra)"""

    def run():
        jobs, base = {}, {}
        for n, (label, us, blocks, extra) in zip(names, (one, two)):
            jobs[n] = (worker(n), spec(us, blocks), extra)
            base[n] = solo.get(label)
        return loops(name, jobs, ms, base)

    return run


def many_loops(name, count, ms):
    def run():
        start(names[:count])
        jobs = {n: (worker(n), spec(100, 2 * sms), "batch=20") for n in names[:count]}
        return loops(name, jobs, ms, {n: solo.get("100us") for n in jobs}, 30)

    return run


# ------------------------------------------------------------------ 2: copies
def copies():
    a, b = worker("p0"), worker("p1")
    ms = int(500 * scale)
    answer = {
        f"alone_{d}": alone(a, f"copy dir={d} ms={ms}") for d in ("h2d", "d2h", "both", "d2d")
    }
    for d in ("h2dp", "d2hp"):
        answer[f"alone_{d}"] = alone(a, f"copy dir={d} ms={ms // 2}")
    alone(b, "copy dir=h2d ms=20")
    answer["two_processes_h2d"] = together(
        [(a, f"copy dir=h2d ms={ms}"), (b, f"copy dir=h2d ms={ms}")]
    )
    answer["h2d_and_others_d2h"] = together(
        [(a, f"copy dir=h2d ms={ms}"), (b, f"copy dir=d2h ms={ms}")]
    )
    answer["small_h2d_64k"] = alone(a, f"copy dir=h2d bytes=65536 ms={ms // 2}")
    for label, blocks in (("full", 2 * sms), ("small", 1)):
        path = os.path.join(scratch, "c.bin")
        answer[f"h2d_beside_kernels_{label}"] = together(
            [
                (a, f"copy dir=h2d ms={ms}"),
                (b, f"loop spec={spec(100, blocks)} ms={ms} out={path} batch=20"),
            ]
        )
        if os.path.exists(path):
            answer[f"kernels_{label}"] = analyse(
                f"copy_{label}", {"p1": read_loop(path)}, {"p1": solo.get("100us")}
            )
    answer["small_h2d_64k_beside_kernels"] = together(
        [
            (a, f"copy dir=h2d bytes=65536 ms={ms // 2}"),
            (b, f"loop spec={spec(100, 2 * sms)} ms={ms // 2} batch=20"),
        ]
    )
    return answer


# ------------------------------------------------------------------ 5
def host_busy():
    start(names)
    ms = int(5000 * scale)
    jobs = [(worker("p0"), "host quick=1 cap_ms=120 reps=100")]
    jobs += [(worker(n), f"loop spec={spec(100, 2 * sms)} ms={ms} batch=20") for n in names[1:]]
    return {"p0": together(jobs, 30)[0]}


# ------------------------------------------------------------------ 3: in one process
def priorities():
    w = worker("p0")
    answer = {}
    many = 2 * sms * 400
    low_short = f"c:{many}:1024:0:{spec(50, 2 * sms).split(':')[-1]}"
    low_long = spec(20000, 2 * sms)
    for label, low, high, prio in (
        ("short_blocks_high_1", low_short, spec(20, 1), 1),
        ("short_blocks_high_full", low_short, spec(20, 2 * sms), 1),
        ("long_blocks_high_1", low_long, spec(20, 1), 1),
        ("short_blocks_same_1", low_short, spec(20, 1), 0),
        ("short_blocks_same_full", low_short, spec(20, 2 * sms), 0),
        ("long_blocks_high_full", low_long, spec(20, 2 * sms), 1),
        ("long_blocks_same_1", low_long, spec(20, 1), 0),
    ):
        answer[label] = alone(w, f"prio low={low} high={high} prio={prio} reps=5 delay_us=3000")
    return answer


def pairs():
    w = worker("p0")
    answer = {}

    def run(label, a, b="c:0:1:0:1"):
        answer[label] = {"a": a, "b": b, **alone(w, f"pair a={a} b={b} reps=5")}
        return answer[label]

    q, h, t = sms // 4, sms // 2, sms - sms // 4
    for n in (q, h, sms):
        run(f"compute{n}", spec(1000, n, ONE))
    run("compute_half_half", spec(1000, h, ONE), spec(1000, h, ONE))
    run("compute_quarter_quarter", spec(1000, q, ONE), spec(1000, q, ONE))
    run("compute_3quarters_half", spec(1000, t, ONE), spec(1000, h, ONE))
    run("compute_full_full", spec(1000, 2 * sms), spec(1000, 2 * sms))
    run("compute_full_quarter", spec(1000, 2 * sms), spec(1000, q, ONE))
    run(
        "compute_same_sms",
        f"c:{sms}:1024:102400:{spec(1000, sms, ONE).split(':')[-1]}",
        f"c:{sms}:1024:102400:{spec(1000, sms, ONE).split(':')[-1]}",
    )
    run("compute_8waves_1", spec(1000, 8 * sms), spec(20, 1))
    memory = {}
    for n in (sms, t, h, q, sms // 8):
        memory[n] = run(f"memory{n}", f"m:{n}:1024:{ONE}:2048").get("a_us", 0)
    for n in (t, h, q):
        us = memory.get(n) or 2000
        run(f"memory{n}_within_compute", spec(4 * us, sms - n, ONE), f"m:{n}:1024:{ONE}:2048")
        run(f"compute_within_memory{n}", f"m:{n}:1024:{ONE}:8192", spec(us, sms - n, ONE))
    run("memory_half_half", f"m:{h}:1024:{ONE}:6144", f"m:{h}:1024:{ONE}:2048")
    run("memory_quarter_within_3quarters", f"m:{t}:1024:{ONE}:12288", f"m:{q}:1024:{ONE}:2048")
    us = memory.get(sms) or 1000
    run("memory_same_sms", f"m:{sms}:1024:102400:8192", f"m:{sms}:1024:102400:2048")
    chunks = spec(us, sms, ONE).split(":")[-1]
    run("compute_on_memory_sms", f"m:{sms}:1024:102400:8192", f"c:{sms}:1024:102400:{chunks}")
    run(
        "memory_on_compute_sms",
        f"c:{sms}:1024:102400:{spec(4 * us, sms, ONE).split(':')[-1]}",
        f"m:{sms}:1024:102400:2048",
    )
    return answer


def connections():
    answer = {}
    for label, env in (
        ("default", None),
        ("1", {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}),
        ("32", {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}),
    ):
        if left() < 6:
            break
        w = worker("p0") if env is None else worker("cm" + label, env)
        answer[label] = {}
        for what in (
            ("streams=32 per=2 deep=1", "streams=32 per=2 deep=0", "streams=200 per=1")
            if label != "1"
            else ("streams=32 per=2 deep=1", "streams=32 per=2 deep=0")
        ):
            answer[label][what] = alone(w, "many us=2000 " + what)
        if env:
            dismiss("cm" + label)
    return answer


# ------------------------------------------------------------------ 4: MPS
mps_env = {}
mps_on = False
client_env = {
    "m0": {},
    "m1": {},
    "m2": {},
    "m3": {},
    "h0": {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"},
    "h1": {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"},
    "q0": {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25"},
    "lim": {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2G"},
    "low": {"CUDA_MPS_CLIENT_PRIORITY": "1"},
}


def client(name):
    return worker(name, {**mps_env, **client_env[name]})


def control(command, seconds=4):
    return text(
        "mps",
        ["nvidia-cuda-mps-control"],
        seconds,
        input=command + "\n",
        env={**os.environ, **mps_env},
    )


def mps_start():
    global mps_on
    for d in mps_env.values():
        os.makedirs(d, exist_ok=True)
    if shutil.which("nvidia-cuda-mps-control") is None:
        found = [
            os.path.join(d, "nvidia-cuda-mps-control")
            for d in (
                "/usr/local/nvidia/bin",
                "/usr/bin",
                "/usr/local/cuda/bin",
                "/usr/local/nvidia/sbin",
                "/usr/sbin",
            )
        ]
        found = [f for f in found if os.path.exists(f)]
        if not found:
            return {"failed": "no nvidia-cuda-mps-control"}
        os.environ["PATH"] += ":" + os.path.dirname(found[0])
    dismiss()
    said = text("mps start", ["nvidia-cuda-mps-control", "-d"], 6, env={**os.environ, **mps_env})
    time.sleep(0.3)
    try:
        w = client("m0").greet(15)
    except Broken as e:
        dismiss()
        return {
            "failed": str(e),
            "daemon": said,
            "again": text("mps again", ["nvidia-smi"], 5)[:10],
        }
    mps_on = True
    hellos = {"m0": w.hello}
    for n in client_env:
        client(n)
    for n in client_env:
        try:
            hellos[n] = client(n).greet(15).hello
        except Broken as e:
            hellos[n] = {"failed": str(e)}
    return {"daemon": said[:300], "hellos": hellos}


def mps_attr():
    answer = {n: alone(client(n), "attr") for n in ("m0", "h0", "q0", "lim", "low")}
    answer["lim_memory"] = alone(client("lim"), "memory most_mib=4096")
    return answer


def mps_loops(name, jobs, ms=700):
    """jobs: {client: (us, blocks, smem, extra, label)}"""

    def run():
        return loops(
            name,
            {
                c: (client(c), spec(us, blocks, smem), extra)
                for c, (us, blocks, smem, extra, _) in jobs.items()
            },
            ms,
            {c: solo.get(label) for c, (_, _, _, _, label) in jobs.items()},
        )

    return run


def mps_memory():
    answer = {}
    h, q = sms // 2, sms // 4
    m = f"m:{h}:1024:{ONE}:512"
    c = spec(400, h, ONE)
    full = f"m:{2 * sms}:1024:0:512"
    for label, jobs in (
        ("memory_half", {"m0": m}),
        ("compute_half", {"m1": c}),
        ("memory_half+compute_half", {"m0": m, "m1": c}),
        ("memory_half+memory_half", {"m0": m, "m1": m}),
        ("memory_full", {"m0": full}),
        ("memory_full+memory_full", {"m0": full, "m1": full}),
        ("memory_full+compute_full", {"m0": full, "m1": spec(400, 2 * sms)}),
    ):
        if left() < 3:
            break
        answer[label] = loops(
            "mps_" + label, {n: (client(n), s, "batch=4") for n, s in jobs.items()}, 300
        )
    return answer


def mps_texts():
    control("get_server_list")
    pid = control("get_server_list").split("\n")[1].strip()
    for c in (
        "ps",
        f"get_client_list {pid}",
        "get_device_client_list",
        f"get_server_status {pid}",
        "get_default_active_thread_percentage",
        f"get_active_thread_percentage {pid}",
        "get_default_device_pinned_mem_limit 0",
        "lspart",
        "help",
    ):
        control(c, 3)
    text("nvidia-smi with clients", ["nvidia-smi"], 8)
    text(
        "compute apps",
        ["nvidia-smi", "--query-compute-apps=pid,name,used_memory", "--format=csv"],
        6,
    )
    return {"server": pid}


def mps_stop():
    dismiss()
    said = control("quit", 6) if mps_on else ""
    for n in ("control.log", "server.log"):
        path = os.path.join(mps_env["CUDA_MPS_LOG_DIRECTORY"], n)
        if os.path.exists(path):
            with open(path, errors="replace") as f, open(os.path.join(out, "texts.txt"), "a") as t:
                t.write(f"==== {n}\n{f.read()[:6000]}\n")
    return {"said": said[:200]}


# ------------------------------------------------------------------ 6: power
TORCH = r"""
import sys, time, json
import torch
print("IMPORTED", flush=True)
for line in sys.stdin:
    kind, s = line.split()
    if "a" not in globals():
        a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        c = a @ b
        torch.cuda.synchronize()
    print("READY", flush=True)
    n, t = 0, time.monotonic()
    while time.monotonic() - t < float(s):
        for _ in range(20):
            torch.mm(a, b, out=c)
        torch.cuda.synchronize()
        n += 20
    t = time.monotonic() - t
    done = {"tflops": 2 * 8192**3 * n / t / 1e12, "products": n, "s": t}
    print("DONE " + json.dumps(done), flush=True)
"""


class Sampler(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        import pynvml as nv

        self.nv = nv
        nv.nvmlInit()
        self.device = nv.nvmlDeviceGetHandleByIndex(0)
        self.rows, self.phase, self.stop = [], "", False
        self.failures = collections.Counter()

    def get(self, name, *more):
        try:
            return getattr(self.nv, name)(self.device, *more)
        except Exception as e:
            self.failures[f"{name}: {e}"] += 1
            return None

    def field(self, number):
        value = self.get("nvmlDeviceGetFieldValues", [number])
        try:
            return value[0].value.uiVal if value and value[0].nvmlReturn == 0 else None
        except Exception:
            return None

    def sample(self):
        util = self.get("nvmlDeviceGetUtilizationRates")
        return [
            round(time.monotonic() - began, 4),
            self.phase,
            self.get("nvmlDeviceGetPowerUsage"),
            self.field(186),
            self.get("nvmlDeviceGetClockInfo", 1),
            self.get("nvmlDeviceGetClockInfo", 2),
            util.gpu if util else None,
            util.memory if util else None,
            self.get("nvmlDeviceGetTemperature", 0),
            self.get("nvmlDeviceGetTotalEnergyConsumption"),
            self.get("nvmlDeviceGetCurrentClocksEventReasons"),
        ]

    def run(self):
        while not self.stop:
            t = time.monotonic()
            self.rows.append(self.sample())
            time.sleep(max(0, 0.02 - (time.monotonic() - t)))


class TorchRun:
    process = None

    @classmethod
    def start(cls):
        if cls.process is None:
            cls.process = subprocess.Popen(
                [sys.executable, "-c", TORCH],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=open(os.path.join(scratch, "torch.err"), "wb"),
            )
        return {}

    @classmethod
    def line(cls, timeout):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if select.select([cls.process.stdout], [], [], 0.5)[0]:
                return cls.process.stdout.readline().decode()
        raise Broken("torch is silent")


def power():
    sampler = Sampler()
    nv = sampler.nv
    answer = {
        "limit_mw": sampler.get("nvmlDeviceGetPowerManagementLimit"),
        "default_limit_mw": sampler.get("nvmlDeviceGetPowerManagementDefaultLimit"),
        "constraints_mw": sampler.get("nvmlDeviceGetPowerManagementLimitConstraints"),
        "max_sm_mhz": sampler.get("nvmlDeviceGetMaxClockInfo", 1),
        "max_mem_mhz": sampler.get("nvmlDeviceGetMaxClockInfo", 2),
        "persistence": sampler.get("nvmlDeviceGetPersistenceMode"),
        "phases": {},
    }
    sampler.start()

    def phase(name, seconds, run):
        if left() < seconds + 2:
            return
        sampler.phase = name
        e0, t0 = sampler.get("nvmlDeviceGetTotalEnergyConsumption"), time.monotonic()
        try:
            more = run(seconds)
        except Exception as e:
            more = {"failed": str(e)}
        e1, t1 = sampler.get("nvmlDeviceGetTotalEnergyConsumption"), time.monotonic()
        sampler.phase = "between"
        rows = [r for r in sampler.rows if r[1] == name]
        rows = rows[int(len(rows) * 0.4) :]
        mean = {}
        for place, what in (
            (2, "power_w"),
            (3, "instant_w"),
            (4, "sm_mhz"),
            (5, "mem_mhz"),
            (6, "util"),
            (7, "mem_util"),
            (8, "celsius"),
        ):
            values = [r[place] for r in rows if r[place] is not None]
            if values:
                mean[what] = round(sum(values) / len(values) / (1000 if place in (2, 3) else 1), 1)
        if e0 is not None and e1 is not None:
            mean["w_from_energy"] = round((e1 - e0) / 1e3 / (t1 - t0), 1)
        mean["reasons"] = sorted({r[10] for r in rows if r[10] is not None})
        answer["phases"][name] = {**mean, "more": more}

    def idle(s):
        time.sleep(s)
        return {}

    def loop(what, extra=""):
        return lambda s: alone(w, f"loop spec={what} ms={int(s * 1000)} {extra}", 20)

    phase("idle", 1.2, idle)
    w = worker("p0")
    w.greet(20)
    phase("context", 1.5, idle)
    phase("arithmetic", 2.2, loop(spec(2000, 2 * sms), "batch=2"))
    phase("spinning", 1.5, loop(f"w:{2 * sms}:1024:0:2000000", "batch=2"))
    phase("one_block", 1.2, loop(spec(2000, 1), "batch=2"))
    phase("memory", 2.2, loop(f"m:{2 * sms}:1024:0:2048", "batch=2"))
    for part, blocks in (("quarter", sms // 4), ("half", sms // 2)):
        phase(f"arithmetic_on_a_{part}", 1.2, loop(spec(2000, blocks, ONE), "batch=2"))
        phase(f"memory_on_a_{part}", 1.2, loop(f"m:{blocks}:1024:{ONE}:2048", "batch=2"))
    phase("half_of_the_time", 1.5, loop(spec(5000, 2 * sms), "think=5000"))
    if TorchRun.process is not None and left() > 6:
        try:
            TorchRun.line(15)

            def matmul(s):
                TorchRun.process.stdin.write(f"mm {s}\n".encode())
                TorchRun.process.stdin.flush()
                TorchRun.line(15)
                sampler.phase = "matmul"
                return json.loads(TorchRun.line(10)[5:])

            phase("matmul", 2.5, lambda s: (setattr(sampler, "phase", "warm"), matmul(s))[1])
        except Exception as e:
            answer["torch"] = str(e)
    phase("after", 1.2, idle)
    sampler.stop = True
    sampler.join(1)
    with open(os.path.join(out, "power.csv"), "w") as f:
        rows = csv.writer(f)
        rows.writerow(
            [
                "t_s",
                "phase",
                "power_mw",
                "instant_mw",
                "sm_mhz",
                "mem_mhz",
                "util",
                "mem_util",
                "celsius",
                "energy_mj",
                "reasons",
            ]
        )
        rows.writerows(sampler.rows)
    answer["failures"] = dict(sampler.failures.most_common(10))
    return answer


# ------------------------------------------------------------------ order of the steps, by worth
def summary():
    lines = []

    def at(*path):
        value = results["steps"]
        for p in path:
            if isinstance(value, dict):
                value = value.get(p)
            elif isinstance(value, list) and isinstance(p, int) and p < len(value):
                value = value[p]
            else:
                return None
        return value if not isinstance(value, float) else round(value, 3)

    def row(title, *figures):
        lines.append(title + ": " + ", ".join(f"{name} {at(*path)}" for name, *path in figures))

    for name, one in (
        ("slices2_100us", "p0"),
        ("slices2_20ms", "p0"),
        ("slices2_small", "p0"),
        ("slices8_100us", "p0"),
        ("mps2_full", "m0"),
    ):
        row(
            name,
            ("slice us", name, "analysis", one, "slice_us", "p50"),
            ("switch us", name, "analysis", "switch_gap_us", "p50"),
            ("speed", name, "analysis", one, "speed_against_alone"),
            ("overlap", name, "analysis", "overlap_share"),
        )
    latency = ("launch_to_done_us", "p50")
    row(
        "job of 100 us each 10 ms, us",
        ("alone", "solo_loops", "every10ms", "analysis", "p0", *latency),
        ("beside a busy process", "slices2_busy_and_short", "analysis", "p1", *latency),
    )
    row(
        "GB/s to the device",
        ("alone", "copies", "alone_h2d", "h2d", "gb_per_s"),
        ("beside kernels", "copies", "h2d_beside_kernels_full", 0, "h2d", "gb_per_s"),
        ("each of two", "copies", "two_processes_h2d", 0, "h2d", "gb_per_s"),
    )
    row(
        "kernel beside blocks of 50 us, us from launch to start",
        ("urgent", "priorities", "short_blocks_high_1", "high_start_after_launch_us"),
        ("as urgent", "priorities", "short_blocks_same_1", "high_start_after_launch_us"),
    )
    row(
        "host, us",
        ("launch", "host_alone", "launch", "p50"),
        ("launch and wait", "host_alone", "launch_sync", "p50"),
    )
    row(
        "device, us",
        ("between kernels", "pipe", "full_gap_us", "p50"),
        ("across streams", "pipe", "event_between_streams_gap_us", "p50"),
        ("graph of 1000", "pipe", "graph1000_device_us", "p50"),
    )
    row("MPS at 50 %", ("multiprocessors", "mps_attr", "h0", "sms_seen"))
    phases = at("power", "phases") or {}
    lines.append(
        "W: " + ", ".join(f"{k} {v.get('instant_w', v.get('power_w'))}" for k, v in phases.items())
    )
    failed = [
        k
        for k, v in results["steps"].items()
        if isinstance(v, dict) and ("failed" in v or "skipped" in v)
    ]
    lines.append(f"failed or skipped: {failed}; {results['seconds']} s")
    return "\n".join(lines)


def take_steps():
    busy = ("100us", 100, 2 * sms, "batch=20")
    step("timer", 5, timer)
    text("timeslice", ["nvidia-smi", "compute-policy", "--list"], 5)
    text(
        "topology",
        [
            "nvidia-smi",
            "--query-gpu=name,compute_mode,persistence_mode,mig.mode.current,pcie.link.gen.current,"
            "pcie.link.width.current,clocks.sm,clocks.mem,driver_version",
            "--format=csv",
        ],
        5,
    )
    step("solo_loops", 5, solo_loops)
    step("start2", 3, lambda: start(["p1"]))
    step("slices2_100us", 3, pair_of_loops("slices2_100us", busy, busy, 1500))
    step(
        "slices2_busy_and_short",
        3,
        pair_of_loops(
            "slices2_busy_and_short", busy, ("every10ms", 100, 2 * sms, "think=10000"), 1500
        ),
    )
    step(
        "slices2_20ms",
        3,
        pair_of_loops(
            "slices2_20ms",
            ("20ms", 20000, 2 * sms, "batch=1"),
            ("20ms", 20000, 2 * sms, "batch=1"),
            1500,
        ),
    )
    step(
        "slices2_5us",
        3,
        pair_of_loops(
            "slices2_5us", ("5us", 5, 2 * sms, "batch=300"), ("5us", 5, 2 * sms, "batch=300"), 600
        ),
    )
    step(
        "slices2_small",
        3,
        pair_of_loops(
            "slices2_small", ("small", 100, 1, "batch=20"), ("small", 100, 1, "batch=20"), 800
        ),
    )
    step(
        "slices2_20ms_and_100us",
        3,
        pair_of_loops("slices2_20ms_and_100us", ("20ms", 20000, 2 * sms, "batch=1"), busy, 1000),
    )
    step(
        "slices2_20ms_and_short",
        3,
        pair_of_loops(
            "slices2_20ms_and_short",
            ("20ms", 20000, 2 * sms, "batch=1"),
            ("every10ms", 100, 2 * sms, "think=10000"),
            1000,
        ),
    )
    step(
        "slices2_busy_and_pausing",
        3,
        pair_of_loops(
            "slices2_busy_and_pausing", busy, ("pause50us", 100, 2 * sms, "think=50"), 800
        ),
    )
    step("copies", 8, copies)
    step("host_alone", 6, lambda: alone(worker("p0"), "host reps=200 cap_ms=100", 20))
    step("pipe", 3, lambda: alone(worker("p0"), f"pipe spec={spec(5, 2 * sms)}", 15))
    step("slices4_100us", 5, many_loops("slices4_100us", 4, 1200))
    step("slices8_100us", 6, many_loops("slices8_100us", 8, 1500))
    step("host_busy", 10, host_busy)
    text("nvidia-smi with 8 processes", ["nvidia-smi"], 5)
    dismiss(*names[1:])
    step("priorities", 6, priorities)
    step("pairs", 5, pairs)
    step("connections", 6, connections)
    step("torch_start", 12, TorchRun.start)
    step("mps_start", 14, mps_start)
    if mps_on:
        full = (100, 2 * sms, 0, "batch=20", "100us")
        step("mps_attr", 5, mps_attr)
        step("mps2_full", 3, mps_loops("mps2_full", {"m0": full, "m1": full}))
        step("mps2_50", 3, mps_loops("mps2_50", {"h0": full, "h1": full}))
        step("mps_50_alone", 3, mps_loops("mps_50_alone", {"h0": full}, 400))
        step("mps_25_beside_100", 3, mps_loops("mps_25_beside_100", {"q0": full, "m0": full}))
        step(
            "mps_small",
            3,
            mps_loops(
                "mps_small",
                {c: (100, 1, 0, "batch=20", "small") for c in ("m0", "m1", "m2", "m3")},
                400,
            ),
        )
        step(
            "mps_quarters",
            3,
            mps_loops(
                "mps_quarters",
                {c: (100, sms // 4, ONE, "batch=20", "") for c in ("m0", "m1", "m2", "m3")},
                400,
            ),
        )
        step("mps_memory", 5, mps_memory)
        step(
            "mps_short_beside_busy",
            3,
            mps_loops(
                "mps_short_beside_busy",
                {"m0": full, "m1": (100, 2 * sms, 0, "think=10000", "every10ms")},
            ),
        )
        step(
            "mps_short_beside_20ms",
            3,
            mps_loops(
                "mps_short_beside_20ms",
                {
                    "m0": (20000, 2 * sms, 0, "batch=1", "20ms"),
                    "m1": (100, 2 * sms, 0, "think=10000", "every10ms"),
                },
            ),
        )
        step("mps_priorities", 3, mps_loops("mps_priorities", {"m0": full, "low": full}))
        step("mps4_full", 3, mps_loops("mps4_full", {c: full for c in ("m0", "m1", "m2", "m3")}))
        step("mps_host", 3, lambda: alone(client("m0"), "host tiny=1 reps=200 cap_ms=100", 10))
        step("mps_texts", 8, mps_texts)
    step("mps_stop", 1, mps_stop)
    step("power", 5, power)


def end():
    """Ends the workers and writes what there is."""
    for w in Worker.everybody:
        if w.alive:
            w.quit() if left() > 3 else w.kill()
    if TorchRun.process is not None and TorchRun.process.poll() is None:
        TorchRun.process.kill()
    with open(os.path.join(out, "texts.txt"), "a") as f:
        for n in sorted(os.listdir(scratch)):
            path = os.path.join(scratch, n)
            if n.endswith(".err") and os.path.getsize(path):
                with open(path, errors="replace") as e:
                    f.write(f"==== stderr of {n}\n{e.read()[:2000]}\n")
    save()
    slices_file.close()
    shutil.rmtree(scratch, ignore_errors=True)


def main(arguments=None):
    options = parse_options(arguments)
    if np is None:
        print("measure_sharing: there is no numpy for this Python", file=sys.stderr)
        return 1
    begin(options)
    try:
        take_steps()
    finally:
        end()
    print(summary())
    return 1 if any("failed" in step for step in results["steps"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
