"""A target on Azure and on Google Cloud Storage, without Spark: URIs, control table, histories.

``test_storage_s3`` tests S3 with more cases. ``runtime/test_store_contract`` tests each store.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.errors import ConfigError, TargetError
from spark_repl.runtime.target_uri import canonical
from tests.support.binlog_writer import LogWriter, Table, delete, insert
from tests.support.local_delta import cuts, rows, run
from tests.support.store_checks import check_fences, check_history
from tests.support.stores import SERVERS, StoreServer

AZURE = "abfss://bank@account.dfs.core.windows.net"


@pytest.fixture(scope="module", params=["azure", "google"])
def server(request, tmp_path_factory) -> Iterator[StoreServer]:
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture
def target(server, monkeypatch, tmp_path) -> str:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SPARK_REPL_CACHE", str(tmp_path / "cache"))
    return f"{server.base}/{uuid.uuid4()}/lake"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("gs://bank/lake/", "gs://bank/lake"),
        ("GCS://my_bank/a=1 ü", "gs://my_bank/a=1 ü"),
        ("abfs://bank@account.dfs.core.windows.net/lake", f"{AZURE}/lake"),
        ("wasbs://bank@account.blob.core.windows.net/lake", f"{AZURE}/lake"),
        ("az://bank/lake", f"{AZURE}/lake"),
    ],
)
def test_what_a_uri_means(given, meant, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert canonical(given) == canonical(meant) == meant


@pytest.mark.parametrize(
    "path",
    ["gs://bank", "gs://Bank/lake", "gs:/bank/lake", "gs://bank/a/../b", "az://bank/lake",
     "abfss://bank/lake", "abfss://bank@account.dfs.fabric.microsoft.com/lake",
     "abfss://bank@account.dfs.core.windows.net", "az:/bank/lake", "gs://bank/a%20b"],
)  # fmt: skip
def test_what_is_no_place_is_refused_by_name(path, monkeypatch):
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(ConfigError) as caught:
        Layout(path)
    assert caught.value.hint


def test_the_working_state_of_each_store_is_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_REPL_CACHE", str(tmp_path))
    targets = ("s3://bank/lake", "gs://bank/lake", f"{AZURE}/lake")
    assert len({Layout(target).state for target in targets}) == 3


def test_the_control_table_fences_on_azure_and_gcs(target):
    check_fences(target)


def test_bucket_and_credentials_are_named(server, target, monkeypatch):
    scheme, _, rest = target.partition("://")
    elsewhere = f"{scheme}://nowhere{rest[rest.index('@') :] if '@' in rest else '/lake'}"
    with pytest.raises(TargetError, match="there is no bucket nowhere"):
        Control(Layout(elsewhere).control).claim()
    with pytest.raises(TargetError, match="there is no bucket nowhere"):
        Control.existing(elsewhere)
    with server.refusing() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        for ask in (Control(Layout(target).control).claim, lambda: Control.existing(target)):
            with pytest.raises(TargetError, match="refuses") as caught:
                ask()
            assert next(iter(server.environment)).split("_")[0] in caught.value.hint


def test_history_cut_off_anywhere_without_its_working_state(target, tmp_path):
    check_history(target, tmp_path, (6, 12))


def test_a_table_in_quarantine(target, tmp_path):
    log, a, b = LogWriter(tmp_path / "log"), Table("a"), Table("b")
    for statement in ("CREATE DATABASE t", a.create, b.create):
        log.ddl(statement)
    log.transaction(delete(a, (7, "no such")), insert(b, (1, "x")))
    assert run(log.folder, target, on_error="quarantine", group_max_transactions=1)
    assert cuts(target)[-1].quarantined["t.a"].transactions == 1 and rows(target, b) == [(1, "x")]
