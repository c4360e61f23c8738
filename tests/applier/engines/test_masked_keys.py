"""A key that is masked with each writer: the rows that a plain table has, under their hashes."""

from __future__ import annotations

import random

import pytest

from tests.spark.lab import run
from tests.support.binlog_writer import Table, delete, insert, update
from tests.support.local_delta import last_shown
from tests.support.planted import hashed

A = Table("x", (("k", "varchar(20)"), ("n", "int"), ("v", "varchar(20)")), (0,))
RULE = {"match": "t.x", "mask": {"k": "sha256"}, "mask_keys": True}


@pytest.mark.parametrize(
    ("mode", "partial"), [("strict", False), ("strict", True), ("idempotent", False)]
)
def test_equals_a_plain_table(engine, log, tmp_path, mask_key, mode, partial):
    """Whole or partial images, keys that change and come again; or changes that do not fit."""
    rand, there = random.Random(mode), dict[str, tuple[str, int, str]]()
    log.ddl(A.create)
    for number in range(12):
        made = []
        for key in rand.sample("aAbBcC", 2):
            other = rand.choice("dDeE")
            if mode == "idempotent" and rand.random() < 0.2:
                made.append(delete(A, (rand.choice("xyz"), 1, "")))
            if key not in there:
                there[key] = key, number, "new"
                made.append(insert(A, there[key]))
            elif rand.random() < 0.3:
                row = there.pop(key)
                made.append(delete(A, {0: key} if partial else row))
            elif rand.random() < 0.5 and other not in there:
                row = there.pop(key)
                there[other] = other, number, row[2]
                after = {0: other, 1: number} if partial else there[other]
                made.append(update(A, ({0: key} if partial else row, after)))
            else:
                row, there[key] = there[key], (key, number, there[key][2])
                pair = ({0: key}, {1: number}) if partial else (row, there[key])
                made.append(update(A, pair))
        log.transaction(*made)
    keys = {"tables": [RULE], "target.mask_key_env": "MASK_KEY"}
    for number, most in enumerate((3, 100)):
        lake = tmp_path / f"lake{number}"
        run(engine, log.folder, lake, keys=keys, exec_mode=mode, group_max_transactions=most)
        want = {(hashed(key), *rest) for key, *rest in there.values()}
        assert {*last_shown(lake)["t.x"]} == want
