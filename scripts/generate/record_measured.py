#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what our own measurements on a real GPU asked it for: evidence/ours/<GPU>/operations, and
evidence/ours/<GPU>-unfitted/operations with the steps that no fit uses.

Runs the measured operations and steps once more, unmodified, on the emulated GPU, and puts what
they ask for beside the times that were measured: evidence/ours/README.md describes the files.
They come from raw.csv, programs.jsonl and the raw tables of a pack of gpemu profile measure.

Usage: scripts/generate/record_measured.py FOLDER --pack PACK --gpu GPU [--only operations|steps]
       [--fitted-steps N] [--gpemu COMMAND] [--python PYTHON]
       (PyTorch 2.11 of scripts/build/install_torch.sh 2.11.0)
"""

import argparse
import collections
import csv
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from recorded_ranges import call_of, operations_in_ranges, write_whole

ROOT = pathlib.Path(__file__).resolve().parents[2]
AT_ONCE = {"raw": 400, "operation": 400, "program": 6, "step": 10}
COPIES = ("copy_host_to_device", "copy_device_to_host")


def measured(folder, pack):
    """Yields (kind, key, precision, layout, phase, model, batch, size, ms) of all that ran."""
    with (folder / "raw.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["outcome"] == "ok":
                layout = next((part for part in ("nchw", "nhwc") if part in row["op"]), "")
                yield ("raw", f"{row['op']} {row['kind']} {row['shape']}", row["kind"], layout,
                       "operations", f"{row['op']} {row['shape']}", 1, 1,
                       float(row["median_us"]) / 1e3)
    operations = pack / "raw/operations.csv"
    with open(operations if operations.exists() else os.devnull, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            # Between events without work before them, short calls show the host.
            if float(row["time_us"]) < (150 if "backward" in row["operation"] else 40):
                continue
            yield ("operation", f"{row['operation']} {row['type']} {row['shape']}", row["type"], "",
                   "operations", f"{row['operation']} {row['shape']}", 1, 1,
                   float(row["time_us"]) / 1e3)
    with (folder / "programs.jsonl").open(encoding="utf-8") as file:
        for row in map(json.loads, file):
            if row["outcome"] == "ok":
                phase = "training" if row["phase"] == "training" else "inference"
                yield ("program", row["name"], row["precision"], row["layout"], phase,
                       row["family"].split()[-1] if row["layout"] else row["name"],
                       row["samples"], 1, row["step_ms"]["median"])
    with (pack / "raw/steps.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["outcome"] == "ok" and row["free_step_ms"]:
                yield ("step", f"{row['model']} {row['precision']} {row['batch']}",
                       row["precision"], "", "training", row["model"], int(row["batch"]), 1,
                       float(row["free_step_ms"]))


# ---------------------------------------------------------------------------- under emulation


def load(path, name):
    import importlib.util
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(folder, kind, keys):
    """Runs what was measured, the last time in a range that recorded_steps() looks for."""
    import torch

    wanted = set(keys)

    def mark(key, run, before=2):
        try:
            function = run()
            for _ in range(before):
                function()
            torch.cuda.nvtx.range_push("recorded " + key)
            function()
            torch.cuda.nvtx.range_pop()
            torch.cuda.synchronize()
        except Exception as error:  # pylint: disable=broad-exception-caught
            print(f"record_measured: {key}: {type(error).__name__}: {error}", file=sys.stderr)
        function = None
        gc.collect()
        torch.cuda.empty_cache()

    if kind == "raw":
        raw = load(ROOT / "tools/measure/raw.py", "raw")
        for lists in (raw.products(), raw.convolutions(), raw.attentions(), raw.streams(),
                      raw.rows_and_others()):
            for op, number, shape, _, _, make in lists:
                if f"{op} {number} {shape}" in wanted:
                    torch.backends.cuda.matmul.allow_tf32 = number == "tf32"
                    torch.backends.cudnn.allow_tf32 = number == "tf32"
                    mark(f"{op} {number} {shape}", make, 1)
    elif kind == "program":
        programs = load(ROOT / "tools/measure/programs.py", "programs")
        programs.declare()
        for key in keys:
            torch.manual_seed(0)
            mark(key, programs.WORKLOADS[key]["build"])
    else:
        tool = load(ROOT / "tools/measure/measure_gpu.py", "measure_gpu")
        if kind == "operation":
            for name, number, shape, make in tool.operation_list(tool.PRECISIONS):
                if f"{name} {number} {shape}" in wanted:
                    tool.set_precision("tf32" if number == "tf32" else "fp32")
                    mark(f"{name} {number} {shape}", make, 1)
            return
        entries = tool.catalogue()
        for key in keys:
            model, precision, batch = key.split()

            def prepared(model=model, precision=precision, batch=batch):
                training = tool.Training(model, entries[model])
                training.load(int(batch), precision)
                return training.step
            mark(key, prepared, 1)


def recorded_steps(path):
    """Returns the operations of each range in a file of gpemu run --ops, by its key."""
    steps, range_now = {}, None
    with path.open(encoding="utf-8") as file:
        for match, entry in operations_in_ranges(file, r"recorded (.*)"):
            if match is not range_now:
                range_now, current = match, []
                steps[match[1]] = current  # Some are listed twice.
            if entry["op"] not in COPIES:
                # The backward pass has its own thread; after it comes the optimizer.
                first = current[0][3] if current else entry["thread"]
                later = bool(current) and (current[-1][2] or entry["thread"] != first)
                current.append((*call_of(entry), later, first))
    return steps


def run(kind, keys, gpu, options):
    with tempfile.TemporaryDirectory() as folder:
        operations = pathlib.Path(folder) / "operations.jsonl"
        command = [options.gpemu, "run", "--quiet", "--gpu", gpu, "--clock", "gpu-only", "--ops",
                   operations, "--", options.python, "-W", "ignore", __file__, "--record",
                   options.folder, kind, json.dumps(keys)]
        site = options.python.parent.parent / "lib/python3.11/site-packages/nvidia/cu13/lib"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
                       "LD_LIBRARY_PATH": str(site)}
        done = subprocess.run(list(map(str, command)), env=environment, check=False,
                              capture_output=True, text=True)
        sys.stderr.write("".join(line + "\n" for line in done.stderr.splitlines()
                                 if line.startswith("record_measured")))
        if done.returncode != 0:
            print(f"record_measured: {done.stderr[-500:]}", file=sys.stderr)
        return recorded_steps(operations) if operations.exists() else {}


# ---------------------------------------------------------------------------- files


def write_group(path, group, rows, gpu):
    calls, lines = {}, []
    for _, _, _, _, phase, model, batch, size, ms, operations in rows:
        counts = collections.defaultdict(lambda: [0, 0])
        for call, shape, later, _ in operations:
            backward = later and phase == "training"
            counts[calls.setdefault(call, len(calls)), shape][backward] += 1
        step = {"model": model, "batch": batch, "size": size, "ms": {gpu: round(ms, 6)},
                "operations": [[call, *both, *shape] for (call, shape), both in counts.items()]}
        lines.append(json.dumps(step, separators=(",", ":")))
    source, precision, layout, phase = group
    head = {"format": "gpemu-published-operations-1", "source": source, "precision": precision,
            "layout": layout, "phase": phase, "calls": [json.loads(call) for call in calls]}
    write_whole(path, "\n".join([json.dumps(head, separators=(",", ":")), *lines]) + "\n")
    print(f"wrote {path}: {len(lines)}")


def main():
    if sys.argv[1:2] == ["--record"]:
        record(pathlib.Path(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pack", type=pathlib.Path, required=True)
    parser.add_argument("--gpu", required=True)
    parser.add_argument("--only", choices=("operations", "steps"))
    parser.add_argument("--fitted-steps", type=int, default=1 << 30, metavar="N",
                        help="only the pack's first N steps go into FOLDER (H200: 40)")
    parser.add_argument("--gpemu", type=pathlib.Path, default=ROOT / "build/release/tools/gpemu")
    parser.add_argument("--python", type=pathlib.Path, default=pathlib.Path.home()
                        / ".cache/gpemu/torch-2.11.0/bin/python")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    for needed in (options.folder / "raw.csv", options.folder / "programs.jsonl",
                   options.pack / "raw/steps.csv"):
        if not needed.exists():
            parser.error(f"{needed} is missing: evidence/ours/README.md tells what makes it")
    rows = collections.defaultdict(list)
    for row in measured(options.folder, options.pack):
        is_operation = row[0] in ("raw", "operation")
        if options.only in (None, "operations" if is_operation else "steps"):
            rows[row[0]].append(row)
    unfitted = {row[1] for row in rows["step"][options.fitted_steps:]}
    groups = collections.defaultdict(list)
    for kind, of_kind in rows.items():
        for begin in range(0, len(of_kind), AT_ONCE[kind]):
            some = of_kind[begin:begin + AT_ONCE[kind]]
            found = run(kind, [row[1] for row in some], options.gpu, options)
            for row in some:
                if found.get(row[1]):
                    source = "operations" if row[4] == "operations" else kind + "s"
                    folder = options.folder
                    if kind == "step" and row[1] in unfitted:
                        folder = folder.with_name(folder.name + "-unfitted")
                    group = folder / "operations", (source, row[2], row[3], row[4])
                    groups[group].append((*row, found[row[1]]))
            print(f"{kind} [{begin + len(some)}/{len(of_kind)}]", file=sys.stderr, flush=True)
    for (output, group), of_group in sorted(groups.items()):
        output.mkdir(parents=True, exist_ok=True)
        parts = dict.fromkeys(part for part in group if part)
        write_group(output / ("-".join(parts) + ".jsonl"), group, of_group, options.gpu)


if __name__ == "__main__":
    main()
