"""Paths that were given: numbers go on behind the highest, without a look at each."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.control.given_paths import GivenPaths
from spark_repl.control.layout import Layout

MANY = 10**12
"""so many are not counted in a test's time"""


@pytest.mark.parametrize("beside", [False, True], ids=["own", "of another channel"])
def test_a_name_that_was_given_often(tmp_path: Path, beside: bool) -> None:
    forgotten = GivenPaths(set(), {"t/a": MANY, "t/w//": MANY})
    given = GivenPaths(set(), {}, lambda: forgotten) if beside else forgotten
    layout = Layout(str(tmp_path))
    assert layout.fresh_path("t", "a", given) == f"t/a@{MANY + 1}"
    assert layout.free_path("t/a@7", given) == f"t/a@{MANY + 1}"
    assert layout.fresh_path("t", "b", given) == "t/b"
    assert layout.shard_path("t/w", given) == f"t/w//{MANY + 1}"
    assert layout.shard_path("t/w", given, shared=True) == "t/w//shared/1"
    given.add(f"t/a@{MANY + 1}")
    assert layout.fresh_path("t", "a", given) == f"t/a@{MANY + 2}"
