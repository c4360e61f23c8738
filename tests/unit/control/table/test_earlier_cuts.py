"""Targets whose cuts an earlier version wrote: they are read as they are, and converted by the
next owner."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_repl import formats
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.retention import Retention, pin, pins
from spark_repl.control.table import control_rows
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import ControlLog, RowsCommit
from spark_repl.control.table.cut import Cut, InQuarantine, TableVersion, Waiting
from spark_repl.control.table.fence import Fence
from spark_repl.control.table.layout import Layout
from spark_repl.control.table.row_formats import COMMON, SCHEMA, rows_table
from spark_repl.errors import FencedError, FormatError, TargetError

# Written by the version before format 5: nine cuts of six tables, five of them as differences, one
# pinned, pruned in between; then a second owner, a cut held back, and positions that went back.
FIXTURE = Path(__file__).parents[3] / "fixtures" / "formats" / "v0.1.0-differences"
SHOWN: list[dict[str, Any]] = json.loads((FIXTURE / "before.json").read_text("utf-8"))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    shutil.copytree(FIXTURE / "lake", tmp_path / "lake")
    return Layout(str(tmp_path / "lake"))


def expected() -> list[Cut]:
    return [
        Cut(
            row["position"], row["gtid_executed"], "log", {"file": "bin.1", "position":
            int(row["gtid_executed"].rpartition("-")[2])},
            {name: TableVersion(**of) for name, of in row["tables"].items()},
            datetime.fromisoformat(row["at"]), {"transactions": 1}, tuple(row["prepared"]),
            waiting={name: Waiting(**of) for name, of in row["waiting"].items()},
            quarantined={name: InQuarantine(**of) for name, of in row["quarantined"].items()},
        )
        for row in SHOWN
    ]  # fmt: skip


def columns(layout: Layout) -> list[str]:
    return [field.name for field in DeltaTable(layout.control).schema().fields]


def test_a_reader_reads_them_and_leaves_them(layout: Layout) -> None:
    reader = Control(layout.control)
    assert reader.cuts() == expected() and reader.last_cut() == expected()[-1]
    assert pins(reader)["kept"].position == 11
    assert columns(layout) == COMMON and reader.snapshot().is_earlier


def test_an_operator_writes_beside_the_earlier_owner(layout: Layout) -> None:
    reader = Control(layout.control)
    pin(reader, expected()[-1], "mine")
    assert columns(layout) == COMMON
    assert reader.cuts() == expected() and set(pins(reader)) == {"kept", "mine"}


def test_a_reader_sees_cuts_that_the_earlier_owner_appends(layout: Layout) -> None:
    reader = Control(layout.control)
    assert len(reader.cuts()) == len(expected())
    detail = formats.stamp(Cut(30, "", "log", {}, {}).to_detail(), 1)
    row = {"kind": "cut", "epoch": 2, "at": expected()[-1].at, "position": 30,
           "gtid_executed": "", "detail": detail}  # fmt: skip
    write_deltalake(layout.control, rows_table([row]).select(COMMON), mode="append")
    last = reader.last_cut()
    assert last is not None and last.position == 30 and reader.cuts()[:-1] == expected()


def test_the_next_owner_converts_them_in_the_commit_that_claims(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, version = Control(layout.control), DeltaTable(layout.control).version()
    others = [before.rows(kind) for kind in ("skip", "pin")]
    control = Control(layout.control)
    control.claim()
    assert DeltaTable(layout.control).version() == version + 1
    for reader in (control, Control(layout.control), before):
        assert reader.cuts() == expected() and reader.epoch in (0, 3)
        assert [reader.rows(kind) for kind in ("skip", "pin")] == others
        assert not reader.snapshot().is_earlier
        assert reader.owner() is not None and reader.owner() == control.owner()
    assert columns(layout) == SCHEMA.names
    control.publish(Cut(40, "", "log", {}, expected()[-1].tables))
    barrier = DurabilityBarrier(control, layout)
    assert control.prune(PruneBy(Retention(0, 0, 0)), barrier, due=True)
    assert [cut.position for cut in Control(layout.control).cuts()] == [11, 40]
    assert Control(layout.control).cuts()[0] == next(c for c in expected() if c.position == 11)
    monkeypatch.setattr(control_rows, "KNOWN_FORMAT", 4)
    with pytest.raises(FormatError, match=r"in format 5; this version, .*, knows format 4"):
        Control(layout.control).owner()


def test_a_takeover_is_not_outrun_by_the_earlier_owner_s_commits(layout: Layout) -> None:
    """That owner commits during each conversion, as long as it can."""
    reader, fence = Control(layout.control), Fence(2, "former")
    commits = list[str]()

    def write(log: ControlLog, rows: pa.Table, commit: RowsCommit) -> ControlLog:
        newest, owner = ControlLog.newest(layout.control), reader.owner()
        assert newest is not None and owner is not None
        if commit.replaces and owner[0] == 2:
            row = {"kind": "skip", "epoch": 2, "at": expected()[-1].at, "position": 0,
                   "gtid_executed": "", "detail": "{}"}  # fmt: skip
            mark = fence.mark(str(len(commits)))
            newest.commit(rows_table([row]).select(COMMON), fence.commit(mark))
        commits.append("conversion" if commit.replaces else "row")
        return log.commit(rows, commit)

    control = Control(layout.control, write_rows=write)
    assert control.claim(take_over=True) == 3
    assert commits == ["conversion", "row", "conversion"]
    assert control.cuts() == expected() and columns(layout) == SCHEMA.names
    assert not Control(layout.control).snapshot().is_earlier
    control.check_owner()
    control.release()


def test_a_claim_that_does_not_land_converts_nothing(layout: Layout) -> None:
    def fail(*_: object) -> Any:
        raise OSError("Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        Control(layout.control, write_rows=fail).claim()
    assert columns(layout) == COMMON and Control(layout.control).cuts() == expected()


def test_a_row_that_comes_first_is_converted_also(layout: Layout) -> None:
    beside = [True]

    def write(log: ControlLog, rows: pa.Table, commit: RowsCommit) -> ControlLog:
        if beside.pop() if beside else False:
            Control(layout.control).write_beside("test", lambda: True)
        return log.commit(rows, commit)

    control = Control(layout.control, write_rows=write)
    control.claim()
    assert len(control.rows("test")) == 1 and control.cuts() == expected()


def test_the_earlier_owner_is_fenced_off(layout: Layout) -> None:
    """It goes on with the version that it has seen, and its columns."""
    seen = Control(layout.control)._open()
    control = Control(layout.control)
    control.claim()
    before = control.rows("skip")
    former = Control(layout.control)
    former._seen, former._read = seen, control.snapshot()
    former._fence = type(former._fence)(2, "former")
    with pytest.raises(FencedError):
        former.write("skip")
    assert control.rows("skip") == before


def test_a_base_that_was_removed_is_named(layout: Layout) -> None:
    DeltaTable(layout.control).delete("kind = 'cut' AND detail NOT LIKE '%\"since\"%'")
    with pytest.raises(TargetError, match="lacks a row that a cut is told since") as caught:
        Control(layout.control).last_cut()
    assert caught.value.file == layout.control and caught.value.hint
