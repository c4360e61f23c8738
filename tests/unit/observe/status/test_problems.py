"""What a verify has found, as something wrong: not rows that differ alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.observe.metrics import metrics
from spark_repl.observe.reports.applier_status import lost_file_notice
from spark_repl.observe.reports.verify_status import MODE_REASON, write_verify_status
from spark_repl.observe.screen import screen
from spark_repl.observe.status.problems import problems
from spark_repl.observe.status.status import status

_UUID = "11111111-2222-3333-4444-555555555555"
_FOUND = {
    "at": "2026-11-24T14:00:00+00:00", "differing": 0, "undecided": 0, "rows": 9, "tables": 1,
    "not_compared": {}, "by_table": {}, "repaired": [],
}  # fmt: skip


@pytest.fixture
def target(tmp_path: Path) -> str:
    control = Control(Layout(str(tmp_path)).control)
    control.claim()
    control.release()
    return str(tmp_path)


def found(target: str, **found: Any) -> dict[str, Any]:
    write_verify_status(Layout(target).verified, _FOUND | found)
    return status(target)


def counts(**more: int) -> dict[str, int]:
    return {"rows": 9, "ranges": 1, "differing": 0, "undecided": 0} | more


def test_nothing_is_wrong_with_equal_rows(target: str) -> None:
    assert found(target, by_table={"t.a": counts()})["problems"] == []


def test_a_receiver_that_does_not_run_is_wrong_after_the_first_minute(tmp_path: Path) -> None:
    """At first its report is of the previous run."""
    control = Control(Layout(str(tmp_path)).control)
    control.claim()
    shown = status(str(tmp_path))
    receiver = {"SERVICE_STATE": "OFF", "LAST_ERROR_MESSAGE": "", "SERVICE_DOING": ""}
    shown |= {"state": "running", "replication_connection_status": [receiver]}
    assert problems(shown) == []
    shown["owner"]["since"] = (datetime.now(UTC) - timedelta(seconds=61)).isoformat()
    (problem,) = problems(shown)
    assert problem.what == "the receiver does not run: nothing new comes in"
    control.release()


def test_a_lost_file_is_wrong(target: str) -> None:
    """As is a table that the target does not have; its hint is the copy."""
    shown = found(target, not_compared={"t.a": "a data file is gone: x.parquet"})
    (problem,) = shown["problems"]
    assert "t.a was not compared at 2026" in problem["what"]
    assert "a data file is gone: x.parquet" in problem["what"]
    assert "snapshot --config F --table t.a" in problem["hint"]
    assert 'spark_repl_verify_tables_not_compared{channel="default"} 1' in metrics(shown)
    assert 'spark_repl_problems{channel="default"} 1' in metrics(shown)


def test_a_table_of_another_mode_and_one_that_was_repaired_are_not(target: str) -> None:
    reasons = {"t.a": f"{MODE_REASON} append", "t.b": "a data file is gone: x.parquet"}
    shown = found(target, not_compared=reasons, repaired=["t.b"])
    assert shown["problems"] == []
    assert 'spark_repl_verify_tables_not_compared{channel="default"} 0' in metrics(shown)


def test_undecided_rows_are_named_with_their_table(target: str) -> None:
    by_table = {"t.a": counts(undecided=3), "t.b": counts()}
    (problem,) = found(target, undecided=3, by_table=by_table)["problems"]
    assert "3 rows changed at every look" in problem["what"] and "t.a" in problem["what"]
    assert "t.b" not in problem["what"] and "verify --config F --table" in problem["hint"]


@pytest.mark.parametrize("counted", ["differing", "undecided"])
def test_rows_of_a_table_that_was_mended_are_counted_no_more(target: str, counted: str) -> None:
    """By the metric, which an alert asks: others' are. The screen says which were mended."""
    by_table = {"t.a": counts(**{counted: 3}), "t.b": counts(**{counted: 2})}
    metric = f'spark_repl_verify_{counted}_rows{{channel="default"}}'
    shown = found(target, by_table=by_table, **{counted: 5})
    assert f"{metric} 5" in metrics(shown) and "mended" not in screen(shown)
    shown = found(target, by_table=by_table, **{counted: 5}, repaired=["t.a"])
    assert f"{metric} 2" in metrics(shown) and "; mended since: t.a\n" in screen(shown)
    shown = found(target, by_table=by_table, **{counted: 5}, repaired=["t.b", "t.a"])
    assert f"{metric} 0" in metrics(shown) and "; mended since: t.a, t.b\n" in screen(shown)


def test_what_was_undecided_is_not_mended_by_a_repair_of_other_rows(target: str) -> None:
    by_table = {"t.a": counts(differing=3, undecided=2)}
    shown = found(target, by_table=by_table, repaired=["t.a"], repaired_rows={"t.a": 3})
    (problem,) = shown["problems"]
    assert "2 rows changed at every look" in problem["what"]
    assert 'spark_repl_verify_undecided_rows{channel="default"} 2' in metrics(shown)
    shown = found(target, by_table=by_table, repaired=["t.a"], copied={"t.a": "it has no key"})
    assert shown["problems"] == []


def test_five_of_many_are_named(target: str) -> None:
    reasons = {f"t.{number}": "the target has no such table" for number in range(9)}
    named = found(target, not_compared=reasons)["problems"]
    assert len(named) == 6 and named[-1]["what"] == "... and 4 more"


def test_a_waiting_table_is_one_problem(target: str) -> None:
    shown = found(target, not_compared={"t.a": "it waits for a copy since 1: x"})
    shown["waiting"] = {"t.a": {"since": "1", "reason": "x", "copy": "none"}}
    assert len(problems(shown)) == 1


def test_a_table_that_others_changed_is_a_problem(target: str) -> None:
    others = {"t.a": {"version": 7, "cut_version": 6, "hint": "RESTORE"}}
    (problem,) = found(target, by_others=others)["problems"]
    assert "t.a was changed by another writer in version 7" in problem["what"]
    assert problem["hint"] == "RESTORE"
    assert found(target, by_others=others, repaired=["t.a"])["problems"] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"by_others": {"t.a": {"version": 7, "cut_version": 6, "hint": "RESTORE"}}},
        {"by_table": {"t.a": counts(differing=3, undecided=2)}, "differing": 3, "undecided": 2},
        {"not_compared": {"t.a": "a data file is gone: x.parquet"}},
    ],
    ids=["by others", "differing", "lost file"],
)
def test_a_table_that_was_copied_anew_since_is_not_wrong(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    """The one that was looked at is no cut's any more; what was found of others stays."""
    control = Control(Layout(str(tmp_path)).control)
    control.claim()
    at = TableVersion("t/a", 6, "id", 9)
    control.publish(Cut(9, f"{_UUID}:1-9", "log", {}, {"t.a": at}))
    (problem, *_) = found(str(tmp_path), paths={"t.a": "t/a"}, **wrong)["problems"]
    assert "t.a" in problem["what"]
    anew = TableVersion("t/a@2", 0, "other", 10)
    control.publish(Cut(10, f"{_UUID}:1-10", "log", {}, {"t.a": anew}))
    shown = status(str(tmp_path))
    assert shown["problems"] == [] and shown["verify"]["copied_since"] == ["t.a"]
    for name in ("by_others", "not_compared"):
        assert f'spark_repl_verify_tables_{name}{{channel="default"}} 0' in metrics(shown)
    control.release()


def test_a_lost_file_s_note() -> None:
    note = lost_file_notice("t.a", "x.parquet: no such file")
    assert note is not None and "t.a" in note.what and "x.parquet" in note.what
    assert "snapshot --config F --table t.a" in note.hint
    assert lost_file_notice("t.a", "") is None
