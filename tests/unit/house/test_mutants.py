"""The mutation run's own parts: which changes it makes, and that its lists are true."""

from __future__ import annotations

import signal
import threading
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from spark_repl.errors import ConfigError
from spark_repl.schedule.waves import GroupLimits, waves
from tests.mutants.forked import Ended, forked
from tests.mutants.mutate import Mutant, mutants
from tests.mutants.reach import Reach, Recorder
from tests.mutants.rooms import ROOMS
from tests.mutants.swap import Loaded, NotSwappable

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
    known: str | None = zip(a == 4, strict=True).reshape(-1)
    return min(a + 1, True)
'''


def test_each_kind_of_mutant_is_made() -> None:
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


def test_a_mutant_knows_the_lines_of_its_statement() -> None:
    source = b"def f(a):\n    while (\n        a < 7\n    ):\n        a = max(\n            a, 3)\n"
    found = {mutant.old: mutant.lines for mutant in mutants("m.py", source)}
    assert found == {"a < 7": range(2, 5), "7": range(2, 5), "max": range(5, 7), "3": range(5, 7)}


def test_the_guard_of_a_later_case_is_of_its_own_line() -> None:
    cases = b"        case None: return a\n        case one if a < one: return one\n"
    source = b"def f(a):\n    match a:\n" + cases
    found = {mutant.key: mutant.lines for mutant in mutants("m.py", source)}
    assert found == {"m.py f: a < one -> a <= one": range(4, 5)}


def _wave(text: str) -> Mutant:
    source = (PACKAGE / "schedule/waves.py").read_bytes()
    return next(m for m in mutants("schedule/waves.py", source) if text in m.key)


def _bound_of_0() -> str:
    try:
        return f"{GroupLimits(0, 1, 1).transactions} transactions"
    except ConfigError:
        return "refused"


def _two_waves() -> list[int]:
    return waves([1, 2], [0, 0], [1, 1])[0].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("text", "run", "before", "after"),
    [
        ("__post_init__: raise", _bound_of_0, "refused", "0 transactions"),
        ("_waves: current += 1 -> pass", _two_waves, [0, 1], [-1, -1]),
    ],
)
def test_a_mutant_is_put_into_functions_and_kernels(
    text: str, run: Callable[[], object], before: object, after: object
) -> None:
    def mutated() -> object:
        Loaded(PACKAGE).swap(_wave(text))
        return run()

    assert (run(), forked(mutated), run()) == (before, after, before)


def test_a_mutant_of_no_function_is_not_put_in() -> None:
    with pytest.raises(NotSwappable):
        Loaded(PACKAGE).swap(_wave("RowEstimate: 200 -> 201"))


def test_who_calls_a_kernel_reaches_it() -> None:
    loaded = Loaded(PACKAGE)
    kernels = loaded.kernels_of(_wave("_place: False -> True"))
    names = {name for _, name in loaded.callers(kernels)}
    assert {"assign", "_assign"} <= names


def test_how_a_fork_ends() -> None:
    assert forked(lambda: {"a": 1}) == {"a": 1}
    for sent, ended in ((signal.SIGKILL, Ended.CRASHED), (signal.SIGPROF, Ended.LATE)):
        assert forked(partial(signal.raise_signal, sent)) is ended
    with pytest.raises(RuntimeError, match="raised"):
        forked(lambda: 1 // 0)


def test_lines_of_all_threads_are_reached() -> None:
    path = str(PACKAGE / "schedule" / "waves.py")
    reach, recorder = Reach(), Recorder(str(PACKAGE), frozenset([path]))
    with recorder.recording(reach):
        thread = threading.Thread(target=_bound_of_0)
        thread.start()
        thread.join()
    assert {(path, _wave("__post_init__: raise").line)} <= reach.lines
    assert (path, "GroupLimits.__post_init__") in reach.functions


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_its_modules_and_tests(room: str) -> None:
    assert all((PACKAGE / module).is_file() for module in ROOMS[room].modules)
    assert all((TESTS / test).exists() for test in ROOMS[room].tests)


@pytest.mark.slow
def test_every_named_survivor_is_still_a_mutant() -> None:
    named = tomllib.loads((TESTS / "mutants" / "survivors.toml").read_text("utf-8"))
    modules = {key.partition(" ")[0] for key in named}
    there = {m.key for name in modules for m in mutants(name, (PACKAGE / name).read_bytes())}
    assert sorted(named.keys() - there) == []
    assert all(reason.endswith(".") for reason in named.values())
