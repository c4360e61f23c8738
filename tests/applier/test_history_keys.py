"""mode = "history" and keys: which version of which key an image ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import RowError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.extra_model import FIRST, T, begun
from tests.support.local_delta import run, stopped
from tests.support.version_model import VersionModel, versions


def rule(match: str = "t.%") -> dict[str, Any]:
    return {"tables": [{"match": match, "mode": "history"}]}


def flagged(lake: Path, table: str = "t.a") -> list[Any]:
    return [(*row[:-5], row[-1]) for row in versions(lake, table=table)]


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return begun(tmp_path / "log")


def test_a_key_that_is_current_beside_others_that_fit(log: LogWriter, tmp_path: Path) -> None:
    """As in a mirror: where a group looks for any key, it looks for all."""
    log.transaction(insert(T, (1, 9, "twice")), delete(T, FIRST[1]))
    error = stopped(log.folder, tmp_path / "lake", group_max_transactions=1, **rule())
    assert isinstance(error, RowError) and error.number == 1062 and error.gtid == log.gtid(3)
    assert flagged(tmp_path / "lake") == [(*row, True) for row in FIRST]


@pytest.mark.parametrize("bound", [1, 2, 100])
def test_keys_that_change_places(log: LogWriter, tmp_path: Path, bound: int) -> None:
    model = VersionModel(log)
    model.first(FIRST)
    model.transaction(
        model.update(1, (9, 1, "x")), model.update(2, (1, 5, "y")), model.update(9, (2, 1, "x"))
    )
    model.transaction(
        model.update(1, (0, 0, "t")), model.update(2, (1, 1, "x")), model.update(0, (2, 0, "t")),
        model.delete(1), model.insert((1, 1, "n")),
    )  # fmt: skip
    model.transaction(model.update(1, (1, 1, "n")))
    assert run(log.folder, tmp_path / "lake", group_max_transactions=bound, workers=3, **rule())
    assert versions(tmp_path / "lake") == model.rows


@pytest.mark.parametrize("bound", [1, 100])
def test_images_with_a_part_of_the_key(tmp_path: Path, bound: int) -> None:
    """binlog_row_image = MINIMAL: what an after image lacks of the key is as it was."""
    log, both = LogWriter(tmp_path / "log"), Table("a", (("id", "int"), ("n", "int")), (0, 1))
    log.ddl(both.create)
    log.transaction(insert(both, (1, 1), (2, 2)))
    log.transaction(update(both, ((1, 1), {1: 5})))
    log.transaction(update(both, ((1, 5), {0: 7})), delete(both, (2, 2)))
    assert run(log.folder, tmp_path / "lake", group_max_transactions=bound, **rule())
    assert flagged(tmp_path / "lake") == [
        (1, 1, False), (2, 2, False), (1, 5, False), (7, 5, True)
    ]  # fmt: skip


@pytest.mark.parametrize("bound", [1, 100])
def test_the_key_that_the_server_has_picked(tmp_path: Path, bound: int) -> None:
    """Of two UNIQUE indexes: the log says which, no statement does."""
    log = LogWriter(tmp_path / "log")
    picked = Table("u", (("id", "int"), ("v", "int")), (1,), not_null=(0,))
    log.ddl("CREATE TABLE t.u (id INT NOT NULL, v INT NOT NULL, UNIQUE (id), UNIQUE (v))")
    log.transaction(insert(picked, (1, 1), (2, 2)))
    log.transaction(update(picked, ((1, 1), (3, 1)), ((3, 1), (3, 9))))
    log.transaction(delete(picked, (2, 2)), insert(picked, (2, 3)))
    assert run(log.folder, tmp_path / "lake", group_max_transactions=bound, **rule())
    assert flagged(tmp_path / "lake", "t.u") == [
        (1, 1, False), (2, 2, False), (3, 1, False), (3, 9, True), (2, 3, True)
    ]  # fmt: skip


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("by", ["v", "_current"])
def test_a_version_that_ends_may_move_to_another_partition(
    log: LogWriter, tmp_path: Path, by: str, vectors: bool
) -> None:
    """A version that ends may go to another partition than it was in, and TRUNCATE ends all."""
    model = VersionModel(log)
    model.first(FIRST)
    for n in range(3):
        changes = model.update(1, (1, n, f"v{n}")), model.delete(2), model.insert((2, n, "w"))
        model.transaction(*changes)
    log.ddl("TRUNCATE t.a")
    model.truncate()
    model.transaction(model.insert((2, 0, "new")))
    model.transaction(model.update(2, (9, 0, "newer")))
    given = {"feed": True, "vectors": vectors, "partition_by": [f"t.a({by})"], **rule()}
    assert run(log.folder, tmp_path / "lake", group_max_transactions=2, **given)
    assert versions(tmp_path / "lake") == model.rows
