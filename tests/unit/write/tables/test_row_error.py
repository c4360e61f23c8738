"""The error of a row that the target lacks: its message and hint."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import MagicMock

import pytest

from spark_repl.tables.table_keys import ForeignKey
from spark_repl.tables.target_table import TargetTable
from spark_repl.write.files.write_task import Violation
from spark_repl.write.tables.row_error import row_error
from spark_repl.write.tables.table import Table
from spark_repl.write.tables.table_metadata import COMPLETE, COPIED


@pytest.mark.parametrize(
    ("complete_property", "complete", "reason"),
    [
        ("false", False, "; the table is incomplete, as it was not created in this log"),
        (COPIED, False, "; the table was copied: was it changed by hand since"),
        ("true", False, "; others have changed the table"),
        ("true", True, ""),
    ],
)
def test_the_error_of_a_missing_row_names_an_incomplete_table(
    complete_property: str, complete: bool, reason: str
) -> None:
    """The message gives the reason why a table may lack rows. The hint works while the error has
    stopped the applier, when no command can compare the table."""
    error = row_error(
        Violation(1032, 7, "t.a", "id=1"), of_table("t.a", complete_property, complete=complete)
    )
    assert error.number == 1032
    assert error.message.startswith(f"Can't find record in 'a' (id=1){reason}")
    hint = str(error.hint)
    assert hint.startswith(
        "spark-repl snapshot --config F --table t.a copies it again, then start again;"
    )
    assert "exec_mode = idempotent" in hint and "verify" not in hint


@pytest.mark.parametrize("number", [1062, 3648])
def test_the_hint_for_other_misfits_is_a_copy(number: int) -> None:
    error = row_error(Violation(number, 7, "t.a", "id=1"), of_table("t.a", COPIED))
    assert "spark-repl snapshot --config F --table t.a copies it again" in str(error.hint)
    assert "was it changed by hand" not in error.message


def test_the_error_of_a_missing_row_names_rows_that_mysql_logs_twice() -> None:
    """One DELETE names parent and child, and the foreign key deletes the child's row as well."""
    table = of_table("t.a", "true")
    assert "twice" not in row_error(Violation(1032, 7, "t.a", "id=1"), table).message
    key = ForeignKey("fk", ("p",), "t.p", ("id",), "CASCADE", "")
    table.definition = replace(table.definition, foreign_keys=(key,))
    message = row_error(Violation(1032, 7, "t.a", "id=1"), table).message
    assert "log such a row twice if one DELETE names its table and t.p" in message
    assert "twice" not in row_error(Violation(1062, 7, "t.a", "id=1"), table).message


def test_the_hint_for_a_shard_is_no_copy() -> None:
    error = row_error(Violation(1032, 7, "t.a", "id=1"), of_table("t.a//1", "true"))
    assert "--table" not in str(error.hint) and "reset --all" in str(error.hint)


def of_table(name: str, complete_property: str, *, complete: bool = True) -> Table:
    definition, delta = TargetTable("t", "a", (), ()), MagicMock()
    delta.snapshot.configuration = {COMPLETE: complete_property}
    return Table(name, "t/a", "", definition, complete, delta, MagicMock())
