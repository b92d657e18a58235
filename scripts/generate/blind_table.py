#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference/blind-predictions.md: predictions for steps that nobody has published, with
the day, so that whoever measures one can hold gpemu to it.

The models come from timm, as scripts/claims/check_published.py installs it, and run under gpemu
predict.

Usage: scripts/generate/blind_table.py [--gpemu COMMAND] [--python PYTHON]
       (PyTorch 2.8 of scripts/build/install_torch.sh 2.8.0; two minutes a model)
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/claims"))
import check_published  # noqa: E402

GPUS = ("L4", "RTX-4090", "H100-SXM5-80GB", "H200-SXM-141GB", "B200-SXM-180GB")
MODELS = ("convnext_base", "vit_base_patch16_224", "swin_tiny_patch4_window7_224")
BATCH = 128
# Lines of documents are longer than those of scripts.
HEAD = "\n".join((
    "# Predictions that nobody has checked",
    "",
    "A step of training at batch {batch}, in images/s: {precision}, channels last in memory, SGD "
    "with momentum,",
    "images of 224 x 224, with PyTorch 2.8 and timm 1.0.19. No published measurement of these "
    "models on these GPUs was known",
    "when the table was made, on {day} by `scripts/generate/blind_table.py`, at the commit that "
    "last changed this page. Each",
    "value has its bar: in nine of ten cases, the truth should be at most the factor 1 + bar above "
    "or below.",
    "",
    "The column of the H200 [was checked](checked-predictions.md) since. If you measure another "
    "one,",
    "[send it](../how-to/send-a-measurement.md), above all if it is "
    "far off.",
    "", ""))


def predict(model, options):
    """Returns an answer for each GPU."""
    spec = {"source": "timm", "model": model, "precision": "amp", "layout": "nhwc",
            "phase": "training", "batch": BATCH, "size": 224}
    words = [options.gpemu, "predict", "--gpu", ",".join(GPUS), "--batch", BATCH, "--json", "-",
             "--", options.python, "-W", "ignore", ROOT / "scripts/claims/published_step.py",
             json.dumps(spec)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(check_published.TIMM)}
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env=environment,
                          check=True)
    return {answer["gpu"]: answer for answer in json.loads(done.stdout)["answers"]}


def cell(answer):
    if not answer["fits"]:
        return "does not fit"
    step = answer["step"]
    return f"{1e3 * BATCH / step['ms']:.0f} ±{step['relative_error']:.0%}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpemu", type=pathlib.Path, default=ROOT / "build/release/tools/gpemu")
    parser.add_argument("--python", type=pathlib.Path,
                        default=check_published.CACHE / "torch-2.8.0/bin/python")
    options = parser.parse_args()
    check_published.install_timm(options.python)
    lines = ["| model | " + " | ".join(GPUS) + " |", "|---" * (len(GPUS) + 1) + "|"]
    for model in MODELS:
        answers = predict(model, options)
        lines.append(f"| {model} | " + " | ".join(cell(answers[gpu]) for gpu in GPUS) + " |")
        print(lines[-1], flush=True)
    head = HEAD.format(batch=BATCH, precision="autocast to FP16",
                       day=datetime.datetime.now(datetime.timezone.utc).date())
    (ROOT / "docs/reference/blind-predictions.md").write_text(head + "\n".join(lines) + "\n",
                                                              encoding="utf-8")


if __name__ == "__main__":
    main()
