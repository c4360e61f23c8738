"""What holds for each mode of ``[[tables]]`` that is no mirror: where it stops, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import SettingError, SparkReplError
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.extra_model import FIRST, T, begun, carried_on, refuse_each_other
from tests.support.local_delta import at_cut, cuts, run, stopped

MODES = ("append", "changelog", "history")


def rule(mode: str, match: str = "t.a", **more: Any) -> dict[str, Any]:
    return {"tables": [{"match": match, "mode": mode, **more}]}


OTHERS = [{}, *map(rule, MODES), {"tables": [{"match": "t.%", "exclude": ["v"]}]}]


@pytest.mark.parametrize("then", OTHERS)
@pytest.mark.parametrize("mode", MODES)
def test_another_mode_than_the_table_was_made_with(
    tmp_path: Path, mode: str, then: dict[str, Any]
) -> None:
    if then != rule(mode):
        refuse_each_other(begun(tmp_path / "log"), tmp_path, rule(mode), then)


@pytest.mark.parametrize("mode", MODES)
def test_a_name_of_another_mode(tmp_path: Path, mode: str) -> None:
    log = begun(tmp_path / "log")
    log.ddl("RENAME TABLE t.a TO t.c")
    error = stopped(log.folder, tmp_path / "lake", **rule(mode))
    assert isinstance(error, SettingError)
    assert f'which has another mode (mode "mirror", not "{mode}")' in str(error)


@pytest.mark.parametrize("mode", MODES)
def test_a_table_that_is_dropped_and_made_again(tmp_path: Path, mode: str) -> None:
    """Begins again, as a mirror does: cuts before it show what there was."""
    log, lake = begun(tmp_path / "log"), tmp_path / "lake"
    log.ddl("DROP TABLE t.a")
    log.transaction(insert(Table("b"), (1, "one")))
    log.ddl(T.create)
    log.transaction(insert(T, FIRST[1]))
    assert run(log.folder, lake, group_max_transactions=1, **rule(mode))
    shown = [at_cut(lake, cut).get("t.a") for cut in cuts(lake)]
    assert [None if rows is None else [row[:3] for row in rows] for rows in shown] == [
        None, [], FIRST, None, None, [], [FIRST[1]]
    ]  # fmt: skip


@pytest.mark.parametrize(("mode", "column"), [("changelog", "_order"), ("history", "_current")])
def test_a_column_of_the_source_that_is_called_so(tmp_path: Path, mode: str, column: str) -> None:
    log, taken = LogWriter(tmp_path / "log"), Table("a", (*T.columns, (column, "int")))
    log.ddl(taken.create)
    error = stopped(log.folder, tmp_path / "lake", **rule(mode))
    assert isinstance(error, SettingError) and column in str(error)


@pytest.mark.parametrize("mine", ["t.a", "t.c"], ids=["the parent", "the child"])
@pytest.mark.parametrize("mode", MODES)
def test_cascades_into_tables_of_other_modes_stop(tmp_path: Path, mode: str, mine: str) -> None:
    log = carried_on(tmp_path / "log")
    given = {"ddl": {"cascades": "emulate"}, **rule(mode, mine)}
    error = stopped(log.folder, tmp_path / "lake", **given)
    assert isinstance(error, SparkReplError) and error.gtid == log.gtid(3)
