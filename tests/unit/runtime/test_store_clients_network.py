"""How clients reach a store: private authorities, proxies, names of buckets, encryption by a key.

obstore and delta-rs are two clients: each test asks both.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_repl.delta.store import storage
from spark_repl.delta.store.delta_rs_read import opened
from spark_repl.errors import TargetError
from tests.support.s3_server import BUCKET, s3_server
from tests.support.tls_server import forward_proxy, tls_server


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.fixture
def url(server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return server["AWS_ENDPOINT_URL"]


@pytest.fixture
def folder() -> str:
    return f"s3a://{BUCKET}/{uuid.uuid4()}"


def check_both_clients(folder: str) -> None:
    storage.put_if_absent(f"{folder}/file", b"1")
    assert storage.read(f"{folder}/file") == b"1"
    options = storage.options(folder)
    write_deltalake(f"{folder}/table", pa.table({"id": [1]}), storage_options=options)
    assert DeltaTable(f"{folder}/table", storage_options=options).version() == 0


def test_private_authority_is_trusted_by_ssl_cert_file(
    url: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_server(url, tmp_path) as (secure, authority):
        monkeypatch.setenv("AWS_ENDPOINT_URL", secure)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        check_both_clients(folder)


def test_unknown_authority_is_named(
    url: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls_server(url, tmp_path) as (secure, _):
        monkeypatch.setenv("AWS_ENDPOINT_URL", secure)
        with pytest.raises(TargetError, match=r"not trusted \(UnknownIssuer") as caught:
            storage.read(f"{folder}/file")
        assert "SSL_CERT_FILE" in caught.value.hint
        refusal = pytest.raises(TargetError, match=r"not trusted \(UnknownIssuer")
        with refusal, storage.named(folder), opened(folder):
            pass


def test_proxy_of_the_environment_is_used(
    url: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTPS_PROXY for an endpoint with TLS; NO_PROXY names those that are asked directly."""
    with tls_server(url, tmp_path) as (secure, authority), forward_proxy() as (proxy, lines):
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        monkeypatch.setenv("AWS_ENDPOINT_URL", secure)
        check_both_clients(folder)
        place = secure.removeprefix("https://")
        assert len(lines) > 2 and {*lines} == {f"CONNECT {place} HTTP/1.1"}
        lines.clear()
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        # Another name of the endpoint: a client keeps the proxy that it was made with.
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"{secure}/")
        storage.put(f"{folder}/direct", b"1")
        assert lines == []


def test_bucket_in_the_hosts_name(url: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS_VIRTUAL_HOSTED_STYLE_REQUEST. The proxy knows the host, which no DNS has here."""
    with forward_proxy(url) as (proxy, lines):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{BUCKET}.s3.example.com")
        monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true")
        check_both_clients(folder)
    assert all(f"http://{BUCKET}.s3.example.com/{folder.rpartition('/')[2]}" in line
               or "list-type=2" in line for line in lines)  # fmt: skip


def test_objects_are_encrypted_by_the_named_key(
    url: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "arn:aws:kms:us-east-1:123456789012:key/0"
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "aws:kms")
    monkeypatch.setenv("AWS_SSE_KMS_KEY_ID", key)
    check_both_clients(folder)
    with storage.open_output(f"{folder}/parts") as out:
        out.write(bytes(11 << 20))
    store = boto3.client("s3", endpoint_url=url)
    for name in ("file", "parts", f"table/_delta_log/{0:020}.json"):
        path = f"{folder.removeprefix(f's3a://{BUCKET}/')}/{name}"
        answer = store.head_object(Bucket=BUCKET, Key=path)
        assert answer["ServerSideEncryption"] == "aws:kms" and answer["SSEKMSKeyId"] == key
