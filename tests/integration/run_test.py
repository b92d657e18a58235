#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a CUDA program under gpemu run and checks what the run reports about it: the summary, the
recorded operations, the trace and the page agree with what the program asked for, however it ends.

Needs no package: the program calls the runtime and NVTX with ctypes.

Usage: run_test.py GPEMU_COMMAND
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
GPU = "V100-PCIE-32GB"
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BYTES = 1 << 20

# Two steps of a copy there, a set and a copy back, in NVTX ranges; then it ends as it is told.
PROGRAM = """
import ctypes, os, signal, sys, time
cuda = ctypes.CDLL("libcudart.so.12")
nvtx = ctypes.CDLL("libnvToolsExt.so.1")
device, host = ctypes.c_void_p(), ctypes.create_string_buffer(%d)
assert cuda.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(len(host))) == 0
for step in range(2):
    nvtx.nvtxRangePushA(b'step "%%d"' %% step)
    assert cuda.cudaMemcpy(device, host, ctypes.c_size_t(len(host)), 1) == 0
    assert cuda.cudaMemset(device, 0, ctypes.c_size_t(len(host))) == 0
    assert cuda.cudaMemcpy(host, device, ctypes.c_size_t(len(host)), 2) == 0
    nvtx.nvtxRangePop()
nvtx.nvtxRangeStartA.restype = ctypes.c_uint64
nvtx.nvtxRangeEnd(ctypes.c_uint64(nvtx.nvtxRangeStartA(b"\\xff open")))
cuda.cudaProfilerStart()
signal.signal(signal.SIGTERM, lambda *_: os._exit(5))
print("ready", flush=True)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "wait":
    while True:
        time.sleep(0.01)
sys.exit(int(sys.argv[1]))
""" % BYTES

# A step at each of the batches that it is told, which sets 1 KiB an image beside 1 MiB that stays,
# and leaves 512 bytes an image.
STEPS = """
import ctypes, sys
cuda = ctypes.CDLL("libcudart.so.12")
nvtx = ctypes.CDLL("libnvToolsExt.so.1")
device = ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(1 << 20)) == 0
for batch in map(int, sys.argv[1:]):
    nvtx.nvtxRangePushA(b"toy batch=%d all" % batch)
    first, second = ctypes.c_void_p(), ctypes.c_void_p()
    for tensor in (first, second):
        assert cuda.cudaMalloc(ctypes.byref(tensor), ctypes.c_size_t(512 * batch)) == 0
    assert cuda.cudaMemset(device, 0, ctypes.c_size_t(1024 * batch)) == 0
    assert cuda.cudaFree(first) == 0
    nvtx.nvtxRangePop()
    assert cuda.cudaFree(second) == 0
"""

# Copies of page-locked memory there and back, both directions at once, which end with the run's
# summary. Says whether the bytes are those of the host, or zeros.
COPIES = """
import ctypes, sys
cuda = ctypes.CDLL("libcudart.so.12")
size = 8 << 20
there, back, device, other = (ctypes.c_void_p() for _ in range(4))
for pinned in (there, back):
    assert cuda.cudaMallocHost(ctypes.byref(pinned), ctypes.c_size_t(size)) == 0
for memory in (device, other):
    assert cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(size)) == 0
streams = [ctypes.c_void_p() for _ in range(2)]
for stream in streams:
    assert cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
data = bytes(range(256)) * (size // 256)
ctypes.memmove(there, data, size)
bytes_ = ctypes.c_size_t(size)
assert cuda.cudaMemcpyAsync(device, there, bytes_, 1, streams[0]) == 0
assert cuda.cudaStreamSynchronize(streams[0]) == 0
assert cuda.cudaMemcpyAsync(other, there, bytes_, 1, streams[0]) == 0
assert cuda.cudaMemcpyAsync(back, device, bytes_, 2, streams[1]) == 0
assert cuda.cudaDeviceSynchronize() == 0
found = ctypes.string_at(back, size)
print("equal" if found == data else "zeros" if found == bytes(size) else "wrong")
assert cuda.cudaMemcpyAsync(back, other, bytes_, 2, streams[1]) == 0
"""

# A process that forks while a copy is under way: the child has no GPU and ends, the copy goes on.
FORK = """
import ctypes, os, sys
cuda = ctypes.CDLL("libcudart.so.12")
size = ctypes.c_size_t(64 << 20)
there, back, device = (ctypes.c_void_p() for _ in range(3))
for pinned in (there, back):
    assert cuda.cudaMallocHost(ctypes.byref(pinned), size) == 0
assert cuda.cudaMalloc(ctypes.byref(device), size) == 0
ctypes.memset(there, 3, size.value)
assert cuda.cudaMemcpyAsync(device, there, size, 1, None) == 0
assert cuda.cudaMemcpyAsync(back, device, size, 2, None) == 0
child = os.fork()
if child == 0:
    refused = (cuda.cudaDeviceSynchronize(), cuda.cudaMemcpyAsync(back, device, size, 2, None),
               cuda.cudaFree(device), cuda.cudaFreeHost(there))
    sys.exit(0 if refused == (3, 3, 3, 3) else 1)
assert os.waitpid(child, 0)[1] == 0
assert cuda.cudaDeviceSynchronize() == 0
assert ctypes.string_at(back, size.value) == bytes([3]) * size.value
"""

# Processes that fork while a thread of theirs attaches: the child gets an answer, too.
FORK_AT_START = """
import ctypes, os, signal, threading
cuda = ctypes.CDLL("libcudart.so.12")
failed = 0
for _ in range(30):
    starter = os.fork()  # None has attached before.
    if starter == 0:
        thread = threading.Thread(target=cuda.cudaGetDeviceCount,
                                  args=(ctypes.byref(ctypes.c_int()),))
        thread.start()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            cuda.cudaGetDeviceCount(ctypes.byref(ctypes.c_int()))
            os._exit(0)
        os._exit(1 if os.waitpid(child, 0)[1] else 0)
    failed += os.waitpid(starter, 0)[1] != 0
assert failed == 0, failed
"""

# Something to be told of: a function that is not supported.
TOLD = """
import ctypes
cuda = ctypes.CDLL("libcudart.so.12")
assert cuda.cudaMalloc3DArray(None, None, None, 0) != 0
print("went on")
"""

# Random numbers, which are not computed, and a read of them.
NOT_COMPUTED = """
import ctypes
cuda, random = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libcurand.so.10")
generator, device = ctypes.c_void_p(), ctypes.c_void_p()
host = ctypes.create_string_buffer(1 << 10)
size = ctypes.c_size_t(len(host))
assert cuda.cudaMalloc(ctypes.byref(device), size) == 0
assert random.curandCreateGenerator(ctypes.byref(generator), 100) == 0
assert random.curandGenerateUniform(generator, device, ctypes.c_size_t(len(host) // 4)) == 0
print("reads", flush=True)
assert cuda.cudaMemcpy(host, device, size, 2) == 0
print("went on")
"""

# A function behind seconds of work on one stream, then one on an idle stream.
HOST_FUNCTIONS = """
import ctypes
cuda = ctypes.CDLL("libcudart.so.12")
order = []
late, early = [ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _, name=name: order.append(name))
               for name in ("late", "early")]
device, busy, idle = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
size = ctypes.c_size_t(16 << 30)
assert cuda.cudaMalloc(ctypes.byref(device), size) == 0
for stream in (busy, idle):
    assert cuda.cudaStreamCreateWithFlags(ctypes.byref(stream), 1) == 0
for _ in range(200):
    assert cuda.cudaMemsetAsync(device, 0, size, busy) == 0
assert cuda.cudaLaunchHostFunc(busy, late, None) == 0
host = ctypes.create_string_buffer(64 << 20)  # A copy, while which the first is waited for.
assert cuda.cudaMemcpyAsync(device, host, ctypes.c_size_t(len(host)), 1, idle) == 0
assert cuda.cudaLaunchHostFunc(idle, early, None) == 0
assert cuda.cudaStreamSynchronize(idle) == 0
assert order == ["early"], order
assert cuda.cudaDeviceSynchronize() == 0
assert order == ["early", "late"], order
"""

# Streams and events of two devices: what is waited for may be the other device's, nothing else.
DEVICES = """
import ctypes
cuda, driver = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libcuda.so.1")
streams, events = [[ctypes.c_void_p() for _ in range(2)] for _ in range(2)]
for device in (1, 0):
    assert cuda.cudaSetDevice(device) == 0
    assert cuda.cudaStreamCreateWithFlags(ctypes.byref(streams[device]), 1) == 0
    assert cuda.cudaEventCreate(ctypes.byref(events[device])) == 0
library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
text = ctypes.c_char_p(b".version 8.0")
assert driver.cuLibraryLoadData(ctypes.byref(library), text, None, None, 0, None, None, 0) == 0
assert driver.cuLibraryGetKernel(ctypes.byref(kernel), library, b"kernel") == 0
def launch(stream):
    return driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, None, None)
per_thread = ctypes.c_void_p(2)
for device in (0, 1):
    other = 1 - device
    assert cuda.cudaSetDevice(device) == 0
    assert launch(streams[device]) == launch(None) == launch(per_thread) == 0
    assert launch(streams[other]) == 400
    assert cuda.cudaEventRecord(events[device], streams[device]) == 0
    assert cuda.cudaEventRecord(events[device], None) == 0
    assert cuda.cudaEventRecord(events[device], streams[other]) == 400
    assert cuda.cudaEventRecord(events[other], None) == 400
    assert cuda.cudaEventRecord(events[other], streams[other]) == 0
    assert cuda.cudaStreamWaitEvent(streams[device], events[other], 0) == 0
    assert cuda.cudaEventSynchronize(events[other]) == 0
    assert cuda.cudaStreamSynchronize(streams[other]) == 0
    assert cuda.cudaDeviceSynchronize() == 0
    assert cuda.cudaMemsetAsync(None, 0, ctypes.c_size_t(0), streams[other]) == 0
time = ctypes.c_float()
assert cuda.cudaEventElapsedTime(ctypes.byref(time), events[0], events[0]) == 0
assert cuda.cudaEventElapsedTime(ctypes.byref(time), events[0], events[1]) == 400
"""

# Prints how much of the GPU is not free.
USED = """
import ctypes
cuda = ctypes.CDLL("libcudart.so.12")
free, total = ctypes.c_size_t(), ctypes.c_size_t()
assert cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
print((total.value - free.value) / 2**20)
"""


class RunTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="gpemu_run_test_")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "tmp").mkdir()
        self.environment = {**os.environ, "GPEMU_NODE_DIR": str(self.folder / "nodes"),
                            "TMPDIR": str(self.folder / "tmp")}

    def start(self, *words, options=("--gpu", GPU)):
        return subprocess.Popen([COMMAND, "run", *options, "--", *map(str, words)],
                                env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run_program(self, end, *options):
        """Runs the program with all outputs; returns its exit code and what it wrote on stderr."""
        outputs = [word for kind in ("json", "ops", "trace", "report")
                   for word in (f"--{kind}", str(self.folder / kind))]
        process = self.start(sys.executable, "-c", PROGRAM, end,
                             options=("--gpu", GPU, *outputs, *options))
        if end == "wait":
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
        return process.returncode, errors

    def test_a_gpu_of_a_file_runs_at_its_own_rates(self):
        program = ('import ctypes; cuda = ctypes.CDLL("libcudart.so.12"); p = ctypes.c_void_p()\n'
                   'size = ctypes.c_size_t(1 << 30)\n'
                   'assert cuda.cudaMalloc(ctypes.byref(p), size) == 0\n'
                   'assert cuda.cudaMemset(p, 0, size) == 0')
        text = (ROOT / f"catalog/gpus/{GPU}.toml").read_text(encoding="utf-8")
        self.assertIn("value = 900,", text)
        path = self.folder / "faster.toml"
        path.write_text(text.replace("value = 900,", "value = 1800,"), encoding="utf-8")
        times, names = [], []
        for gpu, clock in ((GPU, "real"), (path, "real"), (path, "gpu-only")):
            process = self.start(sys.executable, "-c", program,
                                 options=("--gpu", str(gpu), "--clock", clock,
                                          "--json", str(self.folder / "json")))
            _, errors = process.communicate()
            self.assertEqual(process.returncode, 0, errors)
            summary = json.loads((self.folder / "json").read_text())
            times.append(summary["classes"][0]["time_ns"])
            names.append(summary["devices"][0]["gpu"])
        self.assertEqual(names, [GPU, GPU + "-edited", GPU + "-edited"])
        self.assertAlmostEqual(times[0] / times[1], 2, delta=0.05)
        self.assertEqual(times[1], times[2])

    def test_a_program_that_launches_nothing_is_named(self):
        load = 'import ctypes; ctypes.CDLL("libcudart.so.12")'
        for program, named in ((load, True), ("", False), (PROGRAM, False)):
            process = self.start(sys.executable, "-c", program, "0",
                                 options=("--gpu", GPU, "--json", str(self.folder / "json")))
            _, errors = process.communicate()
            self.assertEqual(process.returncode, 0, errors)
            summary = json.loads((self.folder / "json").read_text())
            self.assertEqual([entry["library"] for entry in summary["without_work"]],
                             ["libcudart.so.12"] if named else [])
            self.assertEqual(named, "loaded libcudart.so.12 and launched no kernel" in errors)
            # The host's load matters to what was timed only.
            self.assertEqual(summary["host"]["load"] is None, program != PROGRAM)

    def lines(self):
        return [json.loads(line) for line in (self.folder / "ops").read_text().splitlines()]

    def check_outputs(self, code):
        summary = json.loads((self.folder / "json").read_text())
        self.assertEqual(summary["exit_code"], code)
        [device] = summary["devices"]
        self.assertEqual((device["gpu"], device["operations"]), (GPU, 6))
        self.assertEqual(device["peak_memory_bytes"], 2 * BYTES)
        self.assertEqual(device["busy_ns"] + device["idle_ns"],
                         device["last_ns"] - device["first_ns"])
        self.assertEqual(device["idle_unasked_ns"] + device["idle_ordered_ns"], device["idle_ns"])
        counts = {entry["name"]: entry["count"] for entry in summary["classes"]}
        self.assertEqual(counts, {"copy": 4, "set": 2})

        run, process, *rest = self.lines()
        self.assertEqual((run["format"], run["exit_code"]), ("gpemu-operations-2", code))
        self.assertEqual((process["process"], process["lines"]), (device["pid"], len(rest)))
        # Whether a copy is waited for depends on the host's speed.
        said = [line.get("op") or f"{line['mark']} {line['text']}" for line in rest
                if "op" in line or line.get("mark", "wait") != "wait"]
        step = ["copy_host_to_device", "set", "copy_device_to_host", "pop "]
        self.assertEqual(said, ['push step "0"', *step, 'push step "1"', *step, "start ? open",
                                "end ? open", "profiler_start "])
        [memory] = [line for line in rest if "memory" in line]
        self.assertEqual((memory["memory"], memory["device"]), (BYTES, 0))
        operations = [line for line in rest if "op" in line]
        self.assertEqual(sum(line["duration_ns"] for line in operations),
                         sum(entry["time_ns"] for entry in summary["classes"]))
        for line in operations:
            self.assertLessEqual(line["asked_ns"], line["start_ns"])
            self.assertEqual(line["end_ns"] - line["start_ns"], line["duration_ns"])
        self.assertEqual(operations[0]["bytes"], BYTES)

        events = json.loads((self.folder / "trace").read_text())["traceEvents"]
        self.assertEqual([e["dur"] > 0 for e in events if e["ph"] == "X"], [True] * 6)
        self.assertEqual([e["name"] for e in events if e["ph"] == "B"], ['step "0"', 'step "1"'])
        self.assertEqual([e["ph"] for e in events if e["ph"] in "BEbe"], list("BEBEbe"))
        rows = {(e["pid"], e["tid"]) for e in events if e.get("name") == "thread_name"}
        self.assertEqual(rows, {(e["pid"], e["tid"]) for e in events if e["ph"] != "M"})

        page = (self.folder / "report").read_text()
        self.assertEqual(page.count("<figure"), 3)
        for word in ("<script ", "<link", "src=", "href=", "url("):
            self.assertNotIn(word, page)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        self.assertEqual(list((self.folder / "nodes").iterdir()), [])

    def condense(self, *batches):
        """Records steps at batches and condenses them; returns the exit code and the complaint."""
        recorded = self.start(sys.executable, "-c", STEPS, *batches,
                              options=("--gpu", GPU, "--quiet", "--ops",
                                       str(self.folder / "ops")))
        recorded.communicate()
        self.assertEqual(recorded.returncode, 0)
        result = subprocess.run([COMMAND, "cost", "condense", self.folder / "ops", "--output",
                                 self.folder / "recordings"], capture_output=True, text=True,
                                check=False)
        return result.returncode, result.stderr

    def test_condenses_what_it_recorded(self):
        self.assertEqual(self.condense(3, 5, 9), (0, ""))
        recording = json.loads((self.folder / "recordings" / "toy.json").read_text())
        self.assertEqual((recording["model"], recording["gpu"]), ("toy", GPU))
        self.assertEqual(recording["batches"], [3, 5, 9])
        self.assertEqual(recording["shapes"], [[[0, 1024]]])
        self.assertEqual(recording["phases"], [{"name": "all", "operations": [0]}])
        self.assertEqual(recording["memory"], {"fullest": [[[2, [0, 512]], [1, 1 << 20]]],
                                               "after": [[1, [0, 512]], [1, 1 << 20]]})
        code, errors = self.condense(1, 2)
        self.assertEqual(code, 2)
        self.assertIn("toy all: recorded at batches 1, 2; needs 3 or more", errors)

    def test_tells_what_the_program_asked_for(self):
        code, errors = self.run_program("3")
        self.assertEqual(code, 3, errors)
        self.assertIn("evidence", errors)
        self.check_outputs(3)

    def test_tells_it_of_a_program_that_was_killed(self):
        code, errors = self.run_program("kill")
        self.assertEqual(code, 128 + signal.SIGKILL, errors)
        self.check_outputs(128 + signal.SIGKILL)

    def test_passes_signals_on(self):
        code, errors = self.run_program("wait")
        self.assertEqual(code, 5, errors)
        self.check_outputs(5)

    def test_repeats_itself_in_virtual_time(self):
        code, errors = self.run_program("0", "--clock", "gpu-only")
        self.assertEqual(code, 0, errors)
        first = self.repeated_lines()
        # Of a step: the copies are waited for, for their memory is pageable.
        self.assertEqual([line.get("op") or line["mark"] for line in first[:7]],
                         ["push", "copy_host_to_device", "wait", "set", "copy_device_to_host",
                          "wait", "pop"])
        self.assertEqual(first[2]["time_ns"], first[1]["end_ns"])
        self.run_program("0", "--clock", "gpu-only")
        self.assertEqual(first, self.repeated_lines())

    def test_takes_as_much_for_a_context_as_it_is_told(self):
        for options, expected in ((), 400), (("--context", "1667"), 1667):
            options = ("--gpu", GPU, *options)
            process = self.start(sys.executable, "-c", USED, options=options)
            output, errors = process.communicate()
            self.assertEqual(process.returncode, 0, errors)
            # In pages of the GPU.
            self.assertTrue(expected <= float(output) < expected + 2, output)

    def repeated_lines(self):
        """Returns operations and marks without the numbers of threads, which are each run's own."""
        return [{key: value for key, value in line.items() if key != "thread"}
                for line in self.lines() if "op" in line or "mark" in line]

    def test_a_run_within_a_run_has_its_own_settings(self):
        # Else the inner one's clock would be the outer one's, and its time nothing.
        inner = ("import os, sys; sys.exit(any(name in os.environ for name in "
                 "('GPEMU_CLOCK', 'GPEMU_GPU', 'GPEMU_STRICT', 'GPEMU_RECORD_OPERATIONS', "
                 "'GPEMU_CONTEXT_MIB', 'GPEMU_GPU_FILES')))")
        path = self.folder / "edited.toml"
        text = (ROOT / f"catalog/gpus/{GPU}.toml").read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        process = self.start(COMMAND, "run", "--quiet", "--gpu", GPU, "--", sys.executable, "-c",
                             inner, options=("--gpu", str(path), "--clock", "gpu-only", "--strict",
                                             "--context", "500",
                                             "--ops", str(self.folder / "outer.ops")))
        _, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)

    def test_hands_on_the_files_of_a_nodes_gpus(self):
        path = self.folder / "edited.toml"
        text = (ROOT / f"catalog/gpus/{GPU}.toml").read_text(encoding="utf-8")
        path.write_text(text.replace("value = 900,", "value = 1800,"), encoding="utf-8")
        subprocess.run([COMMAND, "node", "create", "n0", "--gpu", path], env=self.environment,
                       check=True, stdout=subprocess.DEVNULL)
        self.environment["GPEMU_GPU_FILES"] = str(path)
        process = self.start(sys.executable, "-c", PROGRAM, "0", options=("--node", "n0"))
        _, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)

    def test_finds_relative_folders_when_the_program_goes_elsewhere(self):
        (self.folder / "profiles.db").symlink_to(
            pathlib.Path(COMMAND).resolve().parent.parent / "share/gpemu/profiles.db")
        environment = {**self.environment, "GPEMU_NODE_DIR": "nodes", "TMPDIR": "tmp",
                       "GPEMU_PROFILES": "profiles.db"}
        words = ["run", "--gpu", GPU, "--json", "json", "--", "sh", "-c", 'cd / && exec "$@"', "sh"]
        done = subprocess.run([pathlib.Path(COMMAND).resolve(), *words, sys.executable, "-c",
                               PROGRAM, "0"], env=environment, cwd=self.folder,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        summary = json.loads((self.folder / "json").read_text())
        self.assertEqual(summary["devices"][0]["operations"], 6)

    def test_calls_a_host_function_before_one_that_is_due_later(self):
        process = self.start(sys.executable, "-c", HOST_FUNCTIONS)
        _, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)

    def test_moves_the_bytes_of_large_copies(self):
        for options, found, moved in (((), "equal", 3), (("--drop-data",), "zeros", 1)):
            options = ("--gpu", GPU, "--json", str(self.folder / "json"), *options)
            process = self.start(sys.executable, "-c", COPIES, options=options)
            output, errors = process.communicate()
            self.assertEqual((process.returncode, output), (0, found + "\n"), errors)
            summary = json.loads((self.folder / "json").read_text())
            # The program ends while its last copy is under way.
            self.assertIn(summary["copies"]["moved_bytes"] >> 23, (moved, moved + 1))
            self.assertIn(summary["not_kept_bytes"] >> 23, (0,) if found == "equal" else (1, 2))

    def test_a_fork_leaves_copies_that_are_under_way_alone(self):
        process = self.start(sys.executable, "-c", FORK)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)

    def test_a_fork_while_a_thread_attaches_leaves_no_lock_behind(self):
        process = self.start(sys.executable, "-c", FORK_AT_START)
        _, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, errors)

    def test_a_message_that_cannot_be_written_ends_no_program(self):
        process = self.start("sh", "-c", 'exec "$0" -c "$1" 2>/dev/full', sys.executable, TOLD)
        output, errors = process.communicate()
        self.assertEqual((process.returncode, output), (0, "went on\n"), errors)

    def test_a_program_gets_the_runtime_of_its_cuda(self):
        program = """
import ctypes, sys
version = ctypes.c_int()
assert ctypes.CDLL(sys.argv[1]).cudaRuntimeGetVersion(ctypes.byref(version)) == 0
print(version.value // 1000)
"""
        for library, major in (("libcudart.so.11.0", 11), ("libcudart.so.12", 12),
                               ("libcudart.so.13", 13)):
            process = self.start(sys.executable, "-c", program, library)
            output, errors = process.communicate()
            self.assertEqual((process.returncode, output), (0, f"{major}\n"), errors)

    def test_a_static_runtime_is_refused_and_told_what_to_do(self):
        program = """
import ctypes
table = ctypes.c_void_p()
asked_first = bytes.fromhex("6bd5fb6c5bf4e74a8987d93912fd9df9")
print(ctypes.CDLL("libcuda.so.1").cuGetExportTable(ctypes.byref(table), asked_first), flush=True)
"""
        for options, output, code in (((), "801\n", 0), (("--strict",), "", 86)):
            process = self.start(sys.executable, "-c", program, options=("--gpu", GPU, *options))
            printed, errors = process.communicate()
            self.assertEqual((process.returncode, printed), (code, output), errors)
            self.assertIn("nvcc -cudart shared", errors)

    def test_strict_ends_a_program_that_reads_what_was_not_computed(self):
        for options, code, said in (((), 0, "reads\nwent on\n"), (("--strict",), 86, "reads\n")):
            process = self.start(sys.executable, "-c", NOT_COMPUTED,
                                 options=("--gpu", GPU, *options))
            output, errors = process.communicate()
            self.assertEqual((process.returncode, output), (code, said), errors)
            self.assertEqual("reads 1024 bytes written by curandGenerateUniform" in errors,
                             code == 86, errors)

    def test_keeps_streams_and_events_of_devices_apart(self):
        process = self.start(sys.executable, "-c", DEVICES,
                             options=("--gpu", GPU + ":2"))
        _, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)

    def test_says_why_there_is_no_space_for_a_record_and_leaves_none(self):
        program = ('import ctypes, os, pathlib, resource\n'
                   'resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n'
                   'ctypes.CDLL("libcudart.so.12").cudaFree(None)\n'
                   'folder = pathlib.Path(os.environ["GPEMU_RECORD_DIR"])\n'
                   'print(*folder.glob("*.record"))')
        process = self.start(sys.executable, "-c", program)
        output, errors = process.communicate()
        self.assertEqual((process.returncode, output), (0, "\n"), errors)
        self.assertRegex(errors, r"cannot record in \S+: File too large\n")

    def refuse(self, code, text, *words, options=("--gpu", GPU)):
        process = self.start(*words, options=options)
        output, errors = process.communicate()
        self.assertEqual((process.returncode, output), (code, ""), errors)
        self.assertIn(text, errors)
        self.assertEqual(errors.count("\n"), 1, errors)

    def test_refuses_what_it_cannot_start(self):
        script = self.folder / "script.py"
        script.write_text("print('ran')\n")
        self.refuse(3, "no such program in PATH", "gpemu-no-such-program")
        self.refuse(3, "no such file", self.folder / "none")
        self.refuse(2, "is not executable", script)
        self.refuse(2, "it is a folder", self.folder)
        script.write_text("#!/no/such/interpreter\n")
        script.chmod(0o755)
        self.refuse(3, "/no/such/interpreter", script)
        # An ELF header for this machine without a loader: statically linked.
        header = bytearray(pathlib.Path(sys.executable).read_bytes()[:64])
        header[56:58] = bytes(2)
        script.write_bytes(header)
        self.refuse(10, "statically linked", script)
        self.refuse(3, "there is no GPU", "true", options=("--gpu", "V100-PCIE-33GB"))
        self.refuse(2, "--context 40000: V100-PCIE-32GB has 32510 MiB", "true",
                    options=("--gpu", GPU, "--context", "40000"))
        self.refuse(2, '"-" is not a file name', "true", options=("--gpu", GPU, "--trace", "-"))
        self.refuse(7, "cannot write", "true",
                    options=("--gpu", GPU, "--ops", str(self.folder / "none" / "ops")))
        self.refuse(2, "share the file", "true",
                    options=("--gpu", GPU, "--json", str(self.folder / "out"),
                             "--trace", str(self.folder / "out")))
        (self.folder / "a:b").mkdir()
        for gpu in ("a:b/gpu.toml", "a:b/gpu.toml:2"):
            self.refuse(2, "may not contain ':'", "true", options=("--gpu", str(self.folder / gpu)))
        self.refuse(2, "there is no option '--strickt'", "true",
                    options=("--gpu", GPU, "--strickt"))


if __name__ == "__main__":
    unittest.main()
