"""What a worker is told to read, and what it found: numbers, paths and Arrow streams."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ..binlog.events.transaction import Flag
from ..binlog.types.forms import USUAL, Forms
from ..position import OFFSET_BITS, OFFSET_MASK
from ..relay.pieces import Piece, open_pieces, size_of
from ..rules.column_rules import ColumnRules
from ..rules.rewrites import Rewrites
from ..rules.table_mode import MIRROR
from .renamed_tables import RenamedTables
from .seen_cascades import Cascades
from .unapplied import Unapplied

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from ..tables.table_definition import TableDefinition
    from .added_columns import Commits
    from .part import Part

Longs = npt.NDArray[np.int64]

# Columns behind the table's own in a staged stream: the chain of the key's changes (lists of flags
# and packed positions), rows added or gone (tables without a key), the key's wire bytes; of an
# image without all columns those it holds, and its JSON diffs (``PartialImages.held``).
EXTRA = ("flags", "positions", "count", "key", "held", "diffs")


@dataclass(frozen=True)
class Span:
    """Transactions of one file, ascending: int64[n] offsets of starts and ends, bool[n] flags.
    Between two of them others may lie, which are other workers'.

    ``at``: their places in the order of the log (packed), where that is not where they lie: a
    prepared XA branch counts at its XA COMMIT. ``pieces``: of one transaction that lies in several
    files; offsets are those of the pieces end to end then, and ``path`` is where it begins.
    """

    path: str
    file_no: int
    starts: Longs
    ends: Longs
    compressed: npt.NDArray[np.bool_]
    checksum: bool
    at: Longs | None = None
    pieces: tuple[Piece, ...] = ()

    def part(self, first: int, last: int) -> Span:
        """Its transactions from ``first`` to before ``last``."""
        return replace(
            self,
            starts=self.starts[first:last],
            ends=self.ends[first:last],
            compressed=self.compressed[first:last],
            at=None if self.at is None else self.at[first:last],
        )

    @classmethod
    def joined(
        cls, pieces: tuple[Piece, ...], position: int, *, compressed: bool, checksum: bool
    ) -> Span:
        """The span of one transaction in several files, at a packed ``position``."""
        return cls(
            pieces[0].path,
            position >> OFFSET_BITS,
            np.zeros(1, np.int64),
            np.array([size_of(pieces)], np.int64),
            np.array([compressed]),
            checksum,
            np.array([position], np.int64),
            pieces,
        )

    @classmethod
    def of(cls, path: str, file_no: int, records: Any) -> Span:
        """The span of index records of one file, in the log's order."""
        return cls(
            path,
            file_no,
            (records["position"] & OFFSET_MASK).astype(np.int64),
            (records["end"] & OFFSET_MASK).astype(np.int64),
            records["flags"] & Flag.COMPRESSED != 0,
            bool(records["flags"][0] & Flag.CHECKSUM),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def open(self) -> BinaryIO:
        """What its offsets count in."""
        return open_pieces(self.pieces) if self.pieces else open(self.path, "rb")


@dataclass(frozen=True)
class StageTask:
    """``idempotent``: tables where missing rows and duplicate keys are no errors.
    ``known``: definitions for logs that name no columns (binlog_row_metadata=MINIMAL); UNREAD
    or LEFT_OUT of a table whose rows nobody wants.
    ``skip``: per table, which of the task's transactions (over all spans) it already has.
    ``cascades``: what is known of foreign keys.
    ``wider``: tables of which the target has other columns than the source, or not all rows, as it
    has them.
    ``leftover``: tables that have rows which the source has not.
    ``left_out``: tables whose rows are not applied; ``quarantined``: of them those of which it is
    noted which transactions have some. ``rewrites``: which databases and tables have other names in
    the target, where everything but the log has those. ``columns``: what is withheld, masked or
    added of tables that the target hasn't yet, too. ``commits``: of all its transactions, where
    tables have columns that tell of them."""

    worker: int
    spans: tuple[Span, ...]
    shards: int
    folder: str | None
    idempotent: Container[str] = frozenset()
    forms: Forms = USUAL
    known: Mapping[str, TableDefinition] = field(default_factory=dict)
    skip: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    cascades: Cascades = field(default_factory=Cascades)
    wider: Mapping[str, TableDefinition] = field(default_factory=dict)
    leftover: Container[str] = frozenset()
    left_out: Container[str] = frozenset()
    quarantined: Container[str] = frozenset()
    rewrites: Rewrites = field(default_factory=Rewrites)
    columns: ColumnRules = field(default_factory=ColumnRules)
    commits: Commits | None = None

    def target(self, logged: TableDefinition) -> TableDefinition | None:
        """The target's table of ``logged``, where its rows are not as they are."""
        known = self.wider.get(logged.name)
        if known is None and self.columns.concern(logged.name):
            return self.columns.shaped(logged)
        return known

    def filters_rows(self, name: str) -> bool:
        """Whether the target has not all rows of the table."""
        if (known := self.wider.get(name)) is not None:
            return bool(known.row_filter)
        return self.columns.filters_rows(name)

    def mode(self, name: str) -> str:
        """What the target has of the table's rows."""
        if (known := self.wider.get(name)) is not None:
            return known.mode or MIRROR
        return self.columns.mode(name)

    def deciding(self, name: str) -> tuple[str, ...]:
        """The kinds of rules of filters that decide about the table's rows."""
        kinds = self.left_out.deciding(name) if isinstance(self.left_out, Unapplied) else ()
        return (*kinds, "rewrite_db") if self.rewrites.renames(name) else kinds

    def applied(self) -> RenamedTables | Forms:
        """How values are kept; it gives the log's tables the target's names, where those are
        others."""
        if not self.rewrites.any:
            return self.forms
        return RenamedTables(self.rewrites, self.forms, self.left_out)


@dataclass(frozen=True)
class Staged:
    """What a worker found; ``changes``: row changes per table, as MySQL counts them. ``referred``:
    tables that foreign keys may reference -> position of the first change that may cascade;
    ``cascading``: of the first one that does, and is to be emulated. ``held``: tables in quarantine
    -> positions of the transactions that change them. ``origins``: the tables' names in the log,
    where they may be others."""

    worker: int
    definitions: dict[str, TableDefinition]
    parts: list[Part]
    changes: dict[str, int]
    zero_dates: int = 0
    referred: dict[str, int] = field(default_factory=dict)
    cascading: dict[str, int] = field(default_factory=dict)
    held: dict[str, Longs] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    decided: dict[str, int] = field(default_factory=dict)
    """how often rules of filters have, by their kind: once for a table and transaction"""
    filtered: dict[str, int] = field(default_factory=dict)
    """row changes that row filters leave out, by table"""
    passed_over: dict[str, int] = field(default_factory=dict)
    """row changes that are no INSERTs of tables that only take these, by table"""
    text_errors: int = 0
    """values in which bytes without a character became U+FFFD"""


@dataclass(frozen=True)
class SplitTables:
    """A container of the names of tables of which an UPDATE is two entries that are told from
    others: the target has not all rows, or more of them."""

    task: StageTask

    def __contains__(self, name: object) -> bool:
        return self.task.filters_rows(str(name)) or self.task.mode(str(name)) != MIRROR


def same_shape(definition: TableDefinition, other: TableDefinition) -> bool:
    """Whether rows of both go into one Delta table: names, types and key are equal."""
    return definition.primary_key == other.primary_key and definition.arrow_schema().equals(
        other.arrow_schema()
    )
