"""Pruning: which rows of the control table stay.

Of the rows of each kind ``live_rows`` keeps what a start from any kept cut would need.
``retention`` chooses the cuts, owners and pins. An operator's decisions all stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ... import formats
from ...gtid import GtidSet
from ...position import OFFSET_BITS
from ..table.cut_tables import CUT_TABLE, needed_rows
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
from .repair_results import KIND as REPAIR
from .repair_results import RESULTS_KEPT
from .retention import Retention, promised_rows
from .shared_tables import REGISTERS
from .system_time_zone import KIND as TIME_ZONE
from .table_paths import KIND as ANNOUNCED
from .table_paths import RESET

_FILES, _LOGS = 1000, 10
"""fingerprints that stay: of the last files that the tables have passed, and of the last logs
without a cut"""
_BEGINNING_BYTES = 256
_LOG_ID = r'^\{"log_id": "(?P<log>[^"\\]*)"'
_OF_STATEMENTS = ("definition", "left_out")
_LAST_COUNTS = ("retention", NAME_CASE, TIME_ZONE, REGISTERS)

Row = dict[str, Any]


@dataclass(frozen=True)
class _CutPlace:
    """The place of a cut in its log."""

    position: int
    gtid_executed: str
    log_id: str

    @classmethod
    def of(cls, row: Row) -> _CutPlace:
        return cls(row["position"], row["gtid_executed"], json.loads(row["detail"])["log_id"])


@dataclass(frozen=True)
class _Remaining:
    """The places and logs that stay. ``begin``: the places from which a start may continue, at the
    oldest cut and at a copy. ``newest``: the last cut; ``logs``: of all cuts; ``gone``: paths of
    tables that no longer exist."""

    begin: tuple[_CutPlace, ...]
    newest: _CutPlace
    logs: frozenset[str]
    gone: Collection[str]

    @cached_property
    def _executed(self) -> list[GtidSet]:
        return [GtidSet.parse(cut.gtid_executed) for cut in self.begin]

    def is_before(self, row: Row) -> bool:
        """Return whether the statement of a row was executed before every place that a start may go
        back to."""
        if gtid := row["gtid_executed"]:
            gtids = GtidSet.parse(gtid)
            return all(gtids.issubset(executed) for executed in self._executed)
        return all(row["position"] <= cut.position for cut in self.begin)


@dataclass(frozen=True)
class PruneBy:
    """The rules by which ``Control.prune`` chooses the rows to keep: for cuts the retention
    promise, for rows of other kinds what a start may still read."""

    retention: Retention

    def __call__(self, rows: pa.Table, *, epoch: int, gone: Collection[str]) -> pa.Table:
        """Return the rows to keep, as ``PruningRules`` describes."""
        of_tables = pc.equal(rows.column("kind"), CUT_TABLE)
        other_rows = rows.filter(pc.invert(of_tables))
        live = live_rows(promised_rows(other_rows, epoch, self.retention, datetime.now(UTC)), gone)
        cuts = live.column("sequence").drop_null().to_pylist()
        return pa.concat_tables([live, needed_rows(rows.filter(of_tables), cuts)])


def live_rows(rows: pa.Table, gone: Collection[str]) -> pa.Table:
    """Return the control table's rows except those of cuts' tables, without rows that later rows
    supersede. ``gone``: paths that no row names and at which nothing exists."""
    kinds = rows.column("kind")
    is_cut = pc.equal(kinds, "cut")
    # Thousands of tables may be announced: their rows are not converted if all of them stay.
    stays = is_cut if gone else pc.or_(is_cut, pc.equal(kinds, ANNOUNCED))
    cuts = rows.filter(is_cut)
    other_rows = rows.filter(pc.invert(stays)).sort_by([("at", "ascending")]).to_pylist()
    by_kind: dict[str, list[Row]] = {}
    for row in other_rows:
        by_kind.setdefault(row["kind"], []).append(row)
    for kind in _LAST_COUNTS:
        by_kind[kind] = by_kind.get(kind, [])[-1:]
    by_kind[NAMES] = merged(by_kind.get(NAMES, []))
    by_kind[REPAIR] = by_kind.get(REPAIR, [])[-RESULTS_KEPT:]
    skip = reduce(
        GtidSet.union, (GtidSet.parse(r["gtid_executed"]) for r in by_kind.get(SKIP, ())), GtidSet()
    )
    for kind in _OF_STATEMENTS:
        by_kind[kind] = without_skipped(by_kind.get(kind, []), skip)
    if cuts.num_rows:
        remaining = _remaining(cuts, by_kind.get(COPY, []), gone)
        for kind, choose in _CHOOSE.items():
            by_kind[kind] = choose(by_kind.get(kind, []), remaining)
        by_kind[GIVEN] = _given(by_kind.get(GIVEN, []), other_rows[-1:], remaining)
    live = [row for rows_of_kind in by_kind.values() for row in rows_of_kind]
    return pa.concat_tables([rows.filter(stays), pa.Table.from_pylist(live, schema=rows.schema)])


def _remaining(cuts: pa.Table, copies: list[Row], gone: Collection[str]) -> _Remaining:
    places = cuts.select(["position", "at"])
    order = pc.sort_indices(places, [("position", "ascending"), ("at", "ascending")])
    oldest, newest = (
        _CutPlace.of(cuts.slice(order[at].as_py(), 1).to_pylist()[0]) for at in (0, -1)
    )
    begin = [oldest]
    if copies and (start_cut := Copy.of(copies[-1]).behind):
        begin.append(_CutPlace(start_cut.position, start_cut.gtid_executed, start_cut.log_id))
    logs = _logs_of(cuts.column("detail"))
    return _Remaining(tuple(begin), newest, logs, gone)


def _logs_of(details: pa.ChunkedArray) -> frozenset[str]:
    """Return the logs of the cuts with these details. Only the beginnings of the details are read,
    since tables in quarantine may follow."""
    beginnings = pc.binary_slice(details.cast(pa.large_binary()), 0, _BEGINNING_BYTES)
    named = pc.struct_field(pc.extract_regex(beginnings, _LOG_ID), "log")
    unmatched = details.filter(pc.is_null(named)).to_pylist()
    logs = {log.decode() for log in named.unique().drop_null().to_pylist()}
    return frozenset(logs.union(json.loads(detail)["log_id"] for detail in unmatched))


def _histories(rows: list[Row], remaining: _Remaining) -> list[Row]:
    """Return a row for each log, with the files by which a start recognises the log."""
    logs: dict[str, Row] = {}
    for row in rows:
        detail = json.loads(row["detail"])
        before = logs.pop(detail["log_id"], None)
        files = {**(before["detail"]["fingerprints"] if before else {}), **detail["fingerprints"]}
        logs[detail["log_id"]] = row | {"detail": detail | {"fingerprints": files}}
    names = [name for name in logs if name not in remaining.logs][-_LOGS:]
    return [
        _folded(row, remaining)
        for log, row in logs.items()
        if log in remaining.logs or log in names
    ]


def _folded(row: Row, remaining: _Remaining) -> Row:
    detail = {key: value for key, value in row["detail"].items() if key not in formats.KEYS}
    files = {int(number): digest for number, digest in detail["fingerprints"].items()}
    passed = max(files, default=0)
    if detail["log_id"] == remaining.newest.log_id:
        passed = (remaining.newest.position >> OFFSET_BITS) - detail["base"]
    files = {number: files[number] for number in sorted(files) if number > passed - _FILES}
    text = json.dumps(detail | {"fingerprints": files})
    return row | {"detail": formats.stamp(text, format_of(row["kind"]))}


def _definitions(rows: list[Row], remaining: _Remaining) -> list[Row]:
    """Return each table's last definition that holds wherever a start may go back to, and all later
    ones. Keep also the last one that rows have shown, which records that they did."""
    last, later = dict[tuple[str, bool], Row](), list[Row]()
    for row in sorted(rows, key=lambda row: row["position"]):
        detail = json.loads(row["detail"])
        if detail["path"] in remaining.gone:
            continue
        if not remaining.is_before(row):
            later.append(row)
            continue
        last[detail["path"], False] = row
        if detail.get("by_rows"):
            last[detail["path"], True] = row
    return _once([*last.values(), *later])


def _last_by_name(rows: list[Row], remaining: _Remaining) -> list[Row]:
    """Return the last row of each name (a tool's table, a database), unless it has ended, and all
    later ones."""
    last, later = dict[str, Row](), list[Row]()
    for row in sorted(rows, key=lambda row: (row["position"], row["at"])):
        detail = json.loads(row["detail"])
        if not remaining.is_before(row):
            later.append(row)
        elif detail.get("ended"):
            last.pop(detail["name"], None)
        else:
            last[detail["name"]] = row
    return [*last.values(), *later]


def _tables(rows: list[Row], remaining: _Remaining) -> list[Row]:
    return [row for row in rows if json.loads(row["detail"])["path"] not in remaining.gone]


def _reset(rows: list[Row], remaining: _Remaining) -> list[Row]:
    """Return one row with the paths of reset tables whose folders still exist."""
    paths = {path for row in rows for path in json.loads(row["detail"])["paths"]}
    existing = sorted(paths.difference(remaining.gone))
    detail = formats.stamp(json.dumps({"paths": existing}), format_of(RESET))
    return [rows[-1] | {"detail": detail}] if existing else []


def _given(rows: list[Row], newest: list[Row], remaining: _Remaining) -> list[Row]:
    """Return one row of the paths that were given to tables whose rows are pruned: none is given
    again."""
    before = Forgotten.of_detail(rows[-1]["detail"]) if rows else Forgotten()
    after = before.with_paths(remaining.gone)
    if after == before:
        return rows[-1:]
    detail = formats.stamp(after.to_detail(), format_of(GIVEN))
    return [
        row | {"kind": GIVEN, "position": 0, "gtid_executed": "", "detail": detail}
        for row in newest
    ]


def _copies(rows: list[Row], remaining: _Remaining) -> list[Row]:
    """Return the last row of each copy whose tables exist, and the last one of all, which may be
    pending."""
    last: dict[tuple[str, ...], Row] = {}
    for row in rows:
        paths = Copy.of(row).paths.values()
        if existing := tuple(sorted(set(paths) - set(remaining.gone))):
            last[existing] = row
    return _once([*last.values(), *rows[-1:]])


def _foreign_keys(rows: list[Row], _: _Remaining) -> list[Row]:
    return list({json.loads(row["detail"])["name"]: row for row in rows}.values())


def _once(rows: Iterable[Row]) -> list[Row]:
    return list({id(row): row for row in rows}.values())


_CHOOSE: dict[str, Callable[[list[Row], _Remaining], list[Row]]] = {
    "history": _histories,
    "definition": _definitions,
    "left_out": _last_by_name,
    DATABASE_CHARSET: _last_by_name,
    ANNOUNCED: _tables,
    RESET: _reset,
    COPY: _copies,
    "foreign_keys": _foreign_keys,
}
