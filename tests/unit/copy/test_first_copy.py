"""The summary of a finished copy."""

from __future__ import annotations

from spark_repl.copy.first_copy import CopyResult
from spark_repl.gtid import GtidSet

START = GtidSet.parse("11111111-2222-3333-4444-555555555555:1-9")


def test_a_summary_has_tables_rows_bytes_seconds_and_rate() -> None:
    result = CopyResult(7, 322_663, 41.04, START, START, 12_345_678)
    assert result.summary == "7 tables, 322,663 rows, 12.3 MB of files in 41.0 s: 7,862 rows/s"


def test_a_copy_by_another_process_has_no_bytes() -> None:
    assert CopyResult(1, 10, 2.0, START, START).summary == "1 table, 10 rows in 2.0 s"
