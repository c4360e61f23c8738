"""XaParts: whose files a start removes, what of a copy's transactions is passed over, and whose
failure it is that a branch can't be kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from spark_repl.apply.group.xa_parts import OnKeep, XaParts, keep_with_retries
from spark_repl.errors import FencedError, GivenUpError, StatementError
from spark_repl.gtid import GtidSet
from spark_repl.position import RelayPosition
from spark_repl.relay.record import RECORD, Kind
from spark_repl.relay.xa_branches import XaGroup
from spark_repl.runtime.retry import Retries, Retry
from spark_repl.schedule.group import Group
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


PLACES = [RelayPosition(1, 100).packed, RelayPosition(1, 200).packed]
BROKEN = OSError(5, "Input/output error")


def group() -> Group:
    """Two XA PREPAREs, of the second and the third worker."""
    records = np.zeros(2, RECORD)
    records["position"] = PLACES
    return replace(Group.of(records, np.zeros(2, np.int32), 2), worker=np.array([1, 2], np.int32))


def tried(work: Callable[[OnKeep], XaGroup], most: int) -> tuple[list[Retry], GivenUpError | None]:
    seen = list[Retry]()
    retries = Retries(most, threading.Event(), seen.append, wait=lambda *_: False)
    try:
        keep_with_retries(work, group(), retries)
    except GivenUpError as error:
        return seen, error
    return seen, None


def branch(position: int) -> Any:
    return SimpleNamespace(position=position)


@pytest.mark.parametrize("number", [0, 1])
def test_it_is_that_of_the_worker_that_has_the_prepare(number: int) -> None:
    def work(keep: OnKeep) -> XaGroup:
        for position in PLACES[: number + 1]:
            keep(branch(position))
        raise BROKEN

    seen, error = tried(work, 2)
    assert [set(retry.workers) for retry in seen] == [{number + 1}] * 2
    assert error is not None and error.workers == (number + 1,)
    assert error.position == str(RelayPosition.unpack(PLACES[number]))


def test_what_fails_before_any_branch_is_nobodys_alone() -> None:
    """Also behind an attempt that has come to one."""
    attempts = list[int]()

    def work(keep: OnKeep) -> XaGroup:
        attempts.append(1)
        if len(attempts) == 1:
            keep(branch(PLACES[0]))
        raise BROKEN

    seen, error = tried(work, 1)
    assert [set(retry.workers) for retry in seen] == [{1}]
    assert error is not None and error.position is None
    assert error.workers != (1,)
