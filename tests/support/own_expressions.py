"""Expressions of generated columns and defaults, as ``ddl.expressions`` computes them over rows
of all types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spark_repl.alter.alteration import UnknownValue
from spark_repl.alter.apply_alter import alter
from spark_repl.binlog.types.forms import Forms
from spark_repl.errors import SchemaError, StatementError
from spark_repl.sql.classify import classify_in
from spark_repl.sql.session import Session
from spark_repl.tables.source_table import SourceTable
from tests.support.altered_table import altered_rows

from .live.alter_grid import Row, arrow, column_of
from .live.expression_cases import COLUMNS, Case

FORMS = Forms()
AT = 1_700_000_000
"""the statements' time, in seconds"""
Columns = Mapping[str, tuple[str, Sequence[str]]]
"""name -> (type, literals)"""
_BITS = {"STRICT_TRANS_TABLES": 1 << 21, "": 0}


@dataclass
class Tally:
    """``wrong``: in words; ``unknown``: reasons why expressions are not computed; ``refused``:
    statements that the server refuses, rows that we do."""

    computed: int = 0
    values: int = 0
    wrong: list[str] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


@dataclass
class Ours:
    """What we make of a case: values of the rows that we compute."""

    case: Case
    rows: list[int]
    values: pa.Array


def session_of(modes: str) -> Session:
    return Session(
        "g", _BITS[modes], AT * 1_000_000, "+00:00", True, charsets={"g": "utf8mb4_0900_ai_ci"}
    )


def created(columns: Columns = COLUMNS) -> str:
    """The statement that creates a table of these columns."""
    listed = ", ".join(f"{name} {kind}" for name, (kind, _) in columns.items())
    return f"CREATE TABLE x (i INT PRIMARY KEY, {listed}) CHARSET utf8mb4"


def definition_of(session: Session, columns: Columns = COLUMNS) -> SourceTable:
    made = classify_in(created(columns), session).definition
    assert made is not None
    return FORMS.apply(made)


def arrays_of(definition: SourceTable, rows: dict[str, Sequence[Row]]) -> list[pa.Array]:
    """The table's columns, from what a server answers for each."""
    count = len(next(iter(rows.values())))
    columns = zip(definition.columns[1:], rows.values(), strict=True)
    return [pa.array(range(count), pa.int32()), *(arrow(column, one) for column, one in columns)]


class OwnExpressions:
    """``arrays``: the rows of all columns."""

    def __init__(self, definition: SourceTable, session: Session, arrays: list[pa.Array]) -> None:
        self.definition, self.session, self.arrays = definition, session, arrays
        self.names = [column.name for column in definition.columns]

    def compute(self, case: Case, tally: Tally) -> Ours | None:
        statement = classify_in(f"ALTER TABLE x ADD z {case.clause}", self.session)
        assert statement.alteration is not None, (case, statement.reason)
        altered = alter(self.definition, statement, self.session)
        origin = altered.origins[-1]
        if isinstance(origin, UnknownValue):
            tally.unknown[origin.reason.partition(": ")[2]] += 1
            return None
        tally.computed += 1
        count = len(self.arrays[0])
        made = self._made(altered, self.arrays)
        if made is not None:
            return Ours(case, list(range(count)), made)
        each = [self._made(altered, [a.slice(i, 1) for a in self.arrays]) for i in range(count)]
        rows = [i for i, one in enumerate(each) if one is not None]
        tally.refused["rows of ours"] += count - len(rows)
        values = [one for one in each if one is not None]
        return Ours(case, rows, pa.concat_arrays(values)) if rows else None

    def _made(self, altered: Any, arrays: list[pa.Array]) -> pa.Array | None:
        try:
            made = altered_rows(self.definition, altered, self.session).columns(arrays)[-1]
        except (StatementError, SchemaError) as error:
            assert "Arrow" not in str(error), altered.definition.columns[-1].generated
            return None
        made.validate(full=True)
        assert made.type == altered.definition.columns[-1].arrow_type
        return made

    def differ(self, ours: Ours, answer: Sequence[Row], tally: Tally) -> None:
        """Notes where what a server has in ``ours.rows`` is something else."""
        theirs = arrow(column_of(ours.case.target, FORMS), answer).to_pylist()
        tally.values += len(theirs)
        for row, got, want in zip(ours.rows, ours.values.to_pylist(), theirs, strict=True):
            if repr(got) != repr(want):
                inputs = {
                    name: array[row].as_py()
                    for name, array in zip(self.names, self.arrays, strict=True)
                    if name in ours.case.words
                }
                tally.wrong.append(f"{ours.case.clause}: {want!r}, ours {got!r}, of {inputs}")
