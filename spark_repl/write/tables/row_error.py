"""Row errors: changes that don't fit the target, with MySQL's messages and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...binlog.json.diff import CANNOT_APPLY
from ...config.renaming import SHARD
from ...decode.folding import DUPLICATE_KEY
from ...decode.stage_task import first_of
from ...delta.files.partitions import NO_PARTITION, NO_PARTITION_HINT, TAKEN_FOR_NULL
from ...errors import BEGIN_AGAIN, OTHER_TARGET, RowError, SchemaError, SettingError
from ...position import RelayPosition
from .table_metadata import COMPLETE, COPIED

if TYPE_CHECKING:
    from ...decode.stage_task import Part
    from ..files.write_task import Violation
    from .table import Table

_PASSED_OVER = "overwrites and passes over such rows, as MySQL's does"


def row_error(violation: Violation, table: Table) -> RowError:
    """Return the error for a violation in ``table``, with MySQL's message and number."""
    hint = f"{copied_anew(table)}; exec_mode = idempotent {_PASSED_OVER}"
    if violation.number == CANNOT_APPLY:
        message = f"Could not apply JSON diff in table {table.definition.table} ({violation.key})"
        hint = f"the target's document is not the source's: {copied_anew(table)}"
    elif violation.number == NO_PARTITION:
        message = f"Table has no partition for a value ({violation.key}): {TAKEN_FOR_NULL}"
        hint = NO_PARTITION_HINT
    elif violation.number == DUPLICATE_KEY:
        message = f"Duplicate entry ({violation.key}) for key 'PRIMARY'"
    else:
        message = f"Can't find record in '{table.definition.table}' ({violation.key})"
        message += _logged_twice(table)
        if not table.complete:
            message = f"{message}; {_incomplete(table)}"
    position = RelayPosition.unpack(violation.position)
    return RowError(
        message, number=violation.number, position=position, table=table.name, hint=hint
    )


@contextmanager
def at_first_change(parts: Iterable[Part]) -> Iterator[None]:
    """Add the position of the first change in ``parts`` to an error about the creation of a table
    from its rows."""
    try:
        yield
    except (SettingError, SchemaError) as error:
        if (position := first_of(parts)) is not None:
            error.at(position=RelayPosition.unpack(position))
        raise


def _logged_twice(table: Table) -> str:
    """Return how MySQL itself may have logged the DELETE of a row twice; '' if no foreign key
    deletes rows of the table (seen on 9.7.4)."""
    keys = table.definition.foreign_keys or ()
    parents = sorted({key.parent for key in keys if key.on_delete == "CASCADE"})
    if not parents:
        return ""
    return (
        "; MySQL 9.6 and later log such a row twice if one DELETE names its table and"
        f" {' or '.join(parents)}, from which a foreign key deletes it"
    )


def _incomplete(table: Table) -> str:
    """Return why a table may lack rows of the log, or have others."""
    recorded = table.snapshot.configuration.get(COMPLETE)
    if recorded == COPIED:
        return "the table was copied: was it changed by hand since, here or on the source unlogged?"
    if recorded == "true":
        return "others have changed the table, or somebody by hand"
    return "the table is incomplete, as it was not created in this log"


def copied_anew(table: Table) -> str:
    """Return the hint for a copy that restores the source's rows, also after an error has stopped
    the applier."""
    if SHARD in table.name:
        return OTHER_TARGET if table.is_shared else BEGIN_AGAIN
    return f"spark-repl snapshot --config F --table {table.name} copies it again, then start again"
