"""Tests wait for conditions (``support/wait_until.py``); a sleep says why it is one."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.imports import ROOT

SLEEPS = 59
"""a ratchet: sleeps of the tests, without ``bench`` and ``fixtures``"""
_SLEEP = "time." + "sleep("


def sleeps() -> Iterator[tuple[str, bool]]:
    """Yield the place of each sleep, and whether a comment is on its line or the one above."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        place = path.relative_to(ROOT / "tests")
        if place.parts[0] in ("bench", "fixtures"):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            if _SLEEP in line:
                above = lines[number - 1].lstrip()
                yield f"{place}:{number + 1}", "  # " in line or above.startswith("# ")


def test_each_sleep_says_why() -> None:
    assert [place for place, has_reason in sleeps() if not has_reason] == []


def test_there_are_no_more_sleeps_than_before() -> None:
    assert len(list(sleeps())) <= SLEEPS
