# SPDX-License-Identifier: Apache-2.0
"""The options that scripts in this folder share."""

import argparse
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]


def parser_of(document):
    """Returns a parser of command lines with --gpemu. `document`: the script's own; its first line
    is the help."""
    parser = argparse.ArgumentParser(description=document.splitlines()[0])
    parser.add_argument("--gpemu", default=ROOT / "build/release/tools/gpemu", type=pathlib.Path)
    return parser


def parse(parser):
    """Parses the command line; ends with a message if --gpemu or --folder does not exist."""
    options = parser.parse_args()
    if shutil.which(options.gpemu) is None:
        parser.error(f"there is no {options.gpemu}; build it, or name one with --gpemu")
    folder = getattr(options, "folder", None)
    if folder is not None and not folder.is_dir():
        parser.error(f"there is no folder {folder}; make it, or name one with --folder")
    return options
