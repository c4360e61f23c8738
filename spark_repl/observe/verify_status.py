"""What the last verify found: a file in the working state, which ``status`` shows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import formats
from ..errors import FormatError
from ..runtime.part_files import remove_dead_parts
from ..runtime.private_files import opener

if TYPE_CHECKING:
    from ..control.cut import Cut

_FORMAT = 1
OF_MODE = "its mode is"
"""how the reason begins for which a table was not to be compared: it has other rows"""
WITHOUT_HISTORY = (
    'it lacks the rows from before its copy (copy = "none"), and is neither compared nor repaired'
)
"""the reason for which a table without history was not to be compared"""


def record(path: str, fields: dict[str, Any]) -> None:
    """Writes the result in the place of the one before."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    remove_dead_parts(os.path.dirname(path))
    work = f"{path}.{os.getpid()}.part"
    with open(work, "w", encoding="utf-8", opener=opener) as file:
        file.write(formats.stamp(json.dumps(fields, default=str), _FORMAT))
    os.replace(work, path)


def read(path: str) -> dict[str, Any] | None:
    """The result; None where there is none, or none that this version can read."""
    try:
        with open(path, encoding="utf-8") as file:
            fields: dict[str, Any] = json.loads(
                formats.unstamp(file.read(), _FORMAT, "verify's result", path)
            )
    except (FileNotFoundError, FormatError, ValueError):
        return None
    return fields


def at_cut(path: str, last: Cut | None) -> dict[str, Any] | None:
    """The result, with ``copied_since``: the tables of which the last cut shows a newer copy."""
    verified = read(path)
    if verified is None or last is None:
        return verified
    copied = [
        name
        for name, where in verified.get("paths", {}).items()
        if name in last.tables and last.tables[name].path != where
    ]
    return {**verified, "copied_since": sorted(copied)}


def mended(verified: Mapping[str, Any]) -> set[str]:
    """The tables of which counts no more what was found: repaired, or copied anew."""
    return {*verified.get("repaired", ()), *verified.get("copied_since", ())}


def still(verified: Mapping[str, Any], counted: str) -> dict[str, int]:
    """How many rows were ``counted`` (``differing``, ``undecided``) of each table that has some,
    but for those that were mended: undecided rows by a copy alone."""
    left, by_table = mended(verified), verified.get("by_table", {})
    if counted == "undecided":
        left -= verified.get("repaired_rows", {}).keys() - verified.get("copied_since", ())
    return {
        name: one[counted] for name, one in by_table.items() if one[counted] and name not in left
    }


def by_others(verified: Mapping[str, Any]) -> dict[str, Any]:
    """What somebody else has changed, and nobody has mended, by table."""
    left, changed = mended(verified), verified.get("by_others", {})
    return {name: one for name, one in changed.items() if name not in left}


def to_compare(verified: Mapping[str, Any]) -> dict[str, str]:
    """The tables that were to be compared and could not be, with why: not those that have other
    rows than the source by their mode, or by ``copy = "none"``."""
    reasons, meant = verified["not_compared"].items(), (OF_MODE, WITHOUT_HISTORY)
    return {name: why for name, why in reasons if not why.startswith(meant)}


def left_out(verified: Mapping[str, Any]) -> dict[str, str]:
    """The same without those that were mended."""
    left = mended(verified)
    return {name: why for name, why in to_compare(verified).items() if name not in left}
