"""Rows that differ are described by their kind, however few of them the source has sent."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa

from spark_repl import Config
from spark_repl.delta.files.delta_columns import one_chunk
from spark_repl.delta.files.digests import digests
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable
from spark_repl.verify.digest_sums import sums
from spark_repl.verify.source_range import _FirstRows
from spark_repl.verify.table_check import TableCheck, _Seen

COUNT, BROUGHT = 4000, 1000


class Check(TableCheck):
    """A check whose target has the rows ``rows``."""

    rows: pa.Table

    def target_rows(self, keys: Any, _: Any) -> list[pa.Table]:
        here = key_digests(self.rows, self.definition.primary_key)
        return [self.rows.filter(pa.array(np.isin(here, keys)))]


def key_digests(rows: pa.Table, key: tuple[int, ...]) -> Any:
    return digests([one_chunk(column) for column in rows.columns], key)[0]


def rows(numbers: range, text: str) -> pa.Table:
    ids = pa.array(numbers, pa.int32())
    return pa.table({"id": ids, "s": pa.array([text] * len(numbers), pa.string())})


def compared(create: str, source: pa.Table, target: pa.Table) -> Check:
    """A check at whose last look all keys of both sides differed, of which few rows were sent."""
    definition = classify(create, "t").definition
    assert definition is not None
    check = Check(Config(), TargetTable.mirror_of(definition), ("",), "")
    key = definition.primary_key
    left, right = key_digests(source, key), key_digests(target, key)
    check.left = np.unique(np.concatenate([left, right]))
    check.times = np.full(len(check.left), 9)
    of_source, of_target = sums(check.left, left, left), sums(check.left, right, right)
    check._seen = _Seen(check.left, of_source, of_target, of_target)
    first = _FirstRows(BROUGHT)
    first.add(left, source, np.ones(len(left), bool))
    check.values = first.parts[0] if first.parts else None
    check.rows, check.at = target, cast("Any", object())
    return check


KEYED = "CREATE TABLE t.a (id INT PRIMARY KEY, s VARCHAR(40))"


def test_rows_that_differ_are_never_called_extra() -> None:
    check = compared(KEYED, rows(range(COUNT), "new"), rows(range(COUNT), "old"))
    assert check.differing().by_kind(check.definition) == {"different": COUNT}
    named = check.differences(COUNT)
    assert len(named) == BROUGHT
    assert all(one["kind"] == "different" and one["columns"] == ["s"] for one in named)


def test_missing_rows_are_named_by_their_keys() -> None:
    check = compared(KEYED, rows(range(COUNT), "new"), rows(range(0), "old"))
    assert check.differing().by_kind(check.definition) == {"missing": COUNT}
    named = check.differences(COUNT)
    assert {one["kind"] for one in named} == {"missing"}
    assert len({one["row"]["id"] for one in named}) == len(named) == BROUGHT


def test_extra_rows_are_all_named() -> None:
    check = compared(KEYED, rows(range(0), "new"), rows(range(COUNT), "old"))
    named = check.differences(COUNT)
    assert len(named) == COUNT
    assert {one["kind"] for one in named} == {"extra"}


def test_missing_different_and_extra_rows_are_told_apart() -> None:
    check = compared(KEYED, rows(range(3000), "new"), rows(range(2000, 5000), "old"))
    want = {"missing": 2000, "different": 1000, "extra": 2000}
    assert check.differing().by_kind(check.definition) == want
    for one in check.differences(5000):
        number = one["row"]["id"]
        kind = "missing" if number < 2000 else "different" if number < 3000 else "extra"
        assert one["kind"] == kind


def test_a_table_without_a_key_has_the_counts_of_both_sides() -> None:
    many = pa.concat_tables([rows(range(1), "same")] * COUNT)
    check = compared("CREATE TABLE t.a (id INT, s VARCHAR(40))", many, many.slice(0, 3))
    (one,) = check.differences(9)
    assert (one["kind"], one["source"], one["target"]) == ("count", COUNT, 3)
    assert one["row"] == {"id": 0, "s": "same"}


def test_one_row_of_a_key_is_brought() -> None:
    first = _FirstRows(3)
    keys = np.array([5, 5, 7, 1], np.uint64)
    first.add(keys, rows(range(4), "a"), np.array([True, True, False, True]))
    first.add(keys, rows(range(4, 8), "b"), np.ones(4, bool))
    first.add(keys + np.uint64(20), rows(range(8, 12), "c"), np.ones(4, bool))
    assert pa.concat_tables(first.parts).column("id").to_pylist() == [0, 3, 6]
