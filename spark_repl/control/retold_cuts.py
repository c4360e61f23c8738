"""Retold cuts: rows of cuts that were told since one that is going to be forgotten.

They are told anew, since the kept one before them or whole, in the commit that forgets the other.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .. import formats
from .cut import tables_text
from .row_formats import format_of_cut
from .told_cuts import CutsById, Tables, Told, ToldCuts, change, marks_of

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
