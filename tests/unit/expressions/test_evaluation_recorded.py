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
# So many are computed at least; the others stop by name.
_COMPUTED = {"numbers": 547, "letters": 262, "moments": 257, "documents": 124, "random": 176}


@lru_cache(1)
def recorded() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress(_RECORDED.read_bytes()))
    return loaded


def unhex(rows: list[str | None]) -> list[bytes | None]:
    return [None if row is None else bytes.fromhex(row) for row in rows]


@pytest.mark.parametrize("name", _COMPUTED)
def test_expressions_have_the_recorded_values(name: str) -> None:
    session = session_of("")
    definition = definition_of(session)
    rows = {column: unhex(values) for column, values in recorded()["rows"].items()}
    own, tally = OwnExpressions(definition, session, arrays_of(definition, rows)), Tally()
    cases = recorded()["cases"][name]
    for expression, target, kind, answer in cases:
        ours = own.compute(Case(expression, target, kind), tally)
        if ours is not None:
            theirs = unhex(answer)
            own.differ(ours, [theirs[row] for row in ours.rows], tally)
    assert not tally.wrong, "\n".join(tally.wrong[:20])
    assert tally.computed >= _COMPUTED[name], tally.unknown
    assert tally.computed + sum(tally.unknown.values()) == len(cases)
    assert tally.values > 10 * tally.computed and all(tally.unknown)
