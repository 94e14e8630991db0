"""What goes wrong, as exceptions with wane's own sentence: what is wrong, where, and what to do."""
from __future__ import annotations


class WaneError(Exception):
    """The base of all of them. `name` is the code's, such as "WANE_EFORMAT"; `code` its number."""

    code = 0
    name = "WANE_E?"


class InvalidArgument(WaneError, ValueError):
    """An argument is wrong; the sentence says which."""


class NotFound(WaneError, FileNotFoundError):
    """There is no such file."""


class IOFailure(WaneError, OSError):
    """Reading or writing failed."""


class FormatError(WaneError, ValueError):
    """A file is not what it says it is: cut, damaged, of another version."""


class Unsupported(WaneError):
    """Asked for in good form, but not for this model, build or processor."""


class Unauthorized(WaneError, PermissionError):
    """A signature is missing or is another's, or a secret key can be read by others."""


class Cancelled(WaneError):
    """The caller's own progress function said so."""


class Busy(WaneError):
    """A queue is full: the record was dropped, and counted."""


class BadRow(WaneError, ArithmeticError):
    """A row holds NaN, or nothing that can be drawn."""


class NoMemory(WaneError, MemoryError):
    """No memory."""


class InternalError(WaneError):
    """A fault of wane itself; please report it."""


_BY_NAME: dict[str, type[WaneError]] = {
    "WANE_EINVAL": InvalidArgument, "WANE_ENOENT": NotFound, "WANE_EIO": IOFailure, "WANE_EFORMAT": FormatError,
    "WANE_EUNSUPPORTED": Unsupported, "WANE_EAUTH": Unauthorized, "WANE_ECANCELLED": Cancelled, "WANE_EBUSY": Busy,
    "WANE_EENGINE": BadRow, "WANE_ENOMEM": NoMemory, "WANE_EINTERNAL": InternalError,
}


def make(code: int, name: str, text: str) -> WaneError:
    """The exception for a code."""
    error = _BY_NAME.get(name, WaneError)(text or name)
    error.code = code
    error.name = name
    return error
