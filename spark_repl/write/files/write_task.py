"""Tasks of workers that write a group's rows: which rows and files they get, and what they
return."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from ...decode.stage_task import Part
    from ...delta.files.delta_columns import Columns
    from ...tables.target_table import TargetTable


@dataclass(frozen=True)
class LiveFile:
    """A data file of the snapshot for which a task is planned."""

    path: str
    vector: dict[str, Any] | None


@dataclass(frozen=True)
class PlannedFiles(Sequence[LiveFile]):
    """The data files of the snapshot for which a task is planned. ``paths`` [files]; ``vectors``:
    the deletion vectors of the files that have one, by the file's number."""

    paths: pa.Array
    vectors: Mapping[int, dict[str, Any]]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: Any) -> Any:
        if number >= len(self.paths):
            raise IndexError(number)
        return LiveFile(self.paths[number].as_py(), self.vectors.get(int(number)))


@dataclass(frozen=True)
class WriteTask:
    """Net changes of one table to be written. ``key``: indexes of the key's columns, empty for a
    table without a key. ``complete``: the table was created in this log and no other writer changes
    it, so the key of an INSERT can't exist yet."""

    table: str
    folder: str
    index_folder: str
    columns: Columns
    key: tuple[int, ...]
    parts: tuple[Part, ...]
    files: PlannedFiles
    idempotent: bool
    complete: bool
    definition: TargetTable
    change_data: bool = False
    """whether the table has Delta's change data feed"""
    replaces: bool = False
    """whether the table has rows that the source lacks: an INSERT replaces them"""


@dataclass(frozen=True)
class Violation:
    """A change that doesn't fit: MySQL's error number, its transaction's position, and the key."""

    number: int
    position: int
    table: str
    key: str


@dataclass
class Written:
    """The result of a task. ``marks``: data file -> serialized roaring bitmap of its removed rows;
    ``spilled``: these marks in a file, with the columns ``path`` and ``rows``; ``gone``: files that
    are removed as a whole; ``changes``: ``cdc`` actions; ``passed_over``: the number of keys whose
    changes found no row in an idempotent task; ``seconds``: duration of the task."""

    table: str
    adds: list[dict[str, Any]] = field(default_factory=list)
    marks: dict[str, bytes] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    net: int = 0
    passed_over: int = 0
    seconds: float = 0.0
    spilled: Part | None = None

    @property
    def changes_table(self) -> bool:
        return bool(self.adds or self.marks or self.spilled or self.gone)

    def all_marks(self) -> Iterator[tuple[str, bytes]]:
        """Yield each data file with the serialized roaring bitmap of its removed rows."""
        yield from self.marks.items()
        if self.spilled is not None:
            rows = self.spilled.read()
            for path, marked in zip(rows["path"], rows["rows"], strict=True):
                yield path.as_py(), marked.as_py()

    @property
    def files(self) -> list[str]:
        """Return the data and change files of the task, relative to the table's folder."""
        return [action["path"] for action in (*self.adds, *self.changes)]


def by_table(tables: Iterable[str], written: Iterable[Written]) -> dict[str, list[Written]]:
    """Return the results for each table, by its name."""
    parts = list(written)
    return {name: [part for part in parts if part.table == name] for name in tables}


def faults_of(written: Iterable[Written]) -> list[Violation]:
    """Return the violations of all results."""
    return [fault for part in written for fault in part.violations]
