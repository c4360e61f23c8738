"""Credentials that expire in the middle of a group: the store refuses every request from then on.

Credentials that can be renewed (a profile's file or process) are read again, and the applier goes
on. Those of the environment cannot: it stops by name, and a start with new ones goes on.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_repl.errors import TargetError
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.expiring_proxy import ExpiringProxy, expiring_proxy
from tests.support.local_delta import CRASHES, cuts, rows, rows_at_cuts, run
from tests.support.s3_server import BUCKET

A, B = Table("a"), Table("b")
POINTS = ("planned", "before_put", "after_put", "after_commit", "before_cut", "after_cut")


@pytest.fixture
def proxy(
    s3_environment: dict[str, str], s3_prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[ExpiringProxy]:
    (tmp_path / "proxy").mkdir()
    with expiring_proxy(s3_environment["AWS_ENDPOINT_URL"], tmp_path / "proxy") as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


@pytest.fixture
def filled(log: LogWriter) -> LogWriter:
    log.transaction(insert(A, (1, "x"), (2, "x")), insert(B, (1, "x")))
    log.transaction(update(A, ((1, "x"), (1, "y"))), delete(B, (1, "x")))
    log.transaction(insert(A, (4, "x")), delete(A, (2, "x")), insert(B, (5, "x")))
    return log


def expire_at(proxy: ExpiringProxy, point: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key expires when a group reaches a crash point for the second time."""
    reached = list[str]()

    def at(name: str) -> None:
        if name == point:
            reached.append(name)
            if len(reached) == 2:
                proxy.expire(key)

    monkeypatch.setattr(CRASHES, "told", at)


def check_all_there(target: str) -> None:
    assert rows(target, A) == [(1, "y"), (4, "x")] and rows(target, B) == [(5, "x")]
    every_cut = rows_at_cuts(target, A)
    assert every_cut[-3:] == [[(1, "x"), (2, "x")], [(1, "y"), (2, "x")], [(1, "y"), (4, "x")]]
    positions = [cut.position for cut in cuts(target)]
    assert positions == sorted({*positions})


def profile(key: str, folder: Path, *, by_process: bool) -> str:
    """A profile's keys, in its file or printed by its process."""
    if not by_process:
        return (
            f"[default]\naws_access_key_id = {key}\naws_secret_access_key = s\n"
            "aws_session_token = t\n"
        )
    keys = {
        "Version": 1, "AccessKeyId": key, "SecretAccessKey": "s", "SessionToken": "t",
        "Expiration": "2100-01-01T00:00:00Z",
    }  # fmt: skip
    (folder / key).write_text(json.dumps(keys))
    return f"[default]\ncredential_process = cat {folder / key}\n"


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("by_process", [False, True])
def test_renewed_keys_of_a_profile_are_read_in_mid_group(
    filled: LogWriter, proxy: ExpiringProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    point: str, by_process: bool,
) -> None:  # fmt: skip
    """The file, or the process, has new keys only after the third refusal."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(proxy.folder / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    for name, key in (("credentials", "FIRST"), ("renewed", "SECOND")):
        (proxy.folder / name).write_text(profile(key, tmp_path, by_process=by_process))
    expire_at(proxy, point, "FIRST", monkeypatch)
    target = f"s3a://{BUCKET}/{uuid.uuid4()}"
    assert run(filled.folder, target, group_max_transactions=1)
    assert proxy.refusals >= 3
    check_all_there(target)


@pytest.mark.parametrize("point", POINTS)
def test_expired_keys_of_the_environment_stop_the_applier_by_name(
    filled: LogWriter, proxy: ExpiringProxy, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "FIRST")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "first")
    expire_at(proxy, point, "FIRST", monkeypatch)
    target = f"s3a://{BUCKET}/{uuid.uuid4()}"
    with pytest.raises(
        TargetError, match="credentials for the object store have expired"
    ) as caught:
        run(filled.folder, target, group_max_transactions=1)
    assert "start again" in (caught.value.hint or "")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "SECOND")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "second")
    assert run(filled.folder, target, group_max_transactions=1)
    check_all_there(target)
