"""Paths that were given: numbers go on behind the highest, without a look at each."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.control.table.given_paths import MOST, Forgotten, GivenPaths
from spark_repl.control.table.layout import Layout

MANY = 10**12
"""so many are not counted in a test's time"""


@pytest.mark.parametrize("beside", [False, True], ids=["own", "of another channel"])
def test_a_name_that_was_given_often(tmp_path: Path, beside: bool) -> None:
    forgotten = GivenPaths(set(), Forgotten({"t/a": MANY, "t/w//": MANY}))
    given = GivenPaths(set(), beside=lambda: forgotten) if beside else forgotten
    layout = Layout(str(tmp_path))
    assert layout.fresh_path("t", "a", given) == f"t/a@{MANY + 1}"
    assert layout.free_path("t/a@7", given) == f"t/a@{MANY + 1}"
    assert layout.fresh_path("t", "b", given) == "t/b"
    assert layout.shard_path("t/w", given) == f"t/w//{MANY + 1}"
    assert layout.shard_path("t/w", given, shared=True) == "t/w//shared/1"
    given.add(f"t/a@{MANY + 1}")
    assert layout.fresh_path("t", "a", given) == f"t/a@{MANY + 2}"


def test_what_is_kept_of_forgotten_paths_is_bounded(tmp_path: Path) -> None:
    """A job makes and drops a table of another name again and again, beside one of one name."""
    layout, kept, ever = Layout(str(tmp_path)), Forgotten(), set[str]()
    given = GivenPaths(set(), kept)
    for number in range(5 * MOST):
        paths = {layout.fresh_path("t", name, given) for name in (f"tmp{number}", "same")}
        paths.add(layout.shard_path("t/w", given))
        assert not paths & ever and not any(path in given for path in paths)
        ever |= paths
        given.forgotten = kept = Forgotten.of_detail(kept.with_paths(paths).to_detail())
        assert len(kept.paths) <= MOST
    assert all(path in given for path in ever)
    assert kept.highest("t/same") == kept.highest("t/w//") == 5 * MOST
    assert 1 < kept.below < 20, "numbers of other names rise once in many names"
    assert layout.fresh_path("t", "another", given) == f"t/another@{kept.below + 1}"


def test_a_row_of_before_is_read() -> None:
    kept = Forgotten.of_detail('{"paths": {"t/a": 3}}')
    assert (kept.highest("t/a"), kept.highest("t/b")) == (3, 0)
    assert kept.to_detail() == '{"paths": {"t/a": 3}}'
