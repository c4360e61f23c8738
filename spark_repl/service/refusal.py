"""Refusals: the error by which a receiver's process has ended, for the process that supervises it.

The receiver's report can't have it: it may be another receiver's, or in a folder that can't be
written.
"""

from __future__ import annotations

import json
from typing import Any

from .. import errors
from ..errors import SparkReplError

_PLACE = ("file", "position", "gtid", "table", "hint", "number")


def write_refusal(path: str, error: SparkReplError) -> None:
    """Write an error to the file. Raise OSError if that fails."""
    fields = {name: getattr(error, name) for name in _PLACE}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"kind": type(error).__name__, "message": error.message, **fields}, file)


def read_refusal(path: str) -> SparkReplError | None:
    """Return the error of the file; None if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            fields: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return None
    kind = getattr(errors, str(fields.pop("kind")), SparkReplError)
    message = str(fields.pop("message"))
    try:
        error: SparkReplError = kind(message, **fields)
    except TypeError:  # one that is made from other things
        error = SparkReplError(message, **fields)
    return error
