#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of which operations lie in a range, in recordings of published and of measured steps."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

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


class PublishedFileTest(unittest.TestCase):
    GROUP = ("timm", "amp", "nhwc", "training")

    def spec(self, model):
        return {**dict(zip(record_published.GROUP, self.GROUP)), "model": model, "batch": 8,
                "size": 224}

    def test_a_file_that_is_read_and_written_stays_as_it_is(self):
        phases = {"forward": [('{"op": "copy_host_to_device"}', [7]), ('{"op": "set"}', [1])],
                  "backward": [('{"op": "set"}', [1]), ('{"op": "elementwise"}', [2, 2])]}
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(record_published, "PUBLISHED", pathlib.Path(folder)), \
                mock.patch.object(record_published, "ROOT", pathlib.Path(folder)), \
                contextlib.redirect_stdout(io.StringIO()):
            specs = [self.spec("a"), self.spec("b")]
            record_published.write_group(self.GROUP, [
                (spec, {"T4": 1.5}, record_published.counted(spec, phases)) for spec in specs])
            written = record_published.path_of(self.GROUP).read_text(encoding="utf-8")
            known = record_published.steps_of_group(self.GROUP)
            self.assertEqual(set(known), {("a", 8, 224), ("b", 8, 224)})
            record_published.write_group(self.GROUP, [
                (spec, {"T4": 1.5}, known[spec["model"], 8, 224]) for spec in specs])
            self.assertEqual(record_published.path_of(self.GROUP).read_text(encoding="utf-8"),
                             written)
            self.assertEqual(len(list(pathlib.Path(folder).rglob("*.*"))), 1)
        self.assertIn('"copied":7,"operations":[[0,1,1,1],[1,0,1,2,2]]', written)

    def test_what_inplace_abn_finds_element_by_element_is_marked(self):
        def access(model, op):
            _, operations = record_published.counted(
                self.spec(model), {"forward": [(json.dumps({"op": op, "type": "fp16"}), [1])]})
            return json.loads(operations[0][0]).get("access")

        self.assertEqual(access("tresnet_m", "normalization_forward"), "strided")
        self.assertIsNone(access("tresnet_m", "elementwise"))
        self.assertIsNone(access("resnet50", "normalization_forward"))


if __name__ == "__main__":
    unittest.main()
