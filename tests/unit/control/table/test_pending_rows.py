"""A clock that was set back, or that of another host which is slow: what is written later counts as
later all the same."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_repl import formats
from spark_repl.control.records.copies import Copy, last_copy, record_copy, standing
from spark_repl.control.records.quarantine import Quarantine, end, quarantines
from spark_repl.control.records.retention import Retention, pin, pins, promised_rows, unpin
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.row_formats import rows_table
from spark_repl.gtid import GtidSet

GTIDS = GtidSet.parse("11111111-2222-3333-4444-555555555555:1-3")
COPY = Copy(GTIDS, {"t.a": ()}, {"t.a": "t/a@2"})


def ahead(control: Control, kind: str, detail: str, position: int = 0) -> None:
    """A row that was written when a clock was an hour ahead."""
    row = {
        "kind": kind, "epoch": control.epoch, "at": datetime.now(UTC) + timedelta(hours=1),
        "position": position, "gtid_executed": "", "detail": formats.stamp(detail, 1),
    }  # fmt: skip
    write_deltalake(control.path, rows_table([row]), mode="append")


def cut(position: int, path: str = "t/a", **counts: int) -> Cut:
    return Cut(position, str(GTIDS), "log", {}, {"t.a": TableVersion(path, 1, "m", position)},
               counts=counts)  # fmt: skip


def test_a_quarantine_ends_though_its_beginning_has_a_later_clock(control: Control) -> None:
    begun = Quarantine("7", "t.a", "t/a", 5, "why")
    fields = {k: v for k, v in asdict(begun).items() if k not in ("at", "asked", "failed", "ended")}
    ahead(control, "quarantine", json.dumps({**fields, "action": "begin"}), 5)
    end(control, begun, "dropped")
    for other in (control, Control(control.path)):
        assert [one.ended for one in quarantines(other)] == ["dropped"]


def test_a_copy_is_done_and_shown(control: Control) -> None:
    ahead(control, "copy", COPY.to_detail())
    record_copy(control, replace(COPY, until=GTIDS))
    last = last_copy(control)
    assert last is not None and last.is_done
    control.publish(cut(7, "t/a"))
    assert standing(control).copy is not None
    control.publish(cut(8, "t/a@2"))
    assert standing(control).copy is None


def test_of_cuts_at_one_place_the_later(control: Control) -> None:
    """An XA branch that was ended by hand, behind a takeover."""
    ahead(control, "cut", cut(7, by_hand=0).to_detail(), 7)
    other = Control(control.path)
    other.claim(take_over=True)
    for by_hand in (1, 2):
        other.publish(cut(7, by_hand=by_hand))
        for reader in (other, Control(control.path)):
            last = reader.last_cut()
            assert last is not None and last.counts == {"by_hand": by_hand}
    other.publish(cut(8))
    last = other.last_cut()
    assert last is not None and last.at is not None and last.at < datetime.now(UTC)


def test_a_cut_is_unpinned(control: Control) -> None:
    control.publish(cut(7))
    last = control.last_cut()
    assert last is not None and last.at is not None
    ahead(control, "pin", json.dumps({"name": "mine", "at": last.at.isoformat()}), 7)
    assert list(pins(control)) == ["mine"]
    unpin(control, "mine")
    assert not pins(control)
    pin(control, last, "mine")
    assert list(pins(control)) == ["mine"]


def test_the_newest_cut_is_kept_for_ever(control: Control) -> None:
    """Whatever was published when a clock was ahead: it is the one that a start goes on from."""
    ahead(control, "cut", cut(7).to_detail(), 7)
    control.publish(cut(8))
    rows = DeltaTable(control.path).to_pyarrow_table()
    later = datetime.now(UTC) + timedelta(days=30)
    kept = promised_rows(rows, control.epoch, Retention(1, 2, 3), later)
    assert kept.filter(pc.equal(kept.column("kind"), "cut")).column("position").to_pylist() == [8]


@pytest.mark.parametrize("kind", ["history", "names"])
def test_rows_come_in_their_order(control: Control, kind: str) -> None:
    ahead(control, kind, '{"number": 1}')
    for number in (2, 3):
        control.write(kind, detail=json.dumps({"number": number}))
    rows = Control(control.path).rows(kind)
    assert [json.loads(row["detail"])["number"] for row in rows] == [1, 2, 3]
