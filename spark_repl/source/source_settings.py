"""Settings of every session on a source, whatever the source's globals are.

A session begins with the globals' values, changed by ``init_connect``. All variables on which an
answer depends are therefore set here: what a query sees, which rows it returns, how values and
definitions are written, the language of errors, and how long the server waits for us.
"""

from __future__ import annotations

import re
from typing import Any

_UNKNOWN_VARIABLE = 1193
_ALL = str(2**64 - 1)

BEGIN = (
    # A transaction that init_connect began would show everything as of then.
    "ROLLBACK AND NO CHAIN NO RELEASE",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
)
SESSION = {
    # visible rows
    "autocommit": "1",
    "completion_type": "0",
    "use_secondary_engine": "OFF",
    # all rows of an answer, and however long it takes
    "sql_select_limit": _ALL,
    "max_join_size": _ALL,
    "sql_big_selects": "1",
    "sql_safe_updates": "0",
    "max_execution_time": "0",
    "group_concat_max_len": str(2**32 - 1),
    # values, and literals in conditions: a table's keys may be dates that no calendar has
    "sql_mode": "'ALLOW_INVALID_DATES'",
    "time_zone": "'+00:00'",
    # definitions, with every column that the log has; estimates of today
    "sql_quote_show_create": "1",
    "show_create_table_verbosity": "0",
    "show_create_table_skip_secondary_engine": "0",
    "show_gipk_in_create_table_and_information_schema": "1",
    "information_schema_stats_expiry": "0",
    # texts of errors: some errors are recognised by them
    "lc_messages": "'en_US'",
    # waits while read rows are written, and between two queries
    "net_read_timeout": "600",
    "net_write_timeout": "600",
    "wait_timeout": "28800",
}


def apply_settings(connection: Any) -> None:
    """Set the variables of a session that was just opened. Raises pymysql's errors.

    Variables that this server does not have, because it is older or newer than they are, are
    omitted.
    """
    wanted = dict(SESSION)
    with connection.cursor() as cursor:
        for statement in BEGIN:
            cursor.execute(statement)
        while wanted:
            values = (f"SESSION {name} = {value}" for name, value in wanted.items())
            try:
                cursor.execute(f"SET {', '.join(values)}")
                return
            except connection.OperationalError as error:
                unknown = re.search(r"'(\w+)'", str(error.args[-1]))
                if error.args[0] != _UNKNOWN_VARIABLE or unknown is None:
                    raise
                del wanted[unknown[1]]
