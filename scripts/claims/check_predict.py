#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts unmodified PyTorch scripts with gpemu predict, and checks:

  measured  ResNet-50 at batch 32 and 64 on V100 and A100, as GPEmu's profilers trained it and as an
            ordinary script does, within the bar of what was measured
  time      ResNet-50 on three GPUs in less than a minute, with the start of PyTorch
  works     a transformer, an LSTM and a U-Net have steps, and answers for three GPUs

Measured are the times of the installed pack, as gpemu cost tells them. The ordinary script copies
its images to the GPU, and its optimizer works on lists of tensors; what was measured did not.

Usage: scripts/claims/check_predict.py [--gpemu COMMAND] [--python PYTHON]
       (PyTorch 2.8 as scripts/build/install_torch.sh 2.8.0 installs it; a minute)
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/predict"
MEASURED_GPUS = ("V100-PCIE-32GB", "A100-SXM4-40GB")
GPUS = ("V100-PCIE-32GB", "A100-SXM4-80GB", "H100-SXM5-80GB")
LONGEST_S = 60


class Checks:

    def __init__(self, options):
        self.options = options
        self.good = True

    def tell(self, name, good, text):
        print(f"{name:9} {'ok' if good else 'WRONG':5} {text}", flush=True)
        self.good = self.good and good

    def gpemu(self, *words):
        """Returns what a command of gpemu prints as JSON."""
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        done = subprocess.run([self.options.gpemu, *map(str, words)], capture_output=True,
                              text=True, env=environment, check=False)
        if done.returncode != 0:
            sys.exit(f"check_predict: {' '.join(map(str, words))}:\n{done.stderr}")
        return json.loads(done.stdout)

    def predict(self, gpus, *words, batches=()):
        """Returns the answers and how many seconds they took."""
        options = ["--gpu", ",".join(gpus), "--json", "-"]
        if batches:
            options += ["--batch", ",".join(map(str, batches))]
        begin = time.monotonic()
        document = self.gpemu("predict", *options, "--", self.options.python, *words)
        return document["answers"], time.monotonic() - begin

    def measured_ms(self, gpu, batch):
        [row] = self.gpemu("cost", "--gpu", gpu, "--model", "resnet50", "--batch", batch,
                           "--json")["costs"]
        return row["forward"]["ms"] + row["backward_optimizer"]["ms"]

    def check_measured(self, name, *words):
        answers, _ = self.predict(MEASURED_GPUS, *words, batches=(32, 64))
        for answer in answers:
            step, measured = answer["step"], self.measured_ms(answer["gpu"], answer["batch"])
            error = step["ms"] / measured - 1
            bar = step["relative_error"]
            self.tell("measured", max(measured / step["ms"], step["ms"] / measured) - 1 <= bar,
                      f"{name}, batch {answer['batch']}, {answer['gpu']}: {step['ms']:.2f} ms "
                      f"±{bar:.0%} ({step['evidence']}), measured {measured:.2f}: {error:+.1%}")

    def check_works(self, name, *words):
        answers, elapsed = self.predict(GPUS, EXAMPLES / f"{name}.py", *words)
        good = all(a["fits"] and a["step"]["ms"] > 0 and a["steps"] >= 5 for a in answers)
        steps = ", ".join(f"{a['gpu']} {a['step']['ms']:.1f} ms ±{a['step']['relative_error']:.0%}"
                          f" ({a['step']['limit']})" for a in answers)
        self.tell("works", good, f"{name}: {steps}; by {answers[0]['steps_by']}, {elapsed:.1f} s")

    def run(self):
        self.check_measured("as measured", ROOT / "examples/pytorch/measure_models.py", "time",
                            "resnet50:{batch}")
        self.check_measured("as trained", EXAMPLES / "resnet50.py")
        _, elapsed = self.predict(GPUS, EXAMPLES / "resnet50.py")
        self.tell("time", elapsed < LONGEST_S, f"resnet50 on {len(GPUS)} GPUs: {elapsed:.1f} s")
        self.check_works("gpt2")
        self.check_works("lstm")
        self.check_works("unet")


def main():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpemu", default=ROOT / "build/release/tools/gpemu", type=pathlib.Path)
    parser.add_argument("--python", default=cache / "gpemu/torch-2.8.0/bin/python",
                        type=pathlib.Path,
                        help="with PyTorch and torchvision: scripts/build/install_torch.sh 2.8.0")
    options = parser.parse_args()
    for needed in (options.gpemu, options.python):
        if not needed.exists():
            parser.error(f"there is no {needed}")
    checks = Checks(options)
    checks.run()
    sys.exit(0 if checks.good else 1)


if __name__ == "__main__":
    main()
