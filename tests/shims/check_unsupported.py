#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every function which functions.def calls not supported says so.

Calls each of a shim's twice: it must return the library's status, be logged once by name, and
under --strict end the program, naming itself.

Usage: check_unsupported.py <shared object> <functions.def> <enumerator> <CUDA major, or "" for all>
"""

import ctypes
import os
import pathlib
import re
import subprocess
import sys

from functions_def import holds

LINE = re.compile(r"^NOT_SUPPORTED(?:_(11|12|13))?\((\w+)\)$")
STRICT_EXIT_CODE = 86


def functions_of(path, major):
    with open(path, encoding="utf-8") as file:
        matches = (LINE.match(line.strip()) for line in file)
        return [match[2] for match in matches if match and holds(match[1], major)]


def number_of(enumerator, header):
    """Returns the number that abi.hpp, or a header that it includes, gives an enumerator."""
    text = header.read_text(encoding="utf-8")
    found = re.search(rf"\b{enumerator.rpartition('::')[2]} = (-?\d+)\b", text)
    if found:
        return found[1]
    root = header.resolve().parents[2]
    for name in re.findall(r'#include "(.+)"', text):
        for folder in (header.parent, root / "shims/common", root / "include"):
            if (folder / name).is_file():
                number = number_of(enumerator, folder / name)
                if number:
                    return number
    return None


def call_all(library, names):
    """In a process of its own: prints what the first and the second call of each return."""
    loaded = ctypes.CDLL(library)
    for name in names:
        function = getattr(loaded, name)
        print(name, function(), function(), flush=True)


def run(library, names, strict):
    command = [sys.executable, __file__, "--call", library]
    environment = {**os.environ, "GPEMU_STRICT": "1" if strict else "0"}
    environment.pop("GPEMU_RECORD_DIR", None)
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False,
                          input="\n".join(names))


def faults(library, names, status):
    """Yields what is wrong."""
    soname = os.path.basename(library)
    done = run(library, names, strict=False)
    if done.returncode != 0:
        yield f"the calls ended with {done.returncode}: {done.stderr[-1000:]}"
        return
    for line in done.stdout.splitlines():
        name, first, second = line.split()
        if not first == second == status:
            yield f"{name} returned {first}, then {second}, not {status}"
    logged = done.stderr.splitlines()
    for name in names:
        times = logged.count(f"gpemu: {name} ({soname}) is not supported")
        if times != 1:
            yield f"{name} was logged {times} times"
    if len(logged) != len(names):
        yield f"{len(logged)} lines were logged for {len(names)} functions"
    # One function tells for all: they are generated from one pattern.
    strict = run(library, names[-1:], strict=True)
    if strict.returncode != STRICT_EXIT_CODE or strict.stdout != "":
        yield f"--strict did not end {names[-1]}: {strict.returncode} {strict.stdout}"
    if f"--strict ends the program at {names[-1]}\n" not in strict.stderr:
        yield f"--strict did not name {names[-1]}: {strict.stderr}"


def main():
    if sys.argv[1] == "--call":
        call_all(sys.argv[2], sys.stdin.read().split())
        return
    library, functions, enumerator, major = sys.argv[1:5]
    status = number_of(enumerator, pathlib.Path(functions).with_name("abi.hpp"))
    names = functions_of(functions, major)
    found = list(faults(library, names, status)) if names else []
    print(*found, f"{len(names)} functions", sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
