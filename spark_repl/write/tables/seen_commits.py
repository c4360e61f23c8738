"""SeenCommits: what is known of a table within a look at its commits, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ...delta.columns import Columns
from ..shared.shared_commits import columns_in, leaves

if TYPE_CHECKING:
    from ...delta.log_replay import Action
    from ...delta.snapshot import Snapshot
    from ...delta.table_log import TableLog
    from .table import LiveFiles, Table


@dataclass
class SeenCommits:
    """``columns``: those of the Delta table, None: not asked for yet; ``files``: its live files, of
    a table that other channels feed, too, None: to be read anew."""

    table: Table
    columns: Columns | None
    files: LiveFiles | None

    @classmethod
    def at(cls, table: Table, version: int) -> Self:
        """What is known at a ``version``, from which on the commits are looked at."""
        files = table.delta.files
        if version != table.snapshot.version:
            return cls(table, None, None)
        known = table.is_shared and files is not None and files.version == version
        return cls(table, table.all_columns, files if known else None)

    def before(self, delta: TableLog, version: int, actions: Sequence[Action]) -> Columns:
        """The columns before a commit, which matter where it gives the table some itself."""
        if self.columns is None and columns_in(actions) is not None:
            below = delta.snapshot(self.table.folder, version - 1)
            self.columns = _columns_of(below) if below else None
        return self.columns or self.table.all_columns

    def has_columns(self, snapshot: Snapshot) -> bool:
        """Whether the table's columns are there as they were."""
        return self.columns is None or self.columns == _columns_of(snapshot)

    def pass_ours(self, actions: Sequence[Action]) -> None:
        """Takes in a commit of this channel's, which may have written rows anew."""
        self.columns, self.files = columns_in(actions) or self.columns, None

    def pass_others(self, actions: Sequence[Action], *, columns: bool = False) -> None:
        """Takes in somebody else's; ``columns``: also those that it gives to the table."""
        if columns:
            self.columns = columns_in(actions) or self.columns
        if self.files is not None:
            own = self.table.delta.own_shards
            left = leaves(actions, self.table.all_columns, own)
            self.files = self.files.behind(actions) if left else None


def _columns_of(snapshot: Snapshot) -> Columns:
    return Columns.of(snapshot.schema_string, snapshot.partition_columns)
