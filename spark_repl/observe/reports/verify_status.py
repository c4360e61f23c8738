"""What the last verify found: a file in the working state, which ``status`` shows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ... import formats
from ...errors import FormatError
from ...runtime.part_files import remove_dead_parts
from ...runtime.private_files import opener

if TYPE_CHECKING:
    from ...control.table.cut import Cut

_FORMAT = 1
MODE_REASON = "its mode is"
"""how the reason begins for which a table was not to be compared: it has other rows"""
WITHOUT_HISTORY = (
    'it lacks the rows from before its copy (copy = "none"), and is neither compared nor repaired'
)
"""the reason for which a table without history was not to be compared"""


def write_verify_status(path: str, fields: dict[str, Any]) -> None:
    """Writes the result in the place of the one before."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    remove_dead_parts(os.path.dirname(path))
    work = f"{path}.{os.getpid()}.part"
    with open(work, "w", encoding="utf-8", opener=opener) as file:
        file.write(formats.stamp(json.dumps(fields, default=str), _FORMAT))
    os.replace(work, path)


def read_verify_status(path: str) -> dict[str, Any] | None:
    """The result; None where there is none, or none that this version can read."""
    try:
        with open(path, encoding="utf-8") as file:
            fields: dict[str, Any] = json.loads(
                formats.unstamp(file.read(), _FORMAT, "verify's result", path)
            )
    except (FileNotFoundError, FormatError, ValueError):
        return None
    return fields


def verify_status_at_cut(path: str, last: Cut | None) -> dict[str, Any] | None:
    """The result, with ``copied_since``: the tables of which the last cut shows a newer copy."""
    verified = read_verify_status(path)
    if verified is None or last is None:
        return verified
    copied = [
        name
        for name, where in verified.get("paths", {}).items()
        if name in last.tables and last.tables[name].path != where
    ]
    return {**verified, "copied_since": sorted(copied)}


def repaired_tables(verified: Mapping[str, Any]) -> set[str]:
    """The tables of which counts no more what was found: repaired, or copied anew."""
    return {*verified.get("repaired", ()), *verified.get("copied_since", ())}


def unrepaired_rows(verified: Mapping[str, Any], counted: str) -> dict[str, int]:
    """How many rows were ``counted`` (``differing``, ``undecided``) of each table that has some,
    but for those that were mended: undecided rows by a copy alone."""
    left, by_table = repaired_tables(verified), verified.get("by_table", {})
    if counted == "undecided":
        left -= verified.get("repaired_rows", {}).keys() - verified.get("copied_since", ())
    return {
        name: one[counted] for name, one in by_table.items() if one[counted] and name not in left
    }


def unrepaired_foreign_changes(verified: Mapping[str, Any]) -> dict[str, Any]:
    """What somebody else has changed, and nobody has mended, by table."""
    left, changed = repaired_tables(verified), verified.get("by_others", {})
    return {name: one for name, one in changed.items() if name not in left}


def failed_comparisons(verified: Mapping[str, Any]) -> dict[str, str]:
    """The tables that were to be compared and could not be, with why: not those that have other
    rows than the source by their mode, or by ``copy = "none"``."""
    reasons, meant = verified["not_compared"].items(), (MODE_REASON, WITHOUT_HISTORY)
    return {name: why for name, why in reasons if not why.startswith(meant)}


def open_failed_comparisons(verified: Mapping[str, Any]) -> dict[str, str]:
    """The same without those that were mended."""
    left = repaired_tables(verified)
    return {name: why for name, why in failed_comparisons(verified).items() if name not in left}
