"""WorkerStatus: whose an error is, and who waits."""

from __future__ import annotations

from spark_repl.errors import SparkReplError
from spark_repl.observe.reports.worker_status import APPLYING, WAITING, WorkerStatus


def found(status: WorkerStatus, name: str) -> list[object]:
    return [row[name] for row in status.rows("", service="ON")]


def test_a_temporary_error_is_that_of_the_workers_which_had_the_group() -> None:
    """One that has gone on to another, or that never had it, is passed over; those behind it in
    the list are not."""
    status = WorkerStatus(3)
    status.state(0, {1: "a:1", 2: "a:2"}, "staging")
    status.applied(0, {1: "a:1", 2: "a:2"})
    status.state(1, {1: "a:3"}, "staging")
    status.applied(1, {1: "a:3"})
    status.transient(0, (0, 1, 2), SparkReplError("lost"), 1205)
    assert found(status, "LAST_APPLIED_TRANSACTION_RETRIES_COUNT") == [0, 0, 1]


def test_a_worker_that_waits_for_its_turn_is_shown() -> None:
    status = WorkerStatus(1)
    status.state(0, {0: "a:1"}, "writing")
    assert found(status, "PROCESSLIST_STATE") == ["writing"]
    status.waits(0, True)
    assert found(status, "PROCESSLIST_STATE") == [WAITING]
    status.waits(0, False)
    assert found(status, "PROCESSLIST_STATE") == ["writing"]


def test_of_a_workers_own_errors_the_first_groups_stands() -> None:
    """Whichever is heard of first; being turned away is no error of its own."""
    for slots in ((1, 2), (2, 1)):
        status = WorkerStatus(2)
        status.turned_away((0, 1), SparkReplError("turned away", number=3030))
        for slot in slots:
            status.failed(slot, (0,), SparkReplError(f"of group {slot}", number=1000 + slot))
        status.turned_away((0, 1), SparkReplError("turned away", number=3030))
        assert found(status, "LAST_ERROR_NUMBER") == [1001, 3030]


def test_the_state_is_that_of_the_transaction_that_is_named() -> None:
    """A group that waits for its turn is shown, with its own transaction and retries."""
    status = WorkerStatus(1)
    status.state(0, {0: "a:4"}, APPLYING)
    status.transient(0, [0], OSError(5, "Input/output error"), 5)
    status.state(1, {0: "a:8"}, "reading")
    assert shown(status) == ("a:4", APPLYING, 1)
    status.waits(1, True)
    assert shown(status) == ("a:8", WAITING, 0)
    status.applied(0, {0: "a:4"})
    status.waits(1, False)
    assert shown(status) == ("a:8", "reading", 0)


def shown(status: WorkerStatus) -> tuple[object, ...]:
    (row,) = status.rows("", service="ON")
    names = ("APPLYING_TRANSACTION", "PROCESSLIST_STATE", "APPLYING_TRANSACTION_RETRIES_COUNT")
    return tuple(row[name] for name in names)
