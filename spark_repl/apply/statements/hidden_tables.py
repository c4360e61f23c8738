"""check_hidden: CREATE TEMPORARY TABLE of a name that a live table of the target has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import SettingError
from ...sql.statement import TEMPORARY

if TYPE_CHECKING:
    from ...write.tables.tracking import Tracking
    from ..log.statement_event import Logged

_HINT = (
    "let that session use binlog_format=ROW, or another name; to get past it leave the statement"
    " out (spark-repl skip --config F --gtid GTID), and copy the table again when the session has"
    " ended (spark-repl snapshot --config F --table DB.T)"
)


def check_hidden(logged: Logged, tracking: Tracking) -> None:
    """Raises SettingError where a session, in statement format, has a temporary table of a table's
    name: which of the two its TRUNCATE and ALTER TABLE are about from here on is not in the log."""
    statement = logged.statement
    if statement.verb != TEMPORARY or tracking.live(statement.tables[0]) is None:
        return
    raise SettingError(
        "which statements are about the table from here on, and which about a temporary table of"
        f" its name, is not in the log: {logged.text}",
        table=statement.tables[0],
        hint=_HINT,
    )
