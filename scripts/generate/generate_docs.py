#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the reference pages that are made from tables in the sources, and the numbers in other
pages that count what the repository has. lint.py checks that they are current. (What the command
prints is written by check_docs.py --exact --update.)

Usage: scripts/generate/generate_docs.py
"""

import pathlib
import re

import shim_coverage

ROOT = pathlib.Path(__file__).resolve().parents[2]

EXIT_CODES_HEAD = """\
# Exit codes

Made by `scripts/generate/generate_docs.py` from `include/gpemu/base/error_codes.def`; do not edit.

Every failure prints one line on standard error that says what is wrong, where, and what to do.
The exit code of the `gpemu` command gives its kind, and so do `ErrorCode` in C++ and
`gpemu_status` in C. `gpemu run` ends with the exit code of its program, which may be the same as
one of these, or with 128 plus the number of the signal that ended it. `--strict` ends the program
with 86.

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


def supported_libraries():
    """Returns the page with today's counts; what wheels import is shim_coverage.py's."""
    text = (ROOT / "docs/reference/supported-libraries.md").read_text()
    for library in shim_coverage.libraries():
        functions = library.functions("")
        counts = f"| {len(functions)} | {sum(functions.values())} |"
        text = re.sub(rf"(?m)^(\| `{library.name}` \|[^|]*)\| \d+ \| \d+ \|", rf"\1{counts}", text)
    return text


def gpus():
    return len(list((ROOT / "catalog/gpus").glob("*.toml")))


def models():
    table = (ROOT / "evidence/packs/gpemu-vldb25/models.csv").read_text()
    return len(table.strip().splitlines()) - 1


# Where a page counts something: pattern with the number in a group, and what counts.
COUNTS = {
    "README.md": [(r"(\d+) kinds of GPU, from", gpus), (r"times of (\d+) models on six", models)],
    "docs/how-to/benchmarks.md": [(r"5,000 operations on (\d+) GPUs", gpus)],
    "docs/how-to/check-the-claims.md": [(r"memory of the (\d+) models", models),
                                        (r"The script runs the (\d+) torchvision", models)],
}


def counted(page):
    """Returns a page with the numbers that COUNTS finds in it brought up to date."""
    text = (ROOT / page).read_text()
    for pattern, count in COUNTS[page]:
        found = re.search(pattern, text)
        if not found:
            raise ValueError(f"{page} has no '{pattern}'; mend COUNTS in generate_docs.py")
        text = text[:found.start(1)] + str(count()) + text[found.end(1):]
    return text


PAGES = {"docs/reference/exit-codes.md": exit_codes,
         "docs/reference/supported-libraries.md": supported_libraries}
PAGES |= {page: lambda page=page: counted(page) for page in COUNTS}


def outdated():
    """Returns the pages that differ from what their tables say now."""
    return [path for path, make in PAGES.items()
            if not (ROOT / path).exists() or (ROOT / path).read_text() != make()]


if __name__ == "__main__":
    for page in outdated():
        (ROOT / page).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / page).write_text(PAGES[page]())
        print(f"wrote {page}")
