"""Cuts as earlier versions wrote them: with their tables in the detail of their row.

The detail has all tables. Or it names another cut (``since``), the tables that differ from that
cut's, and those that are ``gone``. ``converted`` returns such rows in today's form
(``cut_tables``). A reader converts the rows in memory. An owner writes the converted rows when it
claims the target (``Control.claim``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ... import formats
from ...errors import TargetError
from .cut import TableVersion
from .cut_tables import CutTables, LastTables, complete_rows
from .row_formats import format_of

_ID = re.compile(r'^\{"id": "([0-9a-f]{32})"')
_OWN = ("id", "since", "gone", "tables", *formats.KEYS)
"""keys of a detail that today's rows lack"""


def _are_earlier(rows: pa.Table) -> pa.ChunkedArray:
    is_cut = pc.equal(rows.column("kind"), "cut")
    return pc.and_(is_cut, pc.is_null(rows.column("sequence")))


def has_earlier(rows: pa.Table) -> bool:
    """Return whether any of the control table's rows is a cut of an earlier version."""
    return pc.any(_are_earlier(rows)).as_py() or False


def converted(rows: pa.Table, file: str) -> pa.Table:
    """Return the control table's rows, with cuts of earlier versions in the current form. Raise
    TargetError, which names ``file``, if a row on which another one depends is missing."""
    if not has_earlier(rows):
        return rows
    earlier = _are_earlier(rows)
    cuts = rows.filter(earlier)  # not sorted: a copy may have gigabytes
    places = [("position", "ascending"), ("at", "ascending")]
    order = pc.sort_indices(cuts.select(["position", "at"]), places).to_pylist()
    decoder = _Decoder(cuts.column("detail"), file)

    def decoded() -> Iterator[tuple[dict[str, Any], str, dict[str, TableVersion]]]:
        for number in order:
            (row,) = cuts.slice(number, 1).to_pylist()
            detail = json.loads(row["detail"])
            text = json.dumps({key: value for key, value in detail.items() if key not in _OWN})
            yield row, formats.stamp(text, format_of("cut")), decoder.tables(detail)

    other_rows = rows.filter(pc.invert(earlier))
    present = CutTables.of(other_rows)
    highest = max(present.highest, pc.max(other_rows.column("sequence")).as_py() or 0)
    new = complete_rows(decoded(), LastTables(highest, present.at(highest)))
    return pa.concat_tables([other_rows, new.cast(other_rows.schema)])


class _Decoder:
    """Decodes the tables of cuts, each from the previous one if possible. ``details``: of all
    rows."""

    def __init__(self, details: pa.ChunkedArray, file: str) -> None:
        self._details, self._file = details, file
        beginnings = pc.binary_slice(details.cast(pa.binary()), 0, 64).to_pylist()
        matches = (_ID.match(beginning.decode("ascii", "replace")) for beginning in beginnings)
        self._by_id = {match[1]: number for number, match in enumerate(matches) if match}
        self._last_id, self._last = "", dict[str, TableVersion]()

    def tables(self, detail: Mapping[str, Any]) -> dict[str, TableVersion]:
        """Return the tables of the cut with this detail."""
        own_id, details, seen = detail.get("id", ""), [detail], set[str]()
        while (since := details[-1].get("since")) and since != self._last_id:
            if since in seen or since not in self._by_id:
                raise TargetError(
                    "the control table lacks a row that a cut is told since",
                    file=self._file,
                    hint="another writer has removed it: put a copy of it back",
                )
            seen.add(since)
            details.append(json.loads(self._details[self._by_id[since]].as_py()))
        tables = dict(self._last) if since else dict[str, TableVersion]()
        for fields in reversed(details):
            for name in fields.get("gone", ()):
                tables.pop(name, None)
            tables |= {name: TableVersion.of(of) for name, of in fields["tables"].items()}
        if own_id:
            self._last_id, self._last = own_id, tables
        return dict(sorted(tables.items()))
