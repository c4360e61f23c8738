"""A worker's task and its result: what it reads of a group, and what it staged.

A task has numbers, paths and definitions. The result has parts: Arrow streams, each with the
changes of one table and shard.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..binlog.kernels.key_hash import hash_binary
from ..binlog.types.forms import USUAL, Forms
from ..rules.column_rules import ColumnRules
from ..rules.renamed_tables import RenamedTables
from ..rules.rewrites import Rewrites
from ..rules.table_mode import MIRROR
from ..runtime.object_store import ObjectStore
from ..runtime.target_uri import is_remote
from ..tables.target_table import APPEND, OF_IMAGES
from .cascade_detection import Cascades
from .known_tables import IgnoredTables

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from ..relay.span import Span
    from ..tables.source_table import Declared, SourceTable
    from ..tables.target_table import TargetTable
    from .metadata_values import Commits

Longs = npt.NDArray[np.int64]

SHARD_MAX_BYTES = 128 << 20
"""bytes of a shard in the log, and staged: a worker holds all net changes of a shard in memory"""
SHARD_SHIFT = 17
"""low bits of a key's hash that don't decide about its shard, but about its share of the shard"""
# Streams in a store: up to which size one travels with the task instead, and all of a worker's.
_SMALL_BYTES, _IN_MEMORY_BYTES = 1 << 16, 4 << 20

# Columns after the table's own in a staged stream: the chain of the key's changes (lists of flags
# and packed positions), rows added or removed (tables without a key), the key's wire bytes, and for
# an image without all columns which ones it has, and its JSON diffs (``PartialImages.presence``).
EXTRA = ("flags", "positions", "count", "key", "held", "diffs")


@dataclass(frozen=True)
class StageTask:
    """What one worker reads of a group, and the settings that all tasks of the group share.

    - ``shards``: into how many parts a table's keys are divided. ``folder``: of the staged file;
      None: in memory.
    - ``idempotent``: tables in which missing rows and duplicate keys are not errors.
    - ``definitions``: for logs that name no columns (binlog_row_metadata=MINIMAL);
      ``Unapplied`` for a table whose rows are not applied.
    - ``skip``: by table, which of the task's transactions (over all spans) the table already has.
    - ``cascades``: the foreign keys with actions.
    - ``wider``: the target's definition of tables that have other columns there, or not all rows.
    - ``leftover``: tables with rows that the source no longer has.
    - ``left_out``: tables whose rows are not applied. ``quarantined``: those of them of which the
      worker records which transactions change them.
    - ``rewrites``: databases and tables with other names in the target. Everything but the log uses
      the target's names.
    - ``columns``: what rules withhold, mask or add, also of tables that the target does not have
      yet.
    - ``commits``: GTIDs and commit times of the transactions, if tables have columns for them.
    """

    worker: int
    spans: tuple[Span, ...]
    shards: int
    folder: str | None
    idempotent: Container[str] = frozenset()
    forms: Forms = USUAL
    definitions: Mapping[str, Declared] = field(default_factory=dict)
    skip: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    cascades: Cascades = field(default_factory=Cascades)
    wider: Mapping[str, TargetTable] = field(default_factory=dict)
    leftover: Container[str] = frozenset()
    left_out: Container[str] = frozenset()
    quarantined: frozenset[str] = frozenset()
    rewrites: Rewrites = field(default_factory=Rewrites)
    columns: ColumnRules = field(default_factory=ColumnRules)
    commits: Commits | None = None

    def target(self, logged: SourceTable) -> TargetTable | None:
        """Return the target's table of ``logged`` if rows have to be reshaped for it, else None."""
        target = self.wider.get(logged.name)
        if target is None and self.columns.reshapes(logged.name):
            return self.columns.shaped(logged)
        return target

    def filters_rows(self, name: str) -> bool:
        """Return whether a row filter applies to the table."""
        if (target := self.wider.get(name)) is not None:
            return target.filters_rows
        return self.columns.filters_rows(name)

    def _mode(self, name: str) -> str:
        if (target := self.wider.get(name)) is not None:
            return target.mode or MIRROR
        return self.columns.mode(name)

    def has_mode(self, name: str) -> bool:
        """Return whether the target keeps rows of the table that the source no longer has."""
        return self._mode(name) != MIRROR

    def only_inserts(self, name: str) -> bool:
        """Return whether the target has only rows that INSERTs logged (mode append)."""
        return self._mode(name) == APPEND

    def keeps_images(self, name: str) -> bool:
        """Return whether each row image of the table is kept, without folding several into one."""
        return self._mode(name) in OF_IMAGES

    def deciding(self, name: str) -> tuple[str, ...]:
        """Return the kinds of replication filters that decide about the table's rows."""
        kinds = self.left_out.deciding(name) if isinstance(self.left_out, IgnoredTables) else ()
        return (*kinds, "rewrite_db") if self.rewrites.renames(name) else kinds

    def applied(self) -> RenamedTables | Forms:
        """Return the changes to definitions of the log: the forms of values and, if databases are
        renamed, the target's names of tables."""
        if not self.rewrites.any:
            return self.forms
        return RenamedTables(self.rewrites, self.forms, self.left_out)


@dataclass(frozen=True)
class Part:
    """Changes of one table and shard: an Arrow IPC stream in ``blob``, a file, or an object.

    ``whole``: rows move between keys, or have no key, so one task has to process all shards of the
    table. ``asks``: the outcome also depends on the target's rows (``write.rows.net_changes``).
    ``twins``: rows with different bytes may be equal values (``binlog.rows.equal_values``).
    ``share``: (number, count) if the part has only this share of the keys. ``rows`` is then an
    estimate.
    """

    table: str
    shard: int
    rows: int
    path: str | None = None
    offset: int = 0
    length: int = 0
    blob: bytes | None = None
    whole: bool = False
    asks: bool = False
    twins: bool = False
    share: tuple[int, int] = (0, 1)

    def read(self) -> pa.Table:
        """Return the stream's rows, with the columns ``EXTRA`` after the table's own."""
        rows, (number, count) = self._stream(), self.share
        if count == 1:
            return rows
        # Shards are numbered by the other bits of the hash.
        low = hash_binary(rows.column("key").combine_chunks()) & (1 << SHARD_SHIFT) - 1
        return rows.filter(pa.array(low % count == number))

    def _stream(self) -> pa.Table:
        if self.blob is not None:
            return pa.ipc.open_stream(self.blob).read_all()
        if is_remote(self.path or ""):
            stream = ObjectStore().read_range(self.path or "", self.offset, self.length)
            return pa.ipc.open_stream(stream).read_all()
        with open(self.path or "", "rb") as file:
            file.seek(self.offset)
            return pa.ipc.open_stream(file.read(self.length)).read_all()


def shares(parts: Sequence[Part], count: int) -> list[tuple[Part, ...]]:
    """Return the parts ``count`` times, each time with another share of their keys."""
    if count <= 1:
        return [tuple(parts)]
    return [
        tuple(replace(part, share=(number, count), rows=-(-part.rows // count)) for part in parts)
        for number in range(count)
    ]


class StagedObject:
    """A new object of staged streams, in a folder of a store. Small streams stay in memory, and an
    object without streams is never written."""

    def __init__(self, folder: str, name: str) -> None:
        self._path = f"{folder}/{name}-{uuid.uuid4().hex}.arrow"
        self._out: BinaryIO | None = None
        self._in_memory = 0

    def write(self, part: Part, stream: pa.Buffer) -> Part:
        """Return the part with the location of its stream."""
        size = stream.size
        if size <= _SMALL_BYTES and self._in_memory + size <= _IN_MEMORY_BYTES:
            self._in_memory += size
            return replace(part, blob=stream.to_pybytes())
        if self._out is None:
            self._out = ObjectStore().open_output(self._path)
        offset = self._out.tell()
        self._out.write(memoryview(stream).cast("B"))
        return replace(part, path=self._path, offset=offset, length=size)

    def close(self) -> None:
        """Return when the object exists."""
        if self._out is not None:
            self._out.close()


def write_part(name: str, rows: pa.Table, folder: str | None, stem: str) -> Part:
    """Write ``rows`` into a new file or object, whose name begins with ``stem``, and return them as
    a Part. None: keep them in memory."""
    if folder is None or is_remote(folder):
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, rows.schema) as stream:
            stream.write_table(rows)
        part = Part(name, 0, len(rows), whole=True)
        if folder is None:
            return replace(part, blob=buffer.getvalue().to_pybytes())
        out = StagedObject(folder, stem)
        part = out.write(part, buffer.getvalue())
        out.close()
        return part
    path = os.path.join(folder, f"{stem}-{uuid.uuid4().hex}.arrow")
    with pa.OSFile(path, "wb") as sink:
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        size = sink.tell()
    return Part(name, 0, len(rows), path=path, length=size, whole=True)


def rows_of(parts: Iterable[Part]) -> int:
    """Return how many rows the parts have."""
    return sum(part.rows for part in parts)


def bytes_of(parts: Iterable[Part]) -> int:
    """Return how many bytes the parts' streams have."""
    return sum(part.length or len(part.blob or b"") for part in parts)


def first_of(parts: Iterable[Part]) -> int | None:
    """Read the parts, and return the packed position of the first transaction with a change in
    them; None if they are empty."""
    firsts = (pc.min(pc.list_flatten(part.read()["positions"])).as_py() for part in parts)
    return min((position for position in firsts if position is not None), default=None)


@dataclass(frozen=True)
class Staged:
    """The result of a worker's task.

    - ``changes``: row changes per table, as MySQL counts them.
    - ``referred``: tables that foreign keys may reference -> position of the first change that may
      cascade.
    - ``cascading``: the same for the first change that does cascade, and is to be emulated.
    - ``quarantined``: tables in quarantine -> positions of the transactions that change them.
    - ``origins``: the tables' names in the log, if names may differ.
    """

    worker: int
    definitions: dict[str, SourceTable]
    parts: list[Part]
    changes: dict[str, int]
    zero_dates: int = 0
    referred: dict[str, int] = field(default_factory=dict)
    cascading: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, Longs] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    decided: dict[str, int] = field(default_factory=dict)
    """number of decisions of filter rules, by kind: one for each table and transaction"""
    filtered: dict[str, int] = field(default_factory=dict)
    """row changes that row filters leave out, by table"""
    passed_over: dict[str, int] = field(default_factory=dict)
    """row changes other than INSERTs of tables in mode append, by table"""
    text_errors: int = 0
    """values in which bytes without a character became U+FFFD"""


@dataclass(frozen=True)
class SplitTables:
    """A container of the names of tables whose UPDATEs are staged as two marked entries.

    The target has only some of their rows (a row filter) or additional rows (a mode that keeps
    versions).
    """

    task: StageTask

    def __contains__(self, name: object) -> bool:
        return self.task.filters_rows(str(name)) or self.task.has_mode(str(name))


def same_shape(definition: SourceTable, other: SourceTable) -> bool:
    """Return whether rows of both fit one Delta table: names, types and key are equal."""
    return definition.primary_key == other.primary_key and definition.arrow_schema().equals(
        other.arrow_schema()
    )
