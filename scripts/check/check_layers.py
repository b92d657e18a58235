#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that files include only what their layer allows, never in a circle nor in a long chain.

Run by lint.py.

A module is the folder pair include/gpemu/<module> and src/<module>; a unit is the header and the
source of one name in it. The table of modules is the one in ARCHITECTURE.md, and is compared with
it; to change it is to change the design.
"""

import ast
import collections
import re

# Module -> the modules whose headers it may include, besides its own.
ALLOWED = {
    "base": set(),
    "sim": {"base"},
    "net": {"base", "sim"},
    "profile": {"base"},
    "topology": {"base", "profile"},
    "kernels": {"abi", "base"},
    "cost": {"abi", "base", "kernels", "profile"},
    "step": {"abi", "base", "kernels", "profile", "cost"},
    "scheduling": {"base", "sim"},
    "calibrate": {"base", "profile", "topology", "kernels", "cost", "step"},
    "device": {"base", "sim", "profile"},
    "mps": {"base", "net"},
    "data": {"base", "sim", "profile"},
    "pipeline": {"base", "sim", "profile", "data"},
    "peers": {"base", "sim", "net", "data", "pipeline"},
    "train": {"base", "sim", "profile", "topology", "kernels", "cost", "step", "device",
              "data", "pipeline", "peers", "service"},
    "process": {"abi", "base", "sim", "profile", "topology", "kernels", "cost", "device", "mps"},
    "streams": {"abi", "base", "sim", "kernels", "device", "process"},
    "memory": {"abi", "base", "sim", "kernels", "device", "process", "streams"},
    "launch": {"abi", "base", "kernels", "cost", "device", "process", "streams", "memory"},
    "ranks": {"abi", "base", "sim", "net", "profile", "topology", "kernels", "device", "process",
              "streams", "memory"},
    "cuda": {"abi", "base", "sim", "profile", "topology", "kernels", "cost", "device",
             "mps", "process", "streams", "memory", "launch", "ranks"},
    "capi": {"abi", "base", "sim", "profile", "topology", "step", "calibrate", "device", "data",
             "train", "process"},
    "service": {"base", "sim", "data"},
    # Modules of the command, which libgpemu.so does not use.
    "experiment": {"base", "profile", "step", "pipeline", "scheduling"},
    "report": {"base"},
    "record": {"base", "kernels", "cost", "step", "process", "report"},
    "predict": {"base", "profile", "kernels", "cost", "step", "record"},
    "skip": {"base", "sim"},
    "run": {"base", "sim", "profile", "topology", "predict", "record", "skip"},
    "containers": {"base", "device", "profile", "run", "sim", "topology"},
    # The headers of libgpemu.so, which is all that shims and plug-ins see.
    "abi": {"base"},
}
# What shims see besides: what the shim in front of the C library shares with the node, and mutexes
# that clang checks, which are a header alone.
FOR_SHIMS = (("shims/clock/", "gpemu/sim/clock_page.hpp"), ("shims/", "gpemu/base/mutex.hpp"))
C_ABI_HEADERS = ("gpemu/enum.h", "gpemu/gpemu.h", "gpemu/operation.h", "gpemu/cuda.h",
                 "gpemu/monitor.h")

# A folder of tools/ may include itself, the one that all share, modules, and these.
TOOLS_SHARE = "cli"
# Where the parser of options may be included: there, and in a program that is none of the command.
MAY_PARSE = (f"tools/{TOOLS_SHARE}/", "tools/collectives/")
TOOLS_ALLOWED = {"analyze": {"train"}, "kubernetes": {"live"}, "smi": {"mig", "node"},
                 "slurm": {"live"}, "nvidia_smi": {"mig", "node", "smi"}}

# Module of the Python package -> the others that it may import. One of them calls the C interface.
PYTHON_PACKAGE = "bindings/python/gpemu/"
PYTHON_ALLOWED = {
    "_errors": set(),
    "_command": set(),
    "_core": {"_errors"},
    "_tables": {"_core", "_errors"},
    "emulators": {"_core", "_errors", "_tables"},
    "sharing": {"_core", "_errors", "emulators"},
    "__init__": {"_core", "_errors", "emulators", "sharing"},
}
PYTHON_CALLS_C = "_core"

# Modules that are not yet free of circles between their units. The list only becomes shorter.
CIRCLES_LEFT = set()

# How many units of a module may include each other in a chain: a reader of the last one may have to
# read them all. More is a module that wants to be divided.
MOST_LAYERS = 8
# Modules with longer chains. The numbers only become smaller.
LAYERS_LEFT = {"device": 10}

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


def names(modules):
    return ", ".join(sorted(modules)) or "nothing"


def fault_in_tools(path, target):
    """Returns what is wrong with an include of the command's own headers, or None."""
    folder, included = (name.split("/")[0] if "/" in name else ""
                        for name in (path.removeprefix("tools/"), target))
    if not included:
        return f"includes {target}: name headers from the root of tools/"
    may = {folder, TOOLS_SHARE} | TOOLS_ALLOWED.get(folder, set())
    if folder == TOOLS_SHARE:
        may = {TOOLS_SHARE}
    if included in may:
        return None
    return f"tools/{folder} includes {target}; of tools/ it may include {names(may)}"


def fault_in_shims(path, target, files):
    """Returns what is wrong with an include of a shim's own headers, or None."""
    folder = path.split("/")[1]
    if any(f"shims/{own}/{target}" in files for own in (folder, "common")):
        return None
    others = [f for f in files if re.fullmatch(rf"shims/[^/]+/{re.escape(target)}", f)]
    return others and f"includes {others[0]}: shims share shims/common alone"


def fault_of_include(path, bracket, target, files):
    """Returns what is wrong with one include, or None."""
    if "../" in target:
        return f"includes {target}: name headers from the root of their module"
    ours = target.startswith("gpemu/")
    if target.startswith("CLI/") and not path.startswith(MAY_PARSE):
        return f"includes {target}, which takes the compiler seconds: use cli/command.hpp"
    if path.startswith("include/") and bracket == '"' and not ours:
        return f"a public header includes the private {target}"
    if path.startswith(("shims/", "plugins/", "bindings/")) and ours:
        if any(path.startswith(folder) and target == header for folder, header in FOR_SHIMS):
            return None
        if target not in C_ABI_HEADERS:
            return f"includes {target}: users of libgpemu.so see {names(C_ABI_HEADERS)}"
        return None
    if bracket == '"' and not ours and path.startswith("tools/"):
        return fault_in_tools(path, target)
    if bracket == '"' and not ours and path.startswith("shims/"):
        return fault_in_shims(path, target, files)
    module = module_of(path)
    if module is None or not ours:
        return None
    if module not in ALLOWED:
        return f"module '{module}' is not in the table of scripts/check/check_layers.py"
    included = module_of("include/" + target)
    if included != module and included not in ALLOWED[module]:
        return (f"'{module}' includes '{included}' ({target}); it may include "
                f"{names(ALLOWED[module])}")
    return None


def includes_of(lines):
    """Yields (line number, bracket, header) for each include."""
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def check(path, lines, files=()):
    """Yields (line number, fault) for the includes of one source file. `files` are all files."""
    for number, bracket, target in includes_of(lines):
        fault = fault_of_include(path, bracket, target, files)
        if fault:
            yield number, fault


def imports_of(text):
    """Yields (line number, module, whether it is one of the package) for each import."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.split(".")[0], False
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module.split(".")[0], node.level > 0
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, alias.name, True


def check_python(path, text):
    """Yields (line number, fault) for the imports of a file of the Python package."""
    if not (path.startswith(PYTHON_PACKAGE) and path.endswith(".py")):
        return
    module = path.removeprefix(PYTHON_PACKAGE).removesuffix(".py")
    if module not in PYTHON_ALLOWED:
        yield 1, f"module '{module}' is not in the table of scripts/check/check_layers.py"
        return
    for number, imported, ours in imports_of(text):
        if ours and imported not in PYTHON_ALLOWED[module]:
            yield number, (f"'{module}' imports '{imported}'; of the package it may import "
                           f"{names(PYTHON_ALLOWED[module])}")
        if not ours and imported == "ctypes" and module != PYTHON_CALLS_C:
            yield number, f"imports ctypes: '{PYTHON_CALLS_C}' calls the C interface for all"


def unit_of(path):
    """Returns (module or folder of shims or "tools", unit) of a file, or None."""
    stem, _, ending = path.rpartition(".")
    if ending not in ("hpp", "h", "cpp", "c"):
        return None
    module = module_of(path)
    if module == "abi":
        return module, stem.removeprefix("include/gpemu/")
    if module:
        return module, re.sub(r"^(include/gpemu|src)/[^/]+/", "", stem)
    if stem.startswith("tools/"):
        return "tools", stem.removeprefix("tools/")
    parts = stem.split("/")
    if stem.startswith("shims/") and len(parts) == 3:
        return "/".join(parts[:2]), parts[2]
    return None


def unit_of_include(path, bracket, target):
    """Returns the unit that an include names, as unit_of(), or None."""
    if target.startswith("gpemu/"):
        return unit_of("include/" + target)
    folder = unit_of(path)[0]
    if bracket == "<":
        return None
    root = folder if folder == "tools" or folder.startswith("shims/") else f"src/{folder}"
    return unit_of(f"{root}/{target}")


def include_graphs(sources):
    """Returns for each module which of its units include which. `sources` is text by path."""
    graphs = collections.defaultdict(lambda: collections.defaultdict(set))
    for path, text in sources.items():
        unit = unit_of(path)
        if unit is None:
            continue
        graph = graphs[unit[0]]
        graph[unit[1]].update()
        for _, bracket, target in includes_of(text.splitlines()):
            included = unit_of_include(path, bracket, target)
            if included and included[0] == unit[0] and included[1] != unit[1]:
                graph[unit[1]].add(included[1])
    return graphs


def shortest_circle(graph, start):
    """Returns the shortest way from a unit back to it, with the unit at both ends, or None."""
    ways = collections.deque([[start]])
    seen = set()
    while ways:
        way = ways.popleft()
        for unit in sorted(graph.get(way[-1], ())):
            if unit == start:
                return [*way, start]
            if unit not in seen:
                seen.add(unit)
                ways.append([*way, unit])
    return None


def circles(graph):
    """Returns the shortest circles of a graph, one for each unit that lies in one, each once."""
    found = {}
    for unit in sorted(graph):
        circle = shortest_circle(graph, unit)
        if circle:
            found.setdefault(frozenset(circle), circle)
    return list(found.values())


def faults_of_circles(sources):
    """Yields a fault for each circle, and for each module that is free of them and is listed."""
    graphs = include_graphs(sources)
    for module in sorted(graphs):
        found = circles(graphs[module])
        if module not in CIRCLES_LEFT:
            for circle in found:
                yield f"'{module}' has units that include each other: {' -> '.join(circle)}"
        elif not found:
            yield f"'{module}' is free of circles: take it off CIRCLES_LEFT"


def is_of_tests(unit):
    name = unit.rpartition("/")[2]
    return name.startswith("test_") or name.endswith(("_test", "_bench"))


def longest_chain(graph):
    """Returns the longest chain of units that include the next one; of tests, none. No circles."""
    chains = {}

    def chain_from(unit):
        if unit not in chains:
            further = (chain_from(other) for other in sorted(graph.get(unit, ())))
            chains[unit] = [unit, *max(further, key=len, default=[])]
        return chains[unit]

    units = sorted(unit for unit in graph if not is_of_tests(unit))
    return max(map(chain_from, units), key=len, default=[])


def faults_of_layers(sources):
    """Yields a fault for each module with too long a chain, or a shorter one than is listed."""
    graphs = include_graphs(sources)
    for module in sorted(ALLOWED.keys() & graphs.keys()):
        if circles(graphs[module]):
            continue
        chain = longest_chain(graphs[module])
        most = LAYERS_LEFT.get(module, MOST_LAYERS)
        if len(chain) > most:
            yield (f"'{module}' has units in {len(chain)} layers, more than {most}: "
                   f"{' -> '.join(chain)}")
        elif module in LAYERS_LEFT and len(chain) < most:
            yield f"'{module}' has units in {len(chain)} layers: change LAYERS_LEFT"


def documented_table(text):
    """Returns the table of modules in ARCHITECTURE.md: module -> those that it may include."""
    table = {}
    rows = re.search(r"(?m)^\| module \|.*\n\|[-|]+\|\n((\|.*\n)+)", text)
    for row in rows.group(1).splitlines() if rows else ():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        table[cells[0]] = set() if cells[-1] == "-" else set(cells[-1].split(", "))
    return table


def faults_of_table(text):
    """Yields a fault for each module that ARCHITECTURE.md describes differently."""
    documented = documented_table(text)
    for module in sorted((ALLOWED.keys() | documented.keys()) - {"abi"}):
        if module not in documented:
            yield f"ARCHITECTURE.md does not list the module '{module}'"
        elif module not in ALLOWED:
            yield f"ARCHITECTURE.md lists '{module}', which scripts/check/check_layers.py does not"
        elif documented[module] != ALLOWED[module] - {"abi"}:
            yield (f"ARCHITECTURE.md has '{module}' include {names(documented[module])}, "
                   f"scripts/check/check_layers.py {names(ALLOWED[module] - {'abi'})}")
