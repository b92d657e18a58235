#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance programs, each in a process of its own, on the GPU that is there.

Under gpemu:  gpemu run --gpu A100-SXM4-40GB:2 -- python tests/conformance/pytorch/run_all.py
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent
HELPERS = {"conformance.py", "ranks.py", "run_all.py", "report.py"}
RESULTS = ("ok", "refused", "skipped", "FAILED")
TIME_LIMIT_S = 600


def programs():
    return sorted(path.name for path in FOLDER.glob("*.py") if path.name not in HELPERS)


def run(name):
    """Returns the program's results as (test, result, reason), and why it is broken or ''."""
    try:
        done = subprocess.run(
            [sys.executable, str(FOLDER / name)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="backslashreplace",
            check=False,
            timeout=TIME_LIMIT_S,
        )
    except subprocess.TimeoutExpired as error:
        print(error.stdout or "", end="")
        return [], f"no end within {TIME_LIMIT_S} s"
    print(done.stdout, end="", flush=True)
    pattern = r"^(ok|refused|skipped|FAILED) (test_\w+)(?:: (.*))?$"
    results = [
        (test, result, reason)
        for result, test, reason in re.findall(pattern, done.stdout, re.MULTILINE)
    ]
    failed = any(result == "FAILED" for _, result, _ in results)
    if not results or done.returncode != int(failed):
        return results, f"exit code {done.returncode}"
    return results, ""


def machine():
    """Returns what the results hold for; asked in a process of its own, as the tests are run."""
    question = (
        "import json, torch; print(json.dumps({'torch': torch.__version__, "
        "'gpu': torch.cuda.get_device_name(), 'gpus': torch.cuda.device_count()}))"
    )
    return json.loads(subprocess.check_output([sys.executable, "-c", question], text=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", help="e.g. memory.py; all without")
    parser.add_argument("--json", help="file for the results, which report.py reads")
    arguments = parser.parse_args()
    table, results, broken = [], [], []
    for name in arguments.programs or programs():
        print(f"== {name}", flush=True)
        start = time.monotonic()
        found, why_broken = run(name)
        counts = collections.Counter(result for _, result, _ in found)
        table.append((name, counts, time.monotonic() - start, why_broken))
        results += [(name, *result) for result in found]
        if why_broken:
            broken.append(f"{name} ({why_broken})")
            results.append((name, "(the program)", "FAILED", why_broken))

    print(f"\n{'program':24}" + "".join(f"{result:>9}" for result in RESULTS) + "  seconds")
    for name, counts, seconds, why_broken in table:
        numbers = "".join(f"{counts[result] or '':>9}" for result in RESULTS)
        print(f"{name:24}{numbers}{seconds:9.1f}  {why_broken}".rstrip())
    total = collections.Counter(result for _, _, result, _ in results)
    for name, test, result, reason in results:
        if result in ("refused", "FAILED"):
            print(f"{result}: {name} {test}: {reason}".rstrip(": "))
    if arguments.json:
        content = {**machine(), "results": results}
        pathlib.Path(arguments.json).write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    passed = total["ok"] + total["refused"]
    print(f"{passed} passed, {total['FAILED']} failed, {total['skipped']} skipped")
    sys.exit(1 if total["FAILED"] or broken else 0)


if __name__ == "__main__":
    main()
