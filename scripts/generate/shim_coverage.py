#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the shims of shims/ with what PyTorch's wheels import, and prints a page about it.

Usage: shim_coverage.py <name>=<folder> ...

A name is what the page calls a wheel, a folder holds its shared objects (site-packages/torch/lib).
The page is docs/reference/supported-libraries.md. The program fails when a wheel needs a library or
imports a function that shims/ does not list.
"""

import pathlib
import re
import subprocess
import sys

SHIMS = pathlib.Path(__file__).resolve().parents[2] / "shims"
LINE = re.compile(r"^(IMPLEMENTED|NOT_SUPPORTED)(?:_(11|12|13))?\((\w+)\)$", re.M)
CALL = re.compile(r"gpemu_add_shim\((\w+)([^)]*)\)")
SONAME = re.compile(r"\b(SONAME|CUDA11|CUDA12|CUDA13)\s+([\w.+-]+)")
SYMBOL_VERSION = re.compile(r"\bSYMBOL_VERSION\s+(\w+)")
# A symbol that is imported with its library's name as version: cudaMalloc@libcudart.so.12.
IMPORT = re.compile(r"\bU\s+(\w+)(?:@+(\S+))?")
NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
# NVIDIA's libraries, by the names under which they are needed.
VENDOR = re.compile(r"^lib(cu|nv|nccl)")


class Library:
    """One shim: its SONAMEs by CUDA major ("" for all) and its functions."""

    def __init__(self, folder):
        text = (folder / "CMakeLists.txt").read_text(encoding="utf-8")
        text = re.sub(r"#[^\n]*", "", text)
        self.name = folder.name
        self.sonames = {}
        match = SYMBOL_VERSION.search(text)
        self.symbol_version = match.group(1) if match else None
        for _, arguments in CALL.findall(text):
            for kind, soname in SONAME.findall(arguments):
                self.sonames["" if kind == "SONAME" else kind[-2:]] = soname
        self.lines = LINE.findall((folder / "functions.def").read_text(encoding="utf-8"))

    def functions(self, major):
        """Returns name -> whether it is implemented, for a CUDA major or for all."""
        return {
            name: word == "IMPLEMENTED"
            for word, only, name in self.lines
            if not only or not major or only == major or (only, major) == ("12", "11")
        }

    def major_of(self, soname):
        """Returns the CUDA major that a SONAME is for, or None when it is not this library's."""
        return next((major for major, name in self.sonames.items() if name == soname), None)


def libraries():
    """Returns all shims."""
    folders = sorted(path.parent for path in SHIMS.glob("*/functions.def"))
    return [Library(folder) for folder in folders if (folder / "CMakeLists.txt").exists()]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Wheel:
    """What the shared objects of one wheel need and import."""

    def __init__(self, name, folder):
        self.name = name
        objects = sorted(pathlib.Path(folder).glob("*.so*"))
        if not objects:
            sys.exit(f"shim_coverage.py: there is no shared object in {folder}")
        own = {path.name for path in objects}
        self.needed = set()
        self.imports = set()
        for path in objects:
            needed = set(NEEDED.findall(run("readelf", "-d", "-W", str(path))))
            self.needed |= {name for name in needed - own if VENDOR.match(name)}
            self.imports |= set(IMPORT.findall(run("nm", "-D", "--undefined-only", str(path))))

    def imports_of(self, library):
        """Returns the names that the wheel imports from a library.

        A symbol without a version is the library's when the library lists it.
        """
        names = set()
        listed = {name for _, _, name in library.lines}
        for name, version in self.imports:
            own = library.major_of(version) is not None or version == library.symbol_version
            if own if version else name in listed:
                names.add(name)
        return names


def major_needed(library, wheel):
    """Returns the CUDA major under which a wheel needs a library, or None when it does not."""
    majors = [library.major_of(soname) for soname in wheel.needed]
    return next((major for major in majors if major is not None), None)


def check(all_libraries, wheels):
    """Returns the faults: libraries and functions that a wheel needs and shims/ does not list."""
    faults = []
    for wheel in wheels:
        for soname in sorted(wheel.needed):
            if not any(library.major_of(soname) is not None for library in all_libraries):
                faults.append(f"{wheel.name} needs {soname}, which no shim offers")
        for library in all_libraries:
            major = major_needed(library, wheel)
            listed = library.functions(major or "")
            for name in sorted(wheel.imports_of(library) - set(listed)):
                faults.append(f"{wheel.name} imports {name}, which shims/{library.name} lacks")
    return faults


def print_table(all_libraries, wheels):
    heads = ["library", "replaces", "functions", "implemented"]
    heads += [f"{wheel.name} imports, of these implemented" for wheel in wheels]
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for library in all_libraries:
        functions = library.functions("")
        sonames = sorted(set(library.sonames.values()))
        row = [f"`{library.name}`", ", ".join(f"`{name}`" for name in sonames)]
        row += [str(len(functions)), str(sum(functions.values()))]
        for wheel in wheels:
            names = wheel.imports_of(library)
            known = library.functions(major_needed(library, wheel) or "")
            done = sum(known.get(name, False) for name in names)
            row.append(f"{len(names)}, {done}" if names else "—")
        print("| " + " | ".join(row) + " |")


def print_missing(all_libraries, wheels):
    print("\n## Imported and not supported\n")
    print("A program that calls one of these gets the library's status for calls that are not")
    print("supported. One line is logged.\n")
    for library in all_libraries:
        missing = set()
        for wheel in wheels:
            known = library.functions(major_needed(library, wheel) or "")
            missing |= {name for name in wheel.imports_of(library) if not known.get(name, False)}
        if missing:
            print(f"* `{library.name}`: " + ", ".join(f"`{name}`" for name in sorted(missing)))


def main():
    pairs = [argument.partition("=") for argument in sys.argv[1:]]
    if not pairs or not all(folder for _, _, folder in pairs):
        sys.exit(__doc__)
    all_libraries = libraries()
    wheels = [Wheel(name, folder) for name, _, folder in pairs]
    print("# Supported libraries\n")
    print("Generated by `scripts/generate/shim_coverage.py`. Each library has a folder in")
    print("`shims/`, whose `functions.def` lists every function. One that is not implemented")
    print('returns the library\'s own "not supported" and is logged once; `gpemu run --strict`')
    print("ends the run there.")
    print("A dash means that the wheel imports nothing by name.\n")
    print_table(all_libraries, wheels)
    print_missing(all_libraries, wheels)
    faults = check(all_libraries, wheels)
    for fault in faults:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
