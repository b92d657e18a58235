# SPDX-License-Identifier: Apache-2.0
"""The `gpemu` command: becomes the program that the package brings."""

import os
import pathlib
import sys


def main() -> None:
    """Replaces this process by the packaged command with the same arguments."""
    command = pathlib.Path(__file__).resolve().parent / "bin" / "gpemu"
    os.execv(command, [str(command), *sys.argv[1:]])
