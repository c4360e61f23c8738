"""The bytes of prepared XA branches: how they are kept, when they go, and which a start finds."""

from __future__ import annotations

import errno
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from spark_repl.cli.main import main
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.transaction_files import log_bytes, xa_store
from spark_repl.relay.xa_branches import Branch
from tests.applier.test_xa import OLD, ONE, TWO, A, begun, prepared
from tests.property.test_xa_orders import branches_of, records_of
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import applier, cuts, rows, run, stopped


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return begun(tmp_path / "log")


def test_a_start_names_what_it_has_found(log, target, caplog):
    """In MySQL's words."""
    log.xa_prepare(ONE, insert(A, (10, "one")))
    run(log.folder, target)
    assert "prepared XA transactions" not in caplog.text
    log.xa_prepare(TWO, insert(A, (20, "two")))
    run(log.folder, target)
    assert "Found 1 prepared XA transactions: X'6f6e65',X'',1" in caplog.messages
    for number in range(25):
        log.xa_prepare((b"%d" % number, b"", 7), insert(A, (100 + number, "x")))
    run(log.folder, target)
    both = f"X'6f6e65',X'',1, X'{TWO[0].hex()}',X'{TWO[1].hex()}',{TWO[2]}"
    assert f"Found 2 prepared XA transactions: {both}" in caplog.messages
    caplog.clear()
    run(log.folder, target)
    (found,) = [text for text in caplog.messages if text.startswith("Found ")]
    assert found.startswith("Found 27 ") and found.endswith(" and 7 more")
    assert found.count("X''") == 19


def test_bytes_stay_while_their_end_is_not_durable(log, target, monkeypatch, caplog):
    """Removed behind a later cut, where the tables are synced."""
    log.xa_prepare(ONE, insert(A, (10, "one")))
    log.xa_end("COMMIT", ONE)
    log.transaction(insert(A, (11, "plain")))
    true, fails = DurabilityBarrier.__call__, [OSError(errno.EIO, "Input/output error")]

    def make_durable(self: DurabilityBarrier, **options: Any) -> None:
        if fails:
            raise fails.pop()
        true(self, **options)

    monkeypatch.setattr(DurabilityBarrier, "__call__", make_durable)
    with applier(log.folder, target, group_max_transactions=1) as found:
        parts = found.index.slice(0, found.index.end)
        found.coordinator.apply(parts[:-1])
        assert "1 XA branches that have ended are kept" in caplog.text and not fails
        assert len(list((target / "_repl" / "xa").iterdir())) == 1
        found.coordinator.apply(parts[-1:])
    assert prepared(target) == []


def test_bytes_stay_while_a_copy_may_need_them_again(log, target):
    """The applier goes back to an earlier cut for it, where their branch has not ended."""
    log.xa_prepare(ONE, insert(A, (10, "one")))
    log.xa_end("COMMIT", ONE)
    log.xa_prepare(TWO, insert(A, (20, "two")))
    log.xa_end("COMMIT", TWO)

    def kept() -> int:
        return len(list((target / "_repl" / "xa").iterdir()))

    with applier(log.folder, target, group_max_transactions=1) as found:
        parts = found.index.slice(0, found.index.end)
        found.keep_branches(True)
        found.coordinator.apply(parts[:-2])
        assert not cuts(target)[-1].prepared and kept() == 1
        found.keep_branches(False)
        found.coordinator.apply(parts[-2:])
        assert kept() == 1, "of the one that ended meanwhile; the next start removes it"
    run(log.folder, target)
    assert kept() == 0


def test_a_commit_weighs_what_its_branch_does(log, target):
    """Else a group of many would be larger than group_max_bytes."""
    branches = (ONE, TWO)
    for number, xid in enumerate(branches):
        log.xa_prepare(xid, insert(A, *[(100 * number + key, "x" * 30) for key in range(10, 99)]))
    run(log.folder, target)
    shown = len(cuts(target))
    for xid in branches:
        log.xa_end("COMMIT", xid)
    run(log.folder, target, group_max_bytes=4000)
    assert len(cuts(target)) == shown + 2
    assert prepared(target) == []


def test_a_branch_is_copied_piece_by_piece(tmp_path, monkeypatch):
    """A branch of gigabytes takes no more memory than one piece."""
    source = tmp_path / "log"
    source.write_bytes(bytes(range(256)) * 5000)
    order = (("prepare", 0),)
    (branch,) = branches_of(order, records_of(order, (True,))).values()
    monkeypatch.setattr(log_bytes, "_COPY_BYTES", 4096)
    pieces: list[int] = []

    class Read(Branch):
        def open(self) -> Any:
            return Counted(super().open(), pieces)

    known = {one.name: getattr(branch, one.name) for one in fields(branch)}
    whole = Read(**known | {"path": str(source), "start": 100, "end": 1_200_000})
    kept = xa_store.XaStore(str(tmp_path / "xa")).keep(whole)
    assert Path(kept.path).read_bytes() == source.read_bytes()[100:1_200_000]
    assert max(pieces) == 4096


class Counted:
    """A file that notes how much is read or written at once."""

    def __init__(self, file: Any, pieces: list[int]) -> None:
        self._file, self._pieces = file, pieces

    def __enter__(self) -> Counted:
        return self

    def __exit__(self, *args: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int) -> bytes:
        self._pieces.append(size)
        return bytes(self._file.read(size))

    def write(self, data: bytes) -> None:
        self._pieces.append(len(data))
        self._file.write(data)


@pytest.mark.soak
def test_a_branch_of_gigabytes_is_kept_and_committed(tmp_path, target):
    """More than 2 GiB between XA PREPARE and XA COMMIT, kept beside the cut meanwhile."""
    big = Table("big", (("id", "int"), ("v", "varchar(16000)")))
    log = LogWriter(tmp_path / "log")
    for statement in ("CREATE DATABASE t", big.create):
        log.ddl(statement)
    count, pad = 150_000, "x" * 15_900
    parts = (range(first, first + 100) for first in range(0, count, 100))
    log.xa_prepare(ONE, *(insert(big, *((i, f"{i}{pad}") for i in part)) for part in parts))
    run(log.folder, target)
    kept = sum(path.stat().st_size for path in (target / "_repl" / "xa").iterdir())
    assert kept > 1 << 31
    log.rotate()
    (log.folder / "bin.000001").unlink()
    log.xa_end("COMMIT", ONE)
    run(log.folder, target)
    files = (target / "t" / "big").glob("*.parquet")
    assert sum(pq.read_metadata(path).num_rows for path in files) == count
    assert not list((target / "_repl" / "xa").iterdir())


def test_a_branch_whose_bytes_are_lost_is_rolled_back_by_hand(log, target):
    """As the error says."""
    log.xa_prepare(ONE, insert(A, (10, "one")))
    log.xa_prepare(TWO, insert(A, (20, "two")))
    run(log.folder, target)
    first = min((target / "_repl" / "xa").iterdir())
    first.unlink()
    error = stopped(log.folder, target)
    assert "the bytes of the prepared XA branch" in error.message
    assert main(["xa", "rollback", "--target", str(target), "--xid", ONE[0].hex()]) == 0
    log.xa_end("COMMIT", TWO)
    run(log.folder, target)
    assert rows(target, A) == [*OLD, (20, "two")]
    assert prepared(target) == []


def test_a_branch_ended_by_hand_leaves_no_gap(log, target, caplog):
    """Its rows lie behind the cut's position; nothing is before them that would lack."""
    caplog.set_level("INFO")
    log.xa_prepare(ONE, insert(A, (10, "one")))
    run(log.folder, target)
    assert main(["xa", "commit", "--target", str(target), "--xid", ONE[0].hex()]) == 0
    run(log.folder, target)
    assert rows(target, A) == [*OLD, (10, "one")]
    log.transaction(insert(A, (11, "plain")))
    run(log.folder, target)
    assert "ahead of the last cut" not in caplog.text
