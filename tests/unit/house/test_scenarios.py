"""The table of MySQL's own tests: whole; each test that it names exists, says so, and asserts."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.scenario_guards import GUARDS
from tests.support.scenarios import SCENARIOS
from tests.support.sources import functions

_TESTS = Path(__file__).parents[2]
_PACKAGE = _TESTS.parent / "spark_repl"
_TEST = re.compile(r"[\w/]+\.py::\w+")


def test_every_number_has_an_answer() -> None:
    assert sorted(SCENARIOS) == list(range(1, 171))
    assert all(name and answers for name, answers in SCENARIOS.values())


@pytest.mark.parametrize(("first", "last", "least"), [(1, 64, 58), (65, 91, 27), (92, 170, 72)])
def test_most_are_answered_by_a_test(first: int, last: int, least: int) -> None:
    tested = [
        number
        for number, (_, answers) in SCENARIOS.items()
        if first <= number <= last and any(_TEST.fullmatch(answer) for answer in answers)
    ]
    assert len(tested) >= least


def asserts(path: Path, name: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a function asserts something, itself or in a function of its module that it calls."""
    for node in ast.walk(functions(path)[name]):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called == "raises" or called.startswith("assert_"):
                return True
            own = called in functions(path) and called not in seen | {name}
            if own and asserts(path, called, seen | {name}):
                return True
    return False


@pytest.mark.parametrize("number", SCENARIOS)
def test_the_tests_exist_name_their_number_and_assert(number: int) -> None:
    for answer in SCENARIOS[number][1]:
        if not _TEST.fullmatch(answer):
            assert answer.endswith("."), answer  # a reason, as a sentence
            continue
        file, _, name = answer.partition("::")
        assert name in functions(_TESTS / file), answer
        path = _TESTS / file
        text = path.read_text(encoding="utf-8")
        said = ast.get_source_segment(text, functions(path)[name]) or ""
        assert number in numbers(said), f"{answer} does not name scenario {number}"
        assert asserts(_TESTS / file, name), f"{answer} asserts nothing"


def test_each_that_a_test_answers_names_a_line() -> None:
    tested = {n for n, (_, answers) in SCENARIOS.items() if any(map(_TEST.fullmatch, answers))}
    assert tested == GUARDS.keys()


@pytest.mark.parametrize("number", sorted(GUARDS))
def test_each_guarded_line_exists_once(number: int) -> None:
    """Once, so that it is known which is meant; its mutant is another program."""
    guard = GUARDS[number]
    source = (_PACKAGE / guard.module).read_text(encoding="utf-8")
    assert source.count(guard.line) == 1, f"{guard.module}: {guard.line}"
    mutant = ast.parse(source.replace(guard.line, guard.mutant))
    assert ast.dump(mutant) != ast.dump(ast.parse(source))
    assert guard.steps and not guard.steps.endswith(".")


def numbers(text: str) -> set[int]:
    """Of every "Scenarios 2, 4-6" in a text."""
    found: set[int] = set()
    for group in re.findall(r"[Ss]cenarios? (\d+(?:(?:-|, | and |,\s*(?:#\s*)?)\d+)*)", text):
        for part in re.findall(r"\d+(?:-\d+)?", group):
            first, _, last = part.partition("-")
            found |= set(range(int(first), int(last or first) + 1))
    return found


def test_numbers_of_scenarios_are_read_from_a_docstring() -> None:
    assert numbers("Scenarios 2, 4-6 and 9: said. # Scenario 12.") == {2, 4, 5, 6, 9, 12}
