# SPDX-License-Identifier: Apache-2.0
"""The `gpemu` command: becomes the program that the package brings."""

import os
import pathlib
import sys


def main() -> None:
    """Replaces this process by the packaged command with the same arguments."""
    package = pathlib.Path(__file__).resolve().parent
    command = package / "bin" / "gpemu"
    if not command.exists():
        sys.exit(f"gpemu: {package} is the package of a build tree, which has no command: does "
                 "PYTHONPATH name it?")
    os.execv(command, [str(command), *sys.argv[1:]])
