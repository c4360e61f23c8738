"""What a worker is told of a group whose changes foreign keys carry on, and what it answers."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ..decode.staged import Part, Staged, StageTask

if TYPE_CHECKING:
    from ..decode.cascade_plan import Plan

FILE, ROW = "file", "row"
"""Columns of a row that was found, behind the table's own: where it lies."""


@dataclass(frozen=True)
class CascadeTask:
    """``stage``: the group's transactions, or several groups', one behind the other;
    ``referencing``: by table, rows that were there before them; ``asked``: by number of the plan's
    keys, the values that were looked for, in the types of the referenced columns; ``folder``: for
    files."""

    plan: Plan
    stage: tuple[StageTask, ...]
    folder: str
    referencing: tuple[tuple[str, Part], ...] = ()
    asked: tuple[tuple[int, Part], ...] = ()


@dataclass(frozen=True)
class Cascaded:
    """``wanted``: values that have to be looked for; without any ``staged`` is what the group does
    to the plan's children, ``changes`` of which are not in the log."""

    wanted: tuple[tuple[int, Part], ...]
    staged: Staged | None = None
    changes: int = 0


def kept(name: str, rows: pa.Table, folder: str) -> Part:
    """``rows`` as a Part, in a file of its own."""
    path = os.path.join(folder, f"cascade-{uuid.uuid4().hex}.arrow")
    with pa.OSFile(path, "wb") as sink:
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        size = sink.tell()
    return Part(name, 0, len(rows), path=path, length=size, whole=True)
