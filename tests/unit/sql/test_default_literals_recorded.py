"""Literals as defaults and generated values, beside what a server had of them in rows that were
there (see ``fixtures/make_defaults.py``)."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.live.default_cases import SESSIONS, Case
from tests.support.own_defaults import Tally, check

_RECORDED = Path(__file__).parents[2] / "fixtures" / "ddl" / "defaults.json.gz"
# Of a hundred so many are known at least; the others stop by name.
_KNOWN_PERCENT = {"literal": 95, "INSERT": 95, "expression": 85, "generated": 85, "virtual": 80}
_EVERY = {"literal": 1, "expression": 4, "generated": 5, "virtual": 6}
"""of the ways; live/test_defaults has them all"""


@lru_cache(1)
def recorded() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress(_RECORDED.read_bytes()))
    return loaded


@pytest.mark.parametrize("session", SESSIONS)
def test_defaults_have_the_recorded_values(session: str) -> None:
    tally = Tally()
    for sql_type, ways in recorded()[session].items():
        for way, answers in ways.items():
            for literal, answer in list(answers.items())[:: _EVERY[way]]:
                row = None if answer is None else bytes.fromhex(answer)
                check(Case(sql_type, literal, way, session), row, tally)
    assert not tally.wrong, "\n".join(tally.wrong[:20])
    for way, percent in _KNOWN_PERCENT.items():
        right, unknown = tally.right[way], tally.unknown[way]
        assert right > 200 and right * 100 >= percent * (right + unknown), (way, right, unknown)
