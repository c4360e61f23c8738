"""What MySQL declares, as the text of its types."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_snapshot import NewTable
from spark_repl.sql.classify import classify
from spark_repl.write.tables.source_description import COPY_START, at_place, type_text

TYPES = """\
tinyint
smallint unsigned
mediumint
int
bigint unsigned
float
float(7,3)
double
decimal(14,2)
decimal(10,0) unsigned
date
time(3)
time
datetime(6)
timestamp
year
bit(1)
bit(9)
char(3)
varchar(191)
binary(16)
varbinary(255)
tinytext
text
mediumblob
longtext
json
geometry
enum('a','it''s','b,c')
set('x','y')"""


@pytest.mark.parametrize("text", TYPES.split("\n"))
def test_a_type_has_the_text_of_information_schema(text: str) -> None:
    for charset in ("utf8mb4", "latin1"):
        statement = f"CREATE TABLE t (c {text}) CHARACTER SET {charset}"
        definition = classify(statement, "d").definition
        assert definition is not None
        assert type_text(definition.columns[0]) == text


def test_zerofill_is_part_of_the_type() -> None:
    definition = classify("CREATE TABLE t (c INT(9) ZEROFILL UNSIGNED)", "d").definition
    assert definition is not None
    assert type_text(definition.columns[0]) == "int unsigned zerofill"


def test_bytes_of_comments_that_are_no_text_are_replaced() -> None:
    statement = "CREATE TABLE t (c INT COMMENT 'a\udcff') COMMENT '\udcffb'"
    definition = classify(statement, "d").definition
    assert definition is not None
    assert (definition.columns[0].comment, definition.comment) == ("a\ufffd", "\ufffdb")


def test_the_members_of_an_enum_may_be_unknown() -> None:
    definition = classify("CREATE TABLE t (c ENUM('x'))", "d").definition
    assert definition is not None
    assert type_text(replace(definition.columns[0], literals=())) == ""


def test_a_first_copys_table_has_the_gtids_at_which_its_log_begins() -> None:
    stamp = Stamp("app", 0, json.dumps({COPY_START: "uuid:1-3"}))
    assert at_place(NewTable("{}", {}), stamp).configuration == {"mysql.gtid_executed": "uuid:1-3"}
    assert at_place(NewTable("{}", {}), Stamp("app", 0, "{}")).configuration == {}
