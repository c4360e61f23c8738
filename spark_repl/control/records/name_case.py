"""NameCase: whether the source distinguishes names of databases and tables by upper and lower case.

The configuration has it, or a live source was asked (lower_case_table_names). Otherwise the log
shows it. A TABLE_MAP with an upper-case letter comes from a source that distinguishes them. A
TABLE_MAP whose name a statement has written with other letters comes from one that doesn't. The
control table records the answer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from ...errors import SchemaError, SettingError, StatementError
from ...sql.statement import Effect, Statement, folded
from ...tables.case_folding import CASE_HINT, fold, letter_case_error
from ...tables.table_name import database_of

if TYPE_CHECKING:
    from ..table.control import Control

logger = logging.getLogger(__name__)

_CREATES = (Effect.CREATE_TABLE, Effect.CREATE_LIKE, Effect.CREATE_SELECT)
KIND, KEY = "names", "lower_case_table_names"
ASK = -1


def record(control: Control, value: int) -> None:
    """Write a live source's lower_case_table_names; the caller owns the target."""
    control.write(KIND, detail=json.dumps({KEY: value}))


def unlike_table_rule(name: str, *, known: bool) -> SettingError:
    """Return the error ``letter_case_error`` for ``[[tables]]``. ``known``: the setting has just
    been found."""
    if known:
        hint = "start again: it is on record now"
        return letter_case_error(name, "[[tables]]", "shows only now that", hint)
    return letter_case_error(name, "[[tables]]", "does not say whether")


class NameCase:
    """Folds names as the source does. ``value``: lower_case_table_names; ASK if it is not known
    yet."""

    def __init__(self, control: Control, configured: int = ASK) -> None:
        self._control, self.value = control, configured
        self.found_folding = False
        """whether the log has shown since ``load`` that the source folds names: what was read
        before is not folded"""

    def load(self) -> None:
        self.found_folding, rows = False, self._control.rows(KIND)
        if self.value == ASK and rows:
            self.value = json.loads(rows[-1]["detail"])[KEY]

    @property
    def folds(self) -> bool:
        return self.value > 0

    @property
    def is_new(self) -> bool:
        """Return whether names that the source treats as equal may have been read as different
        names."""
        return self.found_folding or self.value == ASK

    def of(self, name: str) -> str:
        """Return a name as the target stores it."""
        return fold(name) if self.folds else name

    def statement(self, statement: Statement, tables: Collection[str]) -> Statement:
        """Return the statement with names in the form that the target stores. ``tables``: the
        target's. Raise StatementError if it is unknown to which of them a name refers."""
        if self.folds:
            return folded(statement)
        if self.value == ASK:
            self._ask(statement, tables)
        return statement

    def _ask(self, statement: Statement, tables: Collection[str]) -> None:
        names, present = statement.tables, set(tables)
        if statement.effect == Effect.DROP_DATABASE:
            names, present = (statement.database,), {database_of(name) for name in tables}
        elif statement.effect == Effect.NO_EFFECT and not statement.changes_definition:
            return
        for name in names:
            lower = fold(name)
            similar = (
                [] if name in present else [table for table in present if fold(table) == lower]
            )
            if not similar:
                continue
            creates = statement.effect in _CREATES and name == statement.tables[0]
            if creates and not statement.if_not_exists:
                self._conclude(
                    0, name
                )  # a source that folds names would have refused the statement
                return
            raise StatementError(
                f"{statement.verb} names {name}, the target has {similar[0]}: nobody knows whether"
                " the source takes them for the same",
                table=name,
                hint=CASE_HINT,
            )

    def logged(self, name: str, tables: Collection[str]) -> bool:
        """Derive the setting from the name in a TABLE_MAP. Return whether all tables' names have to
        be folded from now on. Raise SchemaError if it contradicts the recorded value."""
        lower = fold(name)
        if lower != name and self.folds:
            raise SchemaError(
                f"the log has rows of {name}, but {KEY} is said to be {self.value}: such a source"
                " logs names in lower case",
                table=name,
                hint=CASE_HINT,
            )
        if self.value != ASK:
            return False
        if lower != name:
            self._conclude(0, name)
        elif name not in tables and any(fold(table) == name for table in tables):
            self._conclude(1, name)
        return self.folds

    def _conclude(self, value: int, name: str) -> None:
        logger.warning("the log's %s shows that the source has %s = %d", name, KEY, value)
        record(self._control, value)
        self.value, self.found_folding = value, value > 0
