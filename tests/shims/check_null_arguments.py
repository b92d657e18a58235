#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no implemented function of a shim crashes or hangs on bad arguments.

Calls each on an emulated GPU, after what a program calls first, with
  zeros;
  the address of memory that is full of zeros and may be written: a dead handle, a structure of
    zeros, 138 TB, or, as an int, nearly 2^31 (large) or -2^31 (negative);
  these again, with a live handle where the function takes one.
With zeros and no handle, a call must fail, or succeed if ACCEPTED lists the function. What the
other calls return is not checked.

Usage: check_null_arguments.py <shared object> <functions.def> <CUDA major, or "" for all>
"""

import ctypes
import mmap
import os
import re
import resource
import subprocess
import sys

from functions_def import holds

LINE = re.compile(r"^IMPLEMENTED(?:_(11|12|13))?\((\w+)\)$")
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
    # Source: CUDA Driver API and CUDA Runtime API, "Error Log Management Functions".
    ("cu(da)?LogsRegisterCallback", ADDRESSES, "its argument is called with the log's next line"),
    # They use as many elements of an array as their caller says there are. Source: "Graph
    # Management", "Stream Management" and "Memory Management" there.
    (r"cu(da)?(Graph(Add|Remove)Dependencies|GraphAddNode|StreamBeginCaptureToGraph|"
     r"StreamUpdateCaptureDependencies|MemcpyBatchAsync)(_v2)?(_ptsz)?", ADDRESSES, "reads arrays"),
    # Source: nvml.h, nvmlDeviceGetFieldValues.
    ("nvmlDeviceGetFieldValues", ("large",), "writes an array"),
)]

# Their results are no statuses; a group's end fails if none has begun.
UNCHECKED = re.compile(
    r"nvtx\w+|InitializeInjectionNvtx2|nvshmem\w+|cusparseGetMat\w+|cudnnGetLastErrorString|"
    r"cuFile(UseCount|BatchIODestroy|HandleDeregister)|p?ncclGroupEnd|"
    r"cublas([SDCZ]dot[uc]?|(S|D|Sc|Dz)(nrm2|asum))|"
    r"__cuda((R|Unr)egister(FatBinary(End)?|Function|Var)|GetProcAddress)")
# (functions that succeed with zeros, why).
ACCEPTED = [(re.compile(functions), why) for functions, why in (
    (r"nvml(Init\w*|Shutdown)|p?ncclGroupStart|cu(da)?Profiler(Start|Stop)|cuCtxSynchronize|"
     r"cuda(Device|Thread)(Synchronize|Reset|Exit)|cuInit", "takes no pointer"),
    (r"cuDevice(GraphMemTrim|PrimaryCtx(Release(_v2)?|Reset(_v2)?|SetFlags_v2))|cudaInitDevice|"
     r"cuda(DeviceGraphMemTrim|SetDevice)", "takes a device, and there is a first one"),
    (r"cu(Ctx|da(Device|Thread))Set(CacheConfig|SharedMemConfig|Flags|Limit)|cudaSetDeviceFlags|"
     r"cudaSetValidDevices", "takes a setting whose default is 0"),
    (r"cu(da)?Stream(Query|Synchronize)(_ptsz)?|cu(da)?StreamBeginCapture(_v2)?_ptsz",
     "takes a stream, and 0 is the default one"),
    (r"cuMem(cpy(?!2D|3D|Batch)|set)\w*|cudaMem(cpy(?!3D|Batch|\w+Symbol)|set)\w*|"
     "__cudaPushCallConfiguration", "takes sizes, and 0 is one"),
    ("cuCtxSetCurrent", "leaves the thread without a context"),
    (r"cu(Ctx|daDevice)GetStreamPriorityRange|cuCtxPopCurrent(_v2)?|cu(da)?MemGetInfo(_v2)?|"
     "cuMemGetAddressRange_v2", "results are optional"),
    (r"cuMemFree(Host|_v2|Async(_ptsz)?)|cudaFree(Host|Async(_ptsz)?)?|"
     r"p?nccl(MemFree|CommDestroy|CommAbort)|"
     r"cudnn(Destroy\w+|BackendDestroy)Descriptor|cublasLt\w+Destroy|"
     r"cusparse(Destroy\w+|\w+_destroyDescr)", "frees, as free(NULL) does"),
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
        return [match[2] for match in matches if match and holds(match[1], major)]


def call(loaded, name, *arguments):
    """Makes a call that must succeed, or the check checks nothing."""
    status = getattr(loaded, name)(*arguments)
    if status != 0:
        sys.exit(f"{name} returned {status}")


def start(loaded, soname):
    """Makes the calls without which a library refuses everything, also after a shutdown, and ends
    the capture that cuStreamBeginCapture_ptsz begins: until then, many calls are refused."""
    if soname.startswith("libcuda."):
        context = POINTER()
        call(loaded, "cuInit", 0)
        call(loaded, "cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        call(loaded, "cuCtxSetCurrent", context)
        loaded.cuStreamEndCapture_ptsz(None, ctypes.byref(POINTER()))
    elif soname.startswith("libcudart."):
        call(loaded, "cudaSetDevice", 0)
        loaded.cudaStreamEndCapture_ptsz(None, ctypes.byref(POINTER()))
    elif soname.startswith("libnvidia-ml."):
        call(loaded, "nvmlInit_v2")


def handle_of(name):
    return next((rest for functions, *rest in HANDLES if functions.match(name)), None)


def accepts_zeros(name):
    return any(functions.fullmatch(name) for functions, _ in ACCEPTED)


def new_handle(loaded, create, arguments):
    """Returns a handle for one call, which may end it."""
    handle = POINTER()
    call(loaded, create, *[ctypes.byref(handle) if argument is OUT else argument
                           for argument in arguments])
    return handle


def call_all(library, fill, with_handle, names):
    """In a process of its own: prints each function's name, calls it, and prints the result."""
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
        print(name, end=" ", flush=True)
        print(getattr(loaded, name)(*arguments), flush=True)


def calls_of(output):
    """Returns the words of each line: a function's name and, unless it ended the process, its
    result."""
    return [line.split() for line in output.splitlines()]


def run(library, fill, with_handle, names):
    """Returns how the calls ended, each call's name and result, and what was logged."""
    environment = {**os.environ, "GPEMU_GPU": "V100-PCIE-32GB", "GPEMU_CLOCK": "virtual"}
    for name in ("CUDA_VISIBLE_DEVICES", "GPEMU_NODE", "GPEMU_RECORD_DIR", "GPEMU_STRICT"):
        environment.pop(name, None)
    command = [sys.executable, __file__, "--call", library, fill, *["--handle"] * with_handle]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              errors="replace", check=False, input="\n".join(names),
                              timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as expired:
        return "does not return", calls_of((expired.stdout or b"").decode()), ""
    how = f"ends the process with {done.returncode}" if done.returncode else None
    return how, calls_of(done.stdout), done.stderr


def faults(library, fill, with_handle, names):
    """Yields what is wrong. After a crash, another process goes on with the next function."""
    left = [name for name in names
            if (handle_of(name) or not with_handle) and
            not any(fill in fills and functions.fullmatch(name)
                    for functions, fills, _ in EXCEPTIONS)]
    left *= 2  # the second time, with the state that all others left behind
    arguments = f"a handle and {fill}" if with_handle else fill
    while left:
        how, calls, log = run(library, fill, with_handle, left)
        if fill == "zeros" and not with_handle:
            yield from (f"{name} with zeros returns {result[0]}" for name, *result in calls
                        if result and not UNCHECKED.fullmatch(name) and
                        (result == ["0"]) != accepts_zeros(name))
        if how is None:
            return
        if not calls:
            yield f"{arguments}: nothing was called: {log[-1000:]}"
            return
        yield f"{calls[-1][0]} with {arguments} {how} {log.splitlines()[-1:]}"
        left = left[len(calls):]


def main():
    if sys.argv[1] == "--call":
        call_all(sys.argv[2], sys.argv[3], "--handle" in sys.argv, sys.stdin.read().split())
        return
    library, functions, major = sys.argv[1:4]
    names = functions_of(functions, major)
    found = dict.fromkeys(fault for fill in FILLS for with_handle in (False, True)
                          for fault in faults(library, fill, with_handle, names))
    print(*found, f"{len(names)} functions", sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
