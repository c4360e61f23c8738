"""``cut list``: what is promised of each cut, until when exactly, and nothing of those that are
promised no more."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_repl.cli.cut_command import kept_cuts
from spark_repl.cli.main import main
from spark_repl.control.records.retention import Retention, pin, promised_rows
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_snapshot import ControlSnapshot
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.control.table.row_formats import SCHEMA

NOW, MOMENT = datetime(2026, 1, 10, 12, 0, 30, tzinfo=UTC), timedelta(microseconds=1)
DEFAULTS, OTHERS = Retention(1, 24, 168), Retention(2, 3, 5)
CUT = Cut(1, "", "log", {}, {})
OF_DEFAULTS = {
    "03 11:59:59": "",
    "03 12:30:00": "",
    "03 12:59:00": "10 12:59:00",  # of its hour the last
    "09 12:10:00": "",
    "09 12:10:10": "10 12:10:10",  # of its minute
    "09 12:58:00": "16 12:58:00",
    "10 10:59:00": "17 10:59:00",
    "10 11:00:29": "",
    "10 11:00:40": "11 11:00:40",
    "10 11:10:00": "10 12:10:00",  # of the last hour each
    "10 11:10:01": "11 11:10:01",
    "10 11:20:30": "17 11:20:30",
    "10 12:00:10": "10 13:00:10",  # its minute has not ended
}
OF_OTHERS = {
    "09 12:58:00": "",
    "10 06:59:59": "",
    "10 07:00:10": "",
    "10 07:30:40": "10 12:30:40",
    "10 09:00:00": "",
    "10 09:10:00": "",
    "10 09:10:59": "10 12:10:59",
    "10 09:59:59": "10 14:59:59",
    "10 10:10:00": "10 12:10:00",
    "10 10:10:01": "10 13:10:01",
    "10 10:50:00": "10 15:50:00",
    "10 11:59:59": "10 16:59:59",
    "10 12:00:10": "10 14:00:10",
}


def time(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-01-{text}+00:00")


@pytest.fixture
def control(tmp_path: Path) -> Control:
    found = Control(Layout(str(tmp_path / "lake")).control)
    found.claim()
    return found


def publish(control: Control, *at: datetime) -> None:
    """Cuts of these times, the first at position 1."""
    rows = [
        {"kind": "cut", "epoch": control.epoch, "position": position, "at": when,
         "detail": replace(CUT, position=position).to_detail(), "gtid_executed": ""}
        for position, when in enumerate(at, 1)
    ]  # fmt: skip
    write_deltalake(control.path, pa.Table.from_pylist(rows, SCHEMA), mode="append")
    control.release()
    control.claim()


def listed(control: Control, now: datetime = NOW) -> dict[datetime, str]:
    """Return the text of each cut, by the time of its publication."""
    return {cut.at: said for cut, said in kept_cuts(Control(control.path), now) if cut.at}


def said(until: datetime) -> str:
    return f"until {until.isoformat(timespec='seconds')}"


@pytest.mark.parametrize(
    ("tiers", "want"), [(DEFAULTS, OF_DEFAULTS), (OTHERS, OF_OTHERS)], ids=["defaults", "others"]
)
def test_cut_list_names_the_end_of_each_tiers_promise(
    control: Control, tiers: Retention, want: dict[str, str]
) -> None:
    tiers.record(control)
    publish(control, *map(time, want))
    assert listed(control) == {time(at): said(time(end)) for at, end in want.items() if end}


def test_cut_list_shows_pinned_cuts_and_the_newest(
    control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    """By their names; the newest is kept though its time is over."""
    times = [datetime.now(UTC).replace(second=59, microsecond=0) - timedelta(hours=hours)
             for hours in (300, 260, 200)]  # fmt: skip
    Retention(1, 24, 400).record(control)
    publish(control, *times)
    pin(control, control.cuts()[0], "month_end")
    pin(control, control.cuts()[0], "audit")
    DEFAULTS.record(control)
    newest = "as long as it is the newest"
    names = {times[0]: "pinned as audit, pinned as month_end"}
    assert listed(control, datetime.now(UTC)) == {**names, times[2]: newest}
    assert main(["cut", "list", "--target", str(Path(control.path).parents[1])]) == 0
    out = capsys.readouterr().out
    assert newest in out and "pinned as audit" in out and str(times[1]) not in out


@pytest.mark.parametrize("tiers", [DEFAULTS, OTHERS], ids=["defaults", "others"])
@pytest.mark.parametrize("tier", ["every", "minute", "hour"])
def test_a_promise_ends_at_a_moment(control: Control, tiers: Retention, tier: str) -> None:
    """It is listed, and kept, up to then; at that moment it is neither."""
    at = time({"every": "09 12:59:58", "minute": "09 12:58:59", "hour": "09 11:59:59"}[tier])
    next_one = time("09 12:59:59")
    tiers.record(control)
    publish(control, at, next_one, time("20 00:00:00"))
    hours = {"every": tiers.every, "minute": tiers.minute, "hour": tiers.hour}[tier]
    end = at + timedelta(hours=hours)
    rows = DeltaTable(control.path).to_pyarrow_table()
    for now, there in ((end - MOMENT, True), (end, False), (end + MOMENT, False)):
        kept = promised_rows(rows, control.epoch, tiers, now).column("at").to_pylist()
        assert (at in kept) == there == (at in listed(control, now))
    assert listed(control, end - MOMENT)[at] == said(end)


def test_cut_list_leaves_out_cuts_pruned_meanwhile(control: Control) -> None:
    """An applier prunes between two reads of the control table."""
    publish(control, time("01 00:00:00"), time("10 11:30:00"), time("10 12:00:00"))

    class Beside(Control):
        def snapshot(self) -> ControlSnapshot:
            found = super().snapshot()
            DeltaTable(self.path).delete("kind = 'cut' AND position = 2")
            return found

    at = [cut.at for cut, _ in kept_cuts(Beside(control.path), NOW)]
    assert at == [time("10 11:30:00"), time("10 12:00:00")]
