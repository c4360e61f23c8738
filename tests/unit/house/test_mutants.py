"""The mutation run's own parts: which changes it makes, and that its lists are true."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.mutants.mutate import mutants
from tests.mutants.rooms import ROOMS

TESTS = Path(__file__).parents[2]
PACKAGE = TESTS.parent / "spark_repl"
SOURCE = b'''
"""Text."""
LIMIT = 3

def first(a: int = 7) -> int:
    if a < 0 and not done:
        raise ValueError("no")
    log.info("%s", a)
    close(a)
    known: str | None = zip(a == 4, strict=True)
    return min(a + 1, True)
'''


def test_each_kind_of_change() -> None:
    assert [m.key.partition(": ")[2] for m in mutants("m.py", SOURCE)] == [
        "a < 0 and not done -> False",
        "a < 0 and not done -> True",
        "a < 0 and not done -> ((a < 0) or (not done))",
        "a < 0 and not done -> ((not done))",
        "a < 0 and not done -> ((a < 0))",
        "a < 0 -> a <= 0",
        "0 -> 1",
        "not done -> done",
        'raise ValueError("no") -> pass',
        "close(a) -> pass",
        "a == 4 -> a != 4",
        "4 -> 5",
        "min -> max",
        "a + 1 -> ((a) - (1))",
        "1 -> 2",
        "True -> False",
    ]


def test_a_mutant_is_the_source_with_one_change() -> None:
    guard = next(m for m in mutants("m.py", SOURCE) if m.new == "False")
    assert guard.of(SOURCE) == SOURCE.replace(b"a < 0 and not done", b"False")
    assert (guard.module, guard.function, guard.line) == ("m.py", "first", 6)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_its_modules_and_tests(room: str) -> None:
    assert all((PACKAGE / module).is_file() for module in ROOMS[room].modules)
    assert all((TESTS / test).exists() for test in ROOMS[room].tests)


def test_every_named_survivor_is_still_a_mutant() -> None:
    named = tomllib.loads((TESTS / "mutants" / "survivors.toml").read_text("utf-8"))
    modules = {key.partition(" ")[0] for key in named}
    there = {m.key for name in modules for m in mutants(name, (PACKAGE / name).read_bytes())}
    assert sorted(named.keys() - there) == []
    assert all(reason.endswith(".") for reason in named.values())
