"""A shared access signature (SAS) of a container: which permissions suffice, and what lacks one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from spark_repl.delta.store import storage
from spark_repl.errors import TargetError
from tests.support import azure_server

SUFFICIENT = "rwdl"
"""read, write, delete, list"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    if reason := azure_server.missing():
        pytest.skip(reason)
    with azure_server.azure_server() as url:
        yield url


@pytest.fixture
def folder(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    endpoint = azure_server.environment(server)["AZURE_STORAGE_ENDPOINT"]
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", endpoint)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY", raising=False)
    place = f"{azure_server.CONTAINER}@{azure_server.ACCOUNT}.dfs.core.windows.net"
    return f"abfss://{place}/{uuid.uuid4()}"


def sign_in(monkeypatch: pytest.MonkeyPatch, permissions: str, *, hours: int = 1) -> None:
    end = datetime.now(UTC) + timedelta(hours=hours)
    signature = azure_server.shared_access_signature(permissions, end)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", signature)


def use_everything(folder: str) -> None:
    storage.put_if_absent(f"{folder}/a", b"1")
    content, tag = storage.read_tagged(f"{folder}/a")
    assert content == b"1" and storage.names(folder) == ["a"]
    assert storage.put_if_match(f"{folder}/a", b"2", tag)
    storage.put(f"{folder}/large", bytes(11 << 20))  # in blocks
    storage.remove(f"{folder}/a")
    storage.remove_folder(folder)
    assert storage.names(folder) == []


def test_signature_suffices(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in(monkeypatch, SUFFICIENT)
    use_everything(folder)


@pytest.mark.parametrize("permission", [*SUFFICIENT])
def test_missing_permission_is_named(
    folder: str, monkeypatch: pytest.MonkeyPatch, permission: str
) -> None:
    sign_in(monkeypatch, SUFFICIENT.replace(permission, ""))
    with pytest.raises(TargetError, match="the object store refuses"):
        use_everything(folder)


def test_expired_signature_is_named(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """azurite's answer does not say that the time is over, as Azure's does."""
    sign_in(monkeypatch, SUFFICIENT, hours=-1)
    with pytest.raises(TargetError, match="the object store refuses"):
        use_everything(folder)
