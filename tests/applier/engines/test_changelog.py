"""mode = "changelog" with each writer: equal rows, in one group and in many, strict or not."""

from __future__ import annotations

import pytest

from tests.spark import lab
from tests.support.binlog_writer import Table, delete, insert, update
from tests.support.local_delta import at_cut, cuts

A = Table("x")


@pytest.mark.parametrize("mode", ["strict", "idempotent"])
def test_each_image_is_a_row(engine, log, target, mode):
    log.ddl(A.create)
    log.transaction(insert(A, (1, "one"), (2, "two")), delete(A, (1, "one")))
    log.transaction(insert(A, (1, "one")), update(A, ((2, "two"), (3, "two"))))
    log.transaction(
        update(A, ((1, "one"), (1, "1")), ((1, "1"), (1, "one"))), delete(A, (1, "one"))
    )
    log.ddl("TRUNCATE x")
    log.transaction(insert(A, (1, "again")))
    first, second, third, gone, last = (log.gtid(number) for number in range(3, 8))
    keys = {"tables": [{"match": "t.x", "mode": "changelog"}]}
    for number, most in enumerate((1, 100)):
        lake = target / str(number)
        lab.run(engine, log.folder, lake, keys=keys, exec_mode=mode, group_max_transactions=most)
        shown = None if engine else at_cut(lake, cuts(lake)[-1])["t.x"]
        rows = shown or lab.rows(engine, lake, A)
        assert [(*row[:3], row[4]) for row in sorted(rows, key=lambda row: row[-2:])] == [
            (1, "one", first, "INSERT"), (2, "two", first, "INSERT"), (1, "one", first, "DELETE"),
            (1, "one", second, "INSERT"), (2, "two", second, "UPDATE_PREIMAGE"),
            (3, "two", second, "UPDATE_POSTIMAGE"), (1, "one", third, "UPDATE_PREIMAGE"),
            (1, "1", third, "UPDATE_POSTIMAGE"), (1, "1", third, "UPDATE_PREIMAGE"),
            (1, "one", third, "UPDATE_POSTIMAGE"), (1, "one", third, "DELETE"),
            (None, None, gone, "TRUNCATE"), (1, "again", last, "INSERT"),
        ]  # fmt: skip
