"""Columns that are computed, beside what a server had in them (see
``fixtures/make_expressions.py``)."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.live.expression_cases import Case
from tests.support.own_expressions import (
    OwnExpressions,
    Tally,
    arrays_of,
    definition_of,
    session_of,
)

_RECORDED = Path(__file__).parents[2] / "fixtures" / "ddl" / "expressions.json.gz"
_PARTS = 4
# Of a hundred so many are computed at least; the others stop by name.
_PERCENT = {"numbers": 93, "letters": 90, "moments": 92, "documents": 99, "random": 80}


@lru_cache(1)
def recorded() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress(_RECORDED.read_bytes()))
    return loaded


def unhex(rows: list[str | None]) -> list[bytes | None]:
    return [None if row is None else bytes.fromhex(row) for row in rows]


@pytest.mark.parametrize("part", range(_PARTS))
@pytest.mark.parametrize("name", _PERCENT)
def test_values_are_what_a_server_had(name: str, part: int) -> None:
    session = session_of("")
    definition = definition_of(session)
    rows = {column: unhex(values) for column, values in recorded()["rows"].items()}
    own, tally = OwnExpressions(definition, session, arrays_of(definition, rows)), Tally()
    cases = recorded()["cases"][name][part::_PARTS]
    for expression, target, kind, answer in cases:
        ours = own.compute(Case(expression, target, kind), tally)
        if ours is not None:
            theirs = unhex(answer)
            own.differ(ours, [theirs[row] for row in ours.rows], tally)
    assert not tally.wrong, "\n".join(tally.wrong[:20])
    assert tally.computed * 100 >= len(cases) * _PERCENT[name] - 500, tally.unknown
    assert tally.values > 10 * tally.computed and all(tally.unknown)
