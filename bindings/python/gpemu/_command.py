# SPDX-License-Identifier: Apache-2.0
"""The `gpemu` command: starts the program that is part of the package."""

import os
import pathlib
import sys


def main() -> None:
    """Replaces this process with the packaged command, with the same arguments."""
    package = pathlib.Path(__file__).resolve().parent
    command = package / "bin" / "gpemu"
    if not command.exists():
        sys.exit(f"gpemu: {package} is the package of a build tree and has no command; is it in "
                 "PYTHONPATH?")
    os.execv(command, [str(command), *sys.argv[1:]])
