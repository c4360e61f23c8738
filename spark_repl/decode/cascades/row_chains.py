"""Rows that cascades may change, indexed for the simulation: hash chains by identity, and by each
foreign key.

A row has a table, an image, and ``codes``. Each code encodes the value of a key's column: equal
values have equal codes, NULL is -1. The first code encodes all other values that identify the row.
``classes`` maps codes to classes; a key's comparison treats codes of one class as equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...binlog.kernels.jit import Bools, Int, Ints, jit_allocating


class Graph(NamedTuple):
    """Foreign keys [f] of the tables, ascending by parent.

    - ``begin[table]``: a parent's first key.
    - ``referenced``, ``referencing`` [f, k]: the columns' places in codes, ``width[f]`` of them.
    - ``own`` [tables, j]: the keys of a table as a child, -1 after the last.
    - ``identity`` [tables, places]: the codes that identify a row.
    - ``keyed`` [tables]: the table has a key.
    - ``tracked`` [tables]: the simulation keeps the table's rows, because cascades change them.
    """

    begin: Ints
    width: Ints
    referenced: Ints
    referencing: Ints
    on_delete: Ints
    on_update: Ints
    own: Ints
    identity: Bools
    keyed: Bools
    tracked: Bools
    classes: Ints


class Events(NamedTuple):
    """Logged changes [n] in the order of the log.

    - ``kind``: DELETED, INSERTED or UPDATED.
    - ``before``, ``after``: numbers of images, -1 for none.
    - ``fires``: the change cascades.
    - ``table``, ``codes``: table and codes of each image.
    - ``loaded``: images of rows that exist before the first change.
    """

    kind: Ints
    before: Ints
    after: Ints
    fires: Bools
    table: Ints
    codes: Ints
    loaded: Ints


class RowChains(NamedTuple):
    """Rows [s], existing and deleted ones, in hash chains by identity and by each foreign key.

    ``heads``, ``key_heads``: first row of each chain. ``following`` and ``preceding``: neighbours
    in the chain by identity; ``key_following`` and ``key_preceding`` [s, j]: in the chain of the
    table's j-th key. -1 ends a chain. ``counts[0]``: number of rows.
    """

    table: Ints
    image: Ints
    alive: Bools
    codes: Ints
    heads: Ints
    following: Ints
    preceding: Ints
    key_heads: Ints
    key_following: Ints
    key_preceding: Ints
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
    """Return the chain of a key's value; -1 if a part of it is NULL, which matches nothing."""
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
    """Return whether a child's codes match its parent's."""
    for i in range(graph.width[key]):
        a = child[graph.referencing[key, i]]
        b = parent[graph.referenced[key, i]]
        if a < 0 or b < 0 or graph.classes[a] != graph.classes[b]:
            return False
    return True


@jit_allocating
def find(graph: Graph, rows: RowChains, table: Int, codes: Ints) -> Int:
    """Return the row with these codes; -1 if no such row is known."""
    row: Int = rows.heads[by_identity(graph, rows, table, codes)]
    while row >= 0:
        if rows.table[row] == table and same_identity(graph, table, rows.codes[row], codes):
            return row
        row = rows.following[row]
    return np.int64(-1)


@jit_allocating
def link(graph: Graph, rows: RowChains, row: Int) -> None:
    table = rows.table[row]
    chain = by_identity(graph, rows, table, rows.codes[row])
    head = rows.heads[chain]
    rows.following[row], rows.preceding[row] = head, -1
    if head >= 0:
        rows.preceding[head] = row
    rows.heads[chain] = row
    for j in range(graph.own.shape[1]):
        key = graph.own[table, j]
        if key < 0:
            break
        chain = by_key(graph, rows, key, rows.codes[row], graph.referencing)
        if chain < 0:
            continue
        head = rows.key_heads[chain]
        # Chains of several keys may share a head: a link therefore encodes row and key.
        rows.key_following[row, j], rows.key_preceding[row, j] = head, -1
        if head >= 0:
            rows.key_preceding[head // graph.own.shape[1], head % graph.own.shape[1]] = (
                row * graph.own.shape[1] + j
            )
        rows.key_heads[chain] = row * graph.own.shape[1] + j


@jit_allocating
def unlink(graph: Graph, rows: RowChains, row: Int) -> None:
    """Remove the row from its chains. Its codes must still be those with which it was linked."""
    table, each = rows.table[row], graph.own.shape[1]
    following, preceding = rows.following[row], rows.preceding[row]
    if following >= 0:
        rows.preceding[following] = preceding
    if preceding >= 0:
        rows.following[preceding] = following
    else:
        rows.heads[by_identity(graph, rows, table, rows.codes[row])] = following
    for j in range(each):
        key = graph.own[table, j]
        if key < 0:
            break
        chain = by_key(graph, rows, key, rows.codes[row], graph.referencing)
        if chain < 0:
            continue
        following, preceding = rows.key_following[row, j], rows.key_preceding[row, j]
        if following >= 0:
            rows.key_preceding[following // each, following % each] = preceding
        if preceding >= 0:
            rows.key_following[preceding // each, preceding % each] = following
        else:
            rows.key_heads[chain] = following


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
