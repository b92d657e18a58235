#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the mangled names of PyTorch's kernels of which src/kernels/kernel_traits.cpp reads
arguments.

The names are facts of the wheels as scripts/build/install_torch.sh installs them: each library
carries, as text, the names under which it registers its kernels. Of the kernels that an entry of
the table recognises, one stays for each list of parameters that they have: the shortest name.

Usage: scripts/generate/kernel_names.py [--output src/kernels/kernel_names.txt] [VERSION...]
       (default: 2.8.0 2.15.0; needs c++filt of binutils; half a minute)
"""

import argparse
import collections
import mmap
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "src/kernels/kernel_traits.cpp"
VERSIONS = ("2.8.0", "2.15.0")
INTEGERS = re.compile(r"^(unsigned )?(int|long|long long)( const)?$")


def parts_of_table():
    """Returns the parts of names that the table looks for, with what it reads, in order."""
    text = TABLE.read_text(encoding="utf-8")
    return re.findall(r'NamePart\{"([^"]+)",\s*Class::\w+,\s*Elements::(\w+)', text)


def names_in(library):
    """Returns the mangled names of functions that a library holds as text."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = re.finditer(rb"(?<=\0)_Z[A-Za-z0-9_]{8,8000}(?=\0)", data)
        return {match.group().decode("ascii") for match in found}


def demangled(names):
    done = subprocess.run(["c++filt"], input="\n".join(names), text=True, capture_output=True,
                          check=True)
    return dict(zip(names, done.stdout.splitlines(), strict=True))


def parameters(signature):
    """Returns the kinds of a function's parameters: i(nteger), p(ointer), o(ther)."""
    if not signature.endswith(")"):
        return None
    depth = 0
    for start in range(len(signature) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(signature[start], 0)
        if depth == 0:
            break
    kinds, word = [], ""
    for letter in signature[start + 1:-1] + ",":
        depth += {"(": 1, "<": 1, "{": 1, "[": 1, ")": -1, ">": -1, "}": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            word = word.strip()
            kinds.append("p" if word.endswith("*") else "i" if INTEGERS.match(word) else "o")
            word = ""
        else:
            word += letter
    return "".join(kinds)


def libraries(version):
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    folder = cache / f"gpemu/torch-{version}"
    return sorted(folder.glob("lib/python*/site-packages/torch/lib/libtorch_cuda*.so"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="VERSION")
    parser.add_argument("--output", type=pathlib.Path,
                        default=ROOT / "src/kernels/kernel_names.txt")
    options = parser.parse_args()
    table = parts_of_table()
    lines = []
    for version in options.versions:
        names = set().union(*(names_in(library) for library in libraries(version)))
        if not names:
            parser.error(f"PyTorch {version} is not there; install it with "
                         f"scripts/build/install_torch.sh {version}")
        recognised = {}
        for name in names:
            entry = next(((p, e) for p, e in table if p in name), None)
            if entry is not None and entry[1] != "kFromThreads":
                recognised[name] = entry[0]
        readable = demangled(sorted(recognised))
        groups = collections.defaultdict(list)
        for name, part in recognised.items():
            kinds = parameters(readable[name])
            if kinds is not None:
                groups[part, kinds].append(name)
        print(f"PyTorch {version}: {len(names)} names, {len(recognised)} recognised, "
              f"{len(groups)} lists of parameters")
        lines.append(f"# PyTorch {version}, {len(recognised)} kernels")
        for (part, kinds), group in sorted(groups.items()):
            lines.append(f"{part} {kinds} {min(group, key=lambda name: (len(name), name))}")
    head = ["# Written by scripts/generate/kernel_names.py: the part of the name to look for,",
            "# the kinds of parameters (i: integer, p: pointer, o: other), and the name."]
    options.output.write_text("\n".join(head + lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
