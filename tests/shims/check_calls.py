#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the tests make a good and a bad call of each implemented function of the shims.

Runs the test program, which lists the functions that it calls and how, see CallLog in
loaded_libraries.hpp.

Usage: check_calls.py <test program> <folder of the shims>
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

LINE = re.compile(r"^IMPLEMENTED(?:_11|_12|_13)?\((\w+)\)$", re.MULTILINE)
GOOD, BAD, CALLED = {"good"}, {"bad"}, {"called"}

# (functions, the calls that the tests can make of them, why).
EXCEPTIONS = [(re.compile(functions), calls, why) for functions, calls, why in (
    # Their results are no statuses.
    (r"cublas(Lt)?GetCudartVersion|cublasLtGetVersion|nvshmem_info_get_version|"
     r"cudnnGet(Cudart|MaxDevice)?Version", CALLED, "yields a version"),
    (r"(cublas|cublasLt)GetStatus(Name|String)|(cuda|cusparse)GetError(Name|String)|"
     r"cudnnGet(Last)?ErrorString|p?ncclGet(ErrorString|LastError)|nvmlErrorString|"
     r"nvrtcGetErrorString", CALLED, "yields a text"),
    (r"cublas(S|D|C|Z|Sc|Dz)(dot[uc]?|nrm2|asum)", CALLED, "returns a number"),
    (r"__cuda(GetProcAddress|InitModule|(R|Unr)egister(FatBinary(End)?|Function|Var))", CALLED,
     "is called by code of nvcc, which reads no status"),
    (r"cuFile(Read|Write|UseCount)", CALLED, "returns a count"),
    (r"cuFile(BatchIODestroy|HandleDeregister)|nvshmem_free", CALLED, "returns nothing"),
    (r"nvshmem_(align|calloc|malloc|ptr)|nvshmemx_(buffer_register_symmetric|mc_ptr)", CALLED,
     "returns an address"),
    (r"nvshmem(x|id)_init_status", CALLED, "returns a state"),
    (r"nvtx\w+", CALLED, "returns a depth, a handle or nothing"),
    (r"InitializeInjectionNvtx2", CALLED, "returns 1 if it succeeds"),
    (r"nvshmem_selected_device_transport", set(), "is a variable"),
    # They cannot fail.
    (r"cuda(DeviceReset|ThreadExit|ProfilerStart|ProfilerStop)|p?ncclGroupStart", GOOD,
     "takes no argument, and there is always a device"),
    (r"__cudaPushCallConfiguration", GOOD, "checks nothing; the launch does"),
    (r"cudaDeviceGetStreamPriorityRange|cu(da)?MemGetInfo(_v2)?", GOOD,
     "either result is optional"),
    # They cannot succeed.
    (r"cu(da)?GetExportTable", BAD, "there is no table"),
    (r"cudaStreamSetAttribute(_ptsz)?", BAD, "no attribute of streams is emulated"),
    (r"nvrtcCompileProgram", BAD, "there is no compiler"),
    (r"nvmlDeviceGet(BoardPartNumber|EccMode|FanSpeed(_v2)?|NumFans|"
     r"GpuFabricInfoV?|RetiredPagesPendingStatus|Serial|TotalEccErrors|VbiosVersion)", BAD,
     "an emulated GPU has none"),
    (r"nvmlDeviceGetHandleBySerial", BAD, "an emulated GPU has no serial number"),
    (r"p?ncclCommShrink", BAD, "one rank leaves out nobody; nccl_test.py has several"),
    (r"nvmlEventSetWait(_v2)?", BAD,
     "nodes that the C API makes have no faults; gpu_faults_test.py waits for events"),
)]


def calls_of(program):
    """Returns the calls of each function by a test program, one of whose tests needs a process of
    its own (peers_test.cpp)."""
    with tempfile.NamedTemporaryFile("r") as log:
        for tests in ("*", "Peers.*"):
            done = subprocess.run([program, "--gtest_brief=1", f"--gtest_filter={tests}"],
                                  check=False, capture_output=True, text=True,
                                  env={**os.environ, "GPEMU_TEST_CALLS": log.name})
            if done.returncode != 0:
                sys.exit(f"{program} returns {done.returncode}:\n{done.stdout[-5000:]}")
        calls = {}
        for line in log:
            function, call = line.split()
            calls.setdefault(function, set()).add(call)
        return calls


def expected_of(function):
    return next((calls for functions, calls, _ in EXCEPTIONS if functions.fullmatch(function)),
                GOOD | BAD)


def faults(functions, calls):
    for function in sorted(functions):
        made = calls.get(function, set())
        expected = expected_of(function)
        if expected == CALLED and made:
            made = CALLED
        if made - expected:
            yield f"{function} has a call that EXCEPTIONS rules out: {made - expected}"
        else:
            yield from (f"{function} has no call: {call}" for call in sorted(expected - made))
    yield from (f"EXCEPTIONS matches nothing: {pattern.pattern}" for pattern, _, _ in EXCEPTIONS
                if not any(pattern.fullmatch(function) for function in functions))


def main():
    program, shims = sys.argv[1:]
    functions = {name for table in pathlib.Path(shims).glob("*/functions.def")
                 for name in LINE.findall(table.read_text(encoding="utf-8"))}
    found = list(faults(functions, calls_of(program)))
    print(*found, f"{len(functions)} functions", sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
