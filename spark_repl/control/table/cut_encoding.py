"""Encoding of a cut's tables in a row: all of them, or the differences to an earlier cut.

Each of a thousand tables takes 126 bytes, and most tables of a cut are those of the cut before. So
the row of a cut with many tables has an ``id``, and the next row names ``since`` that id the tables
that differ or are new, and those that are ``gone``. An id is a digest of what its row encoded first
and stays when the row is encoded again: rows of one id show the same tables. ``retold`` encodes
again, in the commit that prunes a cut, the kept cuts that were differences to it.
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
"""with fewer tables each row tells all; so many rows at most stand on one that does"""
_ID = r'^\{"id": "(?P<id>[0-9a-f]{32})"(?:, "since": "(?P<since>[0-9a-f]{32})")?'
_BEGIN, _BEGINNING_BYTES = re.compile(_ID), 128

Tables = Mapping[str, TableVersion]


@dataclass(frozen=True)
class Told:
    """A cut whose row others may be told since; ``depth``: how many rows that one stands on."""

    id: str
    tables: Tables
    depth: int = 0


def tell(cut: Cut, before: Told | None) -> tuple[str, Told | None]:
    """The detail of a cut's row, which stands behind ``before``, or on nothing; and what the next
    one may be told since."""
    if len(cut.tables) < LEAST_TABLES:
        return cut.to_detail(), None
    since = change(cut.tables, before)
    if before is None or since is None:
        told = Told(_id_of("", cut.tables, ()), cut.tables)
        return cut.detail({"id": told.id}, cut.tables), told
    changed, gone = since
    told = Told(_id_of(before.id, changed, gone), cut.tables, before.depth + 1)
    return cut.detail({"id": told.id, "since": before.id}, changed, gone), told


def change(tables: Tables, before: Told | None) -> tuple[Tables, tuple[str, ...]] | None:
    """The tables that are not what they were, and the names of those that are gone; None where all
    are to be told: too many are, or too many rows would stand on one."""
    if before is None or before.depth >= MOST_SINCE:
        return None
    was = before.tables
    changed = {
        name: one
        for name, one in tables.items()
        if (old := was.get(name)) is not one and old != one
    }
    gone = tuple(sorted(was.keys() - tables.keys()))
    return None if 2 * (len(changed) + len(gone)) > len(tables) else (changed, gone)


def _id_of(since: str, tables: Tables, gone: tuple[str, ...]) -> str:
    text = f"{since} {json.dumps(gone)} {tables_text(tables)}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def mark_of(detail: str) -> tuple[str, str]:
    """(id, id of the row that it is told since) of one row's detail; "" where it has none."""
    match = _BEGIN.match(detail)
    return (match["id"], match["since"] or "") if match else ("", "")


def marks_of(details: pa.ChunkedArray) -> list[tuple[str, str]]:
    """``mark_of`` each of many details, of which the beginnings alone are looked at."""
    beginnings = pc.binary_slice(details.cast(pa.large_binary()), 0, _BEGINNING_BYTES)
    parts = pc.extract_regex(beginnings, _ID)
    of_each = [pc.fill_null(pc.struct_field(parts, name), b"") for name in ("id", "since")]
    ids, since = (column.cast(pa.string()).to_pylist() for column in of_each)
    return list(zip(ids, since, strict=True))


class CutsById:
    """The rows of a table of cuts that have ids, which are looked for when one is asked for."""

    def __init__(self, cuts: pa.Table) -> None:
        self._cuts = cuts
        self._numbers: dict[str, int] | None = None

    def detail(self, wanted: str) -> str | None:
        """That of the row with an id; None: there is none."""
        if self._numbers is None:
            marks = marks_of(self._cuts.column("detail")) if self._cuts.num_rows else []
            self._numbers = {one: number for number, (one, _) in enumerate(marks) if one}
        number = self._numbers.get(wanted)
        return None if number is None else str(self._cuts.column("detail")[number].as_py())


class ToldCuts:
    """Makes cuts of rows. ``find``: the detail of the row with an id. Of rows in the order in which
    they were written each is made of the one before. Not safe from several threads."""

    def __init__(self, find: Callable[[str], str | None], file: str) -> None:
        self._find, self._file = find, file
        self._made, self._tables = "", dict[str, TableVersion]()

    def cut(self, row: Mapping[str, Any]) -> Cut:
        """Raises TargetError where a row is missing that the cut is told since."""
        detail = json.loads(row["detail"])
        return Cut.told(row, detail, self._shown(detail))

    def _shown(self, detail: dict[str, Any]) -> dict[str, TableVersion]:
        mine, behind, seen = detail.get("id", ""), list[dict[str, Any]](), set[str]()
        while (since := detail.get("since")) and since != self._made:
            behind.append(detail)
            text = None if since in seen else self._find(since)
            if text is None:
                raise TargetError(
                    "the control table lacks a row that a cut is told since",
                    file=self._file,
                    hint="somebody has removed it: take another cut, or put a copy of it back",
                )
            seen.add(since)
            detail = json.loads(text)
        tables = dict(self._tables) if since else dict[str, TableVersion]()
        for one in (detail, *reversed(behind)):
            for name in one.get("gone", ()):
                tables.pop(name, None)
            tables.update((name, TableVersion.of(fields)) for name, fields in one["tables"].items())
        tables = dict(sorted(tables.items()))
        if mine:
            self._made, self._tables = mine, tables
        return tables


_OWN = ("id", "since", "gone", "tables")


def retold(rows: pa.Table, kept: pa.Table, file: str) -> pa.Table:
    """``kept``, which are some of the control table's ``rows``, with each cut told whole or since
    another that is kept. Raises TargetError where ``rows`` lack one that a cut is told since."""
    cuts = kept.filter(pc.equal(kept.column("kind"), "cut"))
    marks = marks_of(cuts.column("detail"))
    there = {one for one, _ in marks if one}
    lost = {at for at, (_, since) in enumerate(marks) if since and since not in there}
    if not lost:
        return kept
    return _Retelling(rows, cuts, marks, file).done(kept, sorted(lost))


class _Retelling:
    """``cuts``: those that are kept, ``marks``: their ids and those that they are told since."""

    def __init__(
        self, rows: pa.Table, cuts: pa.Table, marks: list[tuple[str, str]], file: str
    ) -> None:
        all_cuts = rows.filter(pc.equal(rows.column("kind"), "cut"))
        self._told = ToldCuts(CutsById(all_cuts).detail, file)
        self._cuts, self._marks = cuts, marks
        self._since = dict(marks)
        order = [("position", "ascending"), ("at", "ascending")]
        self._order = pc.sort_indices(cuts.select(["position", "at"]), order).to_pylist()

    def done(self, kept: pa.Table, lost: list[int]) -> pa.Table:
        wanted, before, new = set(lost), None, []
        for at in self._order:
            if at in wanted:
                new.append(self._anew(at, before))
            before = at
        stays = pa.array([at not in wanted for at in range(self._cuts.num_rows)])
        others = kept.filter(pc.invert(pc.equal(kept.column("kind"), "cut")))
        made = pa.Table.from_pylist(new, schema=kept.schema)
        return pa.concat_tables([others, self._cuts.filter(stays), made])

    def _row(self, at: int) -> dict[str, Any]:
        row: dict[str, Any] = self._cuts.slice(at, 1).to_pylist()[0]
        return row

    def _anew(self, at: int, before: int | None) -> dict[str, Any]:
        mine, row = self._marks[at][0], self._row(at)
        stands = None if before is None else self._standing(before, mine)
        tables = self._told.cut(row).tables
        since = change(tables, stands)
        detail = json.loads(row["detail"])
        rest = {key: value for key, value in detail.items() if key not in (*_OWN, *formats.KEYS)}
        if stands is None or since is None:
            self._since[mine] = ""
            text = _text({"id": mine}, tables, rest)
            return row | {"detail": formats.stamp(text, _format_of(detail, since=False))}
        self._since[mine] = stands.id
        changed, gone = since
        text = _text({"id": mine, "since": stands.id, "gone": list(gone)}, changed, rest)
        return row | {"detail": formats.stamp(text, _format_of(detail, since=True))}

    def _standing(self, at: int, mine: str) -> Told | None:
        """The cut before, as one to be told since; None where it has no id, or is told since the
        row ``mine`` itself: positions may have gone back."""
        one, depth = self._marks[at][0], 0
        if not one or one == mine:
            return None
        above = one
        while above := self._since.get(above, ""):
            depth += 1
            if above == mine:
                return None
        return Told(one, self._told.cut(self._row(at)).tables, depth)


def _format_of(detail: dict[str, Any], *, since: bool) -> int:
    owners = [mark.get("owners") for mark in detail.get("quarantined", {}).values()]
    return format_of_cut(owners, detail.get("prepared", ()), since=since)


def _text(head: dict[str, Any], tables: Tables, rest: dict[str, Any]) -> str:
    """A row's detail, as ``Cut.detail`` has it, but for the tables, which are last."""
    told = json.dumps({**head, **rest})
    return f'{told[:-1]}, "tables": {{{tables_text(tables)}}}}}'
