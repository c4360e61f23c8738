"""Net changes: a task's staged changes become one change per key, or per value in a table without a
key.

With exec_mode = idempotent MySQL ignores an UPDATE whose row does not exist, and one whose
new key belongs to another row. So the outcome of one key depends on other keys, and on which of
them the target has (``effective``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...binlog.kernels.jit import jit_allocating
from ...binlog.kernels.key_numbers import number_values
from ...binlog.rows.change_bits import EXISTED, EXISTS, MOVED
from ...decode.folding import CHANGE_BITS, Net, fold, fold_bag, take_rows
from ...decode.stage_task import EXTRA
from ...delta.files.delta_columns import one_chunk
from ...delta.files.large_columns import joined
from ..files.key_index import value_codes
from .keyless_changes import heads, keyless_rows
from .partial_row_fill import ChangeLog, MissingValues, fill_partial_rows

if TYPE_CHECKING:
    from ...decode.stage_task import Part
    from ...tables.target_table import TargetTable

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Look = Callable[[pa.Table], npt.NDArray[np.bool_]]


@dataclass
class Changes:
    """Folded changes. ``rows`` [n]: the surviving images; ``at``: the first change's position;
    ``last``: the survivor's position; ``missing``: what the images lack, None if they lack nothing;
    ``passed_over``: number of changes that take no effect because of the rows that the target has.
    """

    rows: pa.Table
    net: Net
    at: Longs
    last: Longs
    missing: MissingValues | None = None
    passed_over: int = 0


@dataclass(frozen=True)
class Break:
    """A contradiction in the log: a row, MySQL's error number, the transaction's position."""

    row: pa.Table
    number: int
    position: int


def asks(parts: Sequence[Part]) -> bool:
    """Return whether the changes can be folded only if it is known which keys the target has."""
    return any(part.asks for part in parts)


def net_changes(
    parts: Sequence[Part], definition: TargetTable, look: Look | None, *, idempotent: bool
) -> tuple[Changes, list[Break]]:
    """Return the net changes of all parts of a task, and the contradictions of the log (none if the
    task is ``idempotent``). ``look`` returns for rows whether the target has their keys; None if
    nothing ``asks``."""
    staged = joined([part.read() for part in parts])
    partial = staged.column("held").null_count < staged.num_rows
    if not definition.primary_key:
        return _bag(parts, staged, definition, partial=partial), []
    rows = staged.drop_columns(list(EXTRA))
    code, distinct = number_values(one_chunk(staged.column("key")))
    log, passed_over = _change_log(staged, code), 0
    if look is not None and asks(parts):
        row_of = np.zeros(distinct, np.int64)
        row_of[code] = np.arange(len(code))
        takes = effective(log.code, log.flags, look(rows.take(pa.array(row_of))))
        passed_over = int(np.count_nonzero(~takes & (log.flags & MOVED == 0)))
        log = log.only(takes)
    soft = definition.keeps_deleted
    net = fold(log.code, distinct, log.flags & np.uint8(CHANGE_BITS), soft=soft)
    breaks = [
        Break(rows.slice(int(log.parent[at]), 1), number, int(log.position[at]))
        for at, number in ([] if idempotent else net.breaks)
    ]
    entry, first, last = log.parent[net.entry], log.position[net.first], log.position[net.entry]
    folded = Net(np.arange(len(entry)), net.flags, net.count, net.first, [])
    if partial and not breaks:
        rows, missing = fill_partial_rows(staged, log, distinct, net, definition)
    else:
        rows, missing = take_rows(rows, entry), None
    return Changes(rows, folded, first, last, missing, passed_over), breaks


def _change_log(staged: pa.Table, code: npt.NDArray[np.int32]) -> ChangeLog:
    """Return the changes of the staged chains, in log order."""
    flags_list = one_chunk(staged.column("flags"))
    length = np.diff(flags_list.offsets.to_numpy())
    parent = np.repeat(np.arange(len(code)), length)
    flags = flags_list.flatten().to_numpy(zero_copy_only=False)
    position = one_chunk(staged.column("positions")).flatten().to_numpy()
    newest = np.zeros(len(parent), bool)
    newest[np.cumsum(length) - 1] = True
    order = np.argsort(position, kind="stable")
    parent = parent[order]
    return ChangeLog(parent, code[parent], flags[order], position[order], newest[order])


def _bag(
    parts: Sequence[Part], staged: pa.Table, definition: TargetTable, *, partial: bool
) -> Changes:
    rows = staged.drop_columns(list(EXTRA))
    positions = heads(staged.column("positions"))
    if partial:
        rows = keyless_rows(staged, heads(staged.column("flags")), positions, definition)
    if definition.appends:
        code, distinct = np.arange(rows.num_rows, dtype=np.int32), rows.num_rows
    elif partial or any(part.twins for part in parts):
        code, distinct = value_codes(rows)
    else:
        code, distinct = number_values(one_chunk(staged.column("key")))
    net = fold_bag(code, distinct, staged.column("count").to_numpy())
    folded = Net(np.arange(len(net.entry)), net.flags, net.count, net.first, [])
    at = positions[net.first]
    return Changes(rows.take(pa.array(net.entry)), folded, at, at)


def effective(
    code: npt.NDArray[np.int32], flags: npt.NDArray[np.uint8], present: Bools
) -> npt.NDArray[np.bool_]:
    """Return bool[n]: which changes, in log order, take effect. ``code``: the key of each;
    ``flags``: EXISTED, EXISTS and MOVED; ``present`` [keys]: whether the target has the key's row
    before them."""
    takes_effect: Bools = _effective(code, flags, present, MOVED)
    return takes_effect


@jit_allocating
def _effective(code: Any, flags: Any, present: Any, moved: Any) -> Any:
    exists = present.copy()
    out = np.ones(code.size, np.bool_)
    for i in range(code.size):
        change = flags[i]
        if change & moved:
            continue  # decided with its first half
        k = code[i]
        if i + 1 < code.size and flags[i + 1] & moved:
            to = code[i + 1]
            if exists[k] and (to == k or not exists[to]):
                exists[k] = False
                exists[to] = True
            else:
                out[i] = out[i + 1] = False
        elif change & EXISTED and change & EXISTS:
            out[i] = exists[k]
        else:
            exists[k] = change & EXISTS != 0
    return out
