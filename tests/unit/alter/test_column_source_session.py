"""STORED columns whose expressions read the session: where the server writes rows again it computes
them in the ALTER's, so what the rows have is not kept."""

from __future__ import annotations

import pytest

from spark_repl.alter.alteration import CarriedColumn, ComputedValue, UnknownValue
from spark_repl.sql.session import PAD_CHAR_TO_FULL_LENGTH
from tests.support.altered_table import altered, table

_BASE = (
    "id INT PRIMARY KEY, n INT, c CHAR(5), t TIMESTAMP NULL, d DATE, v VARCHAR(20), w VARCHAR(9)"
)
# By which the server writes all rows again, whatever its engine.
_ANEW = (
    "MODIFY id BIGINT", "ADD x INT, ALGORITHM=COPY", "MODIFY w VARCHAR(3)",
    "PARTITION BY HASH (id)", "REMOVE PARTITIONING",
    "ENGINE=MyISAM", "ORDER BY n", "ADD s INT AS (n) STORED", "DROP PRIMARY KEY",
)  # fmt: skip
_IN_PLACE = (
    "ADD x INT DEFAULT 5", "ADD KEY (n)", "DROP d", "MODIFY w VARCHAR(20)", "RENAME COLUMN w TO y",
    "ENGINE=InnoDB", "FORCE", "ADD UNIQUE (n), ALGORITHM=INPLACE",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (id)", "ADD g2 INT AS (n) VIRTUAL", "MODIFY w VARCHAR(9)",
)  # fmt: skip
_UNKNOWN = ("FROM_UNIXTIME(n)", "DAYNAME(d)", "DATE_FORMAT(t, '%Y')", "UNIX_TIMESTAMP(v)")


def _origin(expression: str, action: str, **session: object) -> object:
    before = table(f"{_BASE}, g VARCHAR(60) AS ({expression}) STORED")
    found = altered(action, before, **session)
    place = [column.name for column in found.definition.columns].index("g")
    return found.origins[place]


@pytest.mark.parametrize("action", [*_ANEW, "CONVERT TO CHARACTER SET latin1"])
@pytest.mark.parametrize("expression", _UNKNOWN)
def test_what_is_not_computed_here_is_not_known(expression: str, action: str) -> None:
    assert isinstance(_origin(expression, action), UnknownValue)


@pytest.mark.parametrize("action", _ANEW)
def test_what_is_computed_here_is_computed_in_the_session(action: str) -> None:
    assert isinstance(_origin("DATE(t)", action, time_zone="+05:00"), ComputedValue)
    assert isinstance(_origin("CHAR_LENGTH(c)", action), CarriedColumn)
    padded = _origin("CHAR_LENGTH(c)", action, sql_mode=PAD_CHAR_TO_FULL_LENGTH)
    assert isinstance(padded, UnknownValue)


@pytest.mark.parametrize("action", _IN_PLACE)
@pytest.mark.parametrize("expression", [*_UNKNOWN, "DATE(t)"])
def test_in_place_the_server_keeps_computed_values(expression: str, action: str) -> None:
    assert isinstance(_origin(expression, action), CarriedColumn)


@pytest.mark.parametrize("action", _ANEW)
@pytest.mark.parametrize("expression", ["CONCAT(n, v)", "LOCATE('a', v)", "YEAR(d)"])
def test_others_are_the_same_in_each_session(expression: str, action: str) -> None:
    assert not isinstance(_origin(expression, action), UnknownValue)


def test_a_longer_text_is_the_same_text() -> None:
    """What is not computed here, and no collation decides about, of an input that holds more."""
    for kind in ("STORED", "VIRTUAL"):
        before = table(f"{_BASE}, g VARCHAR(60) AS (REGEXP_REPLACE(v, 'a', 'b')) {kind}")
        assert isinstance(altered("MODIFY v VARCHAR(200)", before).origins[-1], CarriedColumn)
        assert isinstance(altered("MODIFY v VARCHAR(10)", before).origins[-1], UnknownValue)
        assert isinstance(altered("MODIFY v TEXT", before).origins[-1], UnknownValue)
