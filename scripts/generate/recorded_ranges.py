# SPDX-License-Identifier: Apache-2.0
"""Reads what lies in a program's NVTX ranges from a file of gpemu run --ops
(docs/reference/operations-format.md), and writes files, for record_published.py and
record_measured.py.
"""

import collections
import json
import re

CALL = ("op", "class", "type", "compute_type", "access", "channels_last")


def operations_in_ranges(lines, pattern):
    """Yields (match, entry) for each operation of any thread in a range whose name matches.

    A range ends at its own pop. Others lie in it: libraries mark their calls, as CUB does each sort
    of PyTorch's index_put, and each thread has its own ranges.
    """
    depths = collections.Counter()  # How many ranges of a thread are open.
    match = thread = depth = None
    for line in lines:
        entry = json.loads(line)
        mark = entry.get("mark")
        if mark == "push":
            depths[entry["thread"]] += 1
            found = re.fullmatch(pattern, entry["text"])
            if found:
                match, thread, depth = found, entry["thread"], depths[entry["thread"]]
        elif mark == "pop":
            if entry["thread"] == thread and depths[thread] == depth:
                match = thread = None
            depths[entry["thread"]] -= 1
        elif match is not None and "op" in entry:
            yield match, entry


def call_of(entry):
    """Returns an operation without its shape, and its shape."""
    shape = entry.get("shape", [entry["bytes"]] if "bytes" in entry else [])
    return json.dumps({key: entry[key] for key in CALL if key in entry}), tuple(shape)


def write_whole(path, text):
    """Writes a file whole or not at all, also if the program is killed."""
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
