"""Row filters: ``row_filter`` of ``[[tables]]``, an expression over the source's columns with
MySQL's semantics. The target has only the rows for which it is true; FALSE and NULL leave a row
out.

A filter is read once for the columns of a table. The same code evaluates it on Arrow arrays for
rows of the log, of copies and of ``verify``. It finds columns by their names.

Raises ConfigError for a faulty expression, SettingError and SchemaError for one that does not fit
the table, StatementError for a statement that may change the values that a filter reads, and
Unconvertible for values whose result is not known. Design: docs/design/row-filters.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..alter.alteration import CarriedColumn
from ..alter.declared_charsets import with_logged_charsets
from ..config.rules import nearest
from ..convert.conversion import convert
from ..errors import (
    OTHER_TARGET,
    ConfigError,
    NotComputed,
    SchemaError,
    SettingError,
    StatementError,
    Unconvertible,
    reset_table,
)
from ..expressions.coercions import truth
from ..expressions.collations import compared
from ..expressions.evaluation import evaluate
from ..expressions.expression_reader import read_expression
from ..expressions.input_rows import InputRows
from ..expressions.resolution import row_wise
from ..sql.new_columns import same_collation, same_type
from ..sql.session import Session
from ..sql.sql_tokens import WORD, tokens
from ..tables.column import ColumnType, Form

if TYPE_CHECKING:
    from ..alter.alteration import Altered
    from ..config.tables import TableRule
    from ..expressions.syntax import Syntax
    from ..expressions.value_type import Node
    from ..tables.column import Column
    from ..tables.source_table import SourceTable
    from ..tables.target_table import TargetTable
    from .column_rules import ColumnRules

Bools = npt.NDArray[np.bool_]

HINT = "a row filter is a deterministic expression over the columns of its row: docs/tables.md"
_OTHER_RULE = (
    "change row_filter of the table's [[tables]]; where the target has the table, " + reset_table()
)
UNKNOWN_HINT = (
    "have row_filter of the table's [[tables]] tell such a value (CAST(column AS BINARY) compares"
    " texts byte by byte); where the target has the table, " + reset_table()
)
_ANEW = "copy the table again (spark-repl snapshot --config F --table DB.T), as run does by itself"
_SHARD_ANEW = f"leave the statement out (spark-repl skip --config F --gtid GTID), or {OTHER_TARGET}"
_TOO_DEEP = "it is too deep"
_SQL_MODE = 0
# The configuration has neither a time zone nor the source's version, which rounds quotients.
_SESSION = Session(quotients=False)
_OTHER_ROWS = frozenset((
    "AVG", "BIT_AND", "BIT_OR", "BIT_XOR", "COUNT", "GROUP_CONCAT", "JSON_ARRAYAGG",
    "JSON_OBJECTAGG", "MAX", "MIN", "STD", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "SUM", "VAR_POP",
    "VAR_SAMP", "VARIANCE",
))  # fmt: skip
_CHANGING = frozenset((
    "BENCHMARK", "CONNECTION_ID", "CURDATE", "CURRENT_DATE", "CURRENT_ROLE", "CURRENT_TIME",
    "CURRENT_TIMESTAMP", "CURRENT_USER", "CURTIME", "DATABASE", "FOUND_ROWS", "GET_LOCK",
    "IS_FREE_LOCK", "IS_USED_LOCK", "LAST_INSERT_ID", "LOAD_FILE", "LOCALTIME", "LOCALTIMESTAMP",
    "NOW", "RAND", "RANDOM_BYTES", "RELEASE_LOCK", "ROW_COUNT", "SCHEMA", "SESSION_USER", "SLEEP",
    "SYSDATE", "SYSTEM_USER", "UNIX_TIMESTAMP", "USER", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP",
    "UUID", "UUID_SHORT", "VERSION",
))  # fmt: skip
_BARE = frozenset((
    "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "LOCALTIME",
    "LOCALTIMESTAMP", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP",
))  # fmt: skip


@dataclass(frozen=True)
class RowFilter:
    """The filter ``text`` for rows of ``columns``. It reads the columns with the ``numbers``, in
    ascending order."""

    text: str
    columns: tuple[Column, ...]
    numbers: tuple[int, ...]
    node: Node

    @property
    def names(self) -> list[str]:
        return [self.columns[number].name for number in self.numbers]

    def passes(self, arrays: Sequence[pa.Array]) -> Bools:
        """Return whether each row passes. ``arrays``: the values of the columns ``numbers``. Raise
        Unconvertible if the result is not known."""
        count = len(arrays[0])
        at = dict(zip(self.numbers, arrays, strict=True))
        rows = InputRows(count, self.columns, at.__getitem__, _SESSION, convert)
        try:
            truths = pc.fill_null(evaluate(self.node, rows), False)
        except pa.ArrowException as error:
            raise Unconvertible("Arrow has no room for its values") from error
        return np.asarray(truths.to_numpy(zero_copy_only=False), bool)

    def first_unknown(self, arrays: Sequence[pa.Array]) -> int:
        """Return the number of the first row whose result is not known, after ``passes`` has
        raised."""
        low, high = 0, len(arrays[0])
        while high - low > 1:
            middle = (low + high) // 2
            try:
                self.passes([array[low:middle] for array in arrays])
                low = middle
            except Unconvertible:
                high = middle
        return low


def fault(text: str) -> str:
    """Return the problem of an expression that does not depend on the table's columns; '' if there
    is none."""
    try:
        _check_words(text)
        names = names_in(read_expression(text, _SQL_MODE))
    except (NotComputed, StatementError) as error:
        return str(error) if isinstance(error, NotComputed) else error.message
    except RecursionError:
        return _TOO_DEEP
    return "" if names else "it looks at no column"


def check_row_filters(rules: Sequence[TableRule]) -> None:
    """Raise ConfigError with all problems of the rules' expressions that do not depend on a table's
    columns."""
    faults = tuple(
        f"tables[{number}].row_filter {rule.row_filter}: {reason}"
        for number, rule in enumerate(rules, 1)
        if rule.row_filter and (reason := fault(rule.row_filter))
    )
    if faults:
        error = ConfigError("; ".join(faults), hint=HINT)
        error.faults = faults
        raise error


def filter_of(target: TargetTable, logged: SourceTable) -> RowFilter:
    """Return the target's filter for rows of ``logged``. Raise SchemaError if the log has other
    columns than the target knows."""
    ours, theirs = target.source.arrow_schema(), logged.arrow_schema()
    if ours.names == theirs.names and ours.types == theirs.types:
        try:
            return row_filter(target.row_filter, with_logged_charsets(target.source, logged))
        except NotComputed as error:
            reason = f"row_filter {target.row_filter}: {error}"
    else:
        reason = "the logged rows have other columns than the table, whose rows are filtered"
    raise SchemaError(
        reason, table=logged.name,
        hint="a statement that this log does not hold changed the table: copy it again",
    )  # fmt: skip


def unknown(rule: RowFilter, error: Unconvertible, *, hidden: bool) -> str:
    """Return the message about a row for which the result of the filter is not known. ``hidden``:
    whether its values must not be shown."""
    why = "" if hidden else f": {error.message}"
    return f"whether a row passes row_filter {rule.text} is not known{why}"


def check_row_filter(target: TargetTable, rules: ColumnRules) -> None:
    """Raise SettingError if the target's filter does not fit the table's columns."""
    try:
        if target.row_filter:
            row_filter(target.row_filter, target.source)
    except NotComputed as error:
        match = rules.rules.shaping(target.name).match
        raise SettingError(
            f"[[tables]] {match}: row_filter {target.row_filter}: {error}",
            table=target.name,
            hint=_OTHER_RULE,
        ) from None


def check_filter_columns(before: TargetTable, altered: Altered[SourceTable]) -> None:
    """Raise SettingError if ``altered`` drops or renames a column that the row filter of ``before``
    reads. Raise StatementError if the column may get other values or another collation, because
    rows that the target lacks might then pass."""
    if not before.row_filter:
        return
    logged = before.source
    now = {column.name.lower(): column for column in altered.definition.columns}
    columns = zip(altered.origins, altered.definition.columns, strict=True)
    origins = {
        origin.number: (origin, column)
        for origin, column in columns
        if isinstance(origin, CarriedColumn)
    }
    rule = row_filter(before.row_filter, logged)
    by_collation = compared(rule.node)
    for number in rule.numbers:
        old = logged.columns[number]
        origin, new = origins.get(number, (None, None))
        again = now.get(old.name.lower())
        if old.generated and new is None and again is not None and again.generated:
            what = "is computed again"
        elif new is None or new.name.lower() != old.name.lower():
            what = "goes" if new is None else f"becomes {new.name}"
            raise SettingError(
                f"column {old.name} {what}, at which row_filter {before.row_filter} looks",
                table=before.name,
                hint=_OTHER_RULE,
            )
        else:
            assert origin is not None
            written = origin.written or altered.converted
            what = _other_values(old, new, written=written, compares=number in by_collation)
        if what:
            raise StatementError(
                f"column {old.name}, at which row_filter looks, {what}",
                table=before.name,
                hint=_SHARD_ANEW if before.is_shard else _ANEW,
            )


def _other_values(old: Column, new: Column, *, written: bool, compares: bool) -> str:
    """Return what may change the values of a column, or the answers of its comparisons; "" for
    nothing. ``written``: whether the statement has the column's type, or converts it. ``compares``:
    whether the filter's answer depends on the collation."""
    if not same_type(old, new) or (old.nullable and not new.nullable):
        return "becomes another type"
    if compares and not same_collation(old, new, written=written):
        return "may have another collation"
    if new.auto_increment and not old.auto_increment:
        return "becomes AUTO_INCREMENT, which numbers rows of 0"
    digits = old.type in (ColumnType.FLOAT, ColumnType.DOUBLE)
    return "may have other digits" if digits and written and old.detail != new.detail else ""


def names_of(text: str) -> list[str]:
    """Return the names of the columns that an expression without ``fault`` reads."""
    return sorted(names_in(read_expression(text, _SQL_MODE)))


def names_in(syntax: Syntax) -> set[str]:
    own = {syntax.words[0]} if syntax.name == "name" else set[str]()
    return own.union(*map(names_in, syntax.inputs))


def row_filter(text: str, logged: SourceTable) -> RowFilter:
    """Return the expression for the source's table ``logged``. Raise NotComputed."""
    if reason := fault(text):
        raise NotComputed(reason)
    _check_names(text, [column.name for column in logged.columns])
    # These decide the types of values, but do not take part in the comparison of columns.
    beside = tuple((column.detail, column.compares, column.assumed) for column in logged.columns)
    return _row_filter(text, logged.columns, beside)


def _check_names(text: str, existing: Sequence[str]) -> None:
    """Raise NotComputed for a name that no column has."""
    lower = [name.lower() for name in existing]
    for name in names_of(text):
        if name.lower() not in lower:
            raise NotComputed(f"there is no column {name}{nearest(name, existing)}")


@lru_cache(256)
def _row_filter(text: str, columns: tuple[Column, ...], beside: object) -> RowFilter:
    try:
        node = truth(row_wise(text, _SQL_MODE, columns, _SESSION))
    except RecursionError as error:
        raise NotComputed(_TOO_DEEP) from error
    numbers = tuple(sorted(node.columns))
    for number in numbers:
        if columns[number].form == Form.VARIANT:
            raise NotComputed(f"{columns[number].name} is kept as VARIANT (target.json_as)")
    return RowFilter(text, columns, numbers, node)


def _check_words(text: str) -> None:
    """Raise NotComputed or StatementError for a word that needs more than the row."""
    all_tokens = tokens(text, _SQL_MODE)
    for token, following in zip_longest(all_tokens, all_tokens[1:]):
        word, opens = token.text, following is not None and following.raw == "("
        if token.raw == "@":
            raise NotComputed(f"@{following.raw if following else ''} is a variable")
        if token.kind != WORD:
            continue
        if word in ("SELECT", "EXISTS"):
            raise NotComputed(f"{word} is a subquery, which looks at other rows")
        if opens and word in _OTHER_ROWS:
            raise NotComputed(f"{word}() looks at other rows")
        if word in _BARE or (opens and word in _CHANGING):
            raise NotComputed(f"{word}() is not deterministic: it goes by more than the row")
