"""What the source's own binary log says: the rows of each table behind each transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any

from spark_repl import read_changes
from spark_repl.gtid import GtidSet
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.record import gtid_text

from .server import Server

Row = tuple[Any, ...]
_BATCH = 64  # transactions: the GTID set of so many is made at once


class SourceHistory:
    """A replay, forwards only: ``move_to`` a GTID set, then look at ``rows``. The tables' first
    column is their key.

    The decoder is the applier's, so the end of the replay is to be compared with what the server
    itself says (``move_to`` its ``gtid_executed``).
    """

    def __init__(self, server: Server, tables: Collection[str], folder: Path) -> None:
        log = str(server.data / "binlog.index")
        self._gtids = gtid_text(build_index(open_log(log), str(folder)).records)
        self._changes: dict[str, list[tuple[str, Any, Any]]] = defaultdict(list)
        for batch in read_changes(log, tables=tables):
            for row in batch.to_pylist():
                change = (row["table"], row["before"], row["after"])
                self._changes[row["gtid"]].append(change)
        self.rows: dict[str, dict[Any, Row]] = {name: {} for name in tables}
        self._done, self._executed = 0, GtidSet()

    def move_to(self, executed: str) -> bool:
        """Whether the set is what the log holds up to some place, no earlier than the last one."""
        want = GtidSet.parse(executed)
        while (left := want.subtract(self._executed).count()) > 0:
            step = self._gtids[self._done : self._done + min(left, _BATCH)]
            if not step:
                return False
            for gtid in step:
                self._apply(gtid)
            self._done += len(step)
            self._executed = self._executed.union(GtidSet.parse(",".join(step)))
        return self._executed == want

    def _apply(self, gtid: str) -> None:
        for table, before, after in self._changes[gtid]:
            found = self.rows[table]
            if before is not None:
                del found[next(iter(before.values()))]
            if after is not None:
                row = tuple(after.values())
                found[row[0]] = row
