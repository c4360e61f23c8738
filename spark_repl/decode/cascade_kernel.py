"""Kernel that carries row changes on along foreign keys, one after the other, as InnoDB does."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..binlog.kernels.jit import DONE, FULL, Bools, Int, Ints, jit_allocating
from .cascade_rows import (
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
"""Frames of ``Stack``; InnoDB itself goes 15 levels deep."""
DEEP, DIFFERS = 100, 101
"""Codes that ``simulate`` ends with: too many levels; a row is not what the log says it is."""


class Stack(NamedTuple):
    """Changes that are being carried on: [depth], with the key that is at hand, and the children
    that it has found: ``children[at:end]`` are still to come."""

    table: Ints
    key: Ints
    gone: Bools
    old: Ints
    new: Ints
    at: Ints
    end: Ints
    children: Ints


class Out(NamedTuple):
    """Changes of rows that are looked after [n], logged ones too: ``event`` that they come by;
    ``flags``: EXISTED 1, EXISTS 2; an image, and the codes that it has now. ``fired`` [m]: keys
    that were carried on, with their event and the codes of the values. ``counts``: changes, fired
    keys, changes that the log has not; the event that is at hand."""

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
    """Notes a change; False: there is no room left."""
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
    """Begins to carry on a change, whose codes are in ``old`` and ``new`` already."""
    stack.table[depth], stack.gone[depth] = table, gone
    stack.key[depth] = graph.begin[table] - 1
    stack.at[depth] = stack.end[depth] = end


@jit_allocating
def action_of(graph: Graph, stack: Stack, top: Int) -> Int:
    """What the key at hand does by the change on top."""
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
    """Finds the children of the key at hand; False: there is no room left."""
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
        link_at = rows.key_behind[row, j]
    return True


@jit_allocating
def act(graph: Graph, rows: RowChains, stack: Stack, out: Out, top: Int, row: Int) -> Int:
    """Does to a child what the key at hand says. 1: that is to be carried on in its turn, as the
    frame above ``top``; 0: it is not; -1: there is no room left."""
    key, table, above = stack.key[top], rows.table[row], top + 1
    if not rows.alive[row] or not references(graph, key, rows.codes[row], stack.old[top]):
        return np.int64(0)  # a deeper level has been here
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
    """Carries on the change at the bottom of the stack, each child's own changes before the next
    child's. DONE, FULL or DEEP."""
    top: Int = np.int64(0)
    while top >= 0:
        if stack.at[top] < stack.end[top]:
            if top + 1 >= stack.table.size:
                return np.int64(DEEP)
            row = stack.children[stack.at[top]]
            stack.at[top] += 1
            done = act(graph, rows, stack, out, top, row)
            if done < 0:
                return np.int64(FULL)
            top += done
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
    """Does to the rows what a logged change says. DONE, FULL, or DIFFERS."""
    before, after = events.before[e], events.after[e]
    table = events.table[before if before >= 0 else after]
    if not graph.kept[table]:
        return np.int64(DONE)
    row: Int = np.int64(-1)
    if before >= 0:
        codes = events.codes[before]
        row = find(graph, rows, table, codes)
        if row < 0:  # one that nothing has been carried on to
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
    """Applies the events one after the other. DONE; FULL: begin again with more room; DEEP or
    DIFFERS at event ``out.counts[3]``."""
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
