"""Files of what a target may have besides: each is known to docs/files.md, and goes as it says."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

from spark_repl.cli.main import main
from spark_repl.control.records.channels import channel_at
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.retention import Retention, pin, unpin
from spark_repl.copy.recopy import Recopier, ask
from spark_repl.copy.repair_request import KEY, THERE, RepairRequest, leave
from spark_repl.copy.repairer import Repairer
from spark_repl.errors import RowsRefused
from spark_repl.observe.reports import verify_status
from spark_repl.sql.classify import classify
from spark_repl.tables.target_table import TargetTable
from spark_repl.verify.work_folder import TablePlan, WorkFolder
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import (
    applier,
    apply_without_stream,
    at_cut,
    at_once,
    cuts,
    rows,
    run,
)
from tests.support.made_copy import finish, plan, read
from tests.support.shared import BOTH, CHANNELS, one, writers
from tests.support.tended import KEYS, PARTS, age, hurry, tend, tended
from tests.support.two_sources import U
from tests.support.written_files import DATA, KEY_INDEX, below_target

A, B = Table("a"), Table("b")
_MANY = 60
"""tables"""
CHANGES = "T/_change_data/[column=value/]*"
KEEP: dict[str, Any] = {"on_error": "quarantine"}
XID = (b"branch", b"", 1)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def aged(log: LogWriter, target: Path, times: int = 2) -> Counter[str]:
    """Apply a group and run the upkeep of old files, ``times`` times, and return what is left."""
    for number in range(times):
        age(target)
        log.transaction(insert(B, (1_000_000 + log.gno, str(number))))
        tended(log.folder, target)
    return below_target(target)


def test_a_table_in_quarantine_has_files_until_it_ends(log: LogWriter, target: Path) -> None:
    kept, part = "_repl/quarantine/*/*.events", "_repl/quarantine/*/*.new"
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    for number in range(2, 5):
        log.transaction(delete(A, (77, "no such")), insert(B, (number, "x")))
        assert run(log.folder, target, **KEEP)
    (folder,) = (target / "_repl/quarantine").iterdir()
    (folder / "1.events.new").touch()
    assert below_target(target)[kept] == 3 and below_target(target)[part] == 1
    log.transaction(insert(B, (5, "x")))
    assert run(log.folder, target, **KEEP)
    assert below_target(target)[kept] == 3 and below_target(target)[part] == 0
    assert main(["quarantine", "drop", "--target", str(target), "--table", "t.a"]) == 0
    assert run(log.folder, target, **KEEP)
    assert below_target(target)[kept] == 0
    assert list((target / "_repl/quarantine").iterdir()) == []


def test_prepared_branches_have_a_file_each_until_they_end(log: LogWriter, target: Path) -> None:
    kept, part = "_repl/xa/*.events", "_repl/xa/*.new"
    for number in range(3):
        log.xa_prepare((b"branch", b"%d" % number, 1), insert(A, (number, "x")))
    assert run(log.folder, target)
    (target / "_repl/xa/9.events.new").touch()
    assert below_target(target)[kept] == 3 and below_target(target)[part] == 1
    assert run(log.folder, target)
    assert below_target(target)[kept] == 3 and below_target(target)[part] == 0
    for number, end in enumerate(("COMMIT", "ROLLBACK", "COMMIT")):
        log.xa_end(end, (b"branch", b"%d" % number, 1))
        assert run(log.folder, target)
    assert below_target(target)[kept] == 0 and len(rows(target, A)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("channel", CHANNELS)
def test_channels_of_one_table_have_files_of_their_own(
    tmp_path: Path, target: Path, channel: str
) -> None:
    """Partitions, two channels' control tables and working states; whichever of them tends."""
    logs = writers(tmp_path)
    for name, log in logs.items():
        log.ddl(one(name).create)
        log.transaction(insert(one(name), (1, "x")))
        log.xa_prepare(XID, insert(one(name), (2, "x")))
    given = {**BOTH, "keys": {**BOTH["keys"], **KEYS}}
    for name, log in logs.items():
        assert run(log.folder, target, channel=name, **given)
    first = below_target(target)
    assert first["_repl/xa/*.events"] == 2
    key = 10
    for _ in range(6):
        for name, log in logs.items():
            key += 1
            log.transaction(insert(one(name), (key, "x")))
            log.transaction(update(one(name), ((key, "x"), (key, "y"))))
            assert run(log.folder, target, channel=name, group_max_transactions=1, **given)
    most = below_target(target)
    # In the second pair of rounds no row arrives: a channel drops the indexes of files that the
    # other one's VACUUM has removed only when its own turn comes.
    for rows_arrive in (True, True, False, False):
        for name in (channel, *(other for other in CHANNELS if other != channel)):
            age(target)
            if rows_arrive:
                key += 1
                logs[name].transaction(insert(one(name), (key, "more")))
            with applier(logs[name].folder, target, channel=name, parts=PARTS, **given) as found:
                apply_without_stream(found)
                tend(found)
                tend(found)
    left = below_target(target)
    assert left[DATA] < most[DATA] / 2
    assert left[KEY_INDEX] <= left[DATA]
    assert left["T/_delta_log/*.checkpoint.parquet"] <= 4
    for name, log in logs.items():
        log.xa_end("ROLLBACK", XID)
        assert run(log.folder, target, channel=name, **BOTH)
    assert below_target(target)["_repl/xa/*.events"] == 0


def test_a_second_channel_has_a_folder_of_its_own(
    log: LogWriter, us: LogWriter, target: Path
) -> None:
    """Each has its own of all that bears no table's name."""
    log.transaction(insert(A, (1, "x")), insert(B, (1, "x")))
    assert run(log.folder, target, **KEEP)
    us.transaction(insert(U, (1, "x")))
    us.xa_prepare(XID, insert(U, (2, "x")))
    us.transaction(delete(U, (77, "no such")))
    assert run(us.folder, target, channel="us", **KEEP)
    found = below_target(target)
    assert found["_repl/quarantine/*/*.events"] == 1 and found["_repl/xa/*.events"] == 1
    assert found["index/*.idx"] == 2
    for kind in ("control", "xa", "quarantine", "index", "keys"):
        assert (target / "_repl/channels/us" / kind).is_dir()


@pytest.mark.parametrize("how", ["copied", "dropped"])
def test_a_folder_that_nothing_names(log: LogWriter, target: Path, how: str) -> None:
    """And what the working state has of the table."""
    log.transaction(insert(A, (1, "x"), (2, "x")), insert(B, (1, "x")))
    assert run(log.folder, target)
    log.transaction(update(A, ((1, "x"), (1, "y"))))
    tended(log.folder, target)
    if how == "copied":
        plan(target, "t.a")
        read(target, A, [(1, "y"), (2, "x")])
        finish(target, log.gtid(log.gno - 2))
    else:
        log.ddl("DROP TABLE t.a")
    tended(log.folder, target)
    assert (target / "t/a").is_dir()
    aged(log, target, 3)
    notes = [target / "_repl" / kind / "t/a" for kind in ("vacuumed", "forgotten", "replaced")]
    gone = [target / "t/a", target / "_repl/keys/t/a", target / "_repl/durable/t/a", *notes]
    assert [path for path in gone if path.exists()] == []
    assert ("t.a" in at_cut(target, cuts(target)[-1])) == (how == "copied")


def test_a_pinned_cut_keeps_its_files_until_it_is_unpinned(log: LogWriter, target: Path) -> None:
    """It keeps files and their key indexes; unpinned it keeps none."""
    log.transaction(insert(A, *((key, "x") for key in range(9))))
    assert run(log.folder, target, keys=KEYS)
    control = channel_at(str(target)).control
    pinned = control.cuts()[-1]
    pin(control, pinned, "month_end")
    before = at_cut(target, pinned)
    folders = (target / "t/a").glob("*.parquet"), (target / "_repl/keys/t/a").rglob("*.npy")
    kept = [path for paths in folders for path in paths]
    log.transaction(*(delete(A, (key, "x")) for key in range(9)))
    assert run(log.folder, target, keys=KEYS)
    aged(log, target)
    assert at_cut(target, pinned) == before and len(before["t.a"]) == 9
    assert all(path.exists() for path in kept) and len(kept) > 1
    unpin(channel_at(str(target)).control, "month_end")
    aged(log, target)
    assert not any(path.exists() for path in kept)
    assert pinned.gtid_executed not in [cut.gtid_executed for cut in cuts(target)]


def test_a_change_data_feed(log: LogWriter, target: Path) -> None:
    """Of rows that were marked; and it goes as data files do."""
    log.transaction(insert(A, *((key, "x") for key in range(9))))
    assert run(log.folder, target, keys=KEYS, feed=True, group_max_transactions=1)
    for key in range(5):
        log.transaction(update(A, ((key, "x"), (key, "y"))))
    assert run(log.folder, target, keys=KEYS, feed=True, group_max_transactions=1)
    assert below_target(target)[CHANGES] >= 5
    aged(log, target)
    assert [path for path in (target / "t/a/_change_data").rglob("*") if path.is_file()] == []


def test_pruned_cuts_of_many_tables_leave_one_row_a_table(log: LogWriter, target: Path) -> None:
    """Pruning leaves the newest cut, and one row for each of its tables."""
    for number in range(_MANY):
        log.ddl(Table(f"c{number}").create)
    assert run(log.folder, target, keys=KEYS)
    for _ in range(2):
        for _ in range(20):
            log.transaction(insert(A, (log.gno, "x")))
        with applier(log.folder, target, keys=KEYS, group_max_transactions=1) as found:
            apply_without_stream(found)
            assert len(found.control.rows("cut")) > 20
            assert found.control.prune(
                PruneBy(Retention(0, 0, 0)), found.tracking.barrier, due=True
            )
            assert len(found.control.rows("cut")) == 1
    (cut,) = cuts(target)
    assert len(cut.tables) == _MANY + 2
    assert below_target(target)
    assert len(at_cut(target, cut)["t.a"]) == 40


def test_a_repair_that_is_asked_for(log: LogWriter, target: Path) -> None:
    """The request, and what was read for it, are there until it is answered."""
    log.transaction(insert(A, (1, "x")))
    seen = Counter[str]()

    def reads(_: Any, __: Any, request: Path, ___: Any, folder: Path) -> Any:
        (folder / "rows.arrow").touch()
        seen.update(below_target(target))
        raise RowsRefused("it is a test")

    with applier(log.folder, target) as found:
        apply_without_stream(found)
        schema = pa.schema([(KEY, pa.uint64()), (THERE, pa.bool_()), ("0", pa.int32())])
        request = RepairRequest("t.a", ("WHERE 1",), ("id int32",), schema.empty_table())
        leave(found.requests, request)
        ask(found.config, ("t.a",))
        stop, wait = threading.Event(), at_once
        Repairer(MagicMock(), found.config, found, stop, reads=reads, wait=wait).carry_out()
        Recopier(found.spark, found.config, found)._queue.requests()[0].unlink()
    for pattern in ("requests/*.repair", "requests/*.read/*.arrow", "requests/*.json"):
        assert seen[pattern] == 1
        assert below_target(target)[pattern] == 0
    assert list((target / "_repl/requests").iterdir()) == []


def test_a_verify_leaves_its_locks_and_its_last_result(log: LogWriter, target: Path) -> None:
    """The locks stay, and what it found last; digests as long as it has not ended."""
    assert run(log.folder, target)
    layout = channel_at(str(target)).layout
    for _ in range(2):
        definition = classify(A.create, "t").definition
        assert definition is not None
        with WorkFolder(layout.verify) as work:
            work.of(TargetTable.mirror_of(definition), TablePlan(("1",)))
            assert below_target(target)["verify/*/*/*"] == 1
    with WorkFolder(layout.verify) as work, WorkFolder(layout.verify, "between") as between:
        between.clear()
        work.clear()
        verify_status.write_verify_status(layout.verified, {})
    Path(f"{layout.verified}.4711.part").touch()  # killed
    assert below_target(target)["verify/*"] == 3 and below_target(target)["verify/*/*/*"] == 0
    assert below_target(target)["verify/*.part"] == 1
    age(target)
    verify_status.write_verify_status(layout.verified, {})
    assert below_target(target)["verify/*"] == 3 and below_target(target)["verify/*.part"] == 0
