"""Equal values whose bytes differ, and keys that change in idempotent mode, with either writer."""

from __future__ import annotations

import pytest

from tests.applier.test_equal_values import (
    DOCUMENTS,
    FLOAT_KEY,
    JAPANESE,
    JIS,
    NEC,
    TIGHT,
    WIDE,
    ZEROS,
    printed,
    values,
)
from tests.spark.lab import run, stopped
from tests.support.binlog_writer import delete, insert
from tests.support.idempotent import OUTCOMES, X, changes


def test_values_that_a_collation_equates_are_one_key(engine, log, target):
    for table in (DOCUMENTS, ZEROS, JAPANESE, FLOAT_KEY):
        log.ddl(table.create)
    zeros = [(i, zero) for i in range(4) for zero in (0.0, -0.0)]
    log.transaction(
        insert(DOCUMENTS, (1, TIGHT), (1, WIDE), (1, TIGHT), (2, WIDE)),
        insert(ZEROS, *zeros),
        insert(JAPANESE, (1, NEC), (1, JIS), (2, JIS)),
        insert(FLOAT_KEY, (-0.0, "a"), (1.0, "b")),
    )
    run(engine, log.folder, target)
    log.transaction(
        delete(DOCUMENTS, (1, TIGHT), (1, WIDE)),
        delete(ZEROS, *zeros[::4]),
        delete(ZEROS, *zeros[3::4]),
        delete(JAPANESE, (1, NEC), (1, JIS)),
        delete(FLOAT_KEY, (-0.0, "a")),
        insert(FLOAT_KEY, (0.0, "again")),
    )
    run(engine, log.folder, target)
    text = '{"a": "y"}'
    assert values(target, DOCUMENTS) == printed((1, text), (2, text))
    assert values(target, ZEROS) == printed(*zeros[1::4], *zeros[2::4])
    assert values(target, JAPANESE) == printed((2, "≒"))
    assert values(target, FLOAT_KEY) == printed((0.0, "again"), (1.0, "b"))
    log.transaction(delete(DOCUMENTS, (1, TIGHT), (1, WIDE)))
    assert stopped(engine, log.folder, target).number == 1032


@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
def test_keys_change_as_in_a_replica(engine, log, target, image):
    """Each case in rows of its own: its keys are the outcome's and 100 more than the last one's."""
    log.ddl(X.create)
    before = [(100 * i + k, v) for i, case in enumerate(OUTCOMES) for k, v in case.target]
    log.transaction(insert(X, *before))
    run(engine, log.folder, target)
    want = []
    for i, case in enumerate(OUTCOMES):
        want += [(100 * i + k, v) for k, v in (case.full if image == "FULL" else case.minimal)]
        for change in changes(case, image, more=100 * i):
            log.transaction(change)
    run(engine, log.folder, target, exec_mode="idempotent")
    assert values(target, X) == printed(*want)
