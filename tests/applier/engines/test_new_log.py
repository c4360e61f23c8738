"""Another log of the same source: what the tables hold goes by GTID, also after crashes."""

from __future__ import annotations

from spark_repl.crash_points import listening
from spark_repl.errors import HistoryError, SparkReplError
from tests.spark.lab import assert_rows, cuts, run, stopped, versions
from tests.support.binlog_writer import LogWriter, Table, insert, update

A, B = Table("a"), Table("b")


class Crash(SparkReplError):
    """Where a run is cut off."""


def other(folder, **options) -> LogWriter:
    """The log of another replica of the same source, with the same transactions."""
    log = LogWriter(folder, server_id=2, created=1_700_009_999, **options)
    log.ddl("CREATE DATABASE t")
    log.ddl(A.create)
    return log


def test_a_new_log_of_applied_transactions_changes_nothing(engine, log, target, tmp_path):
    """Found in review: the second start applied the whole new log again."""
    again = other(tmp_path / "again")
    for made in (log, again):
        made.transaction(insert(A, (1, "a")), update(A, ((1, "a"), (1, "b"))))
    run(engine, log.folder, target)
    before = versions(target)
    for _ in range(3):
        result = run(engine, again.folder, target)
        assert result.counters.transactions == 0
        assert_rows(engine, target, A, [(1, "b")])
    assert versions(target) == before
    assert result.relay_position.startswith("bin.000001:")
    again.transaction(insert(A, (2, "a")))
    run(engine, again.folder, target)
    assert_rows(engine, target, A, [(1, "b"), (2, "a")])


def test_a_target_may_go_back_to_the_older_log(engine, log, target, tmp_path):
    again = other(tmp_path / "again")
    for made in (log, again):
        made.transaction(insert(A, (1, "a")))
    run(engine, log.folder, target)
    for made in (again, log):
        made.transaction(insert(A, (2, "a")))
    run(engine, again.folder, target)
    log.transaction(insert(A, (3, "a")))
    run(engine, log.folder, target)
    assert_rows(engine, target, A, [(1, "a"), (2, "a"), (3, "a")])


def test_new_log_after_a_crash_between_tables(engine, log, target, tmp_path):
    # Scenario 50: relay log recovery with gaps, by GTID.
    again = other(tmp_path / "again")
    for made in (log, again):
        made.ddl(B.create)
        made.transaction(insert(A, (1, "a")), insert(B, (1, "a")))
    run(engine, log.folder, target)
    for made in (log, again):
        made.transaction(insert(A, (2, "a")), insert(B, (2, "a")))
        made.transaction(insert(A, (3, "a")), insert(B, (3, "a")))
    with listening(raise_at, armed=["between_tables"]):
        assert isinstance(stopped(engine, log.folder, target), Crash)
    assert versions(target)["t/a"] == versions(target)["t/b"] + 1
    run(engine, again.folder, target, group_max_transactions=1)
    for table in (A, B):
        assert_rows(engine, target, table, [(1, "a"), (2, "a"), (3, "a")])
    for cut in cuts(target):
        assert not cut.gtid_executed.endswith("1-5"), "a cut while a table was ahead"
    assert cuts(target)[-1].gtid_executed.endswith("1-6")


def raise_at(name: str) -> None:
    if name == "between_tables":
        raise Crash("the run is cut off here")


def test_a_log_that_lost_unapplied_transactions_is_refused(engine, log, target):
    """Found in review: the file next to the one that was applied to its half was believed."""
    log.transaction(insert(A, (1, "a")))
    run(engine, log.folder, target)
    log.transaction(insert(A, (2, "lost")))
    log.rotate()
    log.transaction(insert(A, (3, "a")))
    (log.folder / "bin.000001").unlink()
    error = stopped(engine, log.folder, target)
    assert isinstance(error, HistoryError)
    assert f"{log.source}:4" in error.message


def test_files_of_applied_transactions_may_be_missing(engine, log, target):
    log.transaction(insert(A, (1, "a")))
    log.rotate()
    run(engine, log.folder, target)
    log.transaction(insert(A, (2, "a")))
    (log.folder / "bin.000001").unlink()
    run(engine, log.folder, target)
    assert_rows(engine, target, A, [(1, "a"), (2, "a")])
