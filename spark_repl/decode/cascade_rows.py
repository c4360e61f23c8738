"""The rows that the kernel of cascades goes by: in chains by what tells them apart, and by each of
their foreign keys.

A row is its table, the image that it came by and ``codes``: one for each value of a key's column,
equal where the values are, -1 for NULL; the first is that of the rest of what tells rows apart.
``classes`` says which codes are one in a key's comparison.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..binlog.kernels.jit import Bools, Int, Ints, jit_allocating


class Graph(NamedTuple):
    """Foreign keys [f], ascending by their parent, whose first one is ``begin[table]``.
    ``referenced`` and ``referencing`` [f, k]: places in codes, ``width`` of them. ``own``
    [tables, j]: keys of a table as a child, -1 behind the last. Of tables: ``identity``
    [tables, places]: what tells rows apart; ``keyed``; ``kept``: whether rows are looked after."""

    begin: Ints
    width: Ints
    referenced: Ints
    referencing: Ints
    on_delete: Ints
    on_update: Ints
    own: Ints
    identity: Bools
    keyed: Bools
    kept: Bools
    classes: Ints


class Events(NamedTuple):
    """Changes [n] in the order of the log. ``kind``: DELETED, INSERTED, UPDATED; ``before`` and
    ``after``: images, -1 for none; ``fires``: whether foreign keys are carried on. ``table`` and
    ``codes`` are those of the images; ``loaded``: images of rows that are there before."""

    kind: Ints
    before: Ints
    after: Ints
    fires: Bools
    table: Ints
    codes: Ints
    loaded: Ints


class RowChains(NamedTuple):
    """Rows [s] that are there, or were, in chains by what tells them apart and by each key of
    theirs. ``counts``: rows so far."""

    table: Ints
    image: Ints
    alive: Bools
    codes: Ints
    heads: Ints
    behind: Ints
    ahead: Ints
    key_heads: Ints
    key_behind: Ints
    key_ahead: Ints
    counts: Ints


@jit_allocating
def mixed(total: Int, value: Int) -> Int:
    return (total * 1000003 + value + 7) % 2147483647


@jit_allocating
def by_identity(graph: Graph, rows: RowChains, table: Int, codes: Ints) -> Int:
    total: Int = np.int64(table)
    for i in range(codes.size):
        if graph.identity[table, i]:
            total = mixed(total, codes[i])
    return total & (rows.heads.size - 1)


@jit_allocating
def by_key(graph: Graph, rows: RowChains, key: Int, codes: Ints, places: Ints) -> Int:
    """The chain of a key's value; -1 where a part of it is NULL, which matches nothing."""
    total: Int = np.int64(key)
    for i in range(graph.width[key]):
        code = codes[places[key, i]]
        if code < 0:
            return np.int64(-1)
        total = mixed(total, graph.classes[code])
    return total & (rows.key_heads.size - 1)


@jit_allocating
def same_identity(graph: Graph, table: Int, a: Ints, b: Ints) -> bool:
    for i in range(a.size):  # noqa: SIM110
        if graph.identity[table, i] and a[i] != b[i]:
            return False
    return True


@jit_allocating
def references(graph: Graph, key: Int, child: Ints, parent: Ints) -> bool:
    """Whether the codes of a child match those of a parent."""
    for i in range(graph.width[key]):
        a = child[graph.referencing[key, i]]
        b = parent[graph.referenced[key, i]]
        if a < 0 or b < 0 or graph.classes[a] != graph.classes[b]:
            return False
    return True


@jit_allocating
def find(graph: Graph, rows: RowChains, table: Int, codes: Ints) -> Int:
    """The row that is there; -1: none is known."""
    row: Int = rows.heads[by_identity(graph, rows, table, codes)]
    while row >= 0:
        if rows.table[row] == table and same_identity(graph, table, rows.codes[row], codes):
            return row
        row = rows.behind[row]
    return np.int64(-1)


@jit_allocating
def link(graph: Graph, rows: RowChains, row: Int) -> None:
    table = rows.table[row]
    chain = by_identity(graph, rows, table, rows.codes[row])
    head = rows.heads[chain]
    rows.behind[row], rows.ahead[row] = head, -1
    if head >= 0:
        rows.ahead[head] = row
    rows.heads[chain] = row
    for j in range(graph.own.shape[1]):
        key = graph.own[table, j]
        if key < 0:
            break
        chain = by_key(graph, rows, key, rows.codes[row], graph.referencing)
        if chain < 0:
            continue
        head = rows.key_heads[chain]
        # Chains of several keys may be in one place: a link says whose it is.
        rows.key_behind[row, j], rows.key_ahead[row, j] = head, -1
        if head >= 0:
            rows.key_ahead[head // graph.own.shape[1], head % graph.own.shape[1]] = (
                row * graph.own.shape[1] + j
            )
        rows.key_heads[chain] = row * graph.own.shape[1] + j


@jit_allocating
def unlink(graph: Graph, rows: RowChains, row: Int) -> None:
    """Takes the row out of its chains; its codes are still those that it was linked by."""
    table, each = rows.table[row], graph.own.shape[1]
    behind, ahead = rows.behind[row], rows.ahead[row]
    if behind >= 0:
        rows.ahead[behind] = ahead
    if ahead >= 0:
        rows.behind[ahead] = behind
    else:
        rows.heads[by_identity(graph, rows, table, rows.codes[row])] = behind
    for j in range(each):
        key = graph.own[table, j]
        if key < 0:
            break
        chain = by_key(graph, rows, key, rows.codes[row], graph.referencing)
        if chain < 0:
            continue
        behind, ahead = rows.key_behind[row, j], rows.key_ahead[row, j]
        if behind >= 0:
            rows.key_ahead[behind // each, behind % each] = ahead
        if ahead >= 0:
            rows.key_behind[ahead // each, ahead % each] = behind
        else:
            rows.key_heads[chain] = behind


@jit_allocating
def add(graph: Graph, rows: RowChains, events: Events, image: Int) -> Int:
    row: Int = rows.counts[0]
    rows.counts[0] = row + 1
    rows.table[row], rows.image[row] = events.table[image], image
    for i in range(events.codes.shape[1]):
        rows.codes[row, i] = events.codes[image, i]
    rows.alive[row] = True
    link(graph, rows, row)
    return row
