"""Rows that were read of a source, as the test says, and taken in by an applier without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from spark_repl.apply.start.replica import Replica
from spark_repl.gtid import GtidSet
from spark_repl.write.rows.certain_rows import key_digests, staged_rows
from spark_repl.write.rows.row_repair import RowsToRepair

from .binlog_writer import LogWriter, Table
from .local_delta import CRASHES, Crash, applier, apply_without_stream

A = Table("a")


@dataclass
class Read:
    """What was read of the source: the rows that it has, and keys that it hasn't."""

    come: Sequence[tuple[Any, ...]] = ((1, "right"), (3, "missing"))
    gone: Sequence[tuple[Any, ...]] = ((2, None),)
    table: Table = A
    changed: dict[str, Any] = field(default_factory=dict)
    """of what it says of itself"""

    def of(self, found: Replica, folder: Path) -> RowsToRepair:
        """Read now, behind the newest cut."""
        name = f"{self.table.database}.{self.table.name}"
        cut = found.tracking.control.last_cut()
        definition = found.tracking.tables[name].definition
        assert cut is not None
        folder.mkdir(exist_ok=True)
        parts, keys = [], [np.zeros(0, np.uint64)]
        for some, exist in ((self.gone, False), (self.come, True)):
            if some:
                schema = pa.schema([f.with_nullable(True) for f in definition.arrow_schema()])
                arrays = [pa.array(c, f.type) for c, f in zip(zip(*some), schema, strict=True)]  # noqa: B905
                whole = pa.Table.from_arrays(arrays, schema=schema)
                path = str(folder / f"{exist}.arrow")
                parts.append(staged_rows(path, definition, whole, cut.position, exist=exist))
                keys.append(key_digests(whole, definition.primary_key))
        until = GtidSet.parse(cut.gtid_executed)
        made = RowsToRepair(
            definition, found.tracking.tables[name].path, np.unique(np.concatenate(keys)), cut,
            until, tuple(parts),
        )  # fmt: skip
        return replace(made, **self.changed)


def repaired(
    log: LogWriter, target: Path, read: Read, *, crash: int = 0,
    meanwhile: Callable[[], object] = lambda: None, **options: Any,
) -> RowsToRepair | None:  # fmt: skip
    """Return the rows, which were read before the changes ``meanwhile`` and committed after them;
    None if the run was cut off at its step ``crash``."""
    CRASHES.left = 0
    try:
        with applier(log.folder, target, **options) as found:
            apply_without_stream(found)
            made = read.of(found, target.parent / "read")
            found.take_rows(made)
            meanwhile()
            found.opened.applied.refresh()
            apply_without_stream(found)
            CRASHES.left = crash
            found._go_back()
            assert made.outcome.done()
            apply_without_stream(found)
            return made
    except Crash:
        return None
    finally:
        CRASHES.left = 0
