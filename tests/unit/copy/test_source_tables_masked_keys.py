"""Tables whose key is masked: neither the statements that read them nor the texts have a value of
it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_repl.binlog.types.column_values import Values
from spark_repl.binlog.types.forms import USUAL
from spark_repl.config import Config
from spark_repl.config.tables import TableRule
from spark_repl.copy.copy_chunk import copied_rows
from spark_repl.copy.source_tables import ListedTable, chunk_ends
from spark_repl.errors import DecodeError
from spark_repl.rules.column_rules import ColumnRules
from spark_repl.rules.table_rules import TableRules
from spark_repl.sql.classify import classify
from spark_repl.tables.source_table import SourceTable
from spark_repl.tables.target_table import TargetTable
from spark_repl.verify.row_sample import sample_of
from spark_repl.verify.table_check import TableCheck

SECRET = "planted-secret-hunter2"
KEY = b"planted-key"


def shaped(logged: SourceTable, column: str) -> TargetTable:
    rule = TableRule(match="t.a", mask=((column, "sha256"),), mask_keys=True)
    return ColumnRules(TableRules((rule,)), KEY).shaped(logged)


def definition(key: str, charset: str = "utf8mb4") -> SourceTable:
    found = classify(
        f"CREATE TABLE t.a (id INT, mail VARCHAR(40) CHARACTER SET {charset}, PRIMARY KEY ({key}))",
        "t",
    ).definition
    assert found is not None
    return found


class Asked:
    """A source that says that the first thing behind any place is the secret, or 7."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __call__(self, statement: str) -> list[tuple[Any, ...]]:
        self.said.append(statement)
        if "MIN(" in statement:
            return [(1, 7)]
        return [(SECRET.encode().hex() if "HEX" in statement else 7,)]


@pytest.mark.parametrize("key", ["mail", "mail, id", "id, mail", "id"])
def test_a_masked_first_key_column_gives_no_ranges(key: str) -> None:
    """By ranges of the key's first column, unless that is masked: its values are on both sides."""
    logged = definition(key)
    table, asked = ListedTable(logged, 10**7, 100), Asked()
    first = key.split(",")[0]
    for masked in ("mail", "id") if "," in key else (key,):
        target = shaped(logged, masked)
        chunks = chunk_ends(asked, table, target)
        sample, wheres = sample_of(asked, table, target, 10)
        if masked == first:
            assert (chunks, sample, wheres) == ((), None, ("",))
        else:
            assert chunks and wheres != ("",)
    assert SECRET not in str(asked.said)


@pytest.mark.parametrize("masked", [True, False])
def test_keys_that_the_target_alone_has(masked: bool) -> None:
    """The source is not asked for what is in the place of its values."""
    logged = definition("mail")
    target = shaped(logged, "mail") if masked else TargetTable.mirror_of(logged)
    rows = pa.table({"id": pa.array([1], pa.int32()), "mail": ["m" * 64]})

    class Files:
        def rows_with(self, *_: Any) -> list[pa.Table]:
            return [rows]

    check = TableCheck(Config(), target, ("",), "")
    found = check._literals(np.array([1], np.uint64), Files())  # type: ignore[arg-type]
    assert bool(found) is not masked


def test_a_value_that_can_not_be_read() -> None:
    logged = definition("mail", "cp932")
    data = b"a\x87\x90"
    columns = [
        Values(np.frombuffer(b"1", np.uint8), np.array([0]), np.array([1], np.int32)),
        Values(np.frombuffer(data, np.uint8), np.array([0]), np.array([3], np.int32)),
    ]
    with pytest.raises(DecodeError, match="8790, that cp932 has twice"):
        copied_rows(TargetTable.mirror_of(logged), columns, USUAL, KEY)
    with pytest.raises(DecodeError, match="column mail: a value that can't be decoded") as caught:
        copied_rows(shaped(logged, "mail"), columns, USUAL, KEY)
    assert "8790" not in str(caught.value)
