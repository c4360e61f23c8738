"""docs/guarantees.md: the tests that it names exist, and run where it says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.sources import functions, tree

TESTS = Path(__file__).parents[2]
TEXT = (TESTS.parent / "docs" / "guarantees.md").read_text(encoding="utf-8")
ROWS = {
    int(number): (shown, tests)
    for number, shown, tests in re.findall(r"^\| (\d+) \|.*\| ([^|]*) \| ([^|]*) \|$", TEXT, re.M)
}
KINDS = ("test", "live", "slow", "soak")
_OF_ALL = re.compile(r"pytestmark = (pytest\.mark\.\w+)")
_ONE = re.compile(r"((?:[a-z]+/)+test_\w+\.py)(?:::(test_\w+))?")


def functions_of(path: str) -> list[ast.FunctionDef]:
    found = functions(TESTS / path)
    return [node for name, node in found.items() if name.startswith("test_")]


def marks(path: str, test: ast.FunctionDef) -> str:
    """The text of what decides when a test runs: its decorators, the names of its module that
    they use, and the module's own marks."""
    texts = [ast.unparse(one) for one in test.decorator_list]
    used = {
        name.id
        for one in test.decorator_list
        for name in ast.walk(one)
        if isinstance(name, ast.Name)
    }
    for node in tree(TESTS / path).body:
        defined = {node.name} if isinstance(node, ast.FunctionDef) else set()
        if isinstance(node, ast.Assign):
            defined = {one.id for one in node.targets if isinstance(one, ast.Name)}
        if defined & (used | {"pytestmark"}):
            texts.append(ast.unparse(node))
    return " ".join(texts)


def shown_by(path: str, name: str) -> set[str]:
    """``test``, ``live``, ``slow``, ``soak``: what runs a test, or some of its cases.
    ``engine`` leaves Spark to the soak (applier/engines)."""
    always, found = "live" if path.startswith("live/") else "test", set[str]()
    for test in functions_of(path):
        if name in ("", test.name):
            decided = marks(path, test)
            own = {ast.unparse(one) for one in test.decorator_list} | {
                *re.findall(_OF_ALL, decided)
            }
            whole = [kind for kind in ("soak", "slow") if f"pytest.mark.{kind}" in own]
            found.add(whole[0] if whole else always)
            engine = any(one.arg in ("engine", "each_engine") for one in test.args.args)
            if "soak" in decided.lower() or engine:
                found.add("soak")
            if "slow" in decided and "soak" not in whole:
                found.add("slow")
    return found


def test_every_row_is_read() -> None:
    assert [*ROWS] == list(range(1, len(re.findall(r"^\| \d", TEXT, re.M)) + 1))
    assert len(ROWS) >= 60


def test_no_guarantee_stands_twice() -> None:
    begins = [text[:40] for text in re.findall(r"^\| \d+ \| ([^|]*)", TEXT, re.M)]
    assert len({*begins}) == len(begins)


@pytest.mark.parametrize("number", ROWS)
def test_named_tests_exist_and_run_where_it_says(number: int) -> None:
    shown, tests = ROWS[number]
    found: set[str] = set()
    for named in re.findall(r"`([^`]+)`", tests):
        match = _ONE.fullmatch(named)
        assert match, f"{named} is no test"
        path, name = match.group(1), match.group(2) or ""
        assert name in ("", *(test.name for test in functions_of(path))), f"there is no {named}"
        found |= shown_by(path, name)
    assert found
    assert shown == ", ".join(kind for kind in KINDS if kind in found)
