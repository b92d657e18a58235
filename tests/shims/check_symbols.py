#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a shim exports exactly what its functions.def lists.

Usage: check_symbols.py <shared object> <functions.def> <CUDA major, or "" for all>
"""

import re
import subprocess
import sys

from functions_def import holds

LINE = re.compile(r"^(?:IMPLEMENTED|NOT_SUPPORTED)(?:_(11|12|13))?\((\w+)\)$")


def listed(path, major):
    """Returns the symbols of functions.def for one CUDA major; its faults end the program."""
    names = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if not line or line.startswith("//"):
                continue
            match = LINE.match(line)
            if not match:
                sys.exit(f"{path}:{number}: not understood: {line}")
            if holds(match.group(1), major):
                names.append(match.group(2))
    doubles = sorted({name for name in names if names.count(name) > 1})
    if doubles:
        sys.exit(f"{path}: listed twice: {', '.join(doubles)}")
    return set(names)


def exported(path):
    """Returns the symbols that a shared object defines for others."""
    command = ["nm", "-D", "--defined-only", "--format=posix", path]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    symbols = (line.split()[:2] for line in output.splitlines())
    # A is the name of a symbol version.
    return {name.split("@")[0] for name, kind in symbols if kind != "A"}


def main():
    library, functions, major = sys.argv[1:4]
    want, have = listed(functions, major), exported(library)
    for name in sorted(want - have):
        print(f"{library} does not export {name}, which functions.def lists")
    for name in sorted(have - want):
        print(f"{library} exports {name}, which functions.def does not list")
    sys.exit(0 if want == have else 1)


if __name__ == "__main__":
    main()
