# SPDX-License-Identifier: Apache-2.0
"""Whether each public header includes what it names of the standard library, of fmt and of the two
headers that nearly every file uses. The build compiles each public header by itself after the
precompiled headers, which hide such a fault; other faults it finds itself.

And whether each source includes, itself or through others, a header that declares each function,
constant and type of a module that it uses: most builds compile many sources as one, which hides it.
"""

import collections
import pathlib
import re

PUBLIC = re.compile(r"^include/gpemu/\w+/\w+\.hpp$")
NAME = re.compile(r"\bstd::(?:(filesystem|chrono|this_thread|ranges)::)?(\w+)")

STANDARD = {
    "algorithm": "copy count max min ranges",
    "array": "array to_array",
    "atomic": "atomic memory_order_acq_rel memory_order_acquire memory_order_relaxed "
              "memory_order_release",
    "charconv": "from_chars",
    "chrono": "chrono",
    "cmath": "llround",
    "condition_variable": "condition_variable",
    "bit": "bit_cast countr_zero popcount",
    "cstddef": "byte size_t",
    "cstdint": "int8_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t "
               "uintptr_t",
    "cstdlib": "getenv",
    "cstring": "memcpy",
    "deque": "deque",
    "exception": "exception",
    "expected": "expected unexpected",
    "filesystem": "filesystem",
    "functional": "function move_only_function",
    "initializer_list": "initializer_list",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map",
    "memory": "shared_ptr unique_ptr make_unique make_shared",
    "mutex": "adopt_lock mutex once_flag unique_lock",
    "new": "launder nothrow",
    "optional": "nullopt optional",
    "random": "mt19937_64",
    "set": "multiset set",
    "span": "as_bytes span",
    "string": "string",
    "string_view": "string_view",
    "system_error": "errc system_error",
    "thread": "this_thread thread",
    "type_traits": "is_trivially_copyable_v is_trivially_destructible_v",
    "unordered_map": "unordered_map",
    "utility": "exchange forward move pair swap",
    "variant": "get_if holds_alternative monostate variant visit",
    "vector": "vector",
}
HEADER_OF = {name: header for header, names in STANDARD.items() for name in names.split()}

# (names, the headers that have them, of which the first is proposed)
OTHERS = [
    (r"\bfmt::", ["<fmt/core.h>", "<fmt/format.h>"]),
    (r"\b(Result|Error|ErrorCode|fail)\b|\bGPEMU_(TRY|ASSIGN|CHECK)\b",
     ['"gpemu/base/error.hpp"']),
    (r"\b(Duration|TimePoint|NodeTime|Bytes|k[KMG]iB|to_ns|at_ns|to_(milli)?seconds|to_mib|"
     r"from_(nano|milli)?seconds)\b", ['"gpemu/base/units.hpp"']),
]


def faults_of(path, text):
    """Yields (line, fault) for a public header that lacks an include."""
    if not PUBLIC.match(path):
        return
    # What the file has: its own contents and what it includes; and the faults already found.
    has = {f'"{path.removeprefix("include/")}"', *re.findall(r"(?m)^#include (\S+)", text)}
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#include"):
            continue
        code = re.sub(r'"(\\.|[^"\\])*"|//.*', "", line)
        needs = []
        for found in NAME.finditer(code):
            name = found[1] or found[2]
            if name in HEADER_OF:
                needs.append((f"std::{name}", [f"<{HEADER_OF[name]}>"]))
            else:
                yield number, f"std::{name} is not in the table of check_includes.py; add it"
        for pattern, headers in OTHERS:
            if found := re.search(pattern, code):
                needs.append((found[0], headers))
        for name, headers in needs:
            if not has & set(headers):
                has.add(headers[0])
                yield number, f"{name} needs #include {headers[0]}"


# At the start of a line, so not members: functions, constants and types.
DECLARED = re.compile(
    r"^(?:\[\[nodiscard\]\] )?(?:inline |constexpr )*[A-Za-z][\w:<>,*& ]*[ *&]"
    r"(?P<function>[a-z]\w*)\("
    r"|^inline constexpr [\w:<>, ]+ (?P<constant>k[A-Z]\w*)\b"
    r"|^(?:class|struct|enum class|union) (?P<type>[A-Z]\w*)\b(?!;)|^using (?P<alias>[A-Z]\w*) =",
    re.MULTILINE)
# With a namespace before it, which may be a module, or with nothing.
USED = re.compile(r"(?<![\w.>:])(?:(?P<module>[a-z]+)::)?(?P<name>[a-z]\w*(?=\()|k?[A-Z]\w*)")
# What a source declares itself: functions, members, variables, types and constants.
OWN = re.compile(r"(?:[\w>] [*&]?|[\w>][*&] |\b[A-Z]\w*::)([a-z]\w*)\(|\w (\w+) ="
                 r"|\b(k[A-Z]\w*)(?= ?[={\[,}])"
                 r"|\b(?:class|struct|union|using|typename|enum) (?:class )?(?:\w+::)*(\w+)")
# And the name of a test suite, which is free.
NO_CODE = re.compile(r'R"(\w*)\(.*?\)\1"|^TEST(?:_F)?\(\w+|"(?:\\.|[^"\\\n])*"|//[^\n]*',
                     re.DOTALL | re.MULTILINE)


def module_of(path):
    """Returns the module of a source or header, of which the tools are one and each shim is one; or
    nothing."""
    found = re.match(r"(?:(?:src|include/gpemu)/(\w+)|(tools|shims/\w+))/", path)
    return found and (found[1] or found[2])


def blank(text):
    """Returns the text without literals, comments and names of tests, with the same lines."""
    return NO_CODE.sub(lambda found: "\n" * found[0].count("\n"), text)


def names_of_headers(texts):
    """Returns the headers that declare a name, by (module, name)."""
    declared = collections.defaultdict(set)
    for path, text in texts.items():
        if path.endswith(".hpp"):
            for found in DECLARED.finditer(blank(text)):
                declared[module_of(path), found[found.lastgroup]].add(path)
    return declared


def faults_of_names(texts):
    """Yields (path, line, fault) for each function, constant and type of a module that no header
    declares that a source includes."""
    texts = {path: text for path, text in texts.items()
             if path.endswith((".cpp", ".hpp")) and module_of(path)}
    declared = names_of_headers(texts)
    included = {}
    for path, text in texts.items():
        # A test of run includes a header of skip's tests.
        places = (pathlib.PurePosixPath(path).parent, f"src/{module_of(path)}", "include",
                  "shims/common", "tools", "src/skip")
        named = re.findall(r'(?m)^#include "(.+)"', text)
        included[path] = {f"{place}/{name}" for place in places for name in named} & texts.keys()

    def reached(path):
        seen, left = set(), [path]
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                left.extend(included[one])
        return seen

    for path in sorted(texts):
        if not path.endswith(".cpp"):
            continue
        code, has = blank(texts[path]), None
        no_types = re.sub(r"\b(return|else|case) ", "", code)
        own = {name for found in OWN.finditer(no_types) for name in found.groups()}
        for number, line in enumerate(code.splitlines(), 1):
            for found in USED.finditer(line):
                name = found["name"]
                headers = (declared.get((found["module"] or module_of(path), name))
                           or path.startswith("shims/") and declared.get(("shims/common", name)))
                if not headers or name in own:
                    continue
                has = has or reached(path)
                if headers & has:
                    continue
                own.add(name)
                # A header that it includes may have a member or a declaration of that name.
                other = re.compile(rf"^ +(?!return ).*[\w>&*] [*&]?{name}\(|^class {name};", re.M)
                if not any(other.search(texts[header]) for header in has - {path}):
                    yield path, number, f"{name} needs a header: {min(headers)}"
