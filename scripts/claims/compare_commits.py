#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what gpemu itself costs at two commits, pair by pair on this machine.

Usage: scripts/claims/compare_commits.py BASE [CHANGED] [--pairs N] [--filter REGEX]

Builds the benchmarks of both commits with the release preset in build/commits, where they stay for
the next time, and runs them in turn: short runs in many pairs, so that what slows the machine for
a second disturbs few of them. In both builds, each function begins at a cache line: any change of
a library moves all functions behind it, and where they lie was seen to cost up to 12 %, with the
same instructions. Other programs only make a run slower, so for each benchmark it compares the
lower quartiles of the times of both commits. It also prints the quartiles of the ratios of the
pairs, which show how quiet the machine was. The exit status is 1 when a benchmark became more than
5 % slower.

    scripts/claims/compare_commits.py HEAD~1
    scripts/claims/compare_commits.py v0.1.0 HEAD --filter 'EnqueueKernel|RecordEvent'
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The cost of each call for a CUDA program: launch, event, copy, enqueue.
DEFAULT_FILTER = ("EnqueueKernel|EnqueueCopy|RecordEvent|"
                  "CudaLaunchKernel|CudaEventRecord|CudaMemcpyAsync")
MOST_RATIO = 1.05


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, **options)


def build(commit: str) -> pathlib.Path:
    """Builds a commit's benchmarks and returns the build folder."""
    name = run("git", "rev-parse", "--verify", f"{commit}^{{commit}}", cwd=ROOT,
               capture_output=True).stdout.strip()
    source = ROOT / "build" / "commits" / name
    if not (source / "CMakeLists.txt").exists():
        source.mkdir(parents=True, exist_ok=True)
        archive = subprocess.Popen(["git", "archive", name], cwd=ROOT, stdout=subprocess.PIPE)
        run("tar", "-x", "-C", source, stdin=archive.stdout)
        if archive.wait() != 0:
            sys.exit(f"compare_commits: cannot read commit {commit}")
    print(f"compare_commits: building {name[:10]}", file=sys.stderr)
    # A commit may need other libraries than today's.
    setup = [[path] for path in ("scripts/build/setup.sh", "scripts/setup.sh")
             if (source / path).exists()]
    for command in (*setup, ["cmake", "--preset", "release", "--log-level=WARNING",
                             "-DCMAKE_CXX_FLAGS=-falign-functions=64"],
                    ["cmake", "--build", "build/release", "--target", "gpemu_benches"]):
        done = subprocess.run(command, cwd=source, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            sys.exit(f"{done.stdout[-4000:]}\ncompare_commits: {commit} does not build")
    return source / "build" / "release"


def executables(folder: pathlib.Path) -> dict:
    return {path.name: path for path in folder.rglob("*_bench")
            if path.is_file() and "CMakeFiles" not in path.parts}


def times_ns(executable: pathlib.Path, pattern: str) -> dict:
    """Runs the benchmarks of an executable that match, once."""
    done = run(executable, f"--benchmark_filter={pattern}", "--benchmark_min_time=0.02",
               "--benchmark_format=json", capture_output=True)
    if not done.stdout.strip():
        return {}
    unit = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
    return {entry["name"]: entry["real_time"] * unit[entry["time_unit"]]
            for entry in json.loads(done.stdout)["benchmarks"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE")
    parser.add_argument("changed", metavar="CHANGED", nargs="?", default="HEAD")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--filter", default=DEFAULT_FILTER, metavar="REGEX")
    options = parser.parse_args()
    if options.pairs < 2:
        parser.error("--pairs needs at least 2, for the quartiles")
    re.compile(options.filter)
    base, changed = (executables(build(commit)) for commit in (options.base, options.changed))
    shared = {name for name in base.keys() & changed.keys()
              if all(times_ns(side[name], options.filter) for side in (base, changed))}
    pairs: dict = {}
    for pair in range(options.pairs):
        print(f"compare_commits: pair {pair + 1} of {options.pairs}", file=sys.stderr)
        for name in sorted(shared):
            # In alternating order, because the machine may become faster or slower meanwhile.
            order = [base, changed] if pair % 2 == 0 else [changed, base]
            seen = {id(side): times_ns(side[name], options.filter) for side in order}
            before, after = seen[id(base)], seen[id(changed)]
            for bench in before.keys() & after.keys():
                pairs.setdefault(bench, []).append((before[bench], after[bench]))
    if not pairs:
        sys.exit(f"compare_commits: both commits have no benchmark that matches {options.filter}")
    slower = False
    print(f"{'benchmark':36}{'base':>10}{'changed':>10}{'ratio':>8}   of the pairs")
    for bench in sorted(pairs):
        ratios = statistics.quantiles([after / before for before, after in pairs[bench]], n=4)
        before, after = (statistics.quantiles(times, n=4)[0] for times in zip(*pairs[bench]))
        ratio = after / before
        slower = slower or ratio > MOST_RATIO
        print(f"{bench:36}{before:8.1f}ns{after:8.1f}ns{ratio:8.3f}"
              f"   {', '.join(f'{quartile:.3f}' for quartile in ratios)}"
              f"{'   SLOWER' if ratio > MOST_RATIO else ''}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
