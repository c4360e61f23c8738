"""Literals as defaults and generated values, as ALTER TABLE and an INSERT that leaves the column
out have them here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

import pyarrow as pa

from spark_repl.alter.alteration import Altered, UnknownValue
from spark_repl.alter.apply_alter import alter
from spark_repl.alter.column_defaults import default_value
from spark_repl.binlog.types.forms import Forms
from spark_repl.errors import DecodeError, SchemaError, StatementError
from spark_repl.position import RelayPosition
from spark_repl.sql.classify import classify_in
from spark_repl.sql.session import Session
from spark_repl.tables.source_table import SourceTable
from tests.support.altered_table import altered_rows

from .live.alter_grid import Row, arrow, column_of
from .live.default_cases import SESSIONS, Case
from .live.default_grid import AT

_MODES = {
    "NO_ENGINE_SUBSTITUTION": 1 << 30,
    "STRICT_TRANS_TABLES": 1 << 21,
    "NO_ZERO_IN_DATE": 1 << 23,
    "NO_ZERO_DATE": 1 << 24,
    "TIME_TRUNCATE_FRACTIONAL": 1 << 32,
}
FORMS = Forms(zero_dates="string")


@dataclass
class Tally:
    """``right``, ``unknown``: how many values, by way; ``wrong``: in words."""

    right: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def session_of(case: Case) -> Session:
    modes, zone = SESSIONS[case.session]
    bits = sum(_MODES[mode] for mode in modes.split(","))
    return Session("g", bits, AT * 1_000_000, zone, 255, True)


def check(case: Case, answer: Row, tally: Tally) -> None:
    """Compares with what a server has what rows that are there get by ALTER TABLE, and, of a plain
    DEFAULT, what an INSERT means that leaves the column out."""
    theirs = arrow(column_of(case.sql_type, FORMS), [answer]).to_pylist()
    for way, ours in _ways(case):
        if ours is None:
            tally.unknown[way] += 1
        elif repr(ours.to_pylist()) == repr(theirs):
            tally.right[way] += 1
        else:
            said = f"{case.session}, {way}: {case.clause}"
            tally.wrong.append(f"{said}: {theirs[0]!r}, ours {ours.to_pylist()[0]!r}")


def _ways(case: Case) -> Iterator[tuple[str, pa.Array | None]]:
    """(way, values [1], None where they are not known)."""
    try:
        altered = _altered(case)
    except StatementError as error:
        assert error.message
        yield case.way, None
        return
    yield case.way, _by_alter(altered, session_of(case))
    if case.way == "literal":
        try:
            column = altered.definition.columns[-1]
            yield "INSERT", default_value(column, "g.x", RelayPosition(1, 4))
        except DecodeError:
            yield "INSERT", None


@lru_cache(1)
def _table() -> SourceTable:
    made = classify_in("CREATE TABLE x (i INT PRIMARY KEY)", Session("g")).definition
    assert made is not None
    return made


def _altered(case: Case) -> Altered[SourceTable]:
    session = session_of(case)
    made = _table()
    statement = classify_in(f"ALTER TABLE x ADD z {case.clause}", session)
    assert statement.alteration is not None, (case, statement.reason)
    altered = alter(made, statement, session)
    return replace(altered, definition=FORMS.apply(altered.definition))


def _by_alter(altered: Altered[SourceTable], session: Session) -> pa.Array | None:
    if isinstance(altered.origins[-1], UnknownValue):
        assert altered.origins[-1].reason
        return None
    before = replace(altered.definition, columns=altered.definition.columns[:1])
    rows = altered_rows(before, altered, session)
    try:
        made = rows.columns([pa.array([1], pa.int32())])[-1]
    except (StatementError, SchemaError):
        return None
    made.validate(full=True)
    return made
