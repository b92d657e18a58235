# SPDX-License-Identifier: Apache-2.0
"""Whether each public header includes what it names of the standard library, of fmt and of the two
headers that nearly every file uses. The build compiles each public header by itself after the
precompiled headers, which hide such a fault; other faults it finds itself.
"""

import re

PUBLIC = re.compile(r"^include/gpemu/\w+/\w+\.hpp$")
NAME = re.compile(r"\bstd::(?:(filesystem|chrono|this_thread|ranges)::)?(\w+)")

STANDARD = {
    "algorithm": "copy max min ranges",
    "array": "array to_array",
    "atomic": "atomic memory_order_acq_rel memory_order_acquire memory_order_relaxed "
              "memory_order_release",
    "chrono": "chrono",
    "cmath": "llround",
    "condition_variable": "condition_variable",
    "cstddef": "byte size_t",
    "cstdint": "int8_t int32_t int64_t uint8_t uint32_t uint64_t",
    "cstdlib": "getenv",
    "cstring": "memcpy",
    "deque": "deque",
    "expected": "expected unexpected",
    "filesystem": "filesystem",
    "functional": "function",
    "initializer_list": "initializer_list",
    "limits": "numeric_limits",
    "map": "map",
    "memory": "shared_ptr unique_ptr make_unique make_shared",
    "mutex": "adopt_lock mutex once_flag unique_lock",
    "new": "nothrow",
    "optional": "nullopt optional",
    "random": "mt19937_64",
    "set": "set",
    "span": "as_bytes span",
    "string": "string",
    "string_view": "string_view",
    "system_error": "system_error",
    "thread": "this_thread thread",
    "type_traits": "is_trivially_copyable_v",
    "unordered_map": "unordered_map",
    "utility": "exchange forward move pair swap",
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
