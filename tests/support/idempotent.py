"""What a MySQL 9.7 replica does with replica_exec_mode = IDEMPOTENT when rows change their keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.binlog_writer import Change, Row, Table, delete, insert, update

X = Table("x", (("id", "int"), ("v", "int")))
Pair = tuple[int, int]


@dataclass(frozen=True)
class Outcome:
    """``source`` and ``target``: the rows before; ``statements``: (kind, old key, new row);
    ``full`` and ``minimal``: the target's rows behind them, by binlog_row_image."""

    name: str
    source: tuple[Pair, ...]
    target: tuple[Pair, ...]
    statements: tuple[tuple[str, int, Pair], ...]
    full: tuple[Pair, ...]
    minimal: tuple[Pair, ...]


def _same(
    name: str,
    source: tuple[Pair, ...],
    target: tuple[Pair, ...],
    statements: tuple[tuple[str, int, Pair], ...],
    left: tuple[Pair, ...],
) -> Outcome:
    return Outcome(name, source, target, statements, left, left)


_FIRST = ("UPDATE", 1, (2, 20))
OUTCOMES = (
    _same("a missing row", ((1, 10),), (), (_FIRST,), ()),
    _same("onto another row", ((1, 10),), ((1, 10), (2, 99)), (_FIRST,), ((1, 10), (2, 99))),
    _same("a missing row onto another", ((1, 10),), ((2, 99),), (_FIRST,), ((2, 99),)),
    _same("on from another row", ((1, 10),), ((2, 99),), (_FIRST, ("UPDATE", 2, (3, 30))),
          ((3, 30),)),
    _same("a missing row and its change", ((1, 10),), (), (_FIRST, ("UPDATE", 2, (2, 30))), ()),
    _same("onto another row that goes", ((1, 10),), ((1, 10), (2, 99)),
          (_FIRST, ("DELETE", 2, (2, 20))), ((1, 10),)),
    Outcome("a swap of which half is missing", ((1, 10), (2, 20)), ((2, 99),),
            (("UPDATE", 1, (9, 10)), ("UPDATE", 2, (1, 20)), ("UPDATE", 9, (2, 10))),
            ((1, 20),), ((1, 99),)),
    _same("a new row onto another", (), ((2, 99),),
          (("INSERT", 0, (1, 10)), ("UPDATE", 1, (2, 10))), ((1, 10), (2, 99))),
)  # fmt: skip


def changes(case: Outcome, image: str, more: int = 0) -> Iterator[Change]:
    """The statements' row changes, as the source logs them, of keys with so much ``more``."""
    state = {key + more: value for key, value in case.source}
    for kind, first, (second, value) in case.statements:
        old, new = first + more, (second + more, value)
        if kind == "INSERT":
            yield insert(X, new)
        elif kind == "DELETE":
            yield delete(X, {0: old} if image == "MINIMAL" else (old, state.pop(old)))
        else:
            before: Row = (old, state.pop(old))
            after: Row = new
            if image == "MINIMAL":
                pairs = enumerate(zip(before, new, strict=True))
                after = {i: now for i, (was, now) in pairs if was != now}
                before = {0: old}
            yield update(X, (before, after))
        state[new[0]] = new[1]
