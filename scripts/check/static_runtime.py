#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs CUDA C++ samples that real nvcc builds, of several versions of CUDA, with both runtimes.

With the shared runtime, each program must print what it prints with every other version, times
included, on the virtual clock. With the static runtime, nvcc's default, each must fail with CUDA's
own error and one line that says how to link it; with --strict, the exit code is gpemu's.
docs/design/static-runtime.md says why. The first run downloads about 2.5 GB.

Usage: scripts/check/static_runtime.py [--gpemu COMMAND] [VERSION]...
       (default: all that scripts/build/install_nvcc.sh knows)
"""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU = "A100-PCIE-40GB"
VERSIONS = ["11.8", "12.4", "12.9", "13.0"]
# Those whose output depends on the emulated GPU alone, not on the host's clock.
SAMPLES = ["graphs", "kernel_code", "pinned_bandwidth", "streams_overlap", "vector_add"]
ADVICE = "nvcc -cudart shared"
ERROR = "operation not supported"  # cudaErrorNotSupported
STRICT_EXIT = 86


def build(version, runtime):
    """Compiles the samples; returns their folder."""
    folder = ROOT / "build/static_runtime" / f"{version}-{runtime}"
    subprocess.run([ROOT / "scripts/build/build_samples.sh", "--cuda", version, "--runtime",
                    runtime, folder], check=True, stdout=subprocess.DEVNULL)
    return folder


def run(gpemu, program, *options):
    command = [gpemu, "run", "--clock", "gpu-only", "--gpu", GPU, *options, "--", program]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def check_shared(gpemu, program, expected):
    """Returns what is wrong with a program of the shared runtime, and its output."""
    done = run(gpemu, program, "--strict", "--quiet")
    if done.returncode != 0:
        return f"ended with {done.returncode}: {(done.stdout + done.stderr).strip()}", None
    if expected is not None and done.stdout != expected:
        return f"printed\n{done.stdout}and not, as with another version,\n{expected}", None
    return None, done.stdout


def check_static(gpemu, program):
    """Returns what is wrong with the refusal of a program of the static runtime."""
    done = run(gpemu, program)
    if done.returncode != 1 or ERROR not in done.stderr:
        return f"ended with {done.returncode} and without '{ERROR}': {done.stderr.strip()}"
    if ADVICE not in done.stderr:
        return f"no line says '{ADVICE}': {done.stderr.strip()}"
    strict = run(gpemu, program, "--strict").returncode
    return None if strict == STRICT_EXIT else f"with --strict, ended with {strict}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=", ".join(VERSIONS))
    parser.add_argument("--gpemu", default=ROOT / "build/dev/tools/gpemu")
    arguments = parser.parse_args()
    unknown = set(arguments.versions) - set(VERSIONS)
    if unknown:
        parser.error(f"unknown version: {', '.join(sorted(unknown))}")
    faults = 0
    expected = {}
    for version in arguments.versions or VERSIONS:
        shared = build(version, "shared")
        static = build(version, "static")
        for sample in SAMPLES:
            fault, printed = check_shared(arguments.gpemu, shared / sample, expected.get(sample))
            refusal = check_static(arguments.gpemu, static / sample)
            expected.setdefault(sample, printed)
            for runtime, wrong in (("shared", fault), ("static", refusal)):
                faults += wrong is not None
                state = wrong or ("runs" if runtime == "shared" else "refused by name")
                print(f"CUDA {version}  {sample:17} {runtime}  {state}", flush=True)
    print(f"{faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
