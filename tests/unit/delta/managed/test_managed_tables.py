"""Commits to tables that a catalog manages: races, lost answers, kills at each step, refusals."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from spark_repl.delta.log.log_replay import commit_path, read_commit
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.log.table_snapshot import NewTable, Snapshot
from spark_repl.delta.managed import managed_tables
from spark_repl.delta.managed.managed_tables import ManagedTables
from spark_repl.delta.managed.unity_catalog import LoadedTable, ManagedName, UnityCatalog
from spark_repl.errors import ConcurrentChangeError, FencedError, TargetError
from tests.support.store_proxy import (
    DROPPED_ANSWER,
    DROPPED_REQUEST,
    Fault,
    StoreProxy,
    random_faults,
    store_proxy,
)
from tests.support.uc_server import needs_uc_server, uc_server
from tests.support.unity_server import UnityServer, unity_server

PROPERTIES = {
    "delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true",
    "delta.deletedFileRetentionDuration": "interval 168 hours", "own": "1",
}  # fmt: skip


def schema(*names: str) -> str:
    fields = [{"name": n, "type": "integer", "nullable": True, "metadata": {}} for n in names]
    return json.dumps({"type": "struct", "fields": fields})


def name_of(table: str) -> ManagedName:
    return ManagedName("main", *table.split("."))


def no_pause(seconds: float) -> None:
    """Waits for nothing."""


def writer(url: str, token: Callable[[], str] = str) -> TableLog:
    return TableLog(ManagedTables(UnityCatalog(url, token, no_pause), name_of))


def stamp(position: int, app: str = "a") -> Stamp:
    return Stamp(app, position, "{}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UnityServer]:
    with unity_server(f"file://{tmp_path}") as started:
        yield started


@pytest.fixture(params=["specification", pytest.param("uc-server", marks=needs_uc_server)])
def any_server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a server of ours, or of another project's."""
    if request.param == "specification":
        with unity_server(f"file://{tmp_path}") as started:
            yield started.url
    else:
        with uc_server(tmp_path, schemas=("t",)) as url:
            yield url


@pytest.fixture
def proxy(any_server: str) -> Iterator[StoreProxy]:
    with store_proxy(any_server) as started:
        yield started


def described(url: str, table: str = "t.a") -> dict[str, Any]:
    """The table, as the catalog answers."""
    return UnityCatalog(url).read(name_of(table).path).body


def through(proxy: StoreProxy) -> TableLog:
    return writer(f"{proxy.url}/api/2.1/unity-catalog")


def created(log: TableLog, name: str = "t.a") -> Snapshot:
    assert log.managed is not None
    folder = log.managed.assign(name)
    log.create(folder, NewTable(schema("id"), PROPERTIES), stamp(1))
    snapshot = log.snapshot(folder)
    assert snapshot is not None and snapshot.version == 0 and snapshot.is_managed
    return snapshot


def positions(folder: str, upto: int, app: str = "a") -> list[int]:
    """The positions that the published versions from 1 on record."""
    return [
        action["txn"]["version"]
        for version in range(1, upto + 1)
        for action in read_commit(folder, version) or ()
        if action.get("txn", {}).get("appId") == app
    ]


def staged(folder: str) -> list[str]:
    path = os.path.join(folder, "_delta_log", "_staged_commits")
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def once(
    method: str, fault: Fault, ending: str = "/tables/a"
) -> Callable[[str, str], Fault | None]:
    """A rule for the first request to the table."""
    left = iter([fault])
    return lambda asked, target: (
        next(left, None) if asked == method and target.endswith(ending) else None
    )


def test_a_table_has_what_the_catalog_requires_and_its_name(any_server: str) -> None:
    snapshot = created(writer(any_server))
    metadata = described(any_server)["metadata"]
    assert snapshot.configuration["io.unitycatalog.tableId"] == metadata["table-uuid"]
    assert snapshot.configuration["own"] == "1"
    assert "delta.deletedFileRetentionDuration" not in snapshot.configuration
    assert snapshot.configuration.items() <= metadata["properties"].items()
    assert os.listdir(snapshot.folder) == ["_delta_log"]
    assert {"inCommitTimestamp", "v2Checkpoint", "vacuumProtocolCheck"} <= snapshot.features


def test_a_commit_is_accepted_and_then_published(any_server: str) -> None:
    log = writer(any_server)
    snapshot = created(log)
    for number in range(1, 25):  # more than the catalog allows without publishing
        version = log.commit(snapshot, [], stamp(number))
        snapshot = log.advance(snapshot, version)
        assert version == number and log.is_newest(snapshot)
    assert positions(snapshot.folder, 24) == [*range(1, 25)]
    table = described(any_server)
    assert table["latest-table-version"] == 24 and len(table["commits"]) == 1


def test_one_of_two_writers_has_a_version(any_server: str) -> None:
    first, rounds = created(writer(any_server)), 8
    logs = [writer(any_server), writer(any_server)]
    snapshots: list[Any] = [log.snapshot(first.folder) for log in logs]
    barrier = threading.Barrier(2, timeout=120)

    def attempt(number: int, at: int) -> bool:
        barrier.wait()
        try:
            logs[number].commit(snapshots[number], [], stamp(at, f"w{number}"))
        except ConcurrentChangeError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        for at in range(1, rounds + 1):
            outcomes = [*pool.map(attempt, (0, 1), (at, at))]
            assert sorted(outcomes) == [False, True]
            won = [positions(first.folder, at, f"w{number}")[-1:] for number in (0, 1)]
            assert [at in positions_of for positions_of in won] == outcomes
            snapshots = [log.snapshot(first.folder) for log in logs]
            assert [snapshot.version for snapshot in snapshots] == [at, at]
    assert len(staged(first.folder)) == rounds  # the losers' files are gone


@pytest.mark.parametrize(
    "fault",
    [
        DROPPED_ANSWER, DROPPED_REQUEST, Fault(twice=True), Fault(status=500),
        Fault(status=503, retry_after_s=1), Fault(status=429), Fault(status=409),
    ],
)  # fmt: skip
def test_a_commit_lands_once_whatever_the_answer(proxy: StoreProxy, fault: Fault) -> None:
    log = through(proxy)
    snapshot = created(log)
    proxy.fault = once("POST", fault)
    assert log.commit(snapshot, [], stamp(7)) == 1
    assert positions(snapshot.folder, 3) == [7] and len(staged(snapshot.folder)) == 1
    newest = writer(log.managed.catalog.uri).snapshot(snapshot.folder)  # type: ignore[union-attr]
    assert newest is not None and newest.version == 1


def test_a_lost_answer_to_a_commit_that_others_have_published_meanwhile(
    proxy: StoreProxy, any_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog no longer stores the name of its file."""
    log = through(proxy)
    snapshot = created(log)
    proxy.fault = once("POST", DROPPED_ANSWER)
    load = log.managed._load  # type: ignore[union-attr]

    def published_by_others(*at: Any) -> LoadedTable:
        assert writer(any_server).version(snapshot.folder) == 1
        return load(*at)

    monkeypatch.setattr(log.managed, "_load", published_by_others)
    assert log.commit(snapshot, [], stamp(7)) == 1
    assert positions(snapshot.folder, 1) == [7] and described(any_server)["commits"] == []


def test_a_lost_answer_and_a_catalog_that_is_away_leave_the_outcome_unknown(
    proxy: StoreProxy, any_server: str
) -> None:
    log = through(proxy)
    snapshot = created(log)
    lost = once("POST", DROPPED_ANSWER)
    proxy.fault = lambda method, target: lost(method, target) or Fault(status=503)
    with pytest.raises(OSError, match="does not answer"):
        log.commit(snapshot, [], stamp(7))
    assert not os.path.exists(commit_path(snapshot.folder, 1))
    proxy.fault = lambda method, target: None
    assert log.version(snapshot.folder) == 1  # which publishes it
    assert positions(snapshot.folder, 1) == [7]
    assert described(any_server)["commits"] == []


def test_a_request_that_arrives_late_commits_the_plan_that_others_find(
    proxy: StoreProxy, any_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender has given up, and plans again on the version that its own commit has taken."""
    log = through(proxy)
    snapshot, sent = created(log), list[Any]()
    monkeypatch.setattr(
        log.managed.catalog, "send",  # type: ignore[union-attr]
        lambda path, body: (sent.append((path, body)), _raise(OSError("gave up")))[0],
    )  # fmt: skip
    with pytest.raises(OSError, match="gave up"):
        log.commit(snapshot, [], stamp(7))
    assert log.version(snapshot.folder) == 0
    monkeypatch.undo()
    writer(any_server).managed.catalog.send(*sent[0])  # type: ignore[union-attr]
    with pytest.raises(FencedError):
        log.commit(snapshot, [], stamp(7))
    assert positions(snapshot.folder, 1) == [7]


def _raise(error: Exception) -> None:
    raise error


def test_a_writer_that_ended_before_its_request_leaves_nothing(any_server: str) -> None:
    log = writer(any_server)
    snapshot = created(log)
    log.managed.catalog.send = lambda path, body: _raise(KeyboardInterrupt())  # type: ignore
    with pytest.raises(KeyboardInterrupt):
        log.commit(snapshot, [], stamp(6))
    later = writer(any_server)
    again = later.snapshot(snapshot.folder)
    assert again is not None and again.version == 0
    assert later.commit(again, [], stamp(7)) == 1
    assert positions(snapshot.folder, 1) == [7] and len(staged(snapshot.folder)) == 2


def test_a_writer_that_ended_before_publishing_has_committed(
    any_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = writer(any_server)
    snapshot = created(log)
    monkeypatch.setattr(log.managed, "_publish", lambda *_: _raise(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        log.commit(snapshot, [], stamp(7))
    assert not os.path.exists(commit_path(snapshot.folder, 1))
    later = writer(any_server)
    again = later.snapshot(snapshot.folder)
    assert again is not None and again.version == 1
    assert later.commit(again, [], stamp(8)) == 2
    assert positions(snapshot.folder, 2) == [7, 8]


def test_a_former_owner_that_slept_commits_nothing(any_server: str) -> None:
    sleeper, owner = writer(any_server), writer(any_server)
    old = created(sleeper)
    new: Any = owner.snapshot(old.folder)
    new = owner.advance(new, owner.commit(new, [], stamp(7)))
    assert owner.is_newest(new) and not sleeper.is_newest(old)
    owner.commit(new, [], stamp(8))
    with pytest.raises(FencedError):
        sleeper.commit(old, [], stamp(7))
    assert positions(old.folder, 3) == [7, 8] and len(staged(old.folder)) == 2


def test_others_unpublished_commits_are_published_first(
    any_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = writer(any_server), writer(any_server)
    snapshot = created(mine)
    theirs: Any = other.snapshot(snapshot.folder)
    with monkeypatch.context() as without:
        without.setattr(other.managed, "_publish", lambda *_: None)
        for number in range(1, 11):
            theirs = other.advance(theirs, other.commit(theirs, [], stamp(number, "b")))
    with pytest.raises(ConcurrentChangeError):
        mine.commit(snapshot, [], stamp(7))
    assert positions(snapshot.folder, 10, "b") == [*range(1, 11)]
    newest: Any = mine.snapshot(snapshot.folder)
    assert mine.commit(newest, [], stamp(7)) == 11


def test_too_many_unpublished_commits_are_published_and_reported(server: UnityServer) -> None:
    log = writer(server.url)
    snapshot = created(log)
    log.commit(snapshot, [], stamp(1))
    server.limit = 1
    later = writer(server.url)  # it does not know what was published
    later.managed._published = {snapshot.folder: 0}  # type: ignore[union-attr]
    newest: Any = log.snapshot(snapshot.folder)
    assert later.commit(newest, [], stamp(2)) == 2
    assert positions(snapshot.folder, 2) == [1, 2]


@pytest.mark.parametrize("seed", range(3))
def test_commits_through_a_bad_line_land_once_and_in_order(
    proxy: StoreProxy, any_server: str, seed: int
) -> None:
    log = through(proxy)
    snapshot = created(log)
    faults = random_faults(seed, 0.4)
    proxy.fault = lambda method, target: _without_delay(faults(method, target))
    at = 1
    while at <= 12:
        try:
            snapshot = log.advance(snapshot, log.commit(snapshot, [], stamp(at)))
        except OSError:
            continue
        except FencedError:  # its own commit, whose answers were all lost
            newest = writer(any_server).snapshot(snapshot.folder)
            assert newest is not None
            snapshot = newest
            assert snapshot.state.txns["a"]["version"] == at
        at += 1
    assert positions(snapshot.folder, snapshot.version) == [*range(1, 13)]
    assert snapshot.version == 12 == described(any_server)["latest-table-version"]


def _without_delay(fault: Fault | None) -> Fault | None:
    return Fault(twice=True) if fault and fault.late_s else fault


def test_a_creation_that_ended_before_the_name_is_completed(
    any_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = writer(any_server)
    folder = log.managed.assign("t.a")  # type: ignore[union-attr]
    monkeypatch.setattr(log.managed, "_register", lambda *_: _raise(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        log.create(folder, NewTable(schema("id"), PROPERTIES), stamp(1))
    assert described(any_server) == {}
    snapshot = writer(any_server).snapshot(folder)
    assert snapshot is not None and snapshot.version == 0
    assert described(any_server)["metadata"]["location"] == f"file://{folder}"


@pytest.mark.parametrize("fault", [DROPPED_ANSWER, Fault(twice=True), Fault(status=500)])
def test_a_table_is_created_whatever_the_answer(proxy: StoreProxy, fault: Fault) -> None:
    log = through(proxy)
    proxy.fault = once("POST", fault, "/tables")
    if fault.status:
        with pytest.raises(OSError, match="does not answer"):
            created(log)
    else:
        created(log)


def test_the_catalog_learns_what_the_log_has(any_server: str) -> None:
    log = writer(any_server)
    snapshot = created(log)
    new = NewTable(schema("id", "b"), {**snapshot.configuration, "other": "2"}, comment="why")
    del new.configuration["own"]
    snapshot = log.advance(snapshot, log.alter(snapshot, new, [], stamp(2)))
    metadata = described(any_server)["metadata"]
    assert snapshot.configuration.items() <= metadata["properties"].items()
    assert "own" not in metadata["properties"]
    assert metadata["columns"] == json.loads(snapshot.schema_string)


def refused(log: TableLog, folder: str) -> TargetError:
    with pytest.raises(TargetError) as caught:
        log.snapshot(folder)
    assert caught.value.hint
    return caught.value


def test_refusals_name_the_table_and_the_next_step(server: UnityServer) -> None:
    log = writer(server.url)
    folder = created(log).folder
    assert "no catalog is configured" in str(refused(TableLog(), folder))
    assert TableLog().snapshot(folder, 0) is not None  # a version of a cut is published
    with pytest.raises(TargetError, match=r"has a table main\.t\.a already") as caught:
        log.managed.assign("t.a")  # type: ignore[union-attr]
    assert 'catalog.names = ["t.a->t.a_2"]' in str(caught.value.hint)
    with pytest.raises(TargetError, match=r"NoSuchCatalogException"):
        TableLog(
            ManagedTables(UnityCatalog(server.url), lambda table: ManagedName("no", "t", "a"))
        ).managed.assign("t.a")  # type: ignore[union-attr]
    server.tables["t", "b"] = server.tables.pop(("t", "a"))
    assert "rename it back to main.t.a" in str(refused(log, folder).hint)
    created(log, "t.a")
    assert "has another table there" in str(refused(log, folder))


def test_a_catalog_may_require_what_the_applier_lacks(server: UnityServer) -> None:
    server.features.append("unheardOf")
    with pytest.raises(TargetError, match="lacks: unheardOf"):
        created(writer(server.url))
    server.features.pop()
    server.required["unheard.of"] = None  # type: ignore[assignment]
    with pytest.raises(TargetError, match=r"lacks: unheard\.of"):
        created(writer(server.url))


def test_a_version_that_bypassed_the_catalog_is_no_part_of_the_table(server: UnityServer) -> None:
    log = writer(server.url)
    snapshot = created(log)
    Path(commit_path(snapshot.folder, 1)).write_text('{"commitInfo":{"txnId":"x"}}\n')
    newest = log.snapshot(snapshot.folder)
    assert newest is not None and newest.version == 0 and log.is_newest(snapshot)
    with pytest.raises(TargetError, match="has bypassed the catalog"):
        log.commit(snapshot, [], stamp(2))


def test_a_success_of_something_between_is_none(server: UnityServer) -> None:
    """A page of a proxy, for example, with status 200."""
    log = writer(server.url)
    snapshot = created(log)
    answer = server.answer
    server.answer = lambda method, path, body: (  # type: ignore[method-assign]
        {"page": "hello"} if method == "POST" else answer(method, path, body)
    )
    with pytest.raises(OSError, match="has not accepted version 1"):
        log.commit(snapshot, [], stamp(2))
    before = answer("GET", name_of("t.a").path, {})
    server.answer = lambda *_: before  # type: ignore[method-assign]
    with pytest.raises(OSError, match="has not accepted version 1"):
        log.commit(snapshot, [], stamp(2))
    assert not os.path.exists(commit_path(snapshot.folder, 1))
    server.answer = lambda *_: {"protocol-version": "1.0"}  # type: ignore[method-assign]
    with pytest.raises(OSError, match="not one of the catalog's Delta API"):
        created(log, "t.b")


def test_a_refused_commit_keeps_its_file_for_an_earlier_request(server: UnityServer) -> None:
    log = writer(server.url)
    snapshot = created(log)
    restricted = {"delta.logRetentionDuration": "interval 1 day"}
    with pytest.raises(TargetError, match="InvalidParameterValueException"):
        log.set_properties(snapshot, restricted, "a")
    assert len(staged(snapshot.folder)) == 1 and log.version(snapshot.folder) == 0


def test_a_lost_staged_file_is_named(server: UnityServer, monkeypatch: pytest.MonkeyPatch) -> None:
    log = writer(server.url)
    snapshot = created(log)
    with monkeypatch.context() as without:
        without.setattr(log.managed, "_publish", lambda *_: None)
        log.commit(snapshot, [], stamp(2))
    (name,) = staged(snapshot.folder)
    os.remove(os.path.join(snapshot.folder, "_delta_log", "_staged_commits", name))
    assert "its staged file is gone" in str(refused(writer(server.url), snapshot.folder))


def test_a_token_is_renewed_and_never_shown(server: UnityServer) -> None:
    server.token = "new"
    tokens = iter(["old", "new"])
    log = writer(server.url, lambda: next(tokens))
    snapshot = created(log)
    server.token = "unknown"
    refusing = writer(server.url, lambda: "secret")
    error = refused(refusing, snapshot.folder)
    assert "catalog.token_" in str(error.hint) and "secret" not in str(error)


def test_attempts_end(proxy: StoreProxy) -> None:
    log = through(proxy)
    snapshot = created(log)
    proxy.fault = lambda method, target: Fault(status=503) if method == "POST" else None
    with pytest.raises(OSError, match="has not accepted version 1"):
        log.commit(snapshot, [], stamp(7))
    sent = [request for request in proxy.requests if request.method == "POST"]
    assert len(sent) == 2 + managed_tables._ATTEMPTS
