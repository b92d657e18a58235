#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of which operations lie in a range, in recordings of published and of measured steps."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True
import record_measured
import record_published

MAIN, BACKWARD = 1, 2


def push(text, thread=MAIN):
    return {"mark": "push", "time_ns": 0, "thread": thread, "text": text}


def pop(thread=MAIN):
    return {"mark": "pop", "time_ns": 0, "thread": thread, "text": ""}


def operation(size, thread=MAIN):
    return {"op": "elementwise", "class": "elementwise", "type": "FP32", "shape": [size],
            "thread": thread}


class RangeTest(unittest.TestCase):
    def sizes(self, module, lines):
        """Returns the shapes in each range of a recording."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "operations.jsonl"
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            return module.recorded_steps(path)

    def published(self, lines):
        return {(number, phase): [shape[0] for _, shape in operations]
                for number, phases in self.sizes(record_published, lines).items()
                for phase, operations in phases.items()}

    def measured(self, lines):
        return {key: [(shape[0], later) for _, shape, later, _ in operations]
                for key, operations in self.sizes(record_measured, lines).items()}

    def test_a_published_step_keeps_what_follows_a_range_of_the_backward_thread(self):
        self.assertEqual(self.published([
            operation(0), push("recorded 0 forward"), operation(1), push("sort"), operation(2),
            pop(), operation(3), pop(), operation(4), push("recorded 0 backward"),
            operation(5, BACKWARD), push("sort", BACKWARD), operation(6, BACKWARD), pop(BACKWARD),
            operation(7, BACKWARD), operation(8), pop(), operation(9)]),
            {(0, "forward"): [1, 2, 3], (0, "backward"): [5, 6, 7, 8]})

    def test_a_measured_step_ends_with_its_own_thread(self):
        # The range of the backward thread is still open when the step's ends.
        self.assertEqual(self.measured([
            push("outer"), push("recorded a b"), operation(1), push("sort", BACKWARD),
            operation(2, BACKWARD), pop(), operation(3), pop(BACKWARD), pop()]),
            {"a b": [(1, False), (2, True)]})

    def test_a_pop_without_its_push_ends_nothing(self):
        # The program pushed it before it was recorded.
        self.assertEqual(self.published([
            push("recorded 1 forward"), pop(BACKWARD), operation(1), pop(), operation(2)]),
            {(1, "forward"): [1]})


if __name__ == "__main__":
    unittest.main()
