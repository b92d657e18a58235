#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the reference pages that are made from tables in the sources. lint.py checks that they
are current.

Usage: scripts/generate_docs.py
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent

EXIT_CODES_HEAD = """\
# Exit codes

Made by `scripts/generate_docs.py` from `include/gpemu/base/error_codes.def`; do not edit.

Every failure prints one line on standard error that says what is wrong, where, and what to do.
The exit code of the `gpemu` command says of which kind it is, and so do `ErrorCode` in C++ and
`gpemu_status` in C. `gpemu run` ends with the exit code of its program, which may be the same as
one of these; 128 plus the signal when one ended it.

| exit code | meaning | C++ | C |
|---|---|---|---|
| 0 | success | | `GPEMU_OK` |
"""


def exit_codes():
    table = (ROOT / "include/gpemu/base/error_codes.def").read_text()
    pattern = r'^X\((\w+),\s*(\w+),\s*\d+,\s*(\d+),\s*"([^"]*)"\)'
    rows = [f"| {code} | {meaning} | `{name}` | `{c_name}` |\n"
            for name, c_name, code, meaning in re.findall(pattern, table, re.MULTILINE)]
    return EXIT_CODES_HEAD + "".join(rows)


PAGES = {"docs/reference/exit-codes.md": exit_codes}


def outdated():
    """Returns the pages that differ from what their tables say now."""
    return [path for path, make in PAGES.items()
            if not (ROOT / path).exists() or (ROOT / path).read_text() != make()]


if __name__ == "__main__":
    for page in outdated():
        (ROOT / page).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / page).write_text(PAGES[page]())
        print(f"wrote {page}")
