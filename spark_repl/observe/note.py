"""Note: something that is not as it was asked for, and stops nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """``what`` is not as it was asked for; what to do about it: ``hint``."""

    what: str
    hint: str


def lost_file(table: str, why: str) -> Note | None:
    """The note of a table that lacks a file, as ``why`` says; None for "": it lacks none."""
    if not why:
        return None
    return Note(
        f"a file of {table} is gone: {why}",
        "bring it back from a backup, or copy the table again: spark-repl snapshot --config F"
        f" --table {table}",
    )
