"""What ``verify`` ends with, by what it has found."""

from __future__ import annotations

from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.cli.verify_command import UNDECIDED, exit_code
from spark_repl.observe.reports.verify_status import MODE_REASON, WITHOUT_HISTORY

_LOST, _MODE = "a data file is gone: x.parquet", f"{MODE_REASON} history"
_EQUAL: dict[str, Any] = {
    "differing": 0, "undecided": 0, "not_compared": {}, "by_others": {}, "not_repaired": {},
}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ({}, 0),
        ({"differing": 1}, 1),
        ({"undecided": 1}, UNDECIDED),
        ({"undecided": 1, "differing": 1}, 1),
        ({"by_others": {"t.a": {}}}, 1),
        ({"not_repaired": {"t.a": "a bug"}}, 1),
        ({"not_compared": {"t.a": _LOST}}, 1),
        ({"not_compared": {"t.h": _MODE}}, 0),
        ({"not_compared": {"t.n": WITHOUT_HISTORY}}, 0),
        ({"not_compared": {"t.h": _MODE}, "undecided": 1}, UNDECIDED),
        ({"not_compared": {"t.h": _MODE, "t.a": _LOST}}, 1),
    ],
)
def test_a_table_that_was_not_to_be_compared_is_not_wrong(found: dict[str, Any], code: int) -> None:
    assert exit_code(_EQUAL | found) == code


def test_a_named_table_that_is_not_compared_fails_the_command() -> None:
    found = _EQUAL | {"not_compared": {"t.h": _MODE}}
    assert exit_code(found, ("t.a", "t.h")) == 1
    assert exit_code(found, ("t.a",)) == 0


@pytest.mark.parametrize("share", ["0", "1000", "-1%"])
def test_a_share_that_is_none_says_what_may_be_given(
    share: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["verify", "--config", "none.toml", f"--sample={share}"])
    assert f"{share.removesuffix('%')}" in (said := capsys.readouterr().err)
    assert "more than 0, and at most 100" in said
