#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the subcommands of gpemu profile that are about the database, over the installed profiles
and a user's database of its own.

Usage: profile_test.py GPEMU_COMMAND
"""

import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

GPEMU = ""
PACK, GPU, MODEL = "gpemu-vldb25", "V100-PCIE-32GB", "resnet50"


def content(folder):
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


class ProfileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpemu_profile.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def gpemu(self, *arguments, expect=0, **environment):
        inherited = {name: os.environ[name] for name in os.environ if name != "GPEMU_PROFILES"}
        result = subprocess.run(
            [GPEMU, "profile", *map(str, arguments)],
            text=True,
            timeout=60,
            capture_output=True,
            env={**inherited, "XDG_DATA_HOME": str(self.folder / "home"), **environment},
            check=False,
        )
        self.assertEqual(result.returncode, expect, result.stderr)
        return result.stdout if expect == 0 else result.stderr

    def listed(self, *arguments):
        return json.loads(self.gpemu("list", "--json", *arguments))

    def packs(self):
        return [(pack["name"], pack["from"]) for pack in self.listed()["packs"]]

    def test_lists_what_is_installed(self):
        listed = self.listed()
        self.assertIn((PACK, "installed"), self.packs())
        self.assertIn(GPU, [gpu["name"] for gpu in listed["gpus"]])
        self.assertIn(MODEL, [model["name"] for model in listed["models"]])
        of_gpu = self.listed("--gpu", GPU.lower())["measured"]
        self.assertEqual({row["gpu"] for row in of_gpu}, {GPU})
        self.assertGreaterEqual(len(of_gpu), 36)
        self.assertIn(MODEL, self.gpemu("list", "--gpu", GPU))

    def test_counts_all_measurements_whatever_is_selected(self):
        listed, of_one = self.listed(), self.listed("--gpu", GPU, "--model", MODEL)
        self.assertEqual(of_one["gpus"], listed["gpus"])
        self.assertEqual(of_one["models"], listed["models"])
        self.assertEqual(
            {(row["gpu"], row["model"]) for row in of_one["measured"]}, {(GPU, MODEL)}
        )

    def test_shows_a_curve_and_plots_it(self):
        plot = self.folder / "plot.svg"
        shown = json.loads(
            self.gpemu("show", "--gpu", GPU, "--model", MODEL, "--json", "--plot", plot)
        )
        self.assertEqual(len(shown["curves"]), 5)
        for curve in shown["curves"]:
            batches = [batch for batch, _ in curve["points"]]
            self.assertEqual(batches, sorted(set(batches)))
            self.assertEqual(curve["pack"], PACK)
        root = xml.etree.ElementTree.parse(plot).getroot()
        paths = [e for e in root if e.tag.endswith("path")]
        self.assertEqual(len([e for e in paths if e.get("data-name")]), 3)  # those in ms.
        self.assertEqual(len(paths), 6)  # Each with its error bars.
        text = self.gpemu("show", "--gpu", GPU, "--model", MODEL, "--quantity", "forward")
        self.assertIn("o forward", text)

    def test_shows_the_source_of_every_number_of_a_gpu(self):
        spec = json.loads(self.gpemu("show", "--gpu", GPU, "--json"))
        self.assertEqual(spec["numbers"]["memory.capacity_mib"]["value"], 32768)
        for path, number in spec["numbers"].items():
            self.assertTrue(number["source"], path)

    def test_takes_a_pack_through_a_users_database_unchanged(self):
        first, second = self.folder / "first" / PACK, self.folder / "second" / PACK
        first.parent.mkdir()
        second.parent.mkdir()
        self.gpemu("export", "--pack", PACK, "--output", first)
        self.gpemu("add", first)
        self.assertEqual(self.packs(), [(PACK, "user"), (PACK, "installed")])
        self.gpemu("export", "--pack", PACK, "--output", second)
        self.assertEqual(content(first), content(second))
        self.gpemu("remove", PACK)
        self.assertEqual(self.packs(), [(PACK, "installed")])
        self.gpemu("remove", PACK, expect=3)

    def test_exports_a_curve_as_csv(self):
        output = self.folder / "curve.csv"
        self.gpemu(
            "export", "--gpu", GPU, "--model", MODEL, "--quantity", "forward", "--output", output
        )
        with open(output, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["quantity"] for row in rows}, {"forward"})
        self.assertEqual({row["unit"] for row in rows}, {"ms"})
        self.assertGreater(len(rows), 2)

    def test_says_what_is_wrong(self):
        show = ["show", "--gpu", GPU, "--model", MODEL]
        self.assertIn("did you mean resnet50", self.gpemu("list", "--model", "resnet5o", expect=3))
        self.assertIn(".svg", self.gpemu(*show, "--plot", "x.png", expect=2))
        self.assertIn("/no/x.svg", self.gpemu(*show, "--plot", "/no/x.svg", expect=7))
        self.assertIn("not measured", self.gpemu("show", "--gpu", "T4", "--model", MODEL, expect=3))
        self.assertIn("/none", self.gpemu("list", expect=3, GPEMU_PROFILES="/none"))
        foreign = self.folder / "foreign.db"
        foreign.write_text("x" * 200, encoding="utf-8")
        message = self.gpemu("list", expect=8, GPEMU_PROFILES=str(foreign))
        self.assertIn(str(foreign), message)
        self.assertIn("pack.toml", self.gpemu("add", self.folder, expect=3))
        self.assertIn("pack.toml", self.gpemu("check", "x" * 300, expect=3))

    def test_imports_nothing_without_a_place_for_it(self):
        for command in ("add", "import"):
            message = self.gpemu(command, self.folder, expect=2, HOME="", XDG_DATA_HOME="")
            self.assertIn("set HOME or XDG_DATA_HOME", message)


if __name__ == "__main__":
    GPEMU = sys.argv.pop(1)
    unittest.main()
