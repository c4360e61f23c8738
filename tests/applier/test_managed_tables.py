"""The applier on tables that a catalog manages: rows, DDL, kills at each step, and what is refused.

No engine here opens such a table by its path. So rows are read from a copy whose protocol lacks the
feature: it has only what was published.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_repl.delta.log.log_replay import read_commit
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.demo.bank_demo import BANK
from spark_repl.errors import SparkReplError, StatementError, TargetError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import at_cut, cuts, run, stopped
from tests.support.store_proxy import Fault, random_faults, store_proxy
from tests.support.unity_server import UnityServer, unity_server

A, B = Table("a"), Table("b")
WIDER = Table("a", (("id", "int"), ("v", "varchar(20)"), ("n", "int")))
API = "/api/2.1/unity-catalog"
_UNREADABLE = {"catalogManaged", "vacuumProtocolCheck"}
"""features of which delta-rs 1.6 reads no table"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UnityServer]:
    with unity_server(f"file://{tmp_path}/lake/managed") as started:
        yield started


def managed(uri: str) -> dict[str, Any]:
    return {"managed": True, "name": "main", "uri": uri}


def published(lake: Path) -> Path:
    """A copy of a target whose tables no catalog manages."""
    copy = lake.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(lake, copy)
    for first in copy.glob("managed/**/_delta_log/00000000000000000000.json"):
        actions = [json.loads(line) for line in first.read_text().splitlines()]
        for action in actions:
            for kind in ("readerFeatures", "writerFeatures") if "protocol" in action else ():
                features = {*action["protocol"][kind]} - _UNREADABLE
                action["protocol"][kind] = sorted(features)
        first.write_text("".join(json.dumps(action) + "\n" for action in actions))
    for checksum in copy.glob("managed/**/_delta_log/*.crc"):  # it has the protocol, too
        checksum.unlink()
    return copy


def shown(lake: Path) -> dict[str, list[tuple[Any, ...]]]:
    copy = published(lake)
    return at_cut(copy, cuts(copy)[-1])


def test_the_bank_through_a_bad_line_equals_the_bank_in_folders(
    server: UnityServer, tmp_path: Path
) -> None:
    plain, lake, groups = tmp_path / "plain", tmp_path / "lake", {"group_max_transactions": 400}
    assert run(BANK, plain, **groups)
    with store_proxy(server.url) as proxy:
        faults = random_faults(4, 0.15)
        proxy.fault = lambda method, target: _without_delay(faults(method, target))
        catalog = managed(proxy.url + API)
        assert run(BANK, lake, catalog=catalog, transaction_retries=50, **groups)
    assert shown(lake) == at_cut(plain, cuts(plain)[-1])
    assert sorted(server.tables) == [
        ("bank", n) for n in ("account", "pending", "till", "transfer")
    ]
    copy = published(lake)
    for (_, name), table in server.tables.items():
        folder = table.location.removeprefix("file://")
        assert read(folder.replace(str(lake), str(copy)), table.latest).num_rows
        operations = [
            action["commitInfo"]["operation"]
            for version in range(1, table.latest + 1)
            for action in read_commit(folder, version) or ()
            if "commitInfo" in action
        ]
        assert {*operations} == {"STREAMING UPDATE"}, name  # no upkeep that the catalog forbids


def _without_delay(fault: Fault | None) -> Fault | None:
    return Fault(twice=True) if fault and fault.late_s else fault


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    made.ddl(A.create)
    made.transaction(insert(A, (1, "x"), (2, "y")))
    made.ddl(B.create)
    made.transaction(update(A, ((1, "x"), (1, "xx"))), insert(B, (1, "b")))
    made.ddl("ALTER TABLE t.a ADD COLUMN n INT")
    made.transaction(delete(WIDER, (2, "y", None)), insert(WIDER, (3, "z", 5)))
    made.ddl("TRUNCATE t.b")
    made.transaction(insert(B, (2, "bb")))
    return made


WANT = {"t.a": [(1, "xx", None), (3, "z", 5)], "t.b": [(2, "bb")]}


def test_a_crash_at_a_step_leaves_the_rows_and_one_table_each(
    server: UnityServer, tmp_path: Path, log: LogWriter
) -> None:
    catalog, step, ended = managed(server.url), 0, False
    while not ended:
        step += 9
        lake = tmp_path / "lake"
        shutil.rmtree(lake, ignore_errors=True)
        server.tables.clear()
        ended = run(log.folder, lake, crash=step, catalog=catalog)
        if not ended:
            assert run(log.folder, lake, catalog=catalog)
        assert shown(lake) == WANT, step
        assert sorted(server.tables) == [("t", "a"), ("t", "b")]
    assert step > 40
    columns = server.tables["t", "a"].metadata["columns"]["fields"]
    assert [field["name"] for field in columns] == ["id", "v", "n"]


def test_statements_that_need_another_name_are_refused(
    server: UnityServer, tmp_path: Path, log: LogWriter
) -> None:
    catalog, lake = managed(server.url), tmp_path / "lake"
    log.ddl("DROP TABLE t.b")
    assert run(log.folder, lake, catalog=catalog)
    log.ddl(B.create)
    error: SparkReplError = stopped(log.folder, lake, catalog=catalog)
    assert isinstance(error, TargetError) and error.table == "t.b"
    assert "DROP TABLE main.t.b" in str(error.hint)
    del server.tables["t", "b"]  # as the hint says
    log.transaction(insert(B, (4, "new")))
    assert run(log.folder, lake, catalog=catalog)
    assert shown(lake) == {**WANT, "t.b": [(4, "new")]}
    log.ddl("RENAME TABLE t.a TO t.c")
    error = stopped(log.folder, lake, catalog=catalog)
    assert isinstance(error, StatementError) and error.table == "t.a"
    assert "snapshot --config F --table t.c" in str(error.hint)


def test_a_managed_location_has_to_be_below_the_target(
    server: UnityServer, tmp_path: Path, log: LogWriter
) -> None:
    error = stopped(log.folder, tmp_path / "lake" / "other", catalog=managed(server.url))
    assert "outside of the target" in str(error) and "target.path" in str(error.hint)


def test_a_target_without_its_catalog_is_refused(
    server: UnityServer, tmp_path: Path, log: LogWriter
) -> None:
    lake = tmp_path / "lake"
    assert run(log.folder, lake, catalog=managed(server.url))
    assert "set catalog.managed = true" in str(stopped(log.folder, lake).hint)
    with pytest.raises(TargetError, match="does not open a table by its path"):
        read(server.tables["t", "a"].location.removeprefix("file://"))
