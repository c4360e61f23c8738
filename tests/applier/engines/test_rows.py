"""Keys that change, bounds of groups and restarts: the rows are right, each group is one commit."""

from __future__ import annotations

from tests.spark.lab import (
    assert_applied_once,
    assert_rows,
    cuts,
    run,
    versions,
)
from tests.support.binlog_writer import Table, delete, insert, update

A, B = Table("a"), Table("b")
BAG = Table("bag", key=())
TEXT = Table("text", (("k", "varchar(80)"), ("v", "varchar(20)")))


def test_keys_change_inside_one_group(engine, log, target):
    log.transaction(insert(A, (1, "one"), (2, "two"), (3, "three"), (4, "four")))
    run(engine, log.folder, target)
    before = versions(target)["t/a"]
    # 1 and 2 swap, 3 is deleted and comes again, 4 moves away, 5 comes and goes, 6 moves twice.
    log.transaction(update(A, ((1, "one"), (9, "one")), ((2, "two"), (1, "two"))))
    log.transaction(update(A, ((9, "one"), (2, "one"))))
    log.transaction(delete(A, (3, "three")))
    log.transaction(insert(A, (3, "again"), (5, "brief")))
    log.transaction(update(A, ((4, "four"), (40, "four"))), delete(A, (5, "brief")))
    log.transaction(insert(A, (6, "six")), update(A, ((6, "six"), (7, "6")), ((7, "6"), (8, "7"))))
    run(engine, log.folder, target)
    assert_rows(engine, target, A, [(2, "one"), (1, "two"), (3, "again"), (40, "four"), (8, "7")])
    assert versions(target)["t/a"] == before + 1, "one group is one Delta commit"


def test_groups_of_one_transaction_find_keys_in_earlier_files(engine, log, target):
    """Every key is looked up in the files of earlier groups; each version is one transaction."""
    log.ddl(TEXT.create)
    for i in range(6):
        log.transaction(insert(TEXT, (f"k{i}", "a"), (f"ключ {i}", None)))
    for i in range(0, 6, 2):
        log.transaction(
            update(TEXT, ((f"k{i}", "a"), (f"k{i}", "b"))), delete(TEXT, (f"ключ {i}", None))
        )
    run(engine, log.folder, target, group_max_transactions=1)
    want = [(f"k{i}", "ab"[i % 2 == 0]) for i in range(6)] + [
        (f"ключ {i}", None) for i in (1, 3, 5)
    ]
    assert_rows(engine, target, TEXT, want)
    assert versions(target)["t/text"] == 9
    assert len(cuts(target)) == len(log.spans)


def test_a_restart_with_other_bounds_gives_the_same_rows(engine, log, target):
    for i in range(30):
        log.transaction(
            insert(A, (i, "a")), *([update(A, ((i - 1, "a"), (i - 1, "b")))] if i else [])
        )
        if i in (9, 19):
            run(
                engine,
                log.folder,
                target,
                group_max_transactions={9: 3, 19: 100}[i],
                workers=1 + i % 2,
            )
    run(engine, log.folder, target, group_max_transactions=1)
    assert_rows(engine, target, A, [(i, "b") for i in range(29)] + [(29, "a")])
    assert_applied_once(target)


def test_rows_that_a_filter_leaves_out(engine, log, target):
    """In one group and in many: a row that begins to pass comes, one that stops to goes."""
    table = Table("f", (("id", "int"), ("s", "varchar(40) COLLATE utf8mb4_bin")))
    log.ddl(table.create)
    log.transaction(insert(table, (1, "eu-1"), (2, "uk-2"), (3, "eu-3"), (4, "zz"), (5, "a")))
    log.transaction(update(table, ((2, "uk-2"), (2, "eu-2")), ((3, "eu-3"), (3, "uk"))))
    log.transaction(update(table, ((4, "zz"), (14, "zz")), ((5, "a"), (15, "a"))))
    log.transaction(delete(table, (1, "eu-1")), insert(table, (1, "x"), (6, "eu-6")))
    log.transaction(update(table, ((6, "eu-6"), (6, "eu-66")), ((1, "x"), (1, "eu"))))
    keys = {"tables": [{"match": "t.f", "row_filter": "s LIKE 'eu-_%' OR s > 'y'"}]}
    want = [(2, "eu-2"), (6, "eu-66"), (14, "zz")]
    for number, most in enumerate((1, 100)):
        lake = target / str(number)
        run(engine, log.folder, lake, keys=keys, group_max_transactions=most)
        assert_rows(engine, lake, table, want)
