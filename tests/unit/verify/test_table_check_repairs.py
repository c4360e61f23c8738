"""What a verify asks to be repaired: the keys that it has named, and where the source has them."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pytest

from spark_repl import Config
from spark_repl.copy.repair_request import KEY, THERE, RepairRequest
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable
from spark_repl.verify import table_check
from spark_repl.verify.table_check import TableCheck, repairs_of
from spark_repl.write.rows.certain_rows import key_digests

RANGES = ("WHERE `b` <= 9", "WHERE `b` > 9 AND `b` <= 20", "WHERE `b` > 20")


def check(create: str = "CREATE TABLE t.a (v INT, b INT, c INT, PRIMARY KEY (b, c))") -> Check:
    definition = classify(create, "t").definition
    assert definition is not None
    return Check(Config(), TargetTable.mirror_of(definition), RANGES, "")


def rows(one: TableCheck, *values: tuple[int, int, int]) -> pa.Table:
    schema = one.definition.arrow_schema()
    columns = zip(*values, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def named(one: TableCheck, where: list[int], *values: tuple[int, int, int]) -> pa.Table:
    """A check that has named these rows' keys, which lie in the ranges ``where``."""
    made = rows(one, *values)
    keys = key_digests(made, one.definition.primary_key)
    order = np.argsort(keys)
    one.left, one._range = keys[order], np.array(where)[order]
    one.times = np.full(len(keys), 9)
    one._seen = MagicMock(target=MagicMock(count=np.zeros(len(keys), np.int64)))
    one.at = MagicMock()
    return made


class Check(TableCheck):
    """A check whose target has the rows ``here``."""

    here: Any = ()

    def target_rows(self, *_: Any) -> Any:
        return self.here


def test_a_repair_names_keys_and_their_ranges() -> None:
    """Two that the target has, one that it lacks; one that no range is known of, asked by value."""
    one = check()
    made = named(one, [0, 2, -1], (1, 5, 1), (1, 30, 2), (1, 7, 3))
    one._literal_keys = ("7",)
    one.here = [made.slice(1, 1), made.slice(2, 1)]
    found = repairs_of(one)
    assert isinstance(found, RepairRequest)
    assert found.wheres == (RANGES[0], RANGES[2], "WHERE `b` IN (7)")
    assert found.key == ("b int32", "c int32")
    assert found.keys.filter(found.keys[THERE]).select(["0", "1"]).to_pylist() == [
        {"0": 30, "1": 2}, {"0": 7, "1": 3}]  # fmt: skip
    (lacking,) = found.keys.filter(pa.compute.invert(found.keys[THERE])).to_pylist()
    assert lacking == {KEY: int(key_digests(made, (1, 2))[0]), THERE: False, "0": None, "1": None}
    one._range[:] = -2
    assert repairs_of(one).wheres == RANGES  # type: ignore[union-attr]


def test_a_table_without_key_or_with_many_differences_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bag = check("CREATE TABLE t.a (v INT, b INT, c INT)")
    assert repairs_of(bag) == "it has no key"
    one = check()
    named(one, [0, 0], (1, 5, 1), (1, 6, 1))
    monkeypatch.setattr(table_check, "_KEYS_MOST", 1)
    assert repairs_of(one) == "more than 1 rows differ"
