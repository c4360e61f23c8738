"""Partial row images against serial apply: any changes, any split over workers, any target."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

from spark_repl.decode.folding import EveryTable
from spark_repl.decode.stage_task import Part, StageTask
from spark_repl.decode.stage_worker import stage
from spark_repl.delta.files.delta_columns import Columns, schema_json
from spark_repl.errors import DecodeError
from spark_repl.relay.span import Span
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable
from spark_repl.write.files.write_task import PlannedFiles, WriteTask
from spark_repl.write.rows.direct_writer import write_direct
from tests.support.binlog_writer import Change, LogWriter, Table, delete, insert, update

T = Table("p", (("a", "int"), ("k", "varchar(8)"), ("b", "varchar(9)"), ("c", "int")), key=(1, 0))
BAG = Table("p", (("a", "int"), ("b", "varchar(9)")), key=())
Key = tuple[Any, ...]


def changes(rand: random.Random, state: dict[Key, list[Any]]) -> Iterator[Change]:
    """Changes that fit ``state``, which they are applied to."""
    for number in range(rand.randint(1, 14)):
        key = rand.choice("xyz"), rand.randint(1, 2)
        row = [key[1], key[0], rand.choice(["u", "v", None]), number]
        if key not in state:
            state[key] = row
            if rand.random() < 0.3:
                state[key] = [*row[:2], None, number]
                yield insert(T, {0: row[0], 1: row[1], 3: number})
            else:
                yield insert(T, row)
            continue
        old, held = state[key], {0: key[1], 1: key[0]}
        whole = rand.random() < 0.3
        before = old if whole else held
        kind = rand.random()
        if kind < 0.2:
            del state[key]
            yield delete(T, before)
        elif kind < 0.45 and (new := (rand.choice("xyz"), rand.randint(1, 2))) not in state:
            changed = {0: new[1], 3: number} if new[0] == key[0] else {0: new[1], 1: new[0]}
            after = _over(old, changed)
            del state[key]
            state[new] = after
            yield update(T, (before, after if whole else changed))
        else:
            changed = {rand.choice((2, 3)): None} if rand.random() < 0.3 else {3: number}
            if rand.random() < 0.4:
                changed = {2: f"n{number}"}
            state[key] = _over(old, changed)
            yield update(T, (before, state[key] if whole else changed))


def _over(row: list[Any], changed: dict[int, Any]) -> list[Any]:
    return [changed.get(i, value) for i, value in enumerate(row)]


def staged(log: LogWriter, owner: list[int], shards: int) -> list[Part]:
    """The parts of workers that each have the transactions that ``owner`` gives them."""
    spans = np.array([(a, b) for _, a, b in log.spans], np.int64)
    parts: list[Part] = []
    for worker in sorted(set(owner)):
        mine = spans[np.array(owner) == worker]
        plain = np.zeros(len(mine), np.bool_)
        span = Span(str(log.path), 1, mine[:, 0].copy(), mine[:, 1].copy(), plain, True)
        parts += stage(StageTask(worker, (span,), shards, None)).parts
    return parts


def applied(folder: Path, table: Table, rows: list[list[Any]], parts: list[Part]) -> list[Any]:
    """The target's rows after the direct writer's task, whose target holds ``rows`` before."""
    definition = classify(table.create, "t").definition
    assert definition is not None
    schema = definition.arrow_schema()
    folder.mkdir(exist_ok=True)
    columns = Columns.of(schema_json(schema))
    cells = list(zip(*rows, strict=True)) if rows else [[] for _ in schema]
    data = [pa.array(list(c), f.type) for c, f in zip(cells, schema, strict=True)]
    pq.write_table(pa.table(data, names=schema.names), folder / "old.parquet")
    found, parts_left = [], parts
    shards = {0: parts_left}
    if not any(part.whole for part in parts):
        shards = {n: [p for p in parts if p.shard == n] for n in {p.shard for p in parts}}
    dead: set[int] = set()
    for pieces in shards.values():
        task = WriteTask(
            "t.p", str(folder), str(folder / "keys"), columns, definition.primary_key,
            tuple(pieces), PlannedFiles(pa.array(["old.parquet"]), {}), False, False,
            TargetTable.mirror_of(definition),
        )  # fmt: skip
        out = write_direct(task)
        assert not out.violations
        for add in out.adds:
            found += pq.read_table(folder / add["path"]).to_pylist()
        for marks in out.marks.values():
            dead |= set(BitMap.deserialize(marks))
    found += [row for i, row in enumerate(pa.table(data, names=schema.names).to_pylist())
              if i not in dead]  # fmt: skip
    return sorted((list(row.values()) for row in found), key=repr)


@pytest.mark.parametrize("seed", range(120))
def test_partial_images_split_over_workers_equal_serial_apply(seed: int, tmp_path: Path) -> None:
    # Scenario 134: any images and changes of a key, over any workers.
    rand = random.Random(seed)
    log = LogWriter(tmp_path / "log")
    state: dict[Key, list[Any]] = {
        (k, a): [a, k, rand.choice(["old", None]), -a]
        for k in "xyz" for a in (1, 2) if rand.random() < 0.5
    }  # fmt: skip
    before = [list(row) for row in state.values()]
    made = list(changes(rand, state))
    while made:
        count = rand.randint(1, 3)
        log.transaction(*made[:count])
        made = made[count:]
    owner = [rand.randrange(rand.randint(1, 3)) for _ in log.spans]
    parts = staged(log, owner, rand.randint(1, 3))
    want = sorted(state.values(), key=repr)
    assert applied(tmp_path / "table", T, before, parts) == want


@pytest.mark.parametrize("seed", range(40))
def test_bags_equal_serial_apply(seed: int, tmp_path: Path) -> None:
    # Scenario 159: rows without a key are found by their values.
    rand = random.Random(seed)
    log = LogWriter(tmp_path / "log")
    rows: list[list[Any]] = [[rand.randint(1, 2), rand.choice("pq")] for _ in range(4)]
    before = [list(row) for row in rows]
    for number in range(rand.randint(1, 9)):
        kind = rand.randrange(4)
        if kind == 0 or not rows:
            rows.append([number % 3, None])
            log.transaction(insert(BAG, {0: number % 3}))
        elif kind == 1:
            log.transaction(delete(BAG, rows.pop(rand.randrange(len(rows)))))
        elif kind == 2:
            row = rows[rand.randrange(len(rows))]
            old, row[1] = list(row), rand.choice(["p", None])
            log.transaction(update(BAG, (old, {1: row[1]})))
        else:
            rows.append([1, "p"])
            log.transaction(insert(BAG, (1, "p")))
    owner = [rand.randrange(2) for _ in log.spans]
    parts = staged(log, owner, 2)
    assert applied(tmp_path / "table", BAG, before, parts) == sorted(rows, key=repr)


@pytest.mark.parametrize("known", ["whole", "part"])
def test_a_moved_row_is_not_lost_to_a_copy(tmp_path: Path, known: str) -> None:
    """A chunk may have been read before the row came to it, and another behind it: a table that is
    catching up can't take the row's other columns from anywhere."""
    log = LogWriter(tmp_path / "log")
    before, after = [1, "x", "b", 7], [2, "x", "b", 8]
    if known == "part":
        before, after = {0: 1, 1: "x"}, {0: 2, 3: 8}
    log.transaction(insert(T, {0: 5, 1: "y", 3: 0}), update(T, (before, after)))
    ((_, start, end),) = log.spans
    span = Span(str(log.path), 1, *np.array([[start], [end], [0]], np.int64), True)
    catching_up, by_choice = frozenset([f"{T.database}.p"]), EveryTable()
    assert stage(StageTask(0, (span,), 1, None, by_choice)).parts
    for idempotent in (catching_up, EveryTable(copied=catching_up)):
        task = StageTask(0, (span,), 1, None, idempotent)
        if known == "whole":
            assert not any(part.asks for part in stage(task).parts)
            continue
        with pytest.raises(DecodeError, match="while its table is copied") as caught:
            stage(task)
        assert str(start) in str(caught.value)
        assert "copy the table again" in str(caught.value.hint)


@pytest.mark.parametrize("change", [delete(BAG, {0: 1}), update(BAG, ({0: 1}, (1, "q")))])
def test_a_row_without_key_is_told_by_all_columns(tmp_path: Path, change: Change) -> None:
    """Which row goes, an image without all of them does not say."""
    log = LogWriter(tmp_path / "log")
    log.transaction(insert(BAG, {0: 7}), change)
    ((_, start, _),) = log.spans
    with pytest.raises(DecodeError, match="lacks column b") as caught:
        applied(tmp_path / "table", BAG, [[1, "p"]], staged(log, [0], 1))
    assert str(start) in str(caught.value) and "primary key" in str(caught.value.hint)


def test_a_row_without_key_has_the_defaults(tmp_path: Path) -> None:
    table = Table("p", (("a", "int"), ("b", "varchar(9) default 'd'")), key=())
    log = LogWriter(tmp_path / "log")
    log.transaction(insert(table, {0: 7}, {0: 8}), insert(table, (9, None)))
    found = applied(tmp_path / "table", table, [], staged(log, [0], 1))
    assert found == [[7, "d"], [8, "d"], [9, None]]
