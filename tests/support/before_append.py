"""Another channel's step at the moment in which one is about to append to its control table."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from spark_repl.control.table.control_log import ControlLog, RowsCommit


class Before:
    """Appends rows; ``then`` is called just before the next append."""

    def __init__(self) -> None:
        self.then: Callable[[], None] | None = None

    def __call__(self, log: ControlLog, rows: pa.Table, commit: RowsCommit) -> ControlLog:
        then, self.then = self.then, None
        if then:
            then()
        return log.commit(rows, commit)
