#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the tests of the C interface expect success, and expect an error, of each function of
gpemu.h and monitor.h that returns a status.

Usage: check_capi_calls.py <folder of the headers> <test file>...
"""

import pathlib
import re
import sys

HEADERS = ("gpemu.h", "monitor.h")
FUNCTION = re.compile(r"^GPEMU_API gpemu_status (\w+)\(", re.MULTILINE)
# refused() is a function of null_test.cpp.
CALL = re.compile(r"\b(EXPECT_EQ|ASSERT_EQ|refused)\(\s*(gpemu_\w+)\(")
CANNOT_FAIL = {"gpemu_host_wait_until"}  # Any time is valid.


def end_of_call(text, start):
    """Returns the index after the parenthesis that closes the one before `start`."""
    depth = 1
    while depth > 0:
        depth += {"(": 1, ")": -1}.get(text[start], 0)
        start += 1
    return start


def expectations(text):
    """Yields (function, "success" or "error") for each call whose status a test expects."""
    for call in CALL.finditer(text):
        macro, function = call.groups()
        if macro == "refused":
            yield function, "error"
            continue
        status = re.match(r",\s*GPEMU_(OK|ERROR_\w+)", text[end_of_call(text, call.end()):])
        if status:
            yield function, "success" if status[1] == "OK" else "error"


def main():
    headers, *tests = sys.argv[1:]
    functions = [name for header in HEADERS
                 for name in FUNCTION.findall((pathlib.Path(headers) / header).read_text("utf-8"))]
    seen = {expectation for test in tests
            for expectation in expectations(pathlib.Path(test).read_text("utf-8"))}
    faults = [f"no test expects of {function}: {result}" for function in functions
              for result in ("success", "error")
              if (function, result) not in seen
              and not (result == "error" and function in CANNOT_FAIL)]
    faults += [f"CANNOT_FAIL: a test expects an error of {function}" for function in CANNOT_FAIL
               if (function, "error") in seen or function not in functions]
    print(*faults, f"{len(functions)} functions", sep="\n")
    sys.exit(1 if faults or not functions else 0)


if __name__ == "__main__":
    main()
