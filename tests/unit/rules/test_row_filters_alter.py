"""What ALTER TABLE may do to the columns that a row filter looks at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_repl.errors import SettingError, StatementError
from spark_repl.rules.row_filters import check_filter_columns
from spark_repl.tables.target_table import TargetTable
from tests.support.altered_table import altered, table

_COLUMNS = (
    "id INT PRIMARY KEY, v VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, w VARCHAR(20),"
    " e ENUM('a', 'b'), f FLOAT(7,2), n INT NOT NULL, g INT AS (v = 'eu') VIRTUAL"
)
_BIN = "MODIFY v VARCHAR(20) COLLATE utf8mb4_bin"
_CONVERT = "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


def check(action: str, row_filter: str) -> None:
    logged = table(_COLUMNS)
    target = replace(TargetTable.mirror_of(logged), row_filter=row_filter)
    check_filter_columns(target, altered(action, logged))


@pytest.mark.parametrize(
    ("action", "row_filter", "said"),
    [
        (_BIN, "v <> 'eu'", "may have another collation"),
        (_CONVERT, "v LIKE 'e%'", "may have another collation"),
        ("MODIFY v VARCHAR(20) COLLATE utf8mb4_turkish_ci", "LOWER(v) = 'i'", "another collation"),
        ("MODIFY e ENUM('a', 'b') COLLATE utf8mb4_bin", "e = 'a'", "may have another collation"),
        (_CONVERT, "e = 'a'", "may have another collation"),
        (_BIN, "g = 1", "is computed again"),
        ("MODIFY f FLOAT(7,3)", "f > 1", "may have other digits"),
        ("MODIFY n BIGINT NOT NULL", "n > 1", "becomes another type"),
        ("MODIFY n INT NOT NULL AUTO_INCREMENT, ADD KEY (n)", "n > 1", "numbers rows of 0"),
    ],
)
def test_an_alter_by_which_other_rows_may_pass_is_refused(
    action: str, row_filter: str, said: str
) -> None:
    with pytest.raises(StatementError, match=said):
        check(action, row_filter)


@pytest.mark.parametrize(
    ("action", "row_filter"),
    [
        (_BIN, "w = 'eu'"),
        (_BIN, "v IS NOT NULL"),
        (_BIN, "CHAR_LENGTH(v) > 3 AND n = 1"),
        (_CONVERT, "n > 1"),
        ("MODIFY v VARCHAR(20) COLLATE utf8mb4_0900_ai_ci DEFAULT 'x'", "v = 'eu'"),
        ("ALTER e SET DEFAULT 'a'", "e = 'a'"),
        ("MODIFY id INT NOT NULL AUTO_INCREMENT", "n > 1"),
        ("MODIFY n INT NOT NULL DEFAULT 7", "n > 1 AND g = 1"),
    ],
)
def test_an_alter_that_keeps_the_filters_answers_is_accepted(action: str, row_filter: str) -> None:
    check(action, row_filter)


def test_a_filter_column_may_not_be_dropped_or_renamed() -> None:
    for action in ("DROP g", "RENAME COLUMN g TO h", "DROP g, ADD g INT"):
        with pytest.raises(SettingError, match="at which row_filter"):
            check(action, "g = 1")
