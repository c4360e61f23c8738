"""Hints that can be pasted: with what the command was given, and what the error is about."""

from __future__ import annotations

import pytest

from spark_repl.cli.error_report import report
from spark_repl.errors import DecodeError, StatementError
from spark_repl.observe.hints import pasteable

HINT = "spark-repl snapshot --config F --table DB.T; or spark-repl reset --all --config F."


@pytest.mark.parametrize("config", ["/my conf/a.toml", ["/my conf/a.toml"]])
def test_a_hint_names_the_configuration_of_the_command(config: str | list[str]) -> None:
    assert pasteable(HINT, {"config": config}, table="t.a") == (
        "spark-repl snapshot --config '/my conf/a.toml' --table t.a; or spark-repl reset --all"
        " --config '/my conf/a.toml'."
    )


@pytest.mark.parametrize("config", [None, [], ["a.toml", "b.toml"]])
@pytest.mark.parametrize("table", [None, "t.a, t.b"])
def test_a_placeholder_stays_where_there_is_not_one_value(
    config: list[str] | None, table: str | None
) -> None:
    assert pasteable(HINT, {"config": config}, table=table) == HINT


def test_without_a_configuration_a_command_about_a_target_names_the_target() -> None:
    hint = "spark-repl skip --config F --gtid GTID; or spark-repl xa list --config F; " + HINT
    assert pasteable(hint, {"config": None, "target": "my lake"}, gtid="u:5") == (
        "spark-repl skip --target 'my lake' --gtid u:5; or spark-repl xa list --target 'my lake'; "
        + HINT
    )


def test_an_empty_configuration_is_none() -> None:
    hint = "spark-repl cut show --config F"
    assert pasteable(hint, {"config": "", "target": "lake"}) == "spark-repl cut show --target lake"


def test_only_placeholders_of_a_hint_are_replaced() -> None:
    hint = "spark-repl run --config FILE, --table DB.TX"
    assert pasteable(hint, {"config": "a.toml"}, table="t.a") == hint


def test_an_error_is_reported_with_its_own_values(capsys: pytest.CaptureFixture[str]) -> None:
    hint = "spark-repl skip --config F --gtid GTID"
    report(StatementError("no", gtid="u:5", hint=hint), {"config": r"a\1.toml"})
    assert "Try: spark-repl skip --config 'a\\1.toml' --gtid u:5\n" in capsys.readouterr().err


def test_a_value_that_can_not_be_decoded_has_a_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    error = DecodeError("column d: a zero date", hint="set it").at(gtid="a:1", table="s.t")
    report(error, {"config": "my.toml"})
    assert (
        "Try: set it; or correct the value on the source, leave the transaction out: spark-repl"
        " skip --config my.toml --gtid a:1; and copy the table: spark-repl snapshot"
        " --config my.toml --table s.t\n"
    ) in capsys.readouterr().err
    report(DecodeError("an event is cut", hint="fetch it again"))
    assert "skip" not in capsys.readouterr().err
