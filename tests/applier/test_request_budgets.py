"""Requests to an object store: what small groups and a start cost, as the store counts them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from spark_repl.control.records.channels import opened
from spark_repl.observe.status.table_figures import FigureReader
from tests.support.binlog_writer import LogWriter, Table, insert, update
from tests.support.local_delta import applier, apply_without_stream
from tests.support.s3_server import kind_of, requested

TABLES = [Table(f"t{number}") for number in range(5)]
KEYS = {"compact_files": 0}
ALLOWED_WRITES, START, START_TABLE = 4, 12, 4
"""of a group, beside two for each table; requests of a start, and more of them for each table"""
LOOK, CONTROL, FIGURES_TABLE = 6, 12, 8
"""most requests for the page's figures of tables: of each look, in addition if the control table
has changed, and in addition for each changed table"""


@pytest.fixture
def target(s3_prefix: str) -> str:
    return f"{s3_prefix}/lake"


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    log = LogWriter(tmp_path / "log")
    log.ddl("CREATE DATABASE t")
    for table in TABLES:
        log.ddl(table.create)
    log.transaction(*(insert(table, (1, "a"), (2, "b")) for table in TABLES))
    return log


def counted(
    log: LogWriter, target: str, *, updated: bool, inline_vector_bytes: int = 0
) -> Counter[str]:
    """Return the requests of one group, whose tables are known and were changed before."""
    keys = {**KEYS, "inline_vector_bytes": inline_vector_bytes}
    with applier(log.folder, target, keys=keys) as replica:
        for key in (10, 11):
            apply_without_stream(replica)
            log.transaction(*(insert(table, (key, "c")) for table in TABLES))
        if updated:
            log.transaction(*(update(table, ((1, "a"), (1, "b"))) for table in TABLES))
        apply_without_stream(replica)
        log.ddl("CREATE DATABASE u")  # the index ends with the last transaction but one
        with requested() as requests:
            apply_without_stream(replica)
    return Counter(map(kind_of, requests))


def test_a_group_of_inserts_costs_two_writes_a_table_and_no_list(
    log: LogWriter, target: str
) -> None:
    requests = counted(log, target, updated=False)
    assert requests["put"] <= 2 * len(TABLES) + ALLOWED_WRITES
    assert not requests["list"]


def test_a_group_of_updates_also_costs_a_deletion_vector_a_table(
    log: LogWriter, target: str
) -> None:
    requests = counted(log, target, updated=True)
    assert requests["put"] <= 3 * len(TABLES) + ALLOWED_WRITES
    assert not requests["list"]


def test_updates_cost_two_writes_a_table_if_commits_contain_their_vectors(
    log: LogWriter, target: str
) -> None:
    requests = counted(log, target, updated=True, inline_vector_bytes=1024)
    assert requests["put"] <= 2 * len(TABLES) + ALLOWED_WRITES
    assert not requests["list"]


def test_a_start_reads_each_commit_once(log: LogWriter, target: str) -> None:
    with applier(log.folder, target, keys=KEYS) as replica:
        apply_without_stream(replica)
        apply_without_stream(replica)
    with requested() as requests, applier(log.folder, target, keys=KEYS):
        pass
    commits = [request for request in requests if request.endswith(".json")]
    rows = [request for request in requests if "/control/part-" in request]
    gets = Counter(request for request in (*commits, *rows) if request.startswith("GET"))
    assert gets and set(gets.values()) == {1}
    others = len(requests) - len(gets)
    assert others <= START + START_TABLE * len(TABLES), "\n".join(requests)


def test_figures_of_the_page_read_only_the_tables_that_changed(log: LogWriter, target: str) -> None:
    with applier(log.folder, target, keys=KEYS) as replica:
        apply_without_stream(replica)
        reader, counts = FigureReader(opened(replica.config)), list[int]()
    for changed in (TABLES, [], TABLES[:1]):
        if counts and changed:
            log.transaction(*(insert(table, (9, "d")) for table in changed))
            log.ddl("CREATE DATABASE u")
            with applier(log.folder, target, keys=KEYS) as replica:
                apply_without_stream(replica)
        with requested() as requests:  # the applier has ended: its requests would count
            assert reader.figures(60.0)["t.t0"].rows
        counts.append(len(requests))
    first, look, later = counts
    assert look <= LOOK and later - look <= CONTROL + FIGURES_TABLE
    assert first - look <= CONTROL + FIGURES_TABLE * len(TABLES)
