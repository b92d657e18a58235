#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the answers of an emulated GPU with those that were recorded on a real one.

A recording is a CSV file with a line for each question: the real answer and, if the emulated one
differs, that and why. The questions are

  attribute N          the value of CUdevice_attribute N, by the runtime and the driver
  limit N              of the context; "status S" if it cannot be read
  set limit N to V     what the limit is then, or "status S"
  malloc B             bytes by which free memory shrinks with each of four allocations of B bytes,
                       and grows with each when they are freed
  zeros LIBRARY NAME   the status of a function called with zeros

Examples:
  # On a machine with a GPU and NVIDIA's libraries, which it uses for ten seconds:
  scripts/check/compare_with_gpu.py record my_gpu.csv
  # Anywhere:
  scripts/check/compare_with_gpu.py check my_gpu.csv --gpu H200-SXM-141GB --shims build/dev/shims
"""

import argparse
import csv
import ctypes
import os
import pathlib
import signal
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "shims"
sys.path.insert(0, str(TESTS))

import check_null_arguments  # noqa: E402

RECORDED = TESTS / "recorded" / "h200.csv"
COLUMNS = ("question", "real", "emulated", "why")
# By the name in questions: where the shim is, and the names by which the real one may be found.
LIBRARIES = {
    "cuda": ("common/libcuda.so.1",),
    "cudart": ("cuda13/libcudart.so.13", "libcudart.so.12"),
    "nvml": ("common/libnvidia-ml.so.1",),
    "cublas": ("cuda13/libcublas.so.13", "libcublas.so.12"),
    "cublaslt": ("cuda13/libcublasLt.so.13", "libcublasLt.so.12"),
    "cudnn": ("common/libcudnn.so.9",),
    "cufft": ("cuda13/libcufft.so.12", "libcufft.so.11"),
    "cusolver": ("cuda13/libcusolver.so.12", "libcusolver.so.11"),
    "cusparse": ("cuda13/libcusparse.so.12",),
    "nccl": ("common/libnccl.so.2",),
    "curand": ("common/libcurand.so.10",),
}
ALLOCATIONS = 4
TIMEOUT_S = 100


def path_of(library, shims):
    """Returns a file to load: a shim or, without shims, the first real library there is."""
    if library not in LIBRARIES:
        sys.exit(f"there is no library {library!r}; questions may name {', '.join(LIBRARIES)}")
    names = LIBRARIES[library]
    if shims:
        path = pathlib.Path(shims).resolve() / names[0]
        if not path.exists():
            sys.exit(f"{path} does not exist; --shims names the folder shims of a build")
        return str(path)
    for name in map(os.path.basename, names):
        try:
            ctypes.CDLL(name)
            return name
        except OSError:
            continue
    return None


class Gpu:
    """The answers of the runtime and the driver in this process."""

    def __init__(self, shims):
        paths = [path_of(library, shims) for library in ("cudart", "cuda")]
        if None in paths:
            sys.exit("libcudart.so or libcuda.so.1 is not found; set LD_LIBRARY_PATH to its folder")
        self.runtime, self.driver = map(ctypes.CDLL, paths)
        if self.runtime.cudaFree(None) != 0 or self.driver.cuInit(0) != 0:
            sys.exit("CUDA finds no GPU")

    def both(self, runtime, driver, kind, *arguments):
        """Returns what both functions yield, or all answers if they disagree."""
        answers = set()
        for function in (getattr(self.runtime, runtime), getattr(self.driver, driver)):
            value = kind()
            status = function(ctypes.byref(value), *arguments)
            answers.add(f"status {status}" if status else str(value.value))
        return " or ".join(sorted(answers))

    def attribute(self, number):
        return self.both("cudaDeviceGetAttribute", "cuDeviceGetAttribute", ctypes.c_int,
                         int(number), 0)

    def limit(self, number):
        return self.both("cudaDeviceGetLimit", "cuCtxGetLimit", ctypes.c_size_t, int(number))

    def set_limit(self, number, value):
        before = ctypes.c_size_t()
        self.runtime.cudaDeviceGetLimit(ctypes.byref(before), int(number))
        status = self.runtime.cudaDeviceSetLimit(int(number), ctypes.c_size_t(int(value)))
        answer = f"status {status}" if status else self.limit(number)
        self.runtime.cudaDeviceSetLimit(int(number), before)
        return answer

    def free(self):
        free = ctypes.c_size_t()
        self.runtime.cudaMemGetInfo(ctypes.byref(free), None)
        return free.value

    def malloc(self, size):
        changes, pointers = [], [ctypes.c_void_p() for _ in range(ALLOCATIONS)]
        for pointer in pointers:
            before = self.free()
            status = self.runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(int(size)))
            if status:
                return f"status {status}"
            changes.append(before - self.free())
        for pointer in pointers:
            before = self.free()
            self.runtime.cudaFree(pointer)
            changes.append(self.free() - before)
        return " ".join(map(str, changes))

    def answer(self, question):
        match question.split():
            case ["attribute", number]:
                return self.attribute(number)
            case ["limit", number]:
                return self.limit(number)
            case ["set", "limit", number, "to", value]:
                return self.set_limit(number, value)
            case ["malloc", size]:
                return self.malloc(size)
        sys.exit(f"unknown question: {question}")


def call_with_zeros(path, names):
    """In a process of its own: prints each function's name, calls it, and prints the result."""
    loaded = ctypes.CDLL(path)
    for name in names:
        check_null_arguments.start(loaded, os.path.basename(path))
        print(name, end=" ", flush=True)
        arguments = [ctypes.c_void_p(0)] * check_null_arguments.ARGUMENTS
        print(getattr(loaded, name)(*arguments), flush=True)


def statuses(path, names, environment):
    """Returns the statuses of functions called with zeros; after a crash, another process goes
    on."""
    results, left = {}, list(names)
    while left:
        done = subprocess.run([sys.executable, __file__, "zeros", path], env=environment,
                              input="\n".join(left), capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S)
        calls = check_null_arguments.calls_of(done.stdout)
        results.update({name: result[0] if result else f"ends with {done.returncode}"
                        for name, *result in calls})
        if done.returncode == 0:
            return results
        if not calls:
            sys.exit(f"{path}: ends with {done.returncode}: {done.stderr[-1000:]}")
        left = left[len(calls):]
    return results


def answers_to(questions, shims, environment):
    of_library, others = {}, []
    for question in questions:
        if question.startswith("zeros "):
            of_library.setdefault(question.split()[1], []).append(question.split()[2])
        else:
            others.append(question)
    command = [sys.executable, __file__, "answer", *(["--shims", shims] if shims else [])]
    done = subprocess.run(command, env=environment, input="\n".join(others), text=True,
                          stdout=subprocess.PIPE, check=False, timeout=TIMEOUT_S)
    if done.returncode:
        sys.exit(done.returncode)
    answers = dict(zip(others, done.stdout.splitlines(), strict=True))
    for library, names in of_library.items():
        path = path_of(library, shims)
        found = {} if path is None else statuses(path, names, environment)
        answers.update({f"zeros {library} {name}": status for name, status in found.items()})
    return answers


def read_rows(path):
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}")
    if not rows or tuple(rows[0]) != COLUMNS:
        sys.exit(f"{path}: expected a CSV file with the columns {', '.join(COLUMNS)}")
    return rows


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def record(options):
    """Asks a real GPU. Questions whose answer is a crash are left out."""
    answers = answers_to([row["question"] for row in read_rows(options.questions)], None,
                         dict(os.environ))
    rows = [dict(zip(COLUMNS, (question, answer, "", ""))) for question, answer in answers.items()
            if not answer.startswith("ends ")]
    write_rows(options.recording, rows)
    print(f"{options.recording}: {len(rows)} answers")
    return 0


def check(options):
    """Asks an emulated GPU, and compares."""
    rows = read_rows(options.recording)
    environment = {**os.environ, "GPEMU_GPU": options.gpu, "GPEMU_CLOCK": "virtual"}
    for name in ("CUDA_VISIBLE_DEVICES", "GPEMU_NODE", "GPEMU_RECORD_DIR", "GPEMU_STRICT",
                 "GPEMU_CONTEXT_MIB", "GPEMU_MEMORY_MIB"):
        environment.pop(name, None)
    answers = answers_to([row["question"] for row in rows], options.shims, environment)
    unexpected = 0
    for row in rows:
        answer = answers.get(row["question"], "no answer")
        fault = None
        if answer != (row["emulated"] or row["real"]):
            fault = f"{answer}, but the real answer is {row['real']}"
            fault += f" and {row['emulated']} is expected" if row["emulated"] else ""
        elif bool(row["emulated"]) != bool(row["why"]):
            fault = "the file gives no reason for the difference" if row["emulated"] else \
                "the file gives a reason, but there is no difference"
        if fault:
            unexpected += 1
            print(f"{row['question']}: {fault}")
        row["emulated"] = "" if answer == row["real"] else answer
    if options.write:
        write_rows(options.recording, rows)
    differences = sum(bool(row["emulated"]) for row in rows)
    print(f"{len(rows)} answers, {differences} differ from the real ones, {unexpected} are "
          "unexpected")
    return 1 if unexpected else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="ask the real GPU of this machine")
    recorder.add_argument("recording", help="the file to write")
    recorder.add_argument("--questions", default=RECORDED, help="a recording with the questions")
    checker = commands.add_parser("check", help="ask an emulated GPU, and compare")
    checker.add_argument("recording")
    checker.add_argument("--gpu", required=True, help="the kind of the emulated GPU")
    checker.add_argument("--shims", required=True, help="the folder of common/ and cuda13/")
    checker.add_argument("--write", action="store_true", help="replace the emulated answers")
    asked = commands.add_parser("answer")  # in a process of its own
    asked.add_argument("--shims")
    commands.add_parser("zeros").add_argument("library")  # likewise
    options = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if options.command == "answer":
        gpu = Gpu(options.shims)
        for question in sys.stdin.read().splitlines():
            print(gpu.answer(question))
        return 0
    if options.command == "zeros":
        call_with_zeros(options.library, sys.stdin.read().split())
        return 0
    return {"record": record, "check": check}[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
