"""What the control table holds: the newest cut is found without a look at the others."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from spark_repl import formats
from spark_repl.control.table.control_snapshot import ControlSnapshot
from spark_repl.control.table.row_formats import SCHEMA
from spark_repl.errors import FormatError

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def row(kind: str, number: int, position: int = 0, form: int = 1) -> dict[str, Any]:
    return {
        "kind": kind, "sequence": number if kind == "cut" else None, "epoch": 1,
        "at": BEGIN + timedelta(seconds=number), "position": position,
        "gtid_executed": "u:1", "detail": formats.stamp(f'{{"number": {number}}}', form),
    }  # fmt: skip


def held(*rows: dict[str, Any]) -> ControlSnapshot:
    return ControlSnapshot.of(3, pa.Table.from_pylist(list(rows)), 1, "control")


def number(found: dict[str, Any] | None) -> str:
    assert found is not None
    return str(found["detail"])


def test_of_thousands_of_cuts_the_newest_alone_is_read():
    """Of the others nothing could be read; two are at that place."""
    older = [row("cut", n, n // 2) | {"detail": "no JSON"} for n in range(1, 3999)]
    rows = held(row("owner", 0), *older, row("cut", 3999, 1999))
    assert number(rows.last_cut()) == '{"number": 3999}'
    assert rows.cut_count == 3999


def test_rows_in_their_order():
    rows = held(row("cut", 5, 9), row("skip", 3), row("cut", 4, 8), row("skip", 1))
    assert [number(one) for one in rows.rows("skip")] == ['{"number": 1}', '{"number": 3}']
    assert [one["position"] for one in rows.rows("cut")] == [8, 9]
    no_tables = SCHEMA.empty_table()
    later = rows.followed_by([{**row("cut", 6, 9), "detail": "{}"}], no_tables)
    later = later.followed_by([row("skip", 2)], no_tables)
    assert (later.version, later.cut_count) == (5, 3)
    assert number(later.last_cut()) == "{}"  # of two at one place the later
    assert [one["at"].second for one in later.rows("skip")] == [1, 2, 3]
    assert [one["at"].second for one in later.rows("cut")] == [4, 5, 6]
    assert rows.cut_count == 2


@pytest.mark.parametrize("newer", [0, 1, 150])
def test_cuts_in_the_order_of_the_log(newer):
    """However they lie in files, and whatever was written since: a clock may have gone back."""
    dice = random.Random(newer)
    places = [(dice.randrange(60), at) for at in range(250)]
    written = [row("cut", at, position) for position, at in places]
    dice.shuffle(written)
    table = pa.concat_tables([pa.Table.from_pylist([one]) for one in written[newer:]])
    rows = ControlSnapshot.of(3, table, 1, "control")
    for one in written[:newer]:
        plain = {**one, "detail": formats.unstamp(one["detail"], 1, "control")}
        rows = rows.followed_by([plain], SCHEMA.empty_table())
    found = list(rows.cut_rows())
    assert [(one["position"], (one["at"] - BEGIN).seconds) for one in found] == sorted(places)
    assert {number(one) for one in found} == {f'{{"number": {at}}}' for _, at in places}


def test_cuts_may_come_to_more_than_an_arrow_array_takes():
    """As each of thousands names thousands of tables: 2 GB are the most of a ``string``."""
    cuts = held(row("cut", 1), row("cut", 2)).cuts
    assert cuts.schema.field("detail").type == pa.large_string()
    assert cuts.column("detail").num_chunks == 1, "to take some of them copies none"


@pytest.mark.parametrize("kind", ["cut", "owner"])
def test_a_format_that_is_not_known_is_refused(kind):
    with pytest.raises(FormatError, match="in format 2; this version"):
        held(row("cut", 1), row(kind, 2, form=2), row("cut", 3))


def test_there_may_be_none():
    assert ControlSnapshot().last_cut() is None
    assert held(row("owner", 0)).last_cut() is None
