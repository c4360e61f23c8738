"""check_made_again: CREATE TABLE of a name that a live table of the target has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...decode.staged import same_shape
from ...errors import SchemaError
from ...sql.statement import Effect
from ..log.statement_event import before

if TYPE_CHECKING:
    from collections.abc import Container

    from ...write.tables.table import Table
    from ...write.tables.tracking import Tracking
    from ..log.statement_event import Logged

_HINT = (
    "either filters left out the DROP of the table that the target has, or it is from elsewhere:"
    " copy it again: spark-repl snapshot --config F --table DB.T"
)


def check_made_again(
    known: Table, logged: Logged, tracking: Tracking, copied: Container[str]
) -> None:
    """Raises SchemaError (1050) where ``known`` is not the table that the statement makes: that is
    one which has the statement already, by an attempt before this one, or, of the same shape, one
    of ``copied``, which were read on either side of it."""
    cut, wanted = logged.cut, logged.statement.definition
    made = before(cut) if logged.statement.effect is Effect.CREATE_SELECT else cut
    if known.position >= made.position or tracking.has(known, cut):
        return
    if logged.statement.if_not_exists:
        return
    forms = tracking.forms
    alike = wanted and same_shape(known.definition.in_log, forms.apply(wanted))
    if alike and known.name in copied:
        return
    raise SchemaError(
        f"Table '{known.name}' already exists: {logged.text}",
        table=known.name,
        number=1050,
        hint=_HINT,
    )
