"""What runs of changes amount to: by key, by value, where images lack columns, where keys move."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from spark_repl.binlog.rows.change_bits import CERTAIN, EXISTED, EXISTS, MOVED
from spark_repl.decode.folding import (
    DUPLICATE_KEY,
    MISSING_ROW,
    certain,
    chains,
    fold,
    fold_bag,
    take_rows,
)
from spark_repl.decode.lineage import DEFAULT, LOST, TARGET, along, lineage, sources
from spark_repl.write.rows.net_changes import effective

INSERT, UPDATE, DELETE = EXISTS, EXISTED | EXISTS, EXISTED
# As replica_exec_mode=IDEMPOTENT has them; an UPDATE there is as it was.
PUT, REMOVE = INSERT | CERTAIN, DELETE | CERTAIN
# The two halves of an UPDATE that changes a key.
FROM, TO = DELETE, INSERT | MOVED


def bits(*flags: int) -> npt.NDArray[np.uint8]:
    return np.array(flags, np.uint8)


def codes(*keys: int) -> npt.NDArray[np.int32]:
    return np.array(keys, np.int32)


@pytest.mark.parametrize(
    ("flags", "net", "survivor"),
    [
        ([INSERT], INSERT, 0),
        ([INSERT, UPDATE], INSERT, 1),
        ([INSERT, DELETE], None, 0),
        ([INSERT, DELETE, INSERT], INSERT, 2),
        ([UPDATE, UPDATE], UPDATE, 1),
        ([UPDATE, DELETE], DELETE, 1),
        ([DELETE, INSERT], UPDATE, 1),
        ([DELETE, INSERT, UPDATE, DELETE], DELETE, 3),
        ([PUT, REMOVE], CERTAIN, 1),
        ([REMOVE, UPDATE], REMOVE, 0),
        ([REMOVE, UPDATE, PUT], UPDATE | CERTAIN, 2),
        ([PUT, UPDATE], PUT, 1),
        ([UPDATE, REMOVE], REMOVE, 1),
        ([UPDATE, PUT], UPDATE | CERTAIN, 1),
    ],
)
def test_the_net_change_of_a_key(flags: list[int], net: int | None, survivor: int) -> None:
    """Of key 1, behind one of key 0."""
    found = fold(codes(0, *[1] * len(flags)), 2, bits(INSERT, *flags))
    if net is None:
        assert found.entry.tolist() == [0]
        return
    assert found.flags.tolist() == [INSERT, net]
    assert found.entry.tolist() == [0, 1 + survivor]
    assert found.first.tolist() == [0, 1]
    assert found.count.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("flags", "breaks"),
    [
        ([INSERT, UPDATE, DELETE, INSERT], []),
        ([INSERT, INSERT], [(1, DUPLICATE_KEY)]),
        ([UPDATE, INSERT], [(1, DUPLICATE_KEY)]),
        ([DELETE, UPDATE], [(1, MISSING_ROW)]),
        ([DELETE, DELETE], [(1, MISSING_ROW)]),
        ([DELETE, UPDATE, UPDATE, INSERT], [(1, MISSING_ROW)]),
    ],
)
def test_a_log_that_contradicts_itself_is_found(
    flags: list[int], breaks: list[tuple[int, int]]
) -> None:
    assert fold(codes(*[0] * len(flags)), 1, bits(*flags)).breaks == breaks


def test_rows_without_a_key_are_counted() -> None:
    found = fold_bag(codes(0, 1, 0, 2, 1, 3), 4, np.array([1, 1, 1, -1, -1, 2]))
    assert found.entry.tolist() == found.first.tolist() == [0, 3, 5]
    assert found.count.tolist() == [2, -1, 2]
    assert found.flags.tolist() == [EXISTS, EXISTED, EXISTS]


def test_changes_are_chained_by_key_in_log_order() -> None:
    found = chains(pa.array([b"b", b"a", b"b", b"c", b"b"]))
    runs = [found.order[a:b].tolist() for a, b in zip(found.edges, found.edges[1:], strict=False)]
    assert runs == [[0, 2, 4], [1], [3]]
    assert found.last.tolist() == [4, 1, 3]


def test_an_update_is_not_certain() -> None:
    flags = bits(INSERT, UPDATE, DELETE)
    assert certain(flags).tolist() == [PUT, UPDATE, REMOVE]
    assert flags.tolist() == [INSERT, UPDATE, DELETE]


@pytest.mark.parametrize(
    ("keys", "flags", "previous", "root"),
    [
        ([0, 0, 1], [UPDATE, UPDATE, UPDATE], [TARGET, 0, TARGET], [0, 0, 2]),
        ([0, 0, 0], [INSERT, UPDATE, DELETE], [DEFAULT, 0, 1], [0, 0, 0]),
        ([0, 0, 0], [DELETE, INSERT, UPDATE], [TARGET, DEFAULT, 1], [0, 1, 1]),
        ([0, 1, 1], [FROM, TO, UPDATE], [TARGET, 0, 1], [0, 0, 0]),
        ([0, 0, 1], [UPDATE, FROM, TO], [TARGET, 0, 1], [0, 0, 0]),
        # What is surely gone stays gone: an UPDATE in between has nothing of the row.
        ([0, 0, 0], [REMOVE, UPDATE, UPDATE], [TARGET, 0, 0], [0, 0, 0]),
        ([0, 0, 0], [DELETE, UPDATE, UPDATE], [TARGET, 0, 1], [0, 0, 0]),
        ([0, 0, 0], [PUT, UPDATE, UPDATE], [DEFAULT, 0, 1], [0, 0, 0]),
        ([0, 0, 0, 0], [REMOVE, PUT, UPDATE, UPDATE], [TARGET, DEFAULT, 1, 2], [0, 1, 1, 1]),
    ],
)
def test_each_change_names_the_change_it_builds_upon(
    keys: list[int], flags: list[int], previous: list[int], root: list[int]
) -> None:
    found = lineage(codes(*keys), 2, bits(*flags))
    assert (found.previous.tolist(), found.root.tolist()) == (previous, root)


def test_which_image_gives_a_value() -> None:
    flags = bits(INSERT, UPDATE, UPDATE, UPDATE, UPDATE, DELETE, INSERT)
    line = lineage(codes(0, 0, 0, 0, 1, 2, 2), 3, flags)
    holds = np.array([False, True, False, False, False, True, True])
    image = np.array([True, True, True, True, True, False, True])
    assert sources(line, holds, image).tolist() == [DEFAULT, 1, 1, 1, TARGET, LOST, 6]
    assert sources(line, holds & False, image).tolist() == [*[DEFAULT] * 4, TARGET, LOST, DEFAULT]


def test_changes_follow_a_chain_of_keys() -> None:
    """Two rows' chains of changes, by turns: 0 <- 2 <- 3 and 1 <- 4."""
    previous = np.array([-1, -1, 0, 2, 1])
    mine = np.array([True, False, False, True, True])
    assert along(previous, mine).tolist() == [1, 0, 1, 2, 1]


@pytest.mark.parametrize(
    ("keys", "flags", "there", "want"),
    [
        # keys 0 and 1: which the target has before
        ([0, 0], [UPDATE, UPDATE], [True, False], [True, True]),
        ([0, 1], [UPDATE, UPDATE], [False, True], [False, True]),
        ([0, 0], [INSERT, UPDATE], [False, False], [True, True]),
        ([0, 0], [DELETE, UPDATE], [True, False], [True, False]),
        ([0, 0, 0], [DELETE, INSERT, UPDATE], [True, False], [True, True, True]),
        ([0, 1], [FROM, TO], [True, False], [True, True]),
        ([0, 1], [FROM, TO], [True, True], [False, False]),
        ([0, 1], [FROM, TO], [False, False], [False, False]),
        ([0, 1, 1], [FROM, TO, UPDATE], [False, False], [False, False, False]),
        ([0, 0], [FROM, TO], [True, False], [True, True]),
        ([0, 0], [FROM, TO], [False, False], [False, False]),
        ([0, 1, 0], [FROM, TO, UPDATE], [True, False], [True, True, False]),
        ([0, 1, 1], [FROM, TO, UPDATE], [True, False], [True, True, True]),
        ([0, 0, 0], [FROM, TO, UPDATE], [True, False], [True, True, True]),
        ([0, 1, 0], [FROM, TO, UPDATE], [True, True], [False, False, True]),
        ([0, 1, 1, 0], [FROM, TO, FROM, TO], [True, False], [True, True, True, True]),
        ([0, 1, 0, 1], [DELETE, UPDATE, FROM, TO], [True, False], [True, False, False, False]),
    ],
)
def test_which_changes_take_effect(
    keys: list[int], flags: list[int], there: list[bool], want: list[bool]
) -> None:
    assert effective(codes(*keys), bits(*flags), np.array(there)).tolist() == want


def test_chains_of_some_keys() -> None:
    keys = pa.array([b"a", b"b", b"a", b"c", b"b", b"a"], pa.binary())
    by_key = chains(keys)
    order, edges = by_key.of(np.array([2, 0]))
    assert order.tolist() == [3, 0, 2, 5] and edges.tolist() == [0, 1, 4]
    order, edges = by_key.of(np.zeros(0, np.int64))
    assert order.tolist() == [] and edges.tolist() == [0]


def test_rows_are_copied_only_if_some_go() -> None:
    rows = pa.table({"id": [1, 2, 3]})
    assert take_rows(rows, np.arange(3)) is rows
    assert take_rows(rows, np.array([0, 2, 1]))["id"].to_pylist() == [1, 3, 2]
    assert take_rows(rows, np.arange(2))["id"].to_pylist() == [1, 2]
    assert take_rows(rows["id"].chunk(0), np.array([2])).to_pylist() == [3]
