"""Copy-on-write, for tables without deletion vectors: a file that loses rows is written anew."""

from __future__ import annotations

from dataclasses import dataclass

from pyroaring import BitMap

from .compaction import CompactTask, live_rows
from .key_index import write_indexed
from .written import Written


@dataclass(frozen=True)
class RewriteTask:
    """A file to be written anew. ``of``: the file; ``gone``: serialized roaring bitmap of its rows
    that go."""

    of: CompactTask
    gone: bytes


def rewrite(task: RewriteTask) -> Written:
    """What is left of the file as a new one, with its key index; none if nothing is left."""
    (file,) = task.of.files
    out = Written(task.of.table, gone=[file.path])
    rows = live_rows(task.of, file, BitMap.deserialize(task.gone))
    if rows.num_rows:
        out.adds += write_indexed(task.of.index, task.of.columns, rows)
    return out
