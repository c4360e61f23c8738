"""What a tool's copy does not say of the rows that its INSERT IGNORE brings."""

from __future__ import annotations

import pytest

from spark_repl.alter.alteration import CarriedColumn, ConstantValue
from spark_repl.alter.online_tools import check_tool_alteration, copied
from spark_repl.errors import SettingError
from spark_repl.sql.classify import classify
from tests.support.altered_table import altered, table

_COLUMNS = (
    "id INT PRIMARY KEY, v VARCHAR(20) COLLATE utf8mb4_bin, w VARCHAR(20) COLLATE utf8mb4_bin,"
    " n INT, g INT AS (w = 'eu') STORED, UNIQUE (v), KEY (n)"
)
_CI = "VARCHAR(20) COLLATE utf8mb4_0900_ai_ci"


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci", r"UNIQUE index \(v\)"),
        (f"MODIFY v {_CI}", r"UNIQUE index \(v\)"),
        ("MODIFY v VARCHAR(20) COLLATE utf8mb4_bin NOT NULL", r"UNIQUE index \(v\)"),
        (f"MODIFY w {_CI}", "the values of column g"),
        ("ADD FOREIGN KEY (n) REFERENCES p (id)", "foreign key"),
        ("PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))", "partition"),
    ],
)
def test_rows_that_may_be_left_out_are_not_known(action: str, said: str) -> None:
    before = table(_COLUMNS)
    with pytest.raises(SettingError, match=said):
        copied(before, altered(action, before).definition)


def test_what_leaves_all_rows_as_they_are() -> None:
    before = table(_COLUMNS)
    kept = tuple(map(CarriedColumn, range(5)))
    for action in ("DROP KEY n", "ALTER n SET DEFAULT 7", "MODIFY n INT DEFAULT 7"):
        assert copied(before, altered(action, before).definition).origins == kept, action
    added = copied(before, altered("ADD x INT DEFAULT 7", before).definition)
    assert added.origins == (*kept, ConstantValue("7"))
    plain = table("id INT PRIMARY KEY, w VARCHAR(20) COLLATE utf8mb4_bin")
    other = copied(plain, altered(f"MODIFY w {_CI}", plain).definition)
    assert [one.number for one in other.origins if isinstance(one, CarriedColumn)] == [0, 1]


def test_a_partition_more_has_room_for_all_rows() -> None:
    before = table(
        "id INT PRIMARY KEY", "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))"
    )
    more = "ADD PARTITION (PARTITION q VALUES LESS THAN (99))"
    assert copied(before, altered(more, before).definition).origins == (CarriedColumn(0),)


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ("ADD c DATETIME NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP", "new column c"),
        ("ADD CHECK (n > 0)", "CHECK"),
        ("ADD x INT CONSTRAINT y CHECK (x > 0)", "CHECK"),
        ("ALTER CHECK y ENFORCED", "CHECK"),
        ("ADD c INT, ADD `check` INT, DROP CHECK y, COMMENT 'CHECK (n)'", ""),
        ("ALTER CHECK y NOT ENFORCED", ""),
    ],
)
def test_a_tools_unsupported_action_is_refused(action: str, said: str) -> None:
    text = f"ALTER TABLE d._t_gho {action}"
    statement = classify(text, "d")
    if not said:
        check_tool_alteration(statement, text, 0)
        return
    with pytest.raises(SettingError, match=said):
        check_tool_alteration(statement, text, 0)
