#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what gpemu itself costs at two commits, pair by pair on this machine.

Usage: scripts/claims/compare_commits.py BASE [CHANGED] [--orders N] [--pairs N] [--filter REGEX]

Builds the benchmarks of both commits with the release preset in build/commits, where they stay for
the next time, and runs them in turn: short runs in many pairs, so that what slows the machine for
a second disturbs few of them. Where functions lie in memory was seen to cost up to 12 %, with the
same instructions, and any change moves all functions. So each commit is linked several times, with
its functions in a random order, and each order has as many pairs. Other programs only make a run
slower, so for each benchmark and order it compares the lower quartiles of the times of both
commits; the ratio that counts is the median over the orders. It also prints the smallest and the
largest, which show what chance does. The exit status is 1 when a benchmark became more than 5 %
slower.

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
LINKER_FOLDER = "/usr/lib/llvm-19/bin"  # where the package lld-19 has ld.lld.


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, **options)


def unpack(commit: str) -> pathlib.Path:
    """Returns the folder of a commit's files."""
    name = run("git", "rev-parse", "--verify", f"{commit}^{{commit}}", cwd=ROOT,
               capture_output=True).stdout.strip()
    source = ROOT / "build" / "commits" / name
    if not (source / "CMakeLists.txt").exists():
        source.mkdir(parents=True, exist_ok=True)
        archive = subprocess.Popen(["git", "archive", name], cwd=ROOT, stdout=subprocess.PIPE)
        run("tar", "-x", "-C", source, stdin=archive.stdout)
        if archive.wait() != 0:
            sys.exit(f"compare_commits: cannot read commit {commit}")
    return source


def build(source: pathlib.Path, order: int) -> pathlib.Path:
    """Builds a commit's benchmarks with an order of its functions, and returns the build folder."""
    print(f"compare_commits: building {source.name[:10]}, order {order}", file=sys.stderr)
    # lld shuffles the sections of functions by this seed.
    link = f"-fuse-ld=lld -B{LINKER_FOLDER} -Wl,--shuffle-sections=.text*={order}"
    for command in (["cmake", "--preset", "release", "--log-level=WARNING",
                     "-DCMAKE_CXX_FLAGS=-ffunction-sections", f"-DCMAKE_EXE_LINKER_FLAGS={link}",
                     f"-DCMAKE_SHARED_LINKER_FLAGS={link}"],
                    ["cmake", "--build", "build/release", "--target", "gpemu_benches"]):
        done = subprocess.run(command, cwd=source, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            sys.exit(f"{done.stdout[-4000:]}\ncompare_commits: {source.name} does not build")
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


def measure_pairs(folders: list, pattern: str, pairs: int) -> dict:
    """Returns, by benchmark, the times at both commits of each pair."""
    base, changed = (executables(folder) for folder in folders)
    shared = {name for name in base.keys() & changed.keys()
              if all(times_ns(side[name], pattern) for side in (base, changed))}
    measured: dict = {}
    for pair in range(pairs):
        for name in sorted(shared):
            # In alternating order, because the machine may become faster or slower meanwhile.
            turns = [base, changed] if pair % 2 == 0 else [changed, base]
            seen = {id(side): times_ns(side[name], pattern) for side in turns}
            before, after = seen[id(base)], seen[id(changed)]
            for bench in before.keys() & after.keys():
                measured.setdefault(bench, []).append((before[bench], after[bench]))
    return measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE")
    parser.add_argument("changed", metavar="CHANGED", nargs="?", default="HEAD")
    parser.add_argument("--orders", type=int, default=7, help="of the functions")
    parser.add_argument("--pairs", type=int, default=12, help="of each order")
    parser.add_argument("--filter", default=DEFAULT_FILTER, metavar="REGEX")
    options = parser.parse_args()
    if options.pairs < 2 or options.orders < 1:
        parser.error("--pairs needs at least 2, for the quartiles, and --orders at least 1")
    re.compile(options.filter)
    sources = [unpack(commit) for commit in (options.base, options.changed)]
    # A commit may need other libraries than today's.
    for source in sources:
        for path in ("scripts/build/setup.sh", "scripts/setup.sh"):
            if (source / path).exists():
                run(source / path, cwd=source, stdout=sys.stderr)
    run(ROOT / "scripts/build/setup.sh", "test", stdout=sys.stderr)  # with lld
    quartiles: dict = {}  # by benchmark, those of both commits for each order
    for order in range(1, options.orders + 1):
        folders = [build(source, order) for source in sources]
        for bench, measured in measure_pairs(folders, options.filter, options.pairs).items():
            quartiles.setdefault(bench, []).append(
                [statistics.quantiles(times, n=4)[0] for times in zip(*measured)])
    if not quartiles:
        sys.exit(f"compare_commits: both commits have no benchmark that matches {options.filter}")
    slower = False
    print(f"{'benchmark':36}{'base':>10}{'changed':>10}{'ratio':>8}   smallest and largest")
    for bench in sorted(quartiles):
        before, after = (statistics.median(times) for times in zip(*quartiles[bench]))
        ratios = [changed / base for base, changed in quartiles[bench]]
        ratio = statistics.median(ratios)
        slower = slower or ratio > MOST_RATIO
        print(f"{bench:36}{before:8.1f}ns{after:8.1f}ns{ratio:8.3f}"
              f"   {min(ratios):.3f} to {max(ratios):.3f}"
              f"{'   SLOWER' if ratio > MOST_RATIO else ''}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
