#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows what the bars in include/gpemu/cost/published_bars.hpp, catalog/generations.toml and
gpemu/step/step_bar.hpp follow from: how far published steps are off, by what takes most of their
time.

Of n steps, number 0.9 (n + 1) is shown, by the larger of predicted / measured and its inverse, less
1; between two steps, in proportion. On average, nine of ten other steps are within that (Hyndman
and Fan, "Sample Quantiles in Statistical Packages", 1996, definition 6). Of fewer than nine steps,
the furthest off is shown.

kMixedSteps is of steps that no fit used, by the logarithm of their miss divided by that of their
bar with a kMixedSteps of 1; families of models count alike. Language models that train in FP32 have
a bar of their own. Below it: how many are within the bars that the other families give, and how
many of all steps are within their bars, by kind of program.

Usage: scripts/claims/published_bars.py [--gpemu COMMAND]    (seconds)
"""

import argparse
import collections
import itertools
import json
import math
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
HALF = ("RTX-3090", "A100-SXM4-40GB")  # GPUs with steps in 16 bits, which others can predict.
LITTLE, MUCH = 0.1, 0.25  # Shares of a step's time that direct convolutions with groups take.
MIXED_STEPS = 0.8  # kMixedSteps, with which the bars that are evaluated were made.
TRANSFORMERS = ("beit", "caformer", "cait", "coat", "convit", "crossvit", "deit", "gmixer", "gmlp",
                "jx", "levit", "mixer", "mobilevit", "nest", "pit", "poolformer", "resmlp", "swin",
                "tnt", "twins", "visformer", "vit", "volo", "xcit")
PORTS = ("gluon", "tf", "tv", "swsl", "ssl", "ig", "legacy", "adv", "ens", "eca")
OWN = ("RTX-2080-Ti", "TITAN-RTX", "RTX-3090", "A100-SXM4-40GB", "P100-PCIE-16GB", "V100-PCIE-32GB",
       "H100-SXM5-80GB")


def read_rows(gpemu, folder, *options):
    command = [gpemu, "cost", "eval", ROOT / folder, "--published", "--json", *options]
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    rows = json.loads(done.stdout)
    for row in rows:
        ratio = 1 + row["error"]
        row["miss"] = max(ratio, 1 / ratio) - 1
        row["half"] = row["precision"] != "fp32"
        row["most"] = max(row["parts"], key=row["parts"].get)
    return rows


def groups(own, out, measured):
    """Yields the name of a bar, and the steps that tell it."""
    yield "kHostError", [row for row in own + measured if row["phase"] == "training"
                         and row["host_share"] >= 1.5 * row["busy_share"]]
    with_others = [row for row in own if row["gpu"] not in OWN and not row["half"]]
    without = [row for row in out if row["gpu"] in OWN and not row["half"]]
    half = [row for row in out if row["gpu"] in HALF and row["half"]]
    others = with_others + without
    yield "kOtherGpuConvolutionBar", [row for row in others if row["source"] == "torchvision"]
    language = [row for row in others if row["source"] == "neusight"]
    yield "kOtherGpuProductBar", [row for row in language if row["phase"] == "inference"]
    yield "kOtherGpuTrainedProductBar", [row for row in language if row["phase"] == "training"]
    yield "kHalfBar", [row for row in half if row["most"] != "grouped"
                       and row["parts"].get("direct", 0) < LITTLE]
    yield "half_grouped_bar", [row for row in half if row["most"] == "grouped"]
    yield "half_direct_bar", [row for row in half if row["parts"].get("direct", 0) > MUCH]
    yield "kLikeHalfBar", [row for row in own if row["gpu"] == "RTX-4090"]
    yield "kDepthwiseBar", [row for row in own if row["gpu"] == "RTX-3090"
                            and row["parts"].get("depthwise", 0) > MUCH]
    yield "kDirectBar", [row for row in own if row["gpu"] == "RTX-3090"
                         and row["parts"].get("direct", 0) > MUCH]


def ninetieth(misses):
    place = 0.9 * (len(misses) + 1)
    if place >= len(misses):
        return misses[-1]
    below = int(place)
    return misses[below - 1] + (place - below) * (misses[below] - misses[below - 1])


def mixed_steps(own):
    """Returns the power that contains nine of ten held-out steps, and the share of them that are
    within what the other families give, both with families that count alike."""
    families = collections.defaultdict(list)
    for row in own:
        if "held out" in row["split"] and (row["source"], row["phase"]) != ("neusight", "training"):
            unmixed = math.log1p(row["bar"]) / MIXED_STEPS
            families[family_of(row["model"])].append(math.log1p(row["miss"]) / unmixed)

    def contains(some):
        weighted = sorted((power, 1 / len(powers)) for powers in some.values() for power in powers)
        within = itertools.accumulate(weight for _, weight in weighted)
        return next(power for (power, _), sum_ in zip(weighted, within) if sum_ >= 0.9 * len(some))

    held = [sum(power <= contains({name: other for name, other in families.items()
                                   if name != family}) for power in powers) / len(powers)
            for family, powers in families.items()]
    return contains(families), sum(held) / len(held), families


def kind_of(row):
    if row["phase"] == "inference":
        return "inference"
    if row["source"] == "neusight":
        return "language 32 bits"
    if row["model"].startswith(TRANSFORMERS):
        return "ViT and the like"
    return "CNN 16 bits" if row["half"] else "CNN 32 bits"


def family_of(model):
    """As published_family() in src/calibrate/published.cpp."""
    return re.match("[a-z]*", re.sub(f"^({'|'.join(PORTS)})_", "", model))[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpemu", type=pathlib.Path, default=ROOT / "build/release/tools/gpemu")
    gpemu = parser.parse_args().gpemu
    print(f"{'bar':26} {'steps':>5} {'90th':>6}")
    published, ours = "evidence/published", "evidence/ours"
    own, out = read_rows(gpemu, published), read_rows(gpemu, published, "--gpu-out")
    measured = read_rows(gpemu, f"{ours}/h100") + read_rows(gpemu, f"{ours}/h200-unfitted")
    for name, rows in groups(own, out, measured):
        misses = sorted(row["miss"] for row in rows)
        print(f"{name:26} {len(misses):5} {ninetieth(misses):6.2f}")
    power, held, families = mixed_steps(own)
    print(f"{'kMixedSteps':26} {sum(map(len, families.values())):5} {power:6.2f}")
    print(f"of {len(families)} families that no fit used, {held:.0%} in the mean are within")
    kinds = collections.defaultdict(list)
    for row in own:
        kinds[kind_of(row)].append(row["miss"] <= row["bar"])
    print(f"\n{'kind':26} {'steps':>5} {'within':>6}")
    for kind, within in sorted(kinds.items()):
        print(f"{kind:26} {len(within):5} {sum(within) / len(within):6.1%}")


if __name__ == "__main__":
    main()
