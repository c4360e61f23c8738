"""Writer: how a table takes a group's net changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ..ddl.table_modes import HISTORY
from ..errors import SettingError

if TYPE_CHECKING:
    from ..config.tables import TableRule
    from ..delta.stamp import Stamp
    from .commit import TablePart
    from .table import Table
    from .written import LiveFile, WriteTask, Written


class Writer(Protocol):
    """A way to write: for each group ``prepare``, ``task`` on the workers, ``finish``, and then
    ``commit``, table by table, from several threads.

    Contract: nothing is visible to a reader before ``commit``, and that is one Delta commit, with
    the position in it. All that can fail by data is said by ``task`` or ``finish``, as violations;
    ``commit`` can only fail by what others do, or by storage; tried again, it does not land twice.
    What is not committed is named by ``Written.files`` and ``Written.staged``, so that it can be
    discarded. tests/spark/test_writers.py
    """

    @property
    def task(self) -> Callable[[WriteTask], Written]:
        """A worker's part: an importable function."""

    def files(self, table: Table) -> tuple[LiveFile, ...]:
        """The table's files that a task has to look into for the rows of its keys."""

    def prepare(self, tables: Iterable[Table]) -> None:
        """Makes what is missing of all that tasks need besides the tables."""

    def finish(self, tables: Mapping[str, Table], written: list[Written]) -> list[Written]:
        """When no task found a violation: what is to be committed, with what only the driver can
        look up, and the violations that it found."""

    def commit(self, parts: Sequence[TablePart], stamp: Stamp) -> None:
        """One Delta commit, of a table or of shards that are in one Delta table. Raises
        ConcurrentChangeError when the group has to be planned anew."""


def by_table(tables: Iterable[str], written: Iterable[Written]) -> dict[str, list[Written]]:
    """What was written for each table, by its name."""
    parts = list(written)
    return {name: [part for part in parts if part.table == name] for name in tables}


def check_direct(rules: Iterable[TableRule], *, direct: bool) -> None:
    """Raises SettingError for what ``[[tables]]`` asks of the direct writer alone, where it is not
    there."""
    for rule in () if direct else rules:
        asked = (
            'mode = "history"' if rule.mode == HISTORY else "a table of many (key_prefix, channels)"
        )
        if rule.mode == HISTORY or rule.shards_by:
            raise SettingError(
                f'{asked} needs apply.writer = "direct"',
                hint="use a runtime that has it, or take it out of the table's [[tables]]",
            )
