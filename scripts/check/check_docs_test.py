#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_docs.py reads pages, compares output and executes commands as its beginning says."""

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import check_docs


def blocks(*lines):
    faults = []
    return check_docs.blocks_of(list(lines), faults), faults


def faults(*lines, path="docs/how-to/run.md"):
    return [fault for _, fault in check_docs.faults_of(path, list(lines))]


class Reading(unittest.TestCase):
    def test_splits_commands_where_a_shell_does(self):
        found, _ = blocks("```sh", "# a comment", "make a \\", "  b", "", "for i in 1 2; do",
                          "  echo $i", "done", "cat <<END", "text", "END", "```")
        self.assertEqual([step.command for step in found[0].steps],
                         ["make a \\\n  b", "for i in 1 2; do\n  echo $i\ndone",
                          "cat <<END\ntext\nEND"])

    def test_tells_output_from_commands(self):
        found, _ = blocks("```console", "$ make \\", ">   all", "one", "two", "$ true", "```")
        first, second = found[0].steps
        self.assertEqual(first.command, "make \\\n  all")
        self.assertEqual(list(first.output), [3, 4])
        self.assertEqual(list(second.output), [])

    def test_takes_the_directives_of_the_comment_before_a_block(self):
        found, _ = blocks("<!-- check: exact; exit 4; needs torch; before a b -->", "```sh",
                          "make", "```", "```sh", "true", "```",
                          "<!-- check: skip no; really -->", "", "```sh", "(", "```")
        self.assertEqual((found[0].mode, found[0].exit_code, found[0].needs, found[0].before),
                         ("exact", 4, "torch", ["a b"]))
        self.assertEqual((found[1].mode, found[1].exit_code), ("words", 0))
        self.assertEqual((found[2].skip, found[2].steps), ("no; really", []))


class Faults(unittest.TestCase):
    def test_finds_commands_that_are_neither_executed_nor_skipped(self):
        self.assertEqual(len(faults("```", "gpemu smi", "```")), 2)
        self.assertEqual(len(faults("```text", "gpemu smi", "```")), 1)
        self.assertEqual(len(faults("", "    gpemu smi")), 1)
        self.assertEqual(len(faults("<!-- check: perhaps -->", "```sh", "true", "```")), 1)
        self.assertEqual(len(faults("```console", "gpemu smi", "```")), 1)
        self.assertEqual(len(faults("```sh", "echo 'a", "```")), 1)

    def test_leaves_other_blocks_alone(self):
        self.assertEqual(faults("```sh", "gpemu smi", "```"), [])
        self.assertEqual(faults("```text", "gpemu smi    43.5 %", "```"), [])
        self.assertEqual(faults("<!-- check: skip no GPU -->", "```text", "$ gpemu", "```"), [])
        self.assertEqual(faults("* a list", "  gpemu runs programs", "", "  with text"), [])
        self.assertEqual(faults("```", "gpemu smi", "```", path="docs/reference/emulation.md"), [])


class Comparing(unittest.TestCase):
    def check(self, expected, actual, mode, wanted):
        self.assertEqual(check_docs.matches(expected, actual, mode), wanted, (expected, actual))

    def test_compares_to_the_byte(self):
        self.check(["a 1.5 ms"], ["a 1.5 ms"], "exact", True)
        self.check(["a 1.5 ms"], ["a 1.6 ms"], "exact", False)
        self.check(["a"], ["a", "b"], "exact", False)
        self.check(["a.c"], ["abc"], "exact", False)

    def test_compares_words(self):
        self.check(["run  30 steps in 4.2 s"], ["run 7 steps in 900.1 ms"], "words", True)
        self.check(["+-----+--+"], ["+---+----+"], "words", True)
        self.check(["limited by the GPU"], ["limited by storage"], "words", False)

    def test_lets_three_dots_stand_for_lines(self):
        for mode in ("exact", "words"):
            self.check(["a", "...", "z"], ["a", "b", "c", "z"], mode, True)
            self.check(["a", "...", "z"], ["a", "z"], mode, True)
            self.check(["a", "...", "z"], ["a", "b"], mode, False)
            self.check(["...", "z"], ["z", "y"], mode, False)

    def test_leaves_out_of_new_output_what_was_left_out_of_the_old(self):
        self.assertEqual(check_docs.shortened(["1", "...", "9"], ["a", "b", "c", "d"]),
                         ["a", "...", "d"])
        self.assertEqual(check_docs.shortened(["1", "2"], ["a", "b", "c"]), ["a", "b", "c"])

    def test_drops_progress(self):
        self.assertEqual(check_docs.trimmed(["", "training: 3/30 steps, 9 images/s, 3 s left",
                                             "gpemu: T4, batch 8: recording",
                                             "warning: the host was too busy to measure it",
                                             "a  ", "", "b", ""]), ["a", "", "b"])


class Executing(unittest.TestCase):
    """Whole pages, in a repository of their own with a gpemu that only echoes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        program = self.root / "build/dev/tools/gpemu"
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/sh\necho "gpemu $*"\n')
        program.chmod(0o755)
        self.options = argparse.Namespace(
            gpemu=program, exact=False, update=False, wanted=set(), pages=[], cache=None,
            limit_s=60, verbose=False)
        self.page = self.root / "page.md"
        self.repository = self.root / "repository"
        self.repository.mkdir()

    def execute(self, *lines):
        self.page.write_text("\n".join(lines) + "\n")
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(check_docs, "ROOT", self.root))
            page = check_docs.execute_page("page.md", self.options, None, self.repository)
            page.write_updates()
        return page.tally

    def test_keeps_variables_and_folders_from_block_to_block(self):
        tally = self.execute("```sh", "mkdir a && cd a", "b=7", "```", "```console",
                             "$ echo $b in ${PWD##*/}", "7 in a", "```")
        self.assertEqual((tally.executed, tally.compared, tally.failures), (3, 1, []))

    def test_finds_a_wrong_exit_code_and_goes_on(self):
        tally = self.execute("```sh", "false", "```", "```console", "$ gpemu a", "gpemu a", "```")
        self.assertEqual(len(tally.failures), 1)
        self.assertIn("page.md:2: false", tally.failures[0])
        self.assertEqual(tally.compared, 1)

    def test_wants_the_exit_code_that_the_comment_names(self):
        lines = ["<!-- check: exit 3 -->", "```sh", "true", "(exit 3)", "```"]
        self.assertEqual(self.execute(*lines).failures, [])
        lines[3] = "true"
        self.assertEqual(len(self.execute(*lines).failures), 1)

    def test_ends_a_page_whose_command_does_not_end(self):
        self.options.limit_s = 0.2
        tally = self.execute("```sh", "while true; do read -t 1 <>/dev/zero; done", "true", "```")
        self.assertEqual((tally.executed, len(tally.failures)), (1, 1))

    def test_works_in_a_folder_with_a_space_in_its_name(self):
        temporary = self.root / "a folder"
        temporary.mkdir()
        with mock.patch.object(tempfile, "tempdir", str(temporary)):
            tally = self.execute("```console", "$ gpemu a", "gpemu a", "```")
        self.assertEqual((tally.compared, tally.failures), (1, []))

    def test_finds_output_that_differs(self):
        tally = self.execute("```console", "$ gpemu a", "gpemu b", "```")
        self.assertEqual(len(tally.failures), 1)
        self.assertIn("-gpemu b\n    +gpemu a", tally.failures[0])

    def test_compares_words_or_all_or_nothing(self):
        def failures(comment):
            lines = [comment, "```console", "$ gpemu 1", "gpemu 2", "```"]
            return len(self.execute(*lines).failures)
        self.assertEqual(failures(""), 0)
        self.assertEqual(failures("<!-- check: exact -->"), 1)
        self.assertEqual(failures("<!-- check: run -->"), 0)

    def test_executes_only_what_is_exact_when_told_so(self):
        self.options.exact = True
        tally = self.execute("```sh", "false", "```", "<!-- check: exact -->", "```console",
                             "$ gpemu a", "gpemu a", "```")
        self.assertEqual((tally.executed, tally.skipped, tally.failures), (1, 1, []))

    def test_leaves_out_what_needs_more_until_it_is_there(self):
        lines = ["<!-- check: needs torch; before c=1 -->", "```sh", "[ $c = 1 ]", "```"]
        self.assertEqual(self.execute(*lines).executed, 0)
        self.options.wanted = {"torch"}
        tally = self.execute(*lines)
        self.assertEqual((tally.executed, tally.failures), (2, []))

    def test_writes_new_output_into_the_page(self):
        self.options.update = True
        page = ["<!-- check: exact -->", "```console", "$ gpemu a; gpemu b", "gpemu 1", "$ gpemu c",
                "gpemu c", "```", "", "```console", "$ gpemu 5", "gpemu 6", "```"]
        self.execute(*page)
        page[3:4] = ["gpemu a", "gpemu b"]
        self.assertEqual(self.page.read_text().splitlines(), page)
        self.options.pages = ["page.md"]
        self.execute(*page)
        page[-2] = "gpemu 5"
        self.assertEqual(self.page.read_text().splitlines(), page)

    def test_leaves_nothing_when_it_is_ended(self):
        (self.root / "tmp").mkdir()
        self.page.write_text("```sh\nkill $PPID; sleep 1000\n```\n")
        program = ("import pathlib, sys, check_docs\n"
                   f"check_docs.ROOT = pathlib.Path({str(self.root)!r})\n"
                   "check_docs.copy_repository = lambda _: None\n"
                   "sys.exit(check_docs.main(sys.argv[1:]))")
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(check_docs.__file__),
                       "TMPDIR": str(self.root / "tmp")}
        done = subprocess.run(
            [sys.executable, "-c", program, "--as", "root", "--gpemu", self.options.gpemu,
             self.page], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=60, check=False)
        self.assertEqual(done.returncode, 143)
        self.assertEqual(list((self.root / "tmp").iterdir()), [])

    @unittest.skipUnless(os.geteuid() == 0, "only root can act as somebody else")
    def test_acts_as_an_ordinary_user(self):
        self.page.write_text("```console\n$ id -u; ulimit -l; touch a && pwd >a\n"
                             f"{check_docs.ORDINARY_USER}\n8192\n```\n")
        with mock.patch.object(check_docs, "ROOT", self.root):
            tally = check_docs.execute_page("page.md", self.options, check_docs.ORDINARY_USER,
                                            self.repository).tally
        self.assertEqual((tally.compared, tally.failures), (1, []))


if __name__ == "__main__":
    unittest.main()
