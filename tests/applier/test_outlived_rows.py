"""Versions that the source has no more (mode history), and ALTER TABLE by a session that is not
strict: none of their values becomes another in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import Unconvertible
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.extra_model import T, begun
from tests.support.local_delta import last_shown, run, stopped

LENIENT = b"\1" + bytes(8)
"""a session's sql_mode: none"""


def rule(**given: Any) -> dict[str, Any]:
    return {"tables": [{"match": "t.a", **given}]}


KEEPING = [rule(mode="history")]


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = begun(tmp_path / "log")
    made.transaction(insert(T, (9, 999, "long")), insert(T, (8, None, "")))
    made.transaction(delete(T, (9, 999, "long"), (8, None, ""), (3, None, "z")))
    return made


@pytest.mark.parametrize("change", ["v VARCHAR(1)", "n TINYINT", "v INT", "n INT NOT NULL"])
@pytest.mark.parametrize("given", KEEPING)
def test_values_that_do_not_fit_stop(
    log: LogWriter, tmp_path: Path, given: dict[str, Any], change: str
) -> None:
    """In a mirror these rows are not there, and the statement is applied."""
    assert run(log.folder, tmp_path / "lake", group_max_transactions=1, **given)
    there = last_shown(tmp_path / "lake")
    log.ddl(f"ALTER TABLE t.a MODIFY {change}", status=LENIENT)
    error = stopped(log.folder, tmp_path / "lake", copies=True, **given)
    assert isinstance(error, Unconvertible) and error.gtid == log.gtid(5)
    assert "in a version that the source has no more" in str(error)
    assert last_shown(tmp_path / "lake") == there
    assert run(log.folder, tmp_path / "mirror")


def test_current_versions_become_what_they_do_on_the_source(tmp_path: Path) -> None:
    """Its server has cut their values."""
    log, cut = begun(tmp_path / "log"), Table("a", (*T.columns[:2], ("v", "varchar(1)")))
    log.transaction(insert(T, (4, 4, "long")))
    log.ddl("ALTER TABLE t.a MODIFY v VARCHAR(1)", status=LENIENT)
    log.transaction(update(cut, ((4, 4, "l"), (4, 5, "m"))))
    assert run(log.folder, tmp_path / "lake", group_max_transactions=1, **rule(mode="history"))
    rows = [(*row[:3], row[-1]) for row in last_shown(tmp_path / "lake")["t.a"] if row[0] == 4]
    assert sorted(rows) == [(4, 4, "l", False), (4, 5, "m", True)]
