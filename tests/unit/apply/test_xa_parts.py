"""XA parts: whose files a start removes, and what of a copy's transactions is passed over."""

from __future__ import annotations

import threading
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from spark_repl.apply.group.xa_parts import XaParts
from spark_repl.errors import FencedError, StatementError
from spark_repl.gtid import GtidSet
from spark_repl.relay.record import Kind
from spark_repl.runtime.retry import Retries
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import applier

A, XID = Table("a"), (b"one", b"", 1)


def test_a_start_that_was_overtaken_removes_nothing(tmp_path: Path) -> None:
    """Another's branches may lie there by now."""
    kept = tmp_path / f"{7:020d}.events"
    kept.write_bytes(b"rows")
    tracking = MagicMock()
    tracking.control.rows.return_value = []
    tracking.column_rules.any = False
    tracking.layout.xa = tracking.layout.xa_here = str(tmp_path)
    tracking.control.check_owner.side_effect = FencedError("another one owns the target now")
    with pytest.raises(FencedError):
        XaParts.of(tracking, None, keep_all=False)
    assert kept.exists()
    tracking.control.check_owner.side_effect = None
    XaParts.of(tracking, None, keep_all=False)
    assert not kept.exists()


@pytest.mark.parametrize("known", [True, False])
def test_an_end_that_a_copy_holds(tmp_path: Path, known: bool) -> None:
    """Of a branch that the log has prepared it is one, for tables that the copy has not; of another
    nothing is left to be done. Without a copy that is an unknown XID."""
    log = LogWriter(tmp_path / "log")
    log.ddl(A.create)
    log.xa_prepare(XID, insert(A, (1, "x")))
    log.xa_end("COMMIT", XID)
    retries = Retries(0, threading.Event(), lambda _: None)
    with applier(log.folder, tmp_path / "lake") as found:
        records = found.index.slice(0, found.index.end)[1 if known else 2 :]
        applied, parts = found.opened.applied, XaParts(MagicMock(), ())
        taken, branches, wrong = parts.resolve(applied, records, found.index.gtids(0), retries)
        assert wrong is None
        if known:
            assert taken["kind"].tolist() == [Kind.XA_PREPARE, Kind.XA_COMMIT]
            assert len(branches) == 2
            return
        assert taken["kind"].tolist() == [Kind.EMPTY] and not branches
        parts = XaParts(MagicMock(), ())
        _, _, wrong = parts.resolve(applied, records, GtidSet(), retries)
        assert isinstance(wrong, StatementError) and wrong.number == 1397
