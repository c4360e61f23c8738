"""A masked column that becomes NOT NULL: the values of its NULLs afterwards."""

from __future__ import annotations

import pytest

from spark_repl.alter.alteration import CarriedColumn
from spark_repl.config.tables import TableRule
from spark_repl.errors import StatementError
from spark_repl.rules.column_rules import ColumnRules, shaped_alteration
from spark_repl.rules.table_rules import TableRules
from tests.support.altered_table import altered, table


def origin(mask: str, action: str, *, strict: bool) -> object:
    logged = table("id INT PRIMARY KEY, v VARCHAR(20), w VARCHAR(20) NOT NULL")
    masks = (("v", mask), ("w", mask))
    rules = ColumnRules(TableRules((TableRule("d.t", mask=masks),)), b"key")
    there = rules.shaped(logged)
    return shaped_alteration(there, altered(action, logged), rules, strict=strict).origins[1]


def test_not_null_of_a_hashed_column_is_refused_outside_of_strict_mode() -> None:
    """A session that is not strict makes '' of NULL, whose hash later rows of '' have."""
    for action in ("MODIFY v VARCHAR(20) NOT NULL", "CHANGE v v VARCHAR(20) NOT NULL"):
        with pytest.raises(StatementError, match="column v, which is masked, becomes NOT NULL"):
            origin("sha256", action, strict=False)


@pytest.mark.parametrize(
    ("mask", "action", "strict"),
    [
        ("sha256", "MODIFY v VARCHAR(20) NOT NULL", True),  # no NULL is there
        ("sha256", "MODIFY v VARCHAR(20) NULL DEFAULT 'x'", False),
        ("sha256", "MODIFY w VARCHAR(20) NULL", False),
        ("keep_last:2", "MODIFY v VARCHAR(20) NOT NULL", False),  # of '' it is ''
        ("truncate:2", "MODIFY v VARCHAR(20) NOT NULL", False),
        ("constant:x", "MODIFY v VARCHAR(20) NOT NULL", False),
        ("null", "MODIFY v VARCHAR(20) NOT NULL", False),
    ],
)
def test_not_null_is_accepted_if_masked_values_stay(mask: str, action: str, strict: bool) -> None:
    assert origin(mask, action, strict=strict) == CarriedColumn(1)
