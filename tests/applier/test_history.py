"""mode = "history" of ``[[tables]]``: each version of a row is a row, from and until when."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from spark_repl.decode import spans
from tests.support.binlog_writer import Change, LogWriter
from tests.support.extra_model import FIRST, T, begun
from tests.support.local_delta import at_cut, cuts, run
from tests.support.version_model import VersionModel, current, moment, versions

Row = tuple[Any, ...]


def rule(match: str = "t.a", **more: Any) -> dict[str, Any]:
    return {"tables": [{"match": match, "mode": "history", **more}]}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return begun(tmp_path / "log")


def random_changes(model: VersionModel, rand: random.Random) -> list[Change]:
    """A transaction of few keys, some of them many times."""
    made = []
    for number in range(rand.randint(1, 6)):
        key, row = rand.randrange(4), (rand.randrange(4), number % 3, "v" * rand.randrange(9))
        if key in model.there and rand.random() < 0.3:
            made.append(model.delete(key))
        elif key in model.there and (row[0] not in model.there or row[0] == key):
            made.append(model.update(key, row))
        elif row[0] not in model.there:
            made.append(model.insert(row))
    return made


@pytest.mark.parametrize("seed", range(8))
def test_equals_every_version_of_the_log(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever groups, workers and slices are; and what is current is what a mirror has."""
    rand = random.Random(seed)
    log, lake = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl(T.create)
    model = VersionModel(log)
    if seed % 2:  # every transaction comes in windows
        monkeypatch.setattr(spans, "_SLICE_BYTES", 300)
    for number in range(24):
        model.transaction(*random_changes(model, rand), compressed=rand.random() < 0.3)
        if number == 9:
            run(log.folder, lake, workers=2, **rule())
        if number == 13:
            log.rotate()
        if number == 17:
            log.ddl("TRUNCATE t.a")
            model.truncate()
    bound, ordered = rand.choice([1, 3, 100]), rand.random() < 0.5
    assert run(
        log.folder, lake, group_max_transactions=bound, workers=3,
        preserve_commit_order=ordered, **rule(),
    )  # fmt: skip
    assert versions(lake) == model.rows
    assert run(log.folder, tmp_path / "mirror")
    assert current(versions(lake)) == at_cut(tmp_path / "mirror", cuts(tmp_path / "mirror")[-1])["t.a"]
    known = {cut.gtid_executed: cut for cut in cuts(lake)}
    assert len(known.keys() & model.at.keys()) > 1
    for gtids, rows in model.at.items():
        assert gtids not in known or versions(lake, known[gtids]) == rows


def test_a_version_is_from_one_transaction_until_another(log: LogWriter, tmp_path: Path) -> None:
    model = VersionModel(log)
    log.gno -= 1
    model.insert(*FIRST)
    log.gno += 1
    model.transaction(model.update(1, (1, 2, "x")), model.update(1, (1, 3, "x")))
    model.transaction(model.delete(2), model.update(3, (7, 7, "moved")))
    assert run(log.folder, tmp_path / "lake", **rule())
    first, second, third = (moment(log, gno) for gno in (2, 3, 4))
    assert model.rows == versions(tmp_path / "lake") == [
        (1, 1, "x", *first, *second, False), (2, 5, "y", *first, *third, False),
        (3, None, "z", *first, *third, False), (1, 2, "x", *second, *second, False),
        (1, 3, "x", *second, None, None, True), (7, 7, "moved", *third, None, None, True),
    ]  # fmt: skip
