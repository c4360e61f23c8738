"""Literals as defaults and generated values: what a server has of them in rows that are there,
beside what ALTER TABLE, and an INSERT that leaves the column out, have here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.live.default_cases import LITERALS, SESSIONS, WAYS, Case
from tests.support.live.default_grid import DefaultGrid
from tests.support.live.server import Server
from tests.support.own_defaults import Tally, check

pytestmark = pytest.mark.live

_EVERY = 11
"""of all cases; those that were recorded are in unit/sql/test_default_literals_recorded"""


@pytest.fixture
def asked(shared_server: Server) -> Iterator[DefaultGrid]:
    opened: Any = shared_server.connect(charset="utf8mb4", use_unicode=False, conv={})
    yield DefaultGrid(opened)
    opened.close()


def compare(asked: DefaultGrid, cases: list[Case]) -> None:
    tally = Tally()
    for case in cases:
        if (row := asked.answer(case)) is not None:
            check(case, row[0], tally)
    assert not tally.wrong, "\n".join(tally.wrong[:20])
    assert sum(tally.right.values()) > 7 * sum(tally.unknown.values()), tally.unknown
    assert set(tally.right) == {*WAYS, "INSERT"}


def cases(session: str) -> list[Case]:
    return [
        Case(sql_type, literal, way, session)
        for sql_type, literals in LITERALS.items()
        for literal in literals
        for way in WAYS
    ]


@pytest.mark.parametrize("session", SESSIONS)
def test_a_sample_of_defaults_has_the_servers_values(asked: DefaultGrid, session: str) -> None:
    compare(asked, cases(session)[::_EVERY])


@pytest.mark.soak
@pytest.mark.parametrize("session", SESSIONS)
def test_the_whole_grid_of_defaults_has_the_servers_values(
    asked: DefaultGrid, session: str
) -> None:
    compare(asked, cases(session))
