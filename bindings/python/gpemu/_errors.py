# SPDX-License-Identifier: Apache-2.0
"""The exceptions that gpemu raises."""

from __future__ import annotations


class GpemuError(RuntimeError):
    """The emulator refused a call; the message says why.

    Attributes:
        code: the status of gpemu.h, a number.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class OutOfMemoryError(GpemuError, MemoryError):
    """The device does not have enough memory."""


class NotFoundError(GpemuError, LookupError):
    """No such GPU, model, node, device or file."""


class InvalidArgumentError(GpemuError, ValueError):
    """An argument is outside its range."""


class UnsupportedError(GpemuError):
    """The profiles cannot answer, e.g. a model that was not measured on a GPU."""


# Values from gpemu/base/error_codes.def.
_BY_CODE: dict[int, type[GpemuError]] = {
    2: InvalidArgumentError,
    3: NotFoundError,
    4: OutOfMemoryError,
    10: UnsupportedError,
}


def error_for(code: int, name: str, message: str) -> GpemuError:
    """Makes the exception for a status of gpemu.h; `name` is its meaning in words."""
    kind = _BY_CODE.get(code, GpemuError)
    return kind(message or name, code)
