"""Rows in chains, which hashes of other rows and keys share: what is found is the row itself."""

from __future__ import annotations

import numpy as np
import pytest

from spark_repl.decode.cascades.row_chains import (
    Events,
    Graph,
    RowChains,
    add,
    by_key,
    find,
    link,
    references,
    unlink,
)

WIDTH, NULL = 3, -1
"""codes of a row: what tells it apart, and a value of each of two keys"""


def numbers(*values: object) -> np.ndarray:
    return np.array(values, np.int64)


def graph() -> Graph:
    """Two tables, the second one the child of both keys; codes are their own classes."""
    return Graph(
        begin=numbers(0, 2, 2), width=numbers(1, 1), referenced=numbers([0], [0]),
        referencing=numbers([1], [2]), on_delete=numbers(1, 1), on_update=numbers(1, 1),
        own=numbers([-1, -1], [0, 1]), identity=np.array([[True, False, False]] * 2),
        keyed=np.array([True, True]), tracked=np.array([True, True]), classes=np.arange(50),
    )  # fmt: skip


def chains(count: int, size: int) -> RowChains:
    """``size``: chains; with one or two all rows share them."""

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.int64)

    return RowChains(
        table=zeros(count), image=zeros(count), alive=zeros(count) > 0, codes=zeros(count, WIDTH),
        heads=zeros(size) - 1, following=zeros(count), preceding=zeros(count),
        key_heads=zeros(size) - 1,
        key_following=zeros(count, 2), key_preceding=zeros(count, 2), counts=zeros(1),
    )  # fmt: skip


def events(codes: np.ndarray, table: np.ndarray) -> Events:
    none = np.zeros(0, np.int64)
    return Events(none, none, none, none > 0, table, codes, none)


def children(of: Graph, rows: RowChains, key: int, value: int) -> list[int]:
    """The rows that reference a value, as the kernel goes through a chain."""
    parent = numbers(value, NULL, NULL)
    chain = by_key(of, rows, np.int64(key), parent, of.referenced)
    at, found = (rows.key_heads[chain], list[int]()) if chain >= 0 else (-1, list[int]())
    while at >= 0:
        row, j = at // 2, at % 2
        codes = rows.codes[row]
        if of.own[rows.table[row], j] == key and references(of, np.int64(key), codes, parent):
            found.append(int(row))
        at = rows.key_following[row, j]
    return sorted(found)


@pytest.mark.parametrize("size", [1, 2, 64])
def test_each_row_is_found_and_taken_out_by_itself(size: int) -> None:
    """Rows before and after it in its chains do not matter, nor whether it is the first row."""
    of, rng = graph(), np.random.default_rng(7)
    codes = np.column_stack(
        [np.arange(24) // 2, rng.integers(-1, 4, 24), rng.integers(-1, 4, 24)]
    ).astype(np.int64)
    table = np.arange(1, 25, dtype=np.int64) % 2
    rows, there = chains(24, size), dict[int, tuple[int, ...]]()

    def check() -> None:
        for row in range(24):
            found = find(of, rows, table[row], codes[row])
            assert found == (row if row in there else -1)
        for key, place in ((0, 1), (1, 2)):
            for value in range(-1, 4):
                wanted = [r for r, c in there.items() if table[r] == 1 and c[place] == value >= 0]
                assert children(of, rows, key, value) == sorted(wanted)

    for row in range(24):
        assert add(of, rows, events(codes, table), np.int64(row)) == row
        there[row] = tuple(codes[row].tolist())
    check()
    for row in map(int, rng.integers(0, 24, 300)):
        if row in there:
            unlink(of, rows, np.int64(row))
            del there[row]
        else:  # with other values, as UPDATE does it
            rows.codes[row, 1:] = codes[row, 1:] = rng.integers(-1, 4, 2)
            link(of, rows, np.int64(row))
            there[row] = tuple(codes[row].tolist())
        check()


def test_a_key_of_several_columns_matches_as_a_whole() -> None:
    """And by the classes of its codes; NULL in a part of it matches nothing."""
    wide = graph()._replace(
        width=numbers(2, 1), referenced=numbers([0, 1], [0, 0]), referencing=numbers([1, 2], [2, 0])
    )
    wide.classes[5] = 3
    child = numbers(9, 3, 4)
    assert references(wide, np.int64(0), child, numbers(5, 4, NULL))
    for parent in ((3, 5, 0), (5, NULL, 0), (NULL, 4, 0)):
        assert not references(wide, np.int64(0), child, numbers(*parent))
    assert not references(wide, np.int64(0), numbers(9, NULL, NULL), numbers(NULL, NULL, 0))
    rows = chains(1, 64)
    assert by_key(wide, rows, np.int64(0), numbers(3, NULL, 0), wide.referenced) == -1
    one, same = (by_key(wide, rows, np.int64(0), numbers(c, 4, 0), wide.referenced) for c in (3, 5))
    assert one == same >= 0
