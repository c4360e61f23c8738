"""XA branches that are prepared when a copy begins: the log has their rows only as XA COMMIT.

A copy reads none of these rows, and the log after the beginning of the copy has only the XA COMMIT.
So the log has to begin before the oldest XA PREPARE. The source's binary logs show where that is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..errors import SourceError
from ..gtid import GtidSet
from ..source.grants import EVERYTHING, grant

if TYPE_CHECKING:
    from ..source.connection import DumpConnection

logger = logging.getLogger(__name__)

_NOT_ALLOWED = (1227, 1401)
_PAGE = 50_000


def before_branches(connection: DumpConnection, executed: GtidSet) -> GtidSet:
    """Return the GTID set before the oldest XA branch that is prepared now; ``executed`` if there
    is none.

    Log a warning and return ``executed`` if the account may not list branches. Raise SourceError if
    the source has purged the file in which a branch was prepared.
    """
    try:
        branches = connection.query("XA RECOVER CONVERT XID")
    except SourceError as error:
        if error.number not in _NOT_ALLOWED:
            raise
        logger.warning(
            "the account can't list XA branches: if any is prepared now, its XA COMMIT will stop"
            " the applier (1397); %s",
            grant("XA_RECOVER_ADMIN", [EVERYTHING], connection.account()),
        )
        return executed
    wanted = {_xid(row) for row in branches}
    if not wanted:
        return executed
    logger.warning("%d XA branches are prepared: the log is read from before them", len(wanted))
    files = [str(row["Log_name"]) for row in connection.query("SHOW BINARY LOGS")]
    for name in reversed(files):
        before = _look(connection, name, wanted)
        if not wanted:
            return before
    raise SourceError(
        f"the source has purged the log in which XA branches were prepared: {', '.join(wanted)}",
        hint="end them (XA COMMIT or XA ROLLBACK; XA RECOVER shows them), then copy again",
    )


def _xid(row: dict[str, Any]) -> str:
    """Return the XID of a row of XA RECOVER in the form that the log writes."""
    data, length = str(row["data"]).removeprefix("0x").lower(), 2 * int(row["gtrid_length"])
    return f"X'{data[:length]}',X'{data[length:]}',{row['formatID']}"


def _look(connection: DumpConnection, name: str, wanted: set[str]) -> GtidSet:
    """Remove the XIDs that this file prepares from ``wanted``; return the GTID set before the
    file."""
    before, position = GtidSet(), 4
    while True:
        rows = connection.query(f"SHOW BINLOG EVENTS IN '{name}' FROM {position} LIMIT {_PAGE}")
        for row in rows:
            if row["Event_type"] == "Previous_gtids":
                before = GtidSet.parse(str(row["Info"]))
            elif row["Event_type"] == "XA_prepare":
                wanted.discard(str(row["Info"]).removeprefix("XA PREPARE "))
        if len(rows) < _PAGE or (not wanted and before):
            return before
        position = int(rows[-1]["End_log_pos"])
