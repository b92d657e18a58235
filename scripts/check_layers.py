#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that modules include only what the layer table allows. Run by lint.py.

A module is the folder pair include/gpemu/<module> and src/<module>. The table is the one in
ARCHITECTURE.md; to change it is to change the design.
"""

import re

# Module -> the modules whose headers it may include, besides its own.
ALLOWED = {
    "base": set(),
    "sim": {"base"},
    "profile": {"base"},
    "abi": {"base"},
    "cost": {"abi", "base", "profile"},
    "calibrate": {"base", "profile", "cost"},
    "device": {"base", "sim", "profile", "cost"},
    "data": {"base", "sim"},
    "cuda": {"abi", "base", "sim", "profile", "cost", "device"},
    "train": {"base", "sim", "profile", "cost", "device", "data"},
}
# libgpemu.so stands on all of these; shims and plug-ins see nothing but its headers, "abi".
ALLOWED["capi"] = set(ALLOWED)
# What the command is made of, and libgpemu.so has no use for.
ALLOWED["report"] = {"base"}
ALLOWED["record"] = {"abi", "base", "cost", "cuda", "report"}
ALLOWED["predict"] = {"base", "profile", "cost", "record"}
ALLOWED["run"] = {"base", "profile", "predict", "record"}
C_ABI_HEADERS = ("gpemu/gpemu.h", "gpemu/operation.h", "gpemu/cuda.h", "gpemu/monitor.h")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def module_of(path):
    """Returns the module that a repository path belongs to, or None."""
    parts = path.split("/")
    if path in tuple("include/" + header for header in C_ABI_HEADERS):
        return "abi"
    if path.startswith("include/gpemu/") and len(parts) >= 4:
        return parts[2]
    if path.startswith("src/") and len(parts) >= 3:
        return parts[1]
    return None


def fault_of_include(path, bracket, target):
    """Returns what is wrong with one include, or None."""
    if "../" in target:
        return f"includes {target}: name headers from the root of their module"
    ours = target.startswith("gpemu/")
    if path.startswith("include/") and bracket == '"' and not ours:
        return f"a public header includes the private {target}"
    if path.startswith(("shims/", "plugins/")) and ours and target not in C_ABI_HEADERS:
        return f"includes {target}: shims and plug-ins see only {', '.join(C_ABI_HEADERS)}"
    module = module_of(path)
    if module is None or not ours:
        return None
    if module not in ALLOWED:
        return f"module '{module}' is not in the table of scripts/check_layers.py"
    included = module_of("include/" + target)
    if included != module and included not in ALLOWED[module]:
        may = ", ".join(sorted(ALLOWED[module])) or "nothing"
        return f"'{module}' includes '{included}' ({target}); it may include {may}"
    return None


def check(path, lines):
    """Yields (line number, fault) for the includes of one source file."""
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        fault = match and fault_of_include(path, match.group(1), match.group(2))
        if fault:
            yield number, fault
