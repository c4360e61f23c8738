"""A target on an object store, without Spark: URIs, files, control table, and whole histories."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap

from spark_repl.cli.main import main
from spark_repl.config import Config
from spark_repl.control.records.channels import channels
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.control.transaction_files.xa_store import XaStore
from spark_repl.delta.files import deletion_vector
from spark_repl.delta.files.delta_columns import (
    Columns,
    open_file,
    read_rows,
    schema_json,
    write_file,
)
from spark_repl.delta.files.new_file import date_ahead
from spark_repl.delta.log import checkpoint_schedule, log_checkpoints, version_checksum
from spark_repl.delta.log.add_actions import live_files
from spark_repl.delta.log.durable import Durable
from spark_repl.delta.log.log_cleanup import remove_commits
from spark_repl.delta.log.log_replay import checksum_path
from spark_repl.delta.log.log_state import LiveTotals
from spark_repl.delta.store import storage
from spark_repl.errors import ConfigError, OtherChannelError, TargetError
from spark_repl.relay.xa_branches import Branch, Xid
from spark_repl.runtime.retry import temporary
from spark_repl.runtime.store_clients import spark_settings
from spark_repl.runtime.target_uri import canonical
from spark_repl.write.files.key_index import KeyIndex
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import cuts, rows, run
from tests.support.s3_server import (
    check_credentials,
    make_folder_object,
    requested,
)
from tests.support.store_checks import check_fences, check_history
from tests.support.store_proxy import DROPPED_ANSWER, Fault, store_proxy
from tests.support.v2_checkpoint import write_v2
from tests.unit.delta.log.test_log_state import Table as LocalTable
from tests.unit.delta.log.test_log_state import add

ROWS = pa.table({"id": pa.array([5, 3, 9], pa.int64()), "name": ["a", None, "c"]})


@pytest.fixture
def target(s3_prefix) -> str:
    """An empty place in the bucket; what is to lie here lies below ``tmp_path``."""
    return f"{s3_prefix}/lake"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("s3://bank/lake", "s3a://bank/lake"),
        ("s3a://bank/a/b/", "s3a://bank/a/b"),
        ("S3://bank/a=1 ü/b", "s3a://bank/a=1 ü/b"),
        ("file:///data/lake", "/data/lake"),
        ("/data/../lake", "/lake"),
    ],
)
def test_what_a_path_means(given, meant):
    assert canonical(given) == canonical(meant) == meant


def test_keys_in_a_uri_are_not_shown() -> None:
    with pytest.raises(ConfigError, match=r"s3://\.\.\.@bucket/lake") as caught:
        canonical("s3://AKIA:19841984/x@bucket/lake")
    assert "1984" not in str(caught.value)


@pytest.mark.parametrize(
    "path",
    ["hdfs://host/lake", "memory://x", "s3://bank", "s3://",
     "s3://Bank_/lake", "s3://bank//lake", "s3://bank/a/../b", "file://host/lake",
     "/data/a%20b/lake", "file:///data/%c3%bc", "s3://bank/a%20b", "/data/a\\b", "/data/[a]",
     "/a\n", "s3:/bank/lake", "S3A:bank/lake", "file:/data/lake"],
)  # fmt: skip
def test_what_cannot_be_a_target_is_refused_by_name(path):
    with pytest.raises(ConfigError) as found:
        Layout(path)
    assert found.value.file == path and found.value.hint


def test_a_target_on_s3_keeps_its_working_state_on_disk(target, tmp_path):
    layout = Layout(target)
    assert layout.control == f"{target}/_repl/control" and layout.xa == f"{target}/_repl/xa"
    mine = f"{tmp_path}/cache/state/{target.removeprefix('s3a://')}"
    assert layout.xa_here == f"{mine}/xa" and layout.keys("a/b") == f"{mine}/keys/a/b"
    given = Layout.of(Config().override({"target.state_path": f"{tmp_path}/state"}).target)
    assert given.checkpoint(7) == f"{tmp_path}/state/checkpoint/7"
    assert given.control == f"{given.target}/_repl/control" and given.xa_here == given.xa


def test_spark_is_told_where(target, s3_environment, monkeypatch):
    found = spark_settings()
    assert found["spark.hadoop.fs.s3a.endpoint"] == s3_environment["AWS_ENDPOINT_URL"]
    assert found["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert "secret" not in "".join(found.values())  # settings are shown in logs and in the UI
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://other")
    assert spark_settings()["spark.hadoop.fs.s3a.endpoint"] == "http://other"


def test_data_files_and_their_key_index(target, tmp_path):
    columns = Columns.of(schema_json(ROWS.schema))
    add = write_file(target, columns, ROWS)
    path = f"{target}/{add['path']}"
    with open_file(target, add["path"]) as file:
        assert file.read().to_pydict() == ROWS.to_pydict()
    assert storage.names(target) == [add["path"]] and storage.exists(path)
    assert len(storage.open_input(path).read()) == add["size"]
    found = read_rows(target, add["path"], ("name",), pa.array([2, 0]).to_numpy())
    assert found[0].to_pylist() == ["c", "a"]
    index = KeyIndex(str(tmp_path / "keys"), target, ["id"])
    at, rows = index.candidates(add["path"], pa.array([3, 4, 9]).to_numpy())
    assert (at.tolist(), rows.tolist()) == ([0, 2], [1, 2])
    date_ahead(path)
    storage.remove_if_there(path)
    storage.remove_if_there(path)
    with pytest.raises(FileNotFoundError):
        date_ahead(path)
    index.forget_gone()
    assert not (tmp_path / "keys").exists()
    beside = write_file(f"{target}@2", columns, ROWS)
    write_file(target, columns, ROWS)
    storage.remove_folder(target)
    assert not storage.names(target) and storage.names(f"{target}@2") == [beside["path"]]


def test_deletion_vectors_round_trip_on_s3(target):
    marks = [BitMap([1, 7]), BitMap(range(100_000))]
    found = deletion_vector.write(target, marks)
    assert [deletion_vector.read(target, one) for one in found] == marks
    (name,) = storage.names(target)
    elsewhere = {**found[0], "storageType": "p", "pathOrInlineDv": f"{target}/{name}"}
    assert deletion_vector.read("/nowhere", elsewhere) == marks[0]


def test_the_control_table_fences_on_s3(target):
    check_fences(target)


def test_two_channels_share_a_target_on_s3(target, tmp_path):
    us, other = "99999999-2222-3333-4444-555555555555", Table("a", database="u")
    logs = [LogWriter(tmp_path / "eu"), LogWriter(tmp_path / "us", source=us, server_id=2)]
    for log, table in zip(logs, (Table("a"), other), strict=True):
        log.ddl(table.create)
        log.transaction(insert(table, (1, log.source)))
    assert run(logs[0].folder, target)
    assert run(logs[1].folder, target, channel="us")
    assert rows(target, other) == [(1, us)]
    assert [one.name for one in channels(target)] == ["default", "us"]
    assert list(cuts(target, "us")[-1].tables) == ["u.a"]
    logs[1].ddl(Table("a").create)
    with pytest.raises(OtherChannelError):
        run(logs[1].folder, target, channel="us")
    assert rows(target, Table("a")) == [(1, logs[0].source)]


def test_bucket_and_credentials_are_named(target, s3_environment):
    with pytest.raises(TargetError, match="there is no bucket nowhere") as found:
        Control(Layout("s3://nowhere/lake").control).claim()
    assert "target.path" in found.value.hint
    with pytest.raises(TargetError, match="there is no bucket nowhere"):
        Control.existing("s3://nowhere/lake")
    check_credentials(s3_environment["AWS_ENDPOINT_URL"], wanted=True)
    try:
        for ask in (Control(Layout(target).control).claim, lambda: Control.existing(target)):
            with pytest.raises(TargetError, match="refuses") as found:
                ask()
            assert "AWS_ACCESS_KEY_ID" in found.value.hint
    finally:
        check_credentials(s3_environment["AWS_ENDPOINT_URL"], wanted=False)


def test_a_store_that_does_not_answer_is_asked_again(target, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(OSError) as found:
        storage.exists(target)
    assert temporary(found.value)


def test_branches_survive_the_machine(target, tmp_path):
    layout = Layout(target)
    log = tmp_path / "log"
    log.write_bytes(bytes(range(250)) * 10)
    store = XaStore(layout.xa, layout.xa_here)
    kept = store.keep(Branch(Xid(1, b"a", b""), 77, "", 0, str(log), 10, 1010, True, False, 0))
    wanted = log.read_bytes()[10:1010]
    assert Path(kept.path).read_bytes() == wanted
    Path(kept.path).unlink()
    store.check([kept])
    assert Path(kept.path).read_bytes() == wanted
    store.clean([kept], lambda: None)
    assert len(storage.names(layout.xa)) == 1
    store.forget([kept], lambda: None)
    assert not storage.names(layout.xa) and not Path(kept.path).exists()
    with pytest.raises(TargetError, match="are gone"):
        store.check([kept])


def test_history_cut_off_anywhere_without_its_working_state(target, tmp_path):
    check_history(target, tmp_path, (6, 9, 12))


def test_a_table_in_quarantine(target, tmp_path, capsys):
    """The kept transactions are in the bucket. They are listed, shown and replayed from there."""
    log, a, b = LogWriter(tmp_path / "log"), Table("a"), Table("b")
    for statement in ("CREATE DATABASE t", a.create, b.create):
        log.ddl(statement)
    log.transaction(delete(a, (7, "no such")), insert(a, (7, "y")), insert(b, (1, "x")))
    log.transaction(insert(a, (8, "z")), insert(b, (2, "x")))
    assert run(log.folder, target, on_error="quarantine", group_max_transactions=1)
    assert cuts(target)[-1].quarantined["t.a"].transactions == 2
    words = ("--target", target, "--table", "t.a")
    assert main(["quarantine", "list", *words[:2]]) == 0
    assert main(["quarantine", "show", *words]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line[0] == "{"]
    assert [one["operation"] for one in shown] == ["DELETE", "INSERT", "INSERT"]
    assert shown[2]["after"] == {"id": 8, "v": "z"}
    assert main(["quarantine", "replay", *words]) == 0
    assert run(log.folder, target, on_error="quarantine", exec_mode="idempotent")
    assert rows(target, a) == [(7, "y"), (8, "z")] and rows(target, b) == [(1, "x"), (2, "x")]
    assert not cuts(target)[-1].quarantined
    assert not storage.names(Layout(target).quarantine)


def test_a_log_with_folders_in_it_is_cleaned_up(target, tmp_path):
    """Delta makes some (_staged_commits, _sidecars), as objects of no bytes: they have no time."""
    log = f"{target}/t/_delta_log"
    for _ in range(3):
        write_deltalake(f"{target}/t", ROWS, mode="append", storage_options=storage.options(log))
    DeltaTable(f"{target}/t", storage_options=storage.options(log)).create_checkpoint()
    make_folder_object(f"{log}/_staged_commits")
    assert storage.listed(log).keys() == {
        *(f"{number:020d}.json" for number in range(3)), f"{2:020d}.checkpoint.parquet",
        "_last_checkpoint",
    }  # fmt: skip
    assert remove_commits(f"{target}/t", Durable(target), before=time.time() + 60) == 2


def test_the_clean_up_of_a_log_asks_for_one_checkpoint(target, tmp_path):
    """An object is whole, and each request takes its time. But sidecars of that which stays for
    removed commits must be there."""
    content = pa.BufferOutputStream()
    pq.write_table(pa.table({"protocol": ["p"]}), content)
    checkpoints = [f"{version:020d}.checkpoint.parquet" for version in (1, 2, 3)]
    for name in (*(f"{v:020d}.json" for v in range(5)), *checkpoints):
        storage.put(f"{target}/_delta_log/{name}", content.getvalue().to_pybytes())
    storage.put(f"{target}/_delta_log/_last_checkpoint", b'{"version": 3}')
    with requested() as asked:
        assert remove_commits(target, Durable(str(tmp_path)), before=time.time() + 60) == 3
    read = [
        entry for entry in asked if entry.startswith(("HEAD", "GET")) and "checkpoint.p" in entry
    ]
    assert [entry.split()[0] for entry in read] == ["GET"]
    assert all(checkpoints[-1] in entry for entry in read)
    left = sorted(name.lstrip("0") for name in storage.names(f"{target}/_delta_log"))
    assert left == ["3.checkpoint.parquet", "3.json", "4.json", "_last_checkpoint"]


def test_an_object_that_a_manifest_names_is_missing(target, tmp_path):
    """A clean-up of others removed it. The commits are read, and stay."""
    local = LocalTable(tmp_path / "t")
    for number in range(3):
        local.commit(add(f"f{number}"))
    files = live_files(local.folder, 3)
    _, sidecars = write_v2(local.folder)
    for path in (tmp_path / "t").rglob("*.*"):
        storage.put(f"{target}/{path.relative_to(tmp_path)}", path.read_bytes())
    remote = f"{target}/t"
    base = log_checkpoints.newest(remote)
    assert base is not None and base.version == 3
    assert live_files(remote, 3) == files
    storage.remove(f"{remote}/_delta_log/_sidecars/{sidecars[1].name}")
    assert log_checkpoints.newest(remote) is None
    assert live_files(remote, 3) == files
    assert remove_commits(remote, Durable(str(tmp_path)), before=time.time() + 60) == 0


def test_whether_a_version_is_the_newest_is_two_names(target):
    """Nothing is listed, because a listing of a large folder takes long."""
    write_deltalake(f"{target}/t", ROWS, storage_options=storage.options(target))
    DeltaTable(f"{target}/t", storage_options=storage.options(target)).create_checkpoint()
    with requested() as asked:
        assert checkpoint_schedule.is_newest(f"{target}/t", 0)
    kinds = [(entry.split()[0], entry.rpartition("/")[2]) for entry in asked]
    hint = "_last_checkpoint"
    assert kinds == [("HEAD", f"{1:020d}.json"), ("GET", hint)]
    write_deltalake(f"{target}/t", ROWS, mode="append", storage_options=storage.options(target))
    assert not checkpoint_schedule.is_newest(f"{target}/t", 0) and checkpoint_schedule.is_newest(
        f"{target}/t", 1
    )
    assert storage.exists(f"{target}/t") and not storage.is_file(f"{target}/t")


def test_an_object_is_created_once(target):
    """And a log is listed from a name on."""
    folder = f"{target}/t/a/_delta_log"
    for version in (1, 2, 3):
        storage.put_if_absent(f"{folder}/{version:020d}.json", b"ours")
    storage.put(f"{folder}/_sidecars/x.parquet", b"below")
    with pytest.raises(FileExistsError):
        storage.put_if_absent(f"{folder}/{2:020d}.json", b"theirs")
    with storage.open_input(f"{folder}/{2:020d}.json") as file:
        assert file.read() == b"ours"
    after = storage.names_after(folder, f"{1:020d}.json")
    assert [name for name in after if name.endswith(".json")] == [
        f"{version:020d}.json" for version in (2, 3)
    ]


def test_an_upload_whose_end_got_no_answer_has_an_unknown_outcome(
    target, s3_environment, monkeypatch
):
    """The store has completed it, forgets it, and answers the repeated request with 404."""
    ends = iter([DROPPED_ANSWER])

    def rule(method: str, path: str) -> Fault | None:
        is_end = method == "POST" and "uploadId" in path
        return next(ends, Fault(status=404)) if is_end else None

    with store_proxy(s3_environment["AWS_ENDPOINT_URL"]) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        proxy.fault = rule
        with pytest.raises(OSError, match="unknown outcome") as caught:
            storage.put(f"{target}/large", bytes(11 << 20))
    assert temporary(caught.value) and not isinstance(caught.value, FileNotFoundError)


def test_checksum_of_another_engine_stays(target):
    """Delta protocol: a version checksum must not be overwritten."""
    table = LocalTable(target)
    path = checksum_path(target, 0)
    storage.put(path, b"theirs")
    state = replace(table.snapshot().state, totals=LiveTotals())
    version_checksum.write(target, state, "id")
    assert storage.read(path) == b"theirs"
