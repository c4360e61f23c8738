"""A row change that doesn't fit the target, in MySQL's words and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..binlog.json.diff import CANNOT_APPLY
from ..decode.folding import DUPLICATE_KEY
from ..decode.part import first_of
from ..delta.partitions import NO_PARTITION, NO_PARTITION_HINT, TAKEN_FOR_NULL
from ..errors import RowError, SettingError
from ..position import RelayPosition
from .own_metadata import COMPLETE, COPIED

if TYPE_CHECKING:
    from ..decode.part import Part
    from .table import Table
    from .written import Violation


def row_error(violation: Violation, table: Table) -> RowError:
    """The error for a violation in ``table``, with MySQL's message and number."""
    hint = "exec_mode = idempotent overwrites and passes over such rows, as MySQL's does"
    if violation.number == CANNOT_APPLY:
        message = f"Could not apply JSON diff in table {table.definition.table} ({violation.key})"
        hint = "the target's document is not the source's: copy the table again"
    elif violation.number == NO_PARTITION:
        message = f"Table has no partition for a value ({violation.key}): {TAKEN_FOR_NULL}"
        hint = NO_PARTITION_HINT
    elif violation.number == DUPLICATE_KEY:
        message = f"Duplicate entry ({violation.key}) for key 'PRIMARY'"
    else:
        message = f"Can't find record in '{table.definition.table}' ({violation.key})"
        if not table.complete:
            reason, cure = _incomplete(table)
            message, hint = f"{message}; the table is incomplete: {reason}", f"{cure}; {hint}"
    position = RelayPosition.unpack(violation.position)
    return RowError(
        message, number=violation.number, position=position, table=table.name, hint=hint
    )


@contextmanager
def at_first_change(parts: Iterable[Part]) -> Iterator[None]:
    """A table that can't be made from its rows fails at the first change that a group has of it."""
    try:
        yield
    except SettingError as error:
        if (position := first_of(parts)) is not None:
            error.at(position=RelayPosition.unpack(position))
        raise


def _incomplete(table: Table) -> tuple[str, str]:
    """Why a table may lack rows of the log, or have others, and what mends it."""
    made = table.snapshot.configuration.get(COMPLETE)
    if made not in (COPIED, "true"):
        return "it was not created in this log", "apply the log from the table's creation on"
    reasons = {COPIED: "it was copied", "true": "others changed rows, or somebody by hand"}
    cure = "spark-repl verify --repair mends what differs"
    return reasons[made], f"{cure}, spark-repl snapshot --table {table.name} copies all anew"
