"""Everything that is written has an end: docs/files.md names each file that a long history with
crashes leaves, and what is bounded stays so round after round."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.receiver.purge import purge
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay.log import open_log
from spark_repl.service.applied_purge import applied_file
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.dump_stream import receive
from tests.support.local_delta import rows, run
from tests.support.tended import KEYS, PARTS, age, hurry, tended
from tests.support.written_files import DATA, KEY_INDEX, below_relay, below_target

A, OTHER = Table("a"), Table("c")
KEPT_FOR_A_TIME = ("_repl/control/*.parquet", "_repl/control/_delta_log/*", "T/_delta_log/*.json")
CHECKPOINTS = "T/_delta_log/*.checkpoint.parquet"
MOST = {DATA: 12, KEY_INDEX: 12, "rows: owner": 4, CHECKPOINTS: 4}
"""of each other kind two: one in use, and one before it"""


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def history(log: LogWriter, number: int) -> None:
    """DDL of tables that come, change and go, XA, and rows that are changed often."""
    keys = range(40 * number, 40 * number + 40)
    log.transaction(insert(A, *[(key, "x") for key in keys]))
    for key in keys:
        if key % 2:
            log.transaction(update(A, ((key, "x"), (key, "y"))))
    log.transaction(delete(A, *[(key, "x") for key in keys if not key % 2]))
    log.ddl(OTHER.create)
    log.transaction(insert(OTHER, (1, "x")))
    log.ddl(f"ALTER TABLE t.b ADD COLUMN c{number} INT")
    xid = (b"branch", b"%d" % number, 1)
    log.xa_prepare(xid, insert(A, (-number, "prepared")))
    log.rotate()
    log.xa_end("COMMIT", xid)
    log.ddl("RENAME TABLE t.c TO t.d")
    log.ddl("DROP TABLE t.d")


def kill_writers(target: Path, relay: Path) -> None:
    """What is left of writers that were killed."""
    state, now = target / "_repl", time.time_ns()
    names = [state / f"status.json.{now}.new", state / f"requests/{now}.json.{now}.part"]
    names += [state / f"index/relay.000001.idx.{now}.part", relay / f"relay.index.{now}.part"]
    names += [next((state / "keys/t/a").iterdir()) / f"part-x.parquet.npy.{now}.part"]
    for name in names:
        name.parent.mkdir(exist_ok=True)
        name.touch()


@pytest.mark.parametrize("rounds", [3, pytest.param(100, marks=pytest.mark.soak)])
def test_each_file_is_known_and_has_an_end(
    log: LogWriter, target: Path, hurried: None, rounds: int
) -> None:
    relay, control = target.parent / "relay", Control(Layout(str(target)).control)
    files = [log.path]
    for number in range(1, rounds + 1):
        history(log, number)
        files.append(log.path)
        with RelayWriter(relay, 7, limits=Limits(segment_size_bytes=20_000)) as writer:
            receive(writer, files)
        run(relay, target, crash=17 * number, keys=KEYS, parts=PARTS)
        tended(relay, target)
        kill_writers(target, relay)
        age(target, relay)
        tended(relay, target)
        purge(relay, applied_file(control, open_log(str(relay))))
        kinds = [row["kind"] for row in control._rows_of(control._open()).to_pylist()]
        found = below_target(target) + below_relay(relay)
        found += Counter(f"rows: {kind}" for kind in kinds)
        bounded = {kind: n for kind, n in found.items() if kind not in KEPT_FOR_A_TIME}
        assert {kind: n for kind, n in bounded.items() if n > MOST.get(kind, 2)} == {}
    assert len(rows(target, A)) == 21 * rounds
