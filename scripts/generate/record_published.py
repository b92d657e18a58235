#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what published steps ask a GPU for, and writes one file a group to
evidence/published/operations.

The steps are those of evidence/published/steps.csv. Their models come from PyPI, as
scripts/claims/check_published.py installs them, and run unmodified on an emulated GPU that has
memory for any of them; nothing waits for the GPU. A step that ran on several GPUs is recorded once.
evidence/published/README.md describes the files.

Steps that were recorded are kept in the cache, so that a run that was stopped goes on where it was.
Those that the cache does not have stay as they are in the files, so that --only records some anew.

Usage: scripts/generate/record_published.py [--only TEXT] [--gpemu COMMAND] [--python PYTHON]
       (PyTorch 2.8 of scripts/build/install_torch.sh 2.8.0; three seconds a step)
"""

import argparse
import collections
import csv
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLAIMS = ROOT / "scripts/claims"
sys.path[:0] = [str(CLAIMS), str(pathlib.Path(__file__).parent)]
from check_published import is_normalized_in_place
from recorded_ranges import CALL, call_of, operations_in_ranges, write_whole

PUBLISHED = ROOT / "evidence/published"
KEY = ("source", "model", "precision", "layout", "phase", "batch", "size")
GROUP = ("source", "precision", "layout", "phase")
STEP = ("model", "batch", "size")
# How many steps one program records.
AT_ONCE = 12


def record(specs):
    """Runs steps, the last one of each in ranges that the converter looks for."""
    import gc

    import published_step
    import torch

    for number, spec in enumerate(specs):
        try:
            step = published_step.Step(spec)
            for last in (False, False, True):
                push = torch.cuda.nvtx.range_push if last else lambda _: None
                pop = torch.cuda.nvtx.range_pop if last else lambda: None
                push(f"recorded {number} forward")
                loss = step.forward()
                pop()
                if step.training:
                    push(f"recorded {number} backward")
                    step.backward(loss)
                    pop()
            torch.cuda.synchronize()
        except Exception as error:  # pylint: disable=broad-exception-caught
            print(f"record_published: {spec['model']}: {type(error).__name__}: {error}",
                  file=sys.stderr)
        loss = step = None
        gc.collect()
        torch.cuda.empty_cache()


def recorded_steps(path):
    """Returns the operations of each step in a file of gpemu run --ops, by number and phase."""
    steps = collections.defaultdict(lambda: collections.defaultdict(list))
    with path.open(encoding="utf-8") as file:
        for match, entry in operations_in_ranges(file, r"recorded (\d+) (\w+)"):
            if entry["op"] != "copy_device_to_host":
                steps[int(match[1])][match[2]].append(call_of(entry))
    return steps


def run_steps(specs, gpu, options):
    """Returns what each spec's step asks for, or None if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        operations = pathlib.Path(folder) / "operations.jsonl"
        command = [options.gpemu, "run", "--quiet", "--gpu", gpu, "--clock", "gpu-only", "--ops",
                   operations, "--", options.python, "-W", "ignore", __file__, "--record",
                   json.dumps(specs)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(options.timm)}
        done = subprocess.run(list(map(str, command)), env=environment, check=False,
                              capture_output=True, text=True)
        sys.stderr.write("".join(line + "\n" for line in done.stderr.splitlines()
                                 if line.startswith("record_published")))
        if done.returncode != 0:
            print(f"record_published: {done.stderr[-500:]}", file=sys.stderr)
        steps = recorded_steps(operations) if operations.exists() else {}
    results = []
    for number, spec in enumerate(specs):
        phases = steps.get(number)
        whole = phases and ("backward" in phases or spec["phase"] == "inference")
        results.append({name: phases[name] for name in ("forward", "backward") if name in phases}
                       if whole else None)
    return results


def roomy_gpu(folder):
    """Writes a GPU's file with memory for any step."""
    text = (ROOT / "catalog/gpus/RTX-3090.toml").read_text(encoding="utf-8")
    text = re.sub(r"capacity_mib = \{ value = \d+", "capacity_mib = { value = 1048576", text)
    path = pathlib.Path(folder) / "RTX-3090.toml"
    path.write_text(text.replace('name = "RTX-3090"', 'name = "RTX-3090-roomy"'), encoding="utf-8")
    return path


def read_specs():
    """Returns the steps without GPU and time, each once, and their times by GPU."""
    specs, times = {}, collections.defaultdict(dict)
    with (PUBLISHED / "steps.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            spec = {**{name: row[name] for name in KEY}, "batch": int(row["batch"]),
                    "size": int(row["size"])}
            specs[json.dumps(spec)] = spec
            times[json.dumps(spec)][row["gpu"]] = float(row["ms"])
    return specs, times


def counted(spec, phases):
    """Returns a step's line of a file, but its calls as they are, not by number."""
    counts = collections.defaultdict(lambda: [0, 0])
    copied = 0
    for phase, operations in phases.items():
        for call, shape in operations:
            if json.loads(call)["op"].startswith("copy_host"):
                copied += shape[0]
                continue
            counts[in_place(spec, call), tuple(shape)][phase == "backward"] += 1
    return copied, [(call, *both, *shape) for (call, shape), both in counts.items()]


def in_place(spec, call):
    """Marks what InplaceABN's kernels, of which published_step.py asks for as many others, find
    element by element: one block has a channel, whose elements are not adjacent with the channels
    last. Source: inplace_abn_kernels.cuh of InplaceABN 1.1, packed accessors of three dimensions.
    """
    fields = {**json.loads(call), "access": "strided"}
    if (spec["layout"] == "nhwc" and is_normalized_in_place(spec)
            and fields["op"].startswith("normalization")):
        return json.dumps({key: fields[key] for key in CALL if key in fields})
    return call


def steps_of_group(group):
    """Returns what a group's file has, by model, batch and size."""
    path = path_of(group)
    if not path.exists():
        return {}
    head, *steps = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    calls = [json.dumps(call) for call in head["calls"]]
    return {tuple(step[name] for name in STEP):
            (step.get("copied", 0), [(calls[first], *rest) for first, *rest in step["operations"]])
            for step in steps}


def path_of(group):
    return PUBLISHED / "operations" / ("-".join(filter(None, group)) + ".jsonl")


def write_group(group, steps):
    """Writes a file: a first line with the calls, and a line for each step."""
    calls, lines = {}, []
    for spec, times, (copied, operations) in steps:
        step = {name: spec[name] for name in STEP}
        step["ms"] = times
        if copied > 0:
            step["copied"] = copied
        step["operations"] = [[calls.setdefault(call, len(calls)), *rest]
                              for call, *rest in operations]
        lines.append(json.dumps(step, separators=(",", ":")))
    head = {"format": "gpemu-published-operations-1", **dict(zip(GROUP, group)),
            "calls": [json.loads(call) for call in calls]}
    path = path_of(group)
    path.parent.mkdir(exist_ok=True)
    write_whole(path, "\n".join([json.dumps(head, separators=(",", ":")), *lines]) + "\n")
    print(f"wrote {path.relative_to(ROOT)}: {len(lines)} steps")


def parse_arguments():
    import check_published
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="steps whose description contains a text")
    parser.add_argument("--limit", type=int, default=10**6, help="new steps to record at most")
    parser.add_argument("--gpemu", type=pathlib.Path, default=ROOT / "build/release/tools/gpemu")
    parser.add_argument("--python", type=pathlib.Path,
                        default=check_published.CACHE / "torch-2.8.0/bin/python")
    parser.add_argument("--cache", type=pathlib.Path,
                        default=check_published.CACHE / "published-operations")
    options = parser.parse_args()
    options.timm = check_published.TIMM
    options.left_out = check_published.LEFT_OUT
    check_published.install_timm(options.python)
    return options


def main():
    if sys.argv[1:2] == ["--record"]:
        record(json.loads(sys.argv[2]))
        return
    options = parse_arguments()
    options.cache.mkdir(parents=True, exist_ok=True)
    specs, times = read_specs()
    cached = {key: options.cache / (re.sub(r"[^a-z0-9]+", "-", " ".join(map(str, spec.values())))
                                    + ".json") for key, spec in specs.items()}
    todo = [spec for key, spec in specs.items()
            if not cached[key].exists() and options.only in key
            and spec["model"] not in options.left_out][:options.limit]
    random.Random(1).shuffle(todo)  # What is there after a part of the run shows all groups.
    with tempfile.TemporaryDirectory() as folder:
        gpu = roomy_gpu(folder)
        for begin in range(0, len(todo), AT_ONCE):
            some = todo[begin:begin + AT_ONCE]
            for spec, phases in zip(some, run_steps(some, gpu, options)):
                if phases is not None:
                    write_whole(cached[json.dumps(spec)], json.dumps(phases))
            print(f"[{begin + len(some)}/{len(todo)}]", file=sys.stderr, flush=True)
    groups = collections.defaultdict(list)
    for key, spec in specs.items():
        groups[tuple(spec[name] for name in GROUP)].append((key, spec))
    for group, members in sorted(groups.items()):
        known, steps = steps_of_group(group), []
        for key, spec in members:
            step = known.get(tuple(spec[name] for name in STEP))
            if cached[key].exists():
                step = counted(spec, json.loads(cached[key].read_text(encoding="utf-8")))
            if step is not None:
                steps.append((spec, times[key], step))
        write_group(group, steps)


if __name__ == "__main__":
    main()
