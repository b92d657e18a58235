#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Uses the command as people and their shells do: completion, manual, terminals of all kinds,
output that cannot be written, and names that try to speak to the terminal.

Usage: command_line_test.py GPEMU_COMMAND
"""

import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 else "gpemu"
GPU = "V100-PCIE-32GB"
TRAIN = ("train", "synthetic", "--gpu", GPU, "--model", "resnet18", "--clock", "virtual")


class CommandLineTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="gpemu_command_line_test_")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.environment = {**os.environ, "GPEMU_NODE_DIR": str(self.folder / "nodes"),
                            "LC_ALL": "C.UTF-8"}

    def run_gpemu(self, *words, expect=0, stdout=subprocess.PIPE, **variables):
        result = subprocess.run([COMMAND, *map(str, words)], stdout=stdout, stderr=subprocess.PIPE,
                                env={**self.environment, **variables}, stdin=subprocess.DEVNULL,
                                check=False, text=True, encoding="utf-8")
        self.assertEqual(result.returncode, expect, result.stderr)
        return result.stdout, result.stderr

    def test_reports_output_that_is_lost(self):
        for words in (("profile", "list"), ("--help",), ("help", "train"), (*TRAIN, "--json", "-"),
                      TRAIN, ("completion", "bash"), ("version",)):
            with open("/dev/full", "w", encoding="utf-8") as full:
                _, errors = self.run_gpemu(*words, expect=5, stdout=full)
            self.assertEqual(errors, "gpemu: cannot write the output: No space left on device; "
                                     "it is incomplete\n", words)
            closed = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", COMMAND, *words],
                                    env=self.environment, capture_output=True, text=True,
                                    check=False)
            self.assertEqual(closed.returncode, 7, words)
            self.assertIn("cannot write the output: Bad file descriptor", closed.stderr)

    def test_writes_no_file_with_what_it_prints(self):
        # The first files that are opened would get the numbers of the descriptors that are closed.
        output = self.folder / "result.json"
        subprocess.run(["sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh", COMMAND, *TRAIN, "--json",
                        output], env=self.environment, check=False)
        json.loads(output.read_text())

    def test_prints_json_only(self):
        for words in (TRAIN, ("profile", "list"), ("node", "list"), ("smi",),
                      ("cost", "--gpu", GPU, "--model", "resnet50", "--batch", "64"),
                      ("run", "--gpu", GPU, "--", "sh", "-c", "echo loud")):
            words = list(words)
            place = words.index("--") if "--" in words else len(words)
            output, _ = self.run_gpemu(*words[:place], "--json", "-", *words[place:])
            json.loads(output)
        _, errors = self.run_gpemu("run", "--json", "-", "--gpu", GPU, "--", "echo", "loud")
        self.assertIn("loud\n", errors)
        self.run_gpemu(*TRAIN, "--report", "-", expect=2)

    def test_shows_names_instead_of_obeying_them(self):
        evil = self.folder / "a\x1b]0;owned\x07\nb"
        images = evil / "class"
        images.mkdir(parents=True)
        (images / "\x1b[2Jx.jpg").write_bytes(b"no image")
        for words, code in ((("data", "show", evil), 0), (("data", "show", evil / "none"), 3),
                            (("data", "bench", evil, "--decode-only"), 6),
                            (("profile", "check", evil), 3), (("smi", "\x1b[31m"), 2),
                            (("profile", "show", "--gpu", "\x1b[31m"), 3),
                            ((*TRAIN, "--json", evil / "no" / "x"), 7),
                            (("run", "--gpu", GPU, "--", "\x1b[31m"), 3), (("\x1b[31m",), 2)):
            output, errors = self.run_gpemu(*words, expect=code)
            text = output + errors
            self.assertFalse([c for c in text if ord(c) < 32 and c != "\n" or c == "\x7f"], text)
            self.assertIn("\\x1b", text)
            self.assertFalse([line for line in text.splitlines() if line.startswith("b")], text)

    def test_does_not_wait_for_a_pipe(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        pack = self.folder / "pack"
        pack.mkdir()
        os.mkfifo(pack / "pack.toml")
        for words in (("profile", "check", pipe), ("profile", "check", pack),
                      ("profile", "add", pack), ("data", "show", pipe),
                      ("profile", "show", "--gpu", pipe)):
            result = subprocess.run([COMMAND, *map(str, words)], env=self.environment,
                                    capture_output=True, text=True, check=False, timeout=60)
            self.assertNotEqual(result.returncode, 0, words)
            self.assertIn(str(pipe.name), result.stderr + result.stdout)

    def on_terminal(self, *words, **variables):
        """Returns what a command writes on a terminal of 50 columns."""
        terminal, other_end = pty.openpty()
        subprocess.run(["stty", "cols", "50"], stdin=other_end, check=True)
        process = subprocess.Popen([COMMAND, *words], stdin=other_end, stdout=other_end,
                                   stderr=other_end, env={**self.environment, **variables})
        os.close(other_end)
        written = b""
        try:
            while chunk := os.read(terminal, 4096):
                written += chunk
        except OSError:  # The terminal's last user has gone.
            pass
        os.close(terminal)
        self.assertEqual(process.wait(), 0)
        return written.decode()

    def test_draws_bars_that_fit(self):
        make = ("data", "make", "--images", "1500", "--classes", "2", "--size-percentiles", "50:20")
        drawn = self.on_terminal(*make, str(self.folder / "bar"), TERM="xterm")
        bars = [part.split("\r")[0] for part in drawn.split("\r\x1b[K")[1:]]
        self.assertTrue([bar for bar in bars if "/1500 images" in bar], drawn)
        self.assertFalse([bar for bar in bars if len(bar) >= 50 and "/1500" in bar], drawn)
        plain = self.on_terminal(*make, str(self.folder / "dumb"), TERM="dumb", NO_COLOR="1")
        self.assertNotIn("\x1b", plain)

    def test_prints_plus_minus_as_the_locale_has_it(self):
        self.assertIn("compute time ±", self.run_gpemu(*TRAIN)[0])
        self.assertIn("compute time +-", self.run_gpemu(*TRAIN, LC_ALL="C")[0])

    def test_is_as_wide_as_it_should(self):
        for columns in (60, 80, 100):
            output, _ = self.run_gpemu("help", "train", "files", COLUMNS=str(columns))
            text = output[:output.index("\nExample")]
            widest = max(map(len, text.splitlines()))
            self.assertTrue(columns - 20 < widest <= columns, widest)

    def test_tables_and_plots_are_no_wider_than_the_terminal(self):
        cost = ("cost", "--gpu", GPU, "--model", "resnet50", "--batch", "8,16")
        for words in (cost, ("profile", "list"),
                      ("profile", "show", "--gpu", GPU, "--model", "resnet50")):
            output, _ = self.run_gpemu(*words, COLUMNS="60")
            self.assertLessEqual(max(map(len, output.splitlines())), 60, output)
        headers = [line.split() for line in self.run_gpemu(*cost)[0].splitlines()]
        self.assertIn("memory is", [" ".join(words[-2:]) for words in headers])

    def test_help_of_all_kinds_is_the_same(self):
        for words in (("train",), ("train", "host"), ("node", "create"), ("profile",)):
            self.assertEqual(self.run_gpemu("help", *words), self.run_gpemu(*words, "--help"))
        self.assertEqual(self.run_gpemu("help"), self.run_gpemu("--help"))
        _, errors = self.run_gpemu("help", "node", "crate", expect=2)
        self.assertIn("did you mean 'create'?", errors)

    def test_removes_nodes_by_both_names(self):
        for name in ("remove", "rm"):
            self.run_gpemu("node", "create", "n0", "--gpu", GPU)
            self.run_gpemu("node", name, "n0")
        self.run_gpemu("node", "remove", "n0", expect=3)

    def test_lists_devices_of_several_nodes_with_their_names(self):
        for name in ("one", "two"):
            self.run_gpemu("node", "create", name, "--gpu", GPU)
        lines = self.run_gpemu("smi", "-L")[0].splitlines()
        nodes = [line.partition(") ")[2] for line in lines]
        self.assertEqual(nodes, ["(node: one)", "(node: two)"])
        self.assertNotIn("node:", self.run_gpemu("smi", "-L", "one")[0])

    def test_refuses_periods_that_are_none(self):
        for period in ("nan", "-1", "0", "inf"):
            errors = self.run_gpemu("smi", f"--loop={period}", expect=2)[1]
            self.assertIn("--loop", errors)
            self.assertEqual(errors.count("\n"), 1, errors)

    def complete(self, *words):
        """Returns what bash offers for words of which the last is not whole."""
        script = self.run_gpemu("completion", "bash")[0]
        script += 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gpemu "$1"; printf "%s\\n" '
        script += '"${COMPREPLY[@]}"'
        result = subprocess.run(["bash", "-c", script, "bash", COMMAND, *words], check=True,
                                env=self.environment, capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def test_completes_in_bash(self):
        self.assertEqual(self.complete("tr"), ["train"])
        self.assertEqual(self.complete("train", ""), ["files", "host", "service", "synthetic"])
        self.assertEqual(self.complete("node", "cr"), ["create"])
        self.assertEqual(self.complete("run", "--gpu", "V100-PCIE"), ["V100-PCIE-16GB", GPU]
                         if "V100-PCIE-16GB" in self.run_gpemu("profile", "list")[0] else [GPU])
        self.assertIn("--overlap-copy", self.complete("train", "files", "--o"))
        self.run_gpemu("node", "create", "n7", "--gpu", GPU)
        self.assertEqual(self.complete("node", "remove", ""), ["n7"])
        self.assertEqual(self.complete("run", "--node", "n"), ["n7"])
        self.assertEqual(self.complete("run", "--", "tr"), [])
        self.assertNotIn("words", self.complete("completion", ""))

    def test_scripts_of_other_shells_can_be_read(self):
        for shell in ("zsh", "fish"):
            script = self.folder / shell
            script.write_text(self.run_gpemu("completion", shell)[0])
            if shutil.which(shell):
                subprocess.run([shell, "-n", script], check=True)

    def test_manual_can_be_read(self):
        self.run_gpemu("help", "--man", self.folder / "man")
        pages = {page.name for page in (self.folder / "man").iterdir()}
        self.assertLess({"gpemu.1", "gpemu-train.1", "gpemu-node-create.1"}, pages)
        self.assertNotIn("gpemu-completion-words.1", pages)
        if shutil.which("groff"):
            for page in (self.folder / "man").iterdir():
                result = subprocess.run(["groff", "-man", "-Tutf8", "-ww", page], check=True,
                                        capture_output=True, text=True)
                self.assertEqual(result.stderr, "", page)
                self.assertIn("SYNOPSIS", re.sub(".\b", "", result.stdout))  # Struck twice: bold.


if __name__ == "__main__":
    unittest.main()
