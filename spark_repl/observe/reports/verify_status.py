"""The last ``verify``'s result: a file in the working state, which ``status`` shows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ... import formats
from ...errors import FormatError
from ...runtime.part_files import remove_dead_parts
from ...runtime.private_files import private_opener

if TYPE_CHECKING:
    from ...control.table.cut import Cut

_FORMAT = 1
MODE_REASON = "its mode is"
"""begin of the reason why a table was not to be compared: its mode keeps other rows"""
WITHOUT_HISTORY = (
    'it lacks the rows from before its copy (copy = "none"), and is neither compared nor repaired'
)
"""the reason why a table without history was not to be compared"""


def write_verify_status(path: str, fields: dict[str, Any]) -> None:
    """Replace the previous result atomically."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    remove_dead_parts(os.path.dirname(path))
    work = f"{path}.{os.getpid()}.part"
    with open(work, "w", encoding="utf-8", opener=private_opener) as file:
        file.write(formats.stamp(json.dumps(fields, default=str), _FORMAT))
    os.replace(work, path)


def read_verify_status(path: str) -> dict[str, Any] | None:
    """Return the result; None if there is none that this version can read."""
    try:
        with open(path, encoding="utf-8") as file:
            fields: dict[str, Any] = json.loads(
                formats.unstamp(file.read(), _FORMAT, "verify's result", path)
            )
    except (FileNotFoundError, FormatError, ValueError):
        return None
    return fields


def verify_status_at_cut(path: str, last: Cut | None) -> dict[str, Any] | None:
    """Return the result, with ``copied_since``: tables of which the last cut shows a newer copy."""
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
    """Return the tables that were repaired or copied after the verify, so that their findings are
    no longer valid."""
    return {*verified.get("repaired", ()), *verified.get("copied_since", ())}


def unrepaired_rows(verified: Mapping[str, Any], counted: str) -> dict[str, int]:
    """Return how many rows are ``counted`` (``differing``, ``undecided``), by table.

    Tables without such rows and repaired tables are left out. A repair of single rows does not
    resolve undecided rows, but a copy does.
    """
    repaired, by_table = repaired_tables(verified), verified.get("by_table", {})
    if counted == "undecided":
        repaired -= verified.get("repaired_rows", {}).keys() - verified.get("copied_since", ())
    return {
        name: rows[counted]
        for name, rows in by_table.items()
        if rows[counted] and name not in repaired
    }


def unrepaired_foreign_changes(verified: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes of other writers that were not repaired later, by table."""
    repaired, changed = repaired_tables(verified), verified.get("by_others", {})
    return {name: change for name, change in changed.items() if name not in repaired}


def failed_comparisons(verified: Mapping[str, Any]) -> dict[str, str]:
    """Return the tables that could not be compared, with the reason.

    Tables that have other rows than the source because of their mode or ``copy = "none"`` are left
    out.
    """
    reasons, intended = verified["not_compared"].items(), (MODE_REASON, WITHOUT_HISTORY)
    return {name: why for name, why in reasons if not why.startswith(intended)}


def open_failed_comparisons(verified: Mapping[str, Any]) -> dict[str, str]:
    """Return the failed comparisons of tables that were not repaired since."""
    repaired = repaired_tables(verified)
    return {name: why for name, why in failed_comparisons(verified).items() if name not in repaired}
