#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the models of a pack ask a GPU for, as unmodified PyTorch programs on an emulated
GPU, and writes one file a model to the pack's folder "operations". See
docs/reference/recording-format.md.

PACK is a folder such as evidence/packs/gpemu-vldb25. With --check nothing is written: the exit
code is 1 when a recording is not the same as the pack's.

Usage: scripts/generate/record_models.py PACK [--check] [--gpu GPU] [--model MODEL]...
       [--gpemu COMMAND] [--python PYTHON]
"""

import argparse
import csv
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "examples/pytorch/measure_models.py"
# Three batches show whether numbers are affine in the batch; none is small enough for special
# kernels.
BATCHES = (16, 32, 48)


def record(model, folder, options):
    """Returns the content of a model's recording."""
    operations = folder / f"{model}.ops"
    # As in the check of the models' times: the measured PyTorch 1.8 had no such workspace. Without
    # its cache PyTorch asks for the memory of each tensor by itself.
    environment = {"CUBLAS_WORKSPACE_CONFIG": ":0:0", "CUBLASLT_WORKSPACE_SIZE": "0",
                   "OMP_NUM_THREADS": "1", **os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    run = [options.gpemu, "run", "--quiet", "--gpu", options.gpu, "--clock", "gpu-only",
           "--ops", operations, "--", options.python, "-W", "ignore", PROGRAM, "record",
           *(f"{model}:{batch}" for batch in BATCHES)]
    condense = [options.gpemu, "cost", "condense", operations, "--output", folder]
    for command in (run, condense):
        result = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL,
                                env=environment, check=False)
        if result.returncode != 0:
            sys.exit(f"record_models: {model}: {' '.join(map(str, command[:3]))} ended with "
                     f"{result.returncode}")
    operations.unlink()
    return folder / f"{model}.json"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pack", type=pathlib.Path)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--gpu", default="A100-SXM4-40GB")
    parser.add_argument("--model", action="append", dest="models")
    parser.add_argument("--gpemu", default=ROOT / "build/dev/tools/gpemu")
    parser.add_argument("--python", default=sys.executable, help="one that has PyTorch")
    options = parser.parse_args()
    models = options.models
    if models is None:
        with (options.pack / "models.csv").open(newline="", encoding="utf-8") as file:
            models = [row["model"] for row in csv.DictReader(file)]
    target = options.pack / "operations"
    differing = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            recorded = record(model, pathlib.Path(folder), options)
            known = target / recorded.name
            if not options.check:
                target.mkdir(exist_ok=True)
                shutil.copy(recorded, known)
            elif not known.exists() or known.read_bytes() != recorded.read_bytes():
                differing.append(model)
            print(f"{model}: {recorded.stat().st_size} bytes", flush=True)
    if differing:
        sys.exit(f"record_models: recorded otherwise: {', '.join(differing)}")


if __name__ == "__main__":
    main()
