"""Superseded rows of the control table: what later rows say as well, or of what is there no more.

Of the rows of each kind this leaves what a start from any cut that is kept would find in all of
them; cuts, owners and pins are ``retention``'s, decisions by hand all stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ... import formats
from ...gtid import GtidSet
from ...position import OFFSET_BITS
from ..table.given_paths import KIND as GIVEN
from ..table.given_paths import Forgotten
from ..table.row_formats import format_of
from .copies import KIND as COPY
from .copies import Copy
from .database_charsets import KIND as DATABASE_CHARSET
from .name_case import KIND as NAME_CASE
from .name_registry import KIND as NAMES
from .name_registry import merged
from .operator_decisions import SKIP, without_skipped
from .repair_results import ANSWERS
from .repair_results import KIND as REPAIR
from .retention import Retention, needed
from .system_time_zone import KIND as TIME_ZONE
from .table_paths import RESET

_FILES, _LOGS = 1000, 10
"""of the files that the tables have passed, and of the logs that no cut is of, so many are still
known"""
_BEGINNING_BYTES = 256
_LOG_ID = r'^\{(?:"id": "\w*", (?:"since": "\w*", )?)?"log_id": "(?P<log>[^"\\]*)"'
_OF_STATEMENTS = ("definition", "left_out")
_LAST_COUNTS = ("retention", NAME_CASE, TIME_ZONE)

Row = dict[str, Any]


@dataclass(frozen=True)
class _CutPlace:
    """Where a cut stands."""

    position: int
    gtid_executed: str
    log_id: str

    @classmethod
    def of(cls, row: Row) -> _CutPlace:
        return cls(row["position"], row["gtid_executed"], json.loads(row["detail"])["log_id"])


@dataclass(frozen=True)
class _Kept:
    """``begin``: the places that a start may go back to: the oldest cut, and that of a copy.
    ``newest``: the last cut; ``logs``: of all cuts; ``gone``: paths of tables that are no more."""

    begin: tuple[_CutPlace, ...]
    newest: _CutPlace
    logs: frozenset[str]
    gone: Collection[str]

    @cached_property
    def _executed(self) -> list[GtidSet]:
        return [GtidSet.parse(cut.gtid_executed) for cut in self.begin]

    def is_before(self, row: Row) -> bool:
        """Whether the statement of a row was carried out wherever a start may go back to."""
        if gtid := row["gtid_executed"]:
            done = GtidSet.parse(gtid)
            return all(done.issubset(executed) for executed in self._executed)
        return all(row["position"] <= cut.position for cut in self.begin)


@dataclass(frozen=True)
class PruneBy:
    """The rules by which ``Control.prune`` chooses the rows that stay: a promise for cuts, and for
    rows of other kinds what a start may still read."""

    retention: Retention

    def __call__(
        self, rows: pa.Table, *, epoch: int, bases: Container[str], gone: Collection[str]
    ) -> pa.Table:
        """Return the rows to keep, as ``PruningRules`` describes."""
        return current(needed(rows, epoch, self.retention, datetime.now(UTC), bases), gone)


def current(rows: pa.Table, gone: Collection[str]) -> pa.Table:
    """The control table's rows without those that are superseded. ``gone``: paths that nothing
    names and where nothing is."""
    is_cut = pc.equal(rows.column("kind"), "cut")
    cuts = rows.filter(is_cut)
    others = rows.filter(pc.invert(is_cut)).sort_by([("at", "ascending")]).to_pylist()
    by_kind: dict[str, list[Row]] = {}
    for row in others:
        by_kind.setdefault(row["kind"], []).append(row)
    for kind in _LAST_COUNTS:
        by_kind[kind] = by_kind.get(kind, [])[-1:]
    by_kind[NAMES] = merged(by_kind.get(NAMES, []))
    by_kind[REPAIR] = by_kind.get(REPAIR, [])[-ANSWERS:]
    skip = reduce(
        GtidSet.union, (GtidSet.parse(r["gtid_executed"]) for r in by_kind.get(SKIP, ())), GtidSet()
    )
    for kind in _OF_STATEMENTS:
        by_kind[kind] = without_skipped(by_kind.get(kind, []), skip)
    if cuts.num_rows:
        kept = _kept(cuts, by_kind.get(COPY, []), gone)
        for kind, choose in _CHOOSE.items():
            by_kind[kind] = choose(by_kind.get(kind, []), kept)
        by_kind[GIVEN] = _given(by_kind.get(GIVEN, []), others[-1:], kept)
    left = [row for kept_rows in by_kind.values() for row in kept_rows]
    return pa.concat_tables([cuts, pa.Table.from_pylist(left, schema=rows.schema)])


def _kept(cuts: pa.Table, copies: list[Row], gone: Collection[str]) -> _Kept:
    places = cuts.select(["position", "at"])
    order = pc.sort_indices(places, [("position", "ascending"), ("at", "ascending")])
    oldest, newest = (
        _CutPlace.of(cuts.slice(order[at].as_py(), 1).to_pylist()[0]) for at in (0, -1)
    )
    begin = [oldest]
    if copies and (behind := Copy.of(copies[-1]).behind):
        begin.append(_CutPlace(behind.position, behind.gtid_executed, behind.log_id))
    logs = _logs_of(cuts.column("detail"))
    return _Kept(tuple(begin), newest, logs, gone)


def _logs_of(details: pa.ChunkedArray) -> frozenset[str]:
    """The logs of the cuts with these details, which begin with them; megabytes may follow."""
    beginnings = pc.binary_slice(details.cast(pa.large_binary()), 0, _BEGINNING_BYTES)
    named = pc.struct_field(pc.extract_regex(beginnings, _LOG_ID), "log")
    others = details.filter(pc.is_null(named)).to_pylist()
    logs = {log.decode() for log in named.unique().drop_null().to_pylist()}
    return frozenset(logs.union(json.loads(detail)["log_id"] for detail in others))


def _histories(rows: list[Row], kept: _Kept) -> list[Row]:
    """A row for each log, with the files that a log which goes on is told by."""
    logs: dict[str, Row] = {}
    for row in rows:
        detail = json.loads(row["detail"])
        before = logs.pop(detail["log_id"], None)
        files = {**(before["detail"]["fingerprints"] if before else {}), **detail["fingerprints"]}
        logs[detail["log_id"]] = row | {"detail": detail | {"fingerprints": files}}
    names = [name for name in logs if name not in kept.logs][-_LOGS:]
    return [_folded(row, kept) for log, row in logs.items() if log in kept.logs or log in names]


def _folded(row: Row, kept: _Kept) -> Row:
    detail = {key: value for key, value in row["detail"].items() if key not in formats.KEYS}
    files = {int(number): digest for number, digest in detail["fingerprints"].items()}
    passed = max(files, default=0)
    if detail["log_id"] == kept.newest.log_id:
        passed = (kept.newest.position >> OFFSET_BITS) - detail["base"]
    files = {number: files[number] for number in sorted(files) if number > passed - _FILES}
    text = json.dumps(detail | {"fingerprints": files})
    return row | {"detail": formats.stamp(text, format_of(row["kind"]))}


def _definitions(rows: list[Row], kept: _Kept) -> list[Row]:
    """Each table's last definition that holds wherever a start may go back to, and all behind it;
    the last that rows have shown, too, which says that they have."""
    last, others = dict[tuple[str, bool], Row](), list[Row]()
    for row in sorted(rows, key=lambda row: row["position"]):
        detail = json.loads(row["detail"])
        if detail["path"] in kept.gone:
            continue
        if not kept.is_before(row):
            others.append(row)
            continue
        last[detail["path"], False] = row
        if detail.get("by_rows"):
            last[detail["path"], True] = row
    return _once([*last.values(), *others])


def _left_out(rows: list[Row], kept: _Kept) -> list[Row]:
    """The last row of each name (a tool's table, a database), unless it has ended, and all behind
    it."""
    last, others = dict[str, Row](), list[Row]()
    for row in sorted(rows, key=lambda row: (row["position"], row["at"])):
        detail = json.loads(row["detail"])
        if not kept.is_before(row):
            others.append(row)
        elif detail.get("ended"):
            last.pop(detail["name"], None)
        else:
            last[detail["name"]] = row
    return [*last.values(), *others]


def _tables(rows: list[Row], kept: _Kept) -> list[Row]:
    return [row for row in rows if json.loads(row["detail"])["path"] not in kept.gone]


def _reset(rows: list[Row], kept: _Kept) -> list[Row]:
    """One row with the paths of tables that were reset whose folders are there still."""
    paths = {path for row in rows for path in json.loads(row["detail"])["paths"]}
    left = sorted(paths.difference(kept.gone))
    detail = formats.stamp(json.dumps({"paths": left}), format_of(RESET))
    return [rows[-1] | {"detail": detail}] if left else []


def _given(rows: list[Row], newest: list[Row], kept: _Kept) -> list[Row]:
    """One row that says which paths were given to tables whose rows go: none is given again."""
    before = Forgotten.of_detail(rows[-1]["detail"]) if rows else Forgotten()
    after = before.with_paths(kept.gone)
    if after == before:
        return rows[-1:]
    detail = formats.stamp(after.to_detail(), format_of(GIVEN))
    return [
        row | {"kind": GIVEN, "position": 0, "gtid_executed": "", "detail": detail}
        for row in newest
    ]


def _copies(rows: list[Row], kept: _Kept) -> list[Row]:
    """The last row of each copy whose tables are there; the last one of all says what stands."""
    last: dict[tuple[str, ...], Row] = {}
    for row in rows:
        paths = Copy.of(row).paths.values()
        if there := tuple(sorted(set(paths) - set(kept.gone))):
            last[there] = row
    return _once([*last.values(), *rows[-1:]])


def _foreign_keys(rows: list[Row], _: _Kept) -> list[Row]:
    return list({json.loads(row["detail"])["name"]: row for row in rows}.values())


def _once(rows: Iterable[Row]) -> list[Row]:
    return list({id(row): row for row in rows}.values())


_CHOOSE: dict[str, Callable[[list[Row], _Kept], list[Row]]] = {
    "history": _histories,
    "definition": _definitions,
    "left_out": _left_out,
    DATABASE_CHARSET: _left_out,
    "table": _tables,
    RESET: _reset,
    COPY: _copies,
    "foreign_keys": _foreign_keys,
}
