# SPDX-License-Identifier: Apache-2.0
"""Which lines of functions.def hold for which CUDA."""


def holds(only, major):
    """Says whether a line holds for a CUDA major ("" for a shim of all).

    `only` is the number behind its word, or None: 11 and 13 are for that CUDA only, 12 is for
    those before 13.
    """
    return only in (None, major) or (only, major) == ("12", "11")
