#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no implemented function of a shim crashes or hangs on bad arguments.

Calls each on an emulated GPU, after what a program calls first, with
  zeros;
  the address of memory that is full of zeros and may be written: a dead handle, a structure of
    zeros, 138 TB, or, as an int, nearly 2^31 (large) or -2^31 (negative);
  these again, with a live handle where the function takes one.
What the calls return is not checked.

Usage: check_null_arguments.py <shared object> <functions.def> <CUDA major, or "" for all>
"""

import ctypes
import mmap
import os
import re
import resource
import subprocess
import sys

LINE = re.compile(r"^IMPLEMENTED(?:_(12|13))?\((\w+)\)$")
# Structures that are passed by value need more than one word: an ncclUniqueId is 128 bytes.
ARGUMENTS = 32
HALF_BYTES = 1 << 20
MEMORY_ADDRESS = 0x7E0080000000 - HALF_BYTES  # in the middle, bit 31 changes: the sign of an int
# A call that takes more memory than this for a size out of range ends as in a crash.
MOST_MEMORY_BYTES = 4 << 30
TIMEOUT_S = 120
FILLS = {"zeros": 0, "large": MEMORY_ADDRESS, "negative": MEMORY_ADDRESS + HALF_BYTES}

# (functions, which of their arguments is a handle, what makes one, the arguments of that).
OUT = object()
POINTER = ctypes.c_void_p
HANDLES = [(re.compile(functions), *rest) for functions, *rest in (
    (r"cublas(?!Lt|Create|Get(Property|Status|Cudart)|\w*Logger)", 0, "cublasCreate_v2", OUT),
    (r"cublasLt(?!\w*Create|\w*AlgoConfig|Get|\w*Logger)", 0, "cublasLtCreate", OUT),
    (r"cudnn(?!\w*Create|Get(Property|Error|Version|Cudart|MaxDevice))", 0, "cudnnCreate", OUT),
    (r"cufft(?!Create|Plan|Get(Version|Property)|Estimate)", 0, "cufftCreate", OUT),
    (r"curand(?!Create|Get)", 0, "curandCreateGenerator", OUT, 100),
    (r"cusolverDn(?!Create)", 0, "cusolverDnCreate", OUT),
    (r"cusparse(?!Lt|Create(?!Identity)|Get(Property|Error|Version))", 0, "cusparseCreate", OUT),
    (r"cuGraph(Get|AddDep|RemoveDep|Release|Retain|Destroy$)", 0, "cuGraphCreate", OUT, 0),
    (r"cuGraph(Add\w*Node|Instantiate)", 1, "cuGraphCreate", OUT, 0),
    (r"cuStream(?!Create)", 0, "cuStreamCreate", OUT, 0),
    (r"cuEvent(?!Create|Elapsed)", 0, "cuEventCreate", OUT, 0),
    (r"cudaGraph(Get|AddDep|RemoveDep|Release|Retain|Destroy$)", 0, "cudaGraphCreate", OUT, 0),
    (r"cudaGraph(Add\w*Node|Instantiate)", 1, "cudaGraphCreate", OUT, 0),
    (r"cudaStream(?!Create)", 0, "cudaStreamCreate", OUT),
    (r"cudaEvent(?!Create|Elapsed)", 0, "cudaEventCreate", OUT),
    (r"p?ncclComm(?!Init|Abort)", 0, "ncclCommInitAll", OUT, 1, None),
    (r"nvmlDevice(?!Get(Count|HandleBy))", 0, "nvmlDeviceGetHandleByIndex_v2", 0, OUT),
)]

# (functions, arguments with which they are not called, why).
ADDRESSES = ("large", "negative")
EXCEPTIONS = [(re.compile(functions), *rest) for functions, *rest in (
    ("nvshmem_selected_device_transport", FILLS, "is a variable"),
    # Source: nvtxTypes.h, NvtxInitializeInjectionNvtxFunc_t.
    ("InitializeInjectionNvtx2", ADDRESSES, "calls its argument"),
    # Source: CUDA driver and runtime API, "Error Log Management".
    ("cu(da)?LogsRegisterCallback", ADDRESSES, "its argument is called with the log's next line"),
    # They use as many elements of an array as their caller says there are. Source: CUDA driver and
    # runtime API, "Graph Management", "Stream Management" and "Memory Management".
    (r"cu(da)?(Graph(Add|Remove)Dependencies|GraphAddNode|StreamBeginCaptureToGraph|"
     r"StreamUpdateCaptureDependencies|MemcpyBatchAsync)(_v2)?(_ptsz)?", ADDRESSES, "reads arrays"),
    # Source: "Device Management" there; nvml.h, nvmlDeviceGetFieldValues.
    ("cudaSetValidDevices", ("large",), "reads an array"),
    ("nvmlDeviceGetFieldValues", ("large",), "writes an array"),
)]


def make_memory():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = POINTER
    libc.mmap.argtypes = (POINTER, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    fixed_no_replace = 0x100000  # MAP_FIXED_NOREPLACE, which Python does not name
    memory = libc.mmap(MEMORY_ADDRESS, 2 * HALF_BYTES, mmap.PROT_READ | mmap.PROT_WRITE,
                       mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | fixed_no_replace, -1, 0)
    if memory != MEMORY_ADDRESS:
        sys.exit(f"cannot map {MEMORY_ADDRESS:#x}: {os.strerror(ctypes.get_errno())}")


def functions_of(path, major):
    with open(path, encoding="utf-8") as file:
        matches = (LINE.match(line.strip()) for line in file)
        return [match[2] for match in matches if match and match[1] in (None, major)]


def call(loaded, name, *arguments):
    """Makes a call that must succeed, or the check checks nothing."""
    status = getattr(loaded, name)(*arguments)
    if status != 0:
        sys.exit(f"{name} returned {status}")


def start(loaded, soname):
    """Makes the calls without which a library refuses everything; also after a shutdown."""
    if soname.startswith("libcuda."):
        context = POINTER()
        call(loaded, "cuInit", 0)
        call(loaded, "cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        call(loaded, "cuCtxSetCurrent", context)
    elif soname.startswith("libcudart."):
        call(loaded, "cudaSetDevice", 0)
    elif soname.startswith("libnvidia-ml."):
        call(loaded, "nvmlInit_v2")


def handle_of(name):
    return next((rest for functions, *rest in HANDLES if functions.match(name)), None)


def new_handle(loaded, create, arguments):
    """Returns a handle for one call, which may end it."""
    handle = POINTER()
    call(loaded, create, *[ctypes.byref(handle) if argument is OUT else argument
                           for argument in arguments])
    return handle


def call_all(library, fill, with_handle, names):
    """In a process of its own: prints the name of each function before calling it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    loaded = ctypes.CDLL(library)
    make_memory()
    for name in names:
        start(loaded, os.path.basename(library))
        arguments = [POINTER(FILLS[fill])] * ARGUMENTS
        if with_handle:
            position, create, *its_arguments = handle_of(name)
            arguments[position] = new_handle(loaded, create, its_arguments)
        ctypes.memset(MEMORY_ADDRESS, 0, 2 * HALF_BYTES)
        print(name, flush=True)
        getattr(loaded, name)(*arguments)


def run(library, fill, with_handle, names):
    """Returns how the calls ended, the functions that were called, and what was logged."""
    environment = {**os.environ, "GPEMU_GPU": "V100-PCIE-32GB", "GPEMU_CLOCK": "virtual"}
    for name in ("CUDA_VISIBLE_DEVICES", "GPEMU_NODE", "GPEMU_RECORD_DIR", "GPEMU_STRICT"):
        environment.pop(name, None)
    command = [sys.executable, __file__, "--call", library, fill, *["--handle"] * with_handle]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              errors="replace", check=False, input="\n".join(names),
                              timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as expired:
        return "does not return", (expired.stdout or b"").decode().split(), ""
    how = f"ends the process with {done.returncode}" if done.returncode else None
    return how, done.stdout.split(), done.stderr


def faults(library, fill, with_handle, names):
    """Yields what is wrong. After a crash, another process goes on with the next function."""
    left = [name for name in names
            if (handle_of(name) or not with_handle) and
            not any(fill in fills and functions.fullmatch(name)
                    for functions, fills, _ in EXCEPTIONS)]
    left *= 2  # the second time, with the state that all others left behind
    arguments = f"a handle and {fill}" if with_handle else fill
    while left:
        how, called, log = run(library, fill, with_handle, left)
        if how is None:
            return
        if not called:
            yield f"{arguments}: nothing was called: {log[-1000:]}"
            return
        yield f"{called[-1]} with {arguments} {how} {log.splitlines()[-1:]}"
        left = left[len(called):]


def main():
    if sys.argv[1] == "--call":
        call_all(sys.argv[2], sys.argv[3], "--handle" in sys.argv, sys.stdin.read().split())
        return
    library, functions, major = sys.argv[1:4]
    names = functions_of(functions, major)
    found = [fault for fill in FILLS for with_handle in (False, True)
             for fault in faults(library, fill, with_handle, names)]
    print(*found, f"{len(names)} functions", sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
