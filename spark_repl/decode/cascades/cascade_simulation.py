"""Kernel that simulates cascades: it applies changes one after the other, as InnoDB does."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...binlog.kernels.jit import DONE, FULL, Bools, Int, Ints, jit_allocating
from .row_chains import (
    Events,
    Graph,
    RowChains,
    add,
    by_key,
    find,
    link,
    references,
    same_identity,
    unlink,
)

NO_ACTION, CASCADE, SET_NULL = range(3)
DELETED, INSERTED, UPDATED = 1, 2, 3
DEPTH_MAX = 64
"""Frames of ``Stack``; InnoDB itself cascades at most 15 levels deep."""
DEEP, DIFFERS = 100, 101
"""Results of ``simulate``: too many levels; a row differs from its image in the log."""


class Stack(NamedTuple):
    """Changes [depth] that are being cascaded, each with its current key.

    ``children[at:end]``: rows that the current key found and that are not changed yet.
    """

    table: Ints
    key: Ints
    gone: Bools
    old: Ints
    new: Ints
    at: Ints
    end: Ints
    children: Ints


class Out(NamedTuple):
    """Changes [n] of tracked rows, logged ones included.

    - ``event``: the logged change that caused it. ``flags``: EXISTED 1, EXISTS 2.
    - ``image``, ``codes``: the row's image, and the codes that the row has now.
    - ``fired``, ``fired_at``, ``fired_codes`` [m]: keys that cascaded, their event, and the codes
      of the values.
    - ``counts``: changes, fired keys, changes that the log does not have, current event.
    """

    table: Ints
    event: Ints
    flags: Ints
    image: Ints
    codes: Ints
    fired: Ints
    fired_at: Ints
    fired_codes: Ints
    counts: Ints


@jit_allocating
def emit(out: Out, table: Int, flags: Int, image: Int, codes: Ints) -> bool:
    """Record a change. Return False if the arrays are full."""
    at = out.counts[0]
    if at >= out.table.size:
        return False
    out.table[at], out.flags[at], out.image[at], out.event[at] = table, flags, image, out.counts[3]
    for i in range(codes.size):
        out.codes[at, i] = codes[i]
    out.counts[0] = at + 1
    return True


@jit_allocating
def emit_update(
    graph: Graph, out: Out, table: Int, before: Int, old: Ints, after: Int, new: Ints
) -> bool:
    if graph.keyed[table] and same_identity(graph, table, old, new):
        return emit(out, table, np.int64(3), after, new)
    return emit(out, table, np.int64(1), before, old) and emit(out, table, np.int64(2), after, new)


@jit_allocating
def push(stack: Stack, graph: Graph, depth: Int, table: Int, gone: bool, end: Int) -> None:
    """Start to cascade a change, whose codes are already in ``old`` and ``new``."""
    stack.table[depth], stack.gone[depth] = table, gone
    stack.key[depth] = graph.begin[table] - 1
    stack.at[depth] = stack.end[depth] = end


@jit_allocating
def action_of(graph: Graph, stack: Stack, top: Int) -> Int:
    """Return the action of the current key for the change on top of the stack."""
    key = stack.key[top]
    if stack.gone[top]:
        return np.int64(graph.on_delete[key])
    for i in range(graph.width[key]):
        place = graph.referenced[key, i]
        if stack.old[top, place] != stack.new[top, place]:
            return np.int64(graph.on_update[key])
    return np.int64(NO_ACTION)


@jit_allocating
def fire(graph: Graph, rows: RowChains, stack: Stack, out: Out, top: Int) -> bool:
    """Find the children of the current key. Return False if the arrays are full."""
    key, each = stack.key[top], graph.own.shape[1]
    chain = by_key(graph, rows, key, stack.old[top], graph.referenced)
    if chain < 0 or action_of(graph, stack, top) == NO_ACTION:
        return True
    at = out.counts[1]
    if at >= out.fired.size:
        return False
    out.fired[at], out.fired_at[at] = key, out.counts[3]
    for i in range(graph.width[key]):
        out.fired_codes[at, i] = stack.old[top, graph.referenced[key, i]]
    out.counts[1] = at + 1
    link_at = rows.key_heads[chain]
    while link_at >= 0:
        row, j = link_at // each, link_at % each
        if graph.own[rows.table[row], j] == key and references(
            graph, key, rows.codes[row], stack.old[top]
        ):
            if stack.end[top] >= stack.children.size:
                return False
            stack.children[stack.end[top]] = row
            stack.end[top] += 1
        link_at = rows.key_following[row, j]
    return True


@jit_allocating
def act(graph: Graph, rows: RowChains, stack: Stack, out: Out, top: Int, row: Int) -> Int:
    """Apply the action of the current key to a child.

    Return 1 if this change itself cascades, as the frame above ``top``; 0 if nothing changed; -1 if
    the arrays are full.
    """
    key, table, above = stack.key[top], rows.table[row], top + 1
    if not rows.alive[row] or not references(graph, key, rows.codes[row], stack.old[top]):
        return np.int64(0)  # a deeper level has already changed the row
    action = action_of(graph, stack, top)
    gone = action == CASCADE and stack.gone[top]
    changed = gone
    for i in range(rows.codes.shape[1]):
        stack.old[above, i] = stack.new[above, i] = rows.codes[row, i]
    for i in range(graph.width[key]):
        place, referenced = graph.referencing[key, i], graph.referenced[key, i]
        if action == SET_NULL:
            stack.new[above, place] = -1
        elif not gone and stack.old[top, referenced] != stack.new[top, referenced]:
            stack.new[above, place] = stack.new[top, referenced]
        changed = changed or stack.new[above, place] != stack.old[above, place]
    if not changed:
        return np.int64(0)
    unlink(graph, rows, row)
    out.counts[2] += 1
    image = rows.image[row]
    if gone:
        rows.alive[row] = False
        room = emit(out, table, np.int64(1), image, stack.old[above])
    else:
        for i in range(rows.codes.shape[1]):
            rows.codes[row, i] = stack.new[above, i]
        link(graph, rows, row)
        room = emit_update(graph, out, table, image, stack.old[above], image, stack.new[above])
    if not room:
        return np.int64(-1)
    push(stack, graph, above, table, gone, stack.end[top])
    return np.int64(1)


@jit_allocating
def carry_on(graph: Graph, rows: RowChains, stack: Stack, out: Out) -> Int:
    """Cascade the change at the bottom of the stack, depth first. Return DONE, FULL or DEEP."""
    top: Int = np.int64(0)
    while top >= 0:
        if stack.at[top] < stack.end[top]:
            if top + 1 >= stack.table.size:
                return np.int64(DEEP)
            row = stack.children[stack.at[top]]
            stack.at[top] += 1
            pushed = act(graph, rows, stack, out, top, row)
            if pushed < 0:
                return np.int64(FULL)
            top += pushed
            continue
        first = stack.end[top - 1] if top > 0 else np.int64(0)
        stack.at[top] = stack.end[top] = first
        stack.key[top] += 1
        if stack.key[top] >= graph.begin[stack.table[top] + 1]:
            top -= 1
        elif not fire(graph, rows, stack, out, top):
            return np.int64(FULL)
    return np.int64(DONE)


@jit_allocating
def logged(graph: Graph, events: Events, rows: RowChains, out: Out, e: Int) -> Int:
    """Apply a logged change to the rows. Return DONE, FULL or DIFFERS."""
    before, after = events.before[e], events.after[e]
    table = events.table[before if before >= 0 else after]
    if not graph.tracked[table]:
        return np.int64(DONE)
    row: Int = np.int64(-1)
    if before >= 0:
        codes = events.codes[before]
        row = find(graph, rows, table, codes)
        if row < 0:  # no cascade has reached the row yet
            row = add(graph, rows, events, before)
        for i in range(codes.size):
            if rows.codes[row, i] != codes[i]:
                return np.int64(DIFFERS)
        unlink(graph, rows, row)
    if after < 0:
        rows.alive[row] = False
        room = emit(out, table, np.int64(1), before, events.codes[before])
    elif before < 0:
        add(graph, rows, events, after)
        room = emit(out, table, np.int64(2), after, events.codes[after])
    else:
        for i in range(events.codes.shape[1]):
            rows.codes[row, i] = events.codes[after, i]
        rows.image[row] = after
        link(graph, rows, row)
        room = emit_update(
            graph, out, table, before, events.codes[before], after, events.codes[after]
        )
    return np.int64(DONE) if room else np.int64(FULL)


@jit_allocating
def simulate(graph: Graph, events: Events, rows: RowChains, stack: Stack, out: Out) -> Int:
    """Apply the events one after the other.

    Return DONE, FULL (start again with larger arrays), or DEEP or DIFFERS at event
    ``out.counts[3]``.
    """
    for i in range(events.loaded.size):
        add(graph, rows, events, events.loaded[i])
    for e in range(events.kind.size):
        out.counts[3] = e
        code = logged(graph, events, rows, out, e)
        if code != DONE:
            return code
        before, after = events.before[e], events.after[e]
        if before < 0 or not events.fires[e]:
            continue
        for i in range(events.codes.shape[1]):
            stack.old[0, i] = events.codes[before, i]
            stack.new[0, i] = events.codes[after if after >= 0 else before, i]
        push(stack, graph, np.int64(0), events.table[before], after < 0, np.int64(0))
        code = carry_on(graph, rows, stack, out)
        if code != DONE:
            return code
    return np.int64(DONE)
