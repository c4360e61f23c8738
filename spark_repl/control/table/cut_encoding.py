"""Encoding of a cut's tables in a row: all of them, or the differences to an earlier cut.

Each of a thousand tables takes 126 bytes, and most tables of a cut are also in the cut before. So
the row of a cut with many tables has an ``id``. The next row has this id as ``since``, the tables
that differ from it or are new, and the names of those that are ``gone``. An id is a digest of what
its row encoded first, and stays when the row is encoded again: rows of one id show the same tables.
``rebased`` encodes kept cuts again in the commit that prunes their base.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ... import formats
from ...errors import TargetError
from .cut import Cut, TableVersion, tables_text
from .row_formats import format_of_cut

LEAST_TABLES, MOST_SINCE = 50, 100
"""with fewer tables each row has all of them; at most this many rows are encoded, one after the
other, as differences to one with all tables"""
_ID = r'^\{"id": "(?P<id>[0-9a-f]{32})"(?:, "since": "(?P<since>[0-9a-f]{32})")?'
_BEGIN, _BEGINNING_BYTES = re.compile(_ID), 128

Tables = Mapping[str, TableVersion]


@dataclass(frozen=True)
class CutBase:
    """A cut to which the next one may be encoded as differences. ``depth``: how many rows it is
    itself encoded on."""

    id: str
    tables: Tables
    depth: int = 0


def encode(cut: Cut, base: CutBase | None) -> tuple[str, CutBase | None]:
    """Return the detail of a cut's row, encoded as differences to ``base`` or with all tables; and
    the base of the next cut, if it has many tables."""
    if len(cut.tables) < LEAST_TABLES:
        return cut.to_detail(), None
    difference = differences(cut.tables, base)
    if base is None or difference is None:
        next_base = CutBase(_id_of("", cut.tables, ()), cut.tables)
        return cut.detail({"id": next_base.id}, cut.tables), next_base
    changed, gone = difference
    next_base = CutBase(_id_of(base.id, changed, gone), cut.tables, base.depth + 1)
    return cut.detail({"id": next_base.id, "since": base.id}, changed, gone), next_base


def differences(tables: Tables, base: CutBase | None) -> tuple[Tables, tuple[str, ...]] | None:
    """Return the tables that differ from those of ``base``, and the names of tables that are gone.
    Return None if all tables have to be encoded: too many differ, or too many rows would depend on
    one."""
    if base is None or base.depth >= MOST_SINCE:
        return None
    base_tables = base.tables
    changed = {
        name: table
        for name, table in tables.items()
        if (old := base_tables.get(name)) is not table and old != table
    }
    gone = tuple(sorted(base_tables.keys() - tables.keys()))
    return None if 2 * (len(changed) + len(gone)) > len(tables) else (changed, gone)


def _id_of(since: str, tables: Tables, gone: tuple[str, ...]) -> str:
    text = f"{since} {json.dumps(gone)} {tables_text(tables)}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def base_of(detail: str) -> tuple[str, str]:
    """Return (id, id of its base) of one row's detail; "" for one that is missing."""
    match = _BEGIN.match(detail)
    return (match["id"], match["since"] or "") if match else ("", "")


def bases_of(details: pa.ChunkedArray) -> list[tuple[str, str]]:
    """Return ``base_of`` each of many details. Only their beginnings are read."""
    beginnings = pc.binary_slice(details.cast(pa.large_binary()), 0, _BEGINNING_BYTES)
    parts = pc.extract_regex(beginnings, _ID)
    of_each = [pc.fill_null(pc.struct_field(parts, name), b"") for name in ("id", "since")]
    ids, since = (column.cast(pa.string()).to_pylist() for column in of_each)
    return list(zip(ids, since, strict=True))


class CutRows:
    """The rows with ids of a table of cuts. The ids are read when the first row is looked up."""

    def __init__(self, cuts: pa.Table) -> None:
        self._cuts = cuts
        self._numbers: dict[str, int] | None = None

    def detail(self, wanted: str) -> str | None:
        """Return the detail of the row with an id; None: there is none."""
        if self._numbers is None:
            marks = bases_of(self._cuts.column("detail")) if self._cuts.num_rows else []
            self._numbers = {row_id: number for number, (row_id, _) in enumerate(marks) if row_id}
        number = self._numbers.get(wanted)
        return None if number is None else str(self._cuts.column("detail")[number].as_py())


class CutDecoder:
    """Decodes cuts from rows. ``find`` returns the detail of the row with an id. Rows in the order
    in which they were written are each decoded from the one before. Not thread-safe."""

    def __init__(self, find: Callable[[str], str | None], file: str) -> None:
        self._find, self._file = find, file
        self._last_id, self._last_tables = "", dict[str, TableVersion]()

    def cut(self, row: Mapping[str, Any]) -> Cut:
        """Return the cut of a row. Raise TargetError if its base, or a base of that, is missing."""
        detail = json.loads(row["detail"])
        return Cut.with_tables(row, detail, self._tables_of(detail))

    def _tables_of(self, detail: dict[str, Any]) -> dict[str, TableVersion]:
        own_id, details, seen = detail.get("id", ""), list[dict[str, Any]](), set[str]()
        while (since := detail.get("since")) and since != self._last_id:
            details.append(detail)
            text = None if since in seen else self._find(since)
            if text is None:
                raise TargetError(
                    "the control table lacks a row that a cut is told since",
                    file=self._file,
                    hint="somebody has removed it: take another cut, or put a copy of it back",
                )
            seen.add(since)
            detail = json.loads(text)
        tables = dict(self._last_tables) if since else dict[str, TableVersion]()
        for fields_of_row in (detail, *reversed(details)):
            for name in fields_of_row.get("gone", ()):
                tables.pop(name, None)
            tables.update(
                (name, TableVersion.of(fields)) for name, fields in fields_of_row["tables"].items()
            )
        tables = dict(sorted(tables.items()))
        if own_id:
            self._last_id, self._last_tables = own_id, tables
        return tables


_OWN = ("id", "since", "gone", "tables")


def rebased(rows: pa.Table, remaining: pa.Table, file: str) -> pa.Table:
    """Return ``remaining``, which are some of the control table's ``rows``, with each cut encoded
    with
    all tables or as differences to another kept one. Raise TargetError if ``rows`` lack a base."""
    cuts = remaining.filter(pc.equal(remaining.column("kind"), "cut"))
    marks = bases_of(cuts.column("detail"))
    ids = {row_id for row_id, _ in marks if row_id}
    orphans = {at for at, (_, since) in enumerate(marks) if since and since not in ids}
    if not orphans:
        return remaining
    return _Rebase(rows, cuts, marks, file).rows(remaining, sorted(orphans))


class _Rebase:
    """Encodes cuts again. ``cuts``: those that are kept; ``marks``: their ids and those of their
    bases."""

    def __init__(
        self, rows: pa.Table, cuts: pa.Table, marks: list[tuple[str, str]], file: str
    ) -> None:
        all_cuts = rows.filter(pc.equal(rows.column("kind"), "cut"))
        self._decoder = CutDecoder(CutRows(all_cuts).detail, file)
        self._cuts, self._marks = cuts, marks
        self._since = dict(marks)
        order = [("position", "ascending"), ("at", "ascending")]
        self._order = pc.sort_indices(cuts.select(["position", "at"]), order).to_pylist()

    def rows(self, remaining: pa.Table, orphans: list[int]) -> pa.Table:
        wanted, previous, new = set(orphans), None, []
        for at in self._order:
            if at in wanted:
                new.append(self._encoded(at, previous))
            previous = at
        stays = pa.array([at not in wanted for at in range(self._cuts.num_rows)])
        other_rows = remaining.filter(pc.invert(pc.equal(remaining.column("kind"), "cut")))
        encoded = pa.Table.from_pylist(new, schema=remaining.schema)
        return pa.concat_tables([other_rows, self._cuts.filter(stays), encoded])

    def _row(self, at: int) -> dict[str, Any]:
        row: dict[str, Any] = self._cuts.slice(at, 1).to_pylist()[0]
        return row

    def _encoded(self, at: int, previous: int | None) -> dict[str, Any]:
        own_id, row = self._marks[at][0], self._row(at)
        base = None if previous is None else self._base(previous, own_id)
        tables = self._decoder.cut(row).tables
        since = differences(tables, base)
        detail = json.loads(row["detail"])
        rest = {key: value for key, value in detail.items() if key not in (*_OWN, *formats.KEYS)}
        if base is None or since is None:
            self._since[own_id] = ""
            text = _text({"id": own_id}, tables, rest)
            return row | {"detail": formats.stamp(text, _format_of(detail, since=False))}
        self._since[own_id] = base.id
        changed, gone = since
        text = _text({"id": own_id, "since": base.id, "gone": list(gone)}, changed, rest)
        return row | {"detail": formats.stamp(text, _format_of(detail, since=True))}

    def _base(self, at: int, own_id: str) -> CutBase | None:
        """Return the cut before as a base. Return None if it has no id, or is encoded on the row
        ``own_id`` itself: positions may have gone back."""
        row_id, depth = self._marks[at][0], 0
        if not row_id or row_id == own_id:
            return None
        above = row_id
        while above := self._since.get(above, ""):
            depth += 1
            if above == own_id:
                return None
        return CutBase(row_id, self._decoder.cut(self._row(at)).tables, depth)


def _format_of(detail: dict[str, Any], *, since: bool) -> int:
    owners = [mark.get("owners") for mark in detail.get("quarantined", {}).values()]
    return format_of_cut(owners, detail.get("prepared", ()), since=since)


def _text(head: dict[str, Any], tables: Tables, rest: dict[str, Any]) -> str:
    """Return a row's detail, as ``Cut.detail`` does, but with the tables last."""
    fields = json.dumps({**head, **rest})
    return f'{fields[:-1]}, "tables": {{{tables_text(tables)}}}}}'
