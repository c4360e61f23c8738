"""Told cuts: how a row of the control table tells a cut's tables, all of them or since another one.

Each of a thousand tables takes 126 bytes, and most are in one cut what they were in the one before.
So where there are many a row has an ``id``, and the next row tells ``since`` that one what tables
are other ones, or new, and which are ``gone``. An id is a digest of what its row told first, and
stays when that is told anew (``retold_cuts``): rows of one id show the same tables.
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

from ..errors import TargetError
from .cut import Cut, TableVersion, tables_text

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
