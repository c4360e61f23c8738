"""Broken tables: those that others have removed, replaced or changed, named all at once.

A copy of one of them alone would leave the start at the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...config.renaming import SHARD
from ...errors import TargetError

T = TypeVar("T")


class BrokenTables:
    """What a start finds wrong with tables of the target."""

    def __init__(self) -> None:
        self._errors: list[TargetError] = []

    def noted(self, read: Callable[[], T]) -> T | None:
        """Return what ``read`` returns; None after a TargetError that names a table, which is
        noted. Errors of its subclasses are about more than a table, and are raised."""
        try:
            return read()
        except TargetError as error:
            if type(error) is not TargetError or not error.table:
                raise
            self._errors.append(error)
            return None

    def add(self, error: TargetError) -> None:
        """Note an error."""
        self._errors.append(error)

    def raise_all(self, keeps: Callable[[str], bool]) -> None:
        """Raise TargetError if anything was noted of a table that the filters keep: the error of a
        single table as it is, else one with all and one command that copies them together."""
        by_table = {str(error.table): error for error in self._errors}
        errors = [error for name, error in by_table.items() if keeps(name)]
        if len(errors) < 2:
            for error in errors:
                raise error
            return
        listed = "".join(f"\n  - {error.table}: {error.message}" for error in errors)
        names = [str(error.table) for error in errors]
        alone = [name for name in names if SHARD not in name]
        shards = [error.hint for error in errors if SHARD in str(error.table) and error.hint]
        named = " ".join(f"--table {name}" for name in alone)
        copied = [f"copy them again together: spark-repl snapshot --config F {named}"]
        hints = [*(copied if alone else []), *dict.fromkeys(shards)]
        raise TargetError(
            f"{len(errors)} tables are broken{listed}", table=", ".join(names),
            hint="; ".join([*hints, "or put their folders back as they were at the stop"]),
        )  # fmt: skip
