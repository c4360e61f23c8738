"""mode = "append" with each writer: equal rows, in one group and in many."""

from __future__ import annotations

from tests.spark.lab import assert_rows, run
from tests.support.binlog_writer import Table, delete, insert, update

A = Table("x")


def test_rows_come_and_none_goes(engine, log, target):
    log.ddl(A.create)
    log.transaction(insert(A, (1, "one"), (2, "two")), delete(A, (1, "one")))
    log.transaction(insert(A, (1, "one")), update(A, ((2, "two"), (3, "two"))))
    log.ddl("TRUNCATE t.x")
    log.transaction(insert(A, (1, "one")))
    keys = {"tables": [{"match": "t.x", "mode": "append"}]}
    for number, most in enumerate((1, 100)):
        lake = target / str(number)
        run(engine, log.folder, lake, keys=keys, group_max_transactions=most)
        assert_rows(engine, lake, A, [*[(1, "one")] * 3, (2, "two")])
