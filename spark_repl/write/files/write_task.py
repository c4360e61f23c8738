"""Tasks of workers that write a group's rows: which rows and files they get, what they return, and
rows that they hand to other tasks in files."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...decode.stage_task import Part, StagedObject
from ...runtime.target_uri import is_remote

if TYPE_CHECKING:
    from ...delta.files.delta_columns import Columns
    from ...tables.target_table import TargetTable

FILE, ROW = "file", "row"
"""columns that follow the table's own in rows that a task hands on: where the row is"""


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
    ``gone``: files that are removed as a whole; ``changes``: ``cdc`` actions; ``passed_over``: the
    number of keys whose changes found no row in an idempotent task; ``seconds``: duration of the
    task."""

    table: str
    adds: list[dict[str, Any]] = field(default_factory=list)
    marks: dict[str, bytes] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    net: int = 0
    passed_over: int = 0
    seconds: float = 0.0

    @property
    def changes_table(self) -> bool:
        return bool(self.adds or self.marks or self.gone)

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


def write_part(name: str, rows: pa.Table, folder: str | None) -> Part:
    """Write ``rows`` into a new file or object, and return them as a Part. None: keep them in
    memory."""
    if folder is None or is_remote(folder):
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, rows.schema) as stream:
            stream.write_table(rows)
        part = Part(name, 0, len(rows), whole=True)
        if folder is None:
            return replace(part, blob=buffer.getvalue().to_pybytes())
        out = StagedObject(folder, "cascade")
        part = out.write(part, buffer.getvalue())
        out.close()
        return part
    path = os.path.join(folder, f"cascade-{uuid.uuid4().hex}.arrow")
    with pa.OSFile(path, "wb") as sink:
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        size = sink.tell()
    return Part(name, 0, len(rows), path=path, length=size, whole=True)
