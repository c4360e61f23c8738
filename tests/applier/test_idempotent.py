"""exec_mode = idempotent, where the rows' keys change: what MySQL's replica does.

``OUTCOMES`` is what a MySQL 9.7 replica with replica_exec_mode = IDEMPOTENT was left with
(live/test_idempotent_live.py asks it again). Both row images give the same, but for one.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.binlog_writer import Change, LogWriter, Table, delete, insert, update
from tests.support.idempotent import OUTCOMES, Outcome, X, changes
from tests.support.local_delta import rows, run

bounds = pytest.mark.parametrize("bound", [1, 2, 100])


@bounds
@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
@pytest.mark.parametrize("case", OUTCOMES, ids=lambda case: case.name)
def test_ends_as_a_replica(log, target, case: Outcome, image: str, bound: int):
    log.ddl(X.create)
    if case.target:
        log.transaction(insert(X, *case.target))
    run(log.folder, target)
    for change in changes(case, image):
        log.transaction(change)
    run(log.folder, target, exec_mode="idempotent", group_max_transactions=bound, workers=3)
    assert rows(target, X) == sorted(case.minimal if image == "MINIMAL" else case.full)


class Replica:
    """A table under replica_exec_mode = IDEMPOTENT, one change at a time."""

    def __init__(self, found: dict[int, tuple[Any, ...]]) -> None:
        self.rows = found

    def insert(self, row: tuple[Any, ...]) -> Change:
        self.rows[row[0]] = row
        return insert(T, row)

    def delete(self, key: int) -> Change:
        self.rows.pop(key, None)
        return delete(T, (key, 0, ""))

    def update(self, old: int, new: tuple[Any, ...], *, partial: bool) -> Change:
        """Of the row at ``old``; a ``partial`` one leaves its last column as it was."""
        if old in self.rows and (old == new[0] or new[0] not in self.rows):
            before = self.rows.pop(old)
            self.rows[new[0]] = (*new[:2], before[2]) if partial else new
        if partial:
            return update(T, ({0: old}, {0: new[0], 1: new[1]}))
        return update(T, ((old, 0, ""), new))


T = Table("moving", (("id", "int"), ("n", "int"), ("v", "varchar(9)")))


@pytest.mark.parametrize("seed", range(30))
def test_random_changes_end_as_on_an_idempotent_replica(tmp_path: Path, seed: int) -> None:
    """Any changes of few keys, some images without all columns, split over workers and groups."""
    rand = random.Random(seed)
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(T.create)
    replica = Replica({k: (k, 0, "old") for k in range(5) if rand.random() < 0.6})
    log.transaction(insert(T, (9, 9, "first"), *replica.rows.values()))
    replica.rows[9] = (9, 9, "first")
    run(log.folder, target)
    images = rand.choice([[False], [True], [False, True]])
    for number in range(rand.randint(2, 16)):
        made = []
        for _ in range(rand.randint(1, 3)):
            key, row = rand.randrange(5), (rand.randrange(5), number, f"v{number}")
            kind = rand.random()
            if kind < 0.2:
                made.append(replica.insert(row))
            elif kind < 0.35:
                made.append(replica.delete(key))
            else:
                made.append(replica.update(key, row, partial=rand.choice(images)))
        log.transaction(*made)
    bound = rand.choice([1, 3, 100])
    run(log.folder, target, exec_mode="idempotent", group_max_transactions=bound, workers=3)
    assert rows(target, T) == sorted(replica.rows.values())
