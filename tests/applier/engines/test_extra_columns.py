"""Columns that tell of a row's last change, and rows that stay when they are deleted: the same with
each writer."""

from __future__ import annotations

import random

import pytest

from tests.spark.lab import cuts, run, stopped
from tests.support.binlog_writer import insert
from tests.support.extra_model import EXTRA, OneByOne, T
from tests.support.local_delta import at_cut

KEYS = {"tables": [{"match": "t.x", "extra_columns": list(EXTRA)}]}


@pytest.mark.parametrize("mode", ["strict", "idempotent"])
def test_equals_one_change_at_a_time(engine, log, target, mode):
    rand = random.Random(mode)
    log.ddl(T.create.replace("t.a", "t.x"))
    model = OneByOne(log, "x")
    for number in range(12):
        made = []
        for key in rand.sample(range(8), 3):
            there, partial = key in model.there(), number % 3 == 1
            if mode == "idempotent":
                there = rand.random() < 0.7
            row = (key, number, f"v{number}")
            if not there:
                made.append(model.insert(row))
            elif rand.random() < 0.4:
                made.append(model.delete(key, partial=partial))
            else:
                made.append(model.update(key, row, partial=partial))
        model.transaction(*made)
        if number in (3, 7):
            run(engine, log.folder, target, keys=KEYS, exec_mode=mode)
    log.ddl("TRUNCATE t.x")
    model.truncate()
    model.transaction(model.insert((1, 1, "new")))
    run(engine, log.folder, target, keys=KEYS, exec_mode=mode)
    seen = {cut.gtid_executed: at_cut(target, cut) for cut in cuts(target)}
    both = seen.keys() & model.at.keys()
    assert len(both) > 3
    for gtids in both:
        assert seen[gtids]["t.x"] == model.at[gtids]


def test_a_row_kept_as_deleted_counts_as_absent(engine, log, target):
    log.ddl(T.create.replace("t.a", "t.x"))
    model = OneByOne(log, "x")
    model.transaction(model.insert((1, 1, "one")), model.insert((2, 2, "two")))
    model.transaction(model.delete(1, partial=False))
    run(engine, log.folder, target, keys=KEYS)
    good = log.path.stat().st_size, log.gno
    for change, number in (
        (model.delete(1, partial=False), 1032),
        (insert(model.table, (2, 2, "two")), 1062),
    ):
        log.transaction(change)
        error = stopped(engine, log.folder, target, keys=KEYS)
        assert error.number == number
        with log.path.open("r+b") as file:
            file.truncate(good[0])
        log.gno = good[1]
