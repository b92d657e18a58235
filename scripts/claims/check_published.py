#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks whether the bars that gpemu predict states hold steps that others measured and published.

Draws steps from evidence/published/steps.csv, both memory layouts, from each group of source,
precision, layout and phase; runs the model of each step with gpemu predict, which waits for no GPU;
and prints for each group how many of the published times lie within time / (1 + bar) and
time x (1 + bar). The exit code is 1 when that is not 85 to 95 % of all steps drawn. A step that is
told not to fit, though it ran, and one that fails count as not held.

Results are kept, one JSON object per line, so that a run that was stopped goes on where it was.
They hold for the command that made them: with another, all steps are predicted anew. Steps that
failed are tried again.

Usage: scripts/claims/check_published.py [--rows 100] [--seed 1] [--results FILE] [--gpemu COMMAND]
       [--python PYTHON] [--jobs 1]
       (PyTorch 2.8 of scripts/build/install_torch.sh 2.8.0; timm is installed beside it;
       some 10 s per step)
"""

import argparse
import collections
import csv
import hashlib
import json
import math
import multiprocessing.pool
import os
import pathlib
import random
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "evidence/published"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "gpemu"
TIMM = CACHE / "timm-1.0.19"
TIMM_PACKAGES = ("timm==1.0.19", "pyyaml", "safetensors", "huggingface_hub==0.36.0", "requests",
                 "tqdm", "packaging", "urllib3", "idna", "certifi", "charset_normalizer")
GROUP = ("source", "precision", "layout", "phase")
# How many of a hundred rows a group gets. If a group has fewer, the others do not get more.
SHARES = {("timm", "amp", "nchw", "training"): 30, ("timm", "amp", "nhwc", "training"): 30,
          ("timm", "amp", "nchw", "inference"): 5, ("timm", "amp", "nhwc", "inference"): 5,
          ("torchvision", "fp32", "nchw", "training"): 10,
          ("torchvision", "fp16", "nchw", "training"): 10,
          ("neusight", "fp32", "", "inference"): 7, ("neusight", "fp32", "", "training"): 3}
# Models that today's timm does not have, and language models whose source does not give their
# sizes.
LEFT_OUT = {"ese_vovnet99b_iabn", "gluon_xception65", "regnety_040s_gn", "gpt3_xl", "gpt3_27"}
LEAST, MOST = 0.85, 0.95
LONGEST_S = 600


def read_steps():
    with (DATA / "steps.csv").open(newline="", encoding="utf-8") as file:
        steps = list(csv.DictReader(file))
    for step in steps:
        step.update(batch=int(step["batch"]), size=int(step["size"]), ms=float(step["ms"]))
    return [step for step in steps if step["model"] not in LEFT_OUT]


def is_normalized_in_place(spec):
    """Returns whether a step was measured with InplaceABN, which timm's TResNets had until 0.9."""
    return spec["phase"] == "training" and spec["model"].startswith("tresnet")


def draw(steps, count, seed):
    """Returns steps of each group, a group's next one after the other groups'."""
    groups = collections.defaultdict(list)
    for step in steps:
        groups[tuple(step[key] for key in GROUP)].append(step)
    drawn = []
    for group, share in SHARES.items():
        some = groups[group]
        random.Random(f"{seed} {group}").shuffle(some)
        number = min(len(some), round(share * count / 100))
        drawn += [((i + 0.5) / number, step) for i, step in enumerate(some[:number])]
    return [step for _, step in sorted(drawn, key=lambda entry: entry[0])]


def key_of(step):
    return json.dumps([step[name] for name in ("source", "model", "gpu", "precision", "layout",
                                               "phase", "batch", "size")])


def gpu_word(name):
    own = DATA / f"catalog/gpus/{name}.toml"
    return str(own) if own.exists() else name


def predict(step, options):
    """Returns gpemu predict's answer for a step, or why there is none."""
    words = [options.gpemu, "predict", "--gpu", gpu_word(step["gpu"]), "--batch", step["batch"],
             "--json", "-", "--", options.python, "-W", "ignore",
             ROOT / "scripts/claims/published_step.py", json.dumps(step)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(TIMM)}
    try:
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True,
                              env=environment, check=False, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        return {"fault": f"no answer after {LONGEST_S} s"}
    if done.returncode != 0:
        return {"fault": (done.stderr.strip().splitlines() or ["?"])[-1][-200:]}
    [answer] = json.loads(done.stdout)["answers"]
    if not answer["fits"]:
        return {"fault": "does not fit", "memory_mib": answer["memory_mib"]}
    return {"predicted": answer["step"], "memory_mib": answer["memory_mib"]}


def command_digest(command):
    """Returns what identifies a build of gpemu."""
    digest = hashlib.sha256(pathlib.Path(command).read_bytes())
    for path in sorted(pathlib.Path(command).parent.parent.glob("**/profiles.db")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def read_results(path, digest):
    if not path.exists():
        return {}
    try:
        results = list(map(json.loads, path.read_text(encoding="utf-8").splitlines()))
        return {result["key"]: result for result in results
                if result["gpemu"] == digest and "memory_mib" in result}
    except (ValueError, TypeError, KeyError):
        sys.exit(f"check_published: {path} has no results of this script: remove it, or name "
                 "another with --results")


def ratio_of(step, result):
    """Returns measured / predicted, or None."""
    return step["ms"] / result["predicted"]["ms"] if "predicted" in result else None


def holds(step, result):
    ratio = ratio_of(step, result)
    return (ratio is not None
            and abs(math.log(ratio)) <= math.log1p(result["predicted"]["relative_error"]))


def line_of(step, result):
    name = f"{step['model']} {step['precision']} {step['layout']} {step['phase']} {step['batch']}"
    if "predicted" not in result:
        return f"{name}, {step['gpu']}: {result['fault']}"
    predicted = result["predicted"]
    return (f"{name}, {step['gpu']}: {predicted['ms']:.1f} ms ±{predicted['relative_error']:.0%}, "
            f"published {step['ms']:.1f}: {'held' if holds(step, result) else 'NOT HELD'}")


def three(ordered, middle, form):
    """Returns the least, the middle and the greatest of ordered values."""
    return " ".join(format(value, form) for value in (ordered[0], middle, ordered[-1])) \
        if ordered else "-"


def print_table(pairs):
    groups = collections.defaultdict(list)
    for step, result in pairs:
        groups[" ".join(filter(None, (step[key] for key in GROUP)))].append((step, result))
    groups["all"] = pairs
    print(f"{'':51} {'bar':>16} {'published / predicted':>21}")
    print(f"{'group':34} {'steps':>5} {'held':>5} {'%':>4} {'least mean most':>16} "
          f"{'least median most':>21} {'no answer':>9}")
    for group, some in groups.items():
        ratios = sorted(filter(None, (ratio_of(step, result) for step, result in some)))
        bars = sorted(r["predicted"]["relative_error"] for _, r in some if "predicted" in r)
        held = sum(holds(step, result) for step, result in some)
        print(f"{group:34} {len(some):5} {held:5} {100 * held / len(some):4.0f} "
              f"{three(bars, sum(bars) / max(len(bars), 1), '3.0%'):>16} "
              f"{three(ratios, ratios and ratios[len(ratios) // 2], '.2f'):>21} "
              f"{len(some) - len(ratios):9}")


def install_timm(python):
    if (TIMM / "complete").exists():
        return
    print(f"check_published: installing timm in {TIMM}", file=sys.stderr)
    shutil.rmtree(TIMM, ignore_errors=True)  # pip would not replace existing files.
    subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install",
                    "--no-deps", "--target", TIMM, *TIMM_PACKAGES], check=True)
    (TIMM / "complete").touch()


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=pathlib.Path, default=CACHE / "published.jsonl",
                        help="where results are kept; default %(default)s")
    parser.add_argument("--gpemu", type=pathlib.Path, default=ROOT / "build/release/tools/gpemu")
    parser.add_argument("--python", type=pathlib.Path, default=CACHE / "torch-2.8.0/bin/python",
                        help="with PyTorch and torchvision: scripts/build/install_torch.sh 2.8.0")
    parser.add_argument("--jobs", type=int, default=1, help="steps at the same time")
    options = parser.parse_args()
    for needed in (options.gpemu, options.python):
        if not needed.exists():
            parser.error(f"there is no {needed}")
    return options


def main():
    options = parse_arguments()
    install_timm(options.python)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    digest = command_digest(options.gpemu)
    known = read_results(options.results, digest)
    steps = draw(read_steps(), options.rows, options.seed)
    todo = [step for step in steps if key_of(step) not in known]
    with multiprocessing.pool.ThreadPool(options.jobs) as pool:
        answers = pool.imap_unordered(lambda step: (step, predict(step, options)), todo)
        for number, (step, answer) in enumerate(answers, 1):
            key = key_of(step)
            known[key] = {"key": key, "gpemu": digest, **answer}
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(known[key]) + "\n")
            print(f"[{number}/{len(todo)}] {line_of(step, known[key])}", file=sys.stderr,
                  flush=True)
    pairs = [(step, known[key_of(step)]) for step in steps]
    print_table(pairs)
    share = sum(holds(step, result) for step, result in pairs) / len(pairs)
    good = LEAST <= share <= MOST
    print(f"bars held {share:.0%} of {len(pairs)} published steps: "
          f"{'ok' if good else f'MISS, {LEAST:.0%} to {MOST:.0%} wanted'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
