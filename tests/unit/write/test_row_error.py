"""What is said of a row that the target has not."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from spark_repl.binlog.definition import TableDefinition
from spark_repl.write.own_metadata import COMPLETE, COPIED
from spark_repl.write.row_error import row_error
from spark_repl.write.table import Table
from spark_repl.write.written import Violation


@pytest.mark.parametrize(
    ("made", "complete", "reason", "cure"),
    [
        ("false", False, "was not created in this log", "from the table's creation on"),
        (COPIED, False, "it was copied", "spark-repl snapshot --table t.a"),
        ("true", False, "others changed rows", "spark-repl verify --repair"),
        ("true", True, "", ""),
    ],
)
def test_a_row_that_is_missing_may_have_been_missing_before(
    made: str, complete: bool, reason: str, cure: str
) -> None:
    """A table that may lack rows is said to, with why, and with what mends it."""
    definition, delta = TableDefinition("t", "a", (), ()), MagicMock()
    delta.snapshot.configuration = {COMPLETE: made}
    table = Table("t.a", "t/a", "", definition, complete, delta, MagicMock())
    error = row_error(Violation(1032, 7, "t.a", "id=1"), table)
    assert error.number == 1032
    assert error.message.startswith("Can't find record in 'a' (id=1)")
    assert ("incomplete" in error.message) == (not complete)
    assert reason in error.message and cure in str(error.hint)
    assert "exec_mode = idempotent" in str(error.hint)
