"""A server of another project, which implements Unity Catalog's Delta API: ``uc-server`` of the
crate ``olai-uc-server``, in Rust. ``SPARK_REPL_UC_SERVER`` names the program:

    cargo install olai-uc-server --version 0.0.11 --features bin
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .live.server import free_port
from .wait_until import wait_until

PROGRAM = os.environ.get("SPARK_REPL_UC_SERVER", "")
_KEY = base64.b64encode(bytes(32)).decode()
needs_uc_server = pytest.mark.skipif(not PROGRAM, reason="SPARK_REPL_UC_SERVER names no server")


@contextmanager
def uc_server(root: Path, *, schemas: Sequence[str]) -> Iterator[str]:
    """The address of a started server, whose catalog ``main`` has ``schemas``, and its tables
    below ``root``/managed."""
    port = free_port()
    (root / "managed").mkdir(exist_ok=True)
    configuration = root / "uc-server.yaml"
    configuration.write_text(
        json.dumps(
            {
                "host": "127.0.0.1", "port": port, "ui": {"serve": False},
                "backend": {"engine": "sqlite", "path": ":memory:"},
                "encryption": {"active": {"id": "a", "key": _KEY}},
                "local_storage": {"allowed-roots": [str(root)]},
                "managed_storage_root": f"file://{root}/managed",
            }
        )
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}/api/2.1/unity-catalog"
    with subprocess.Popen(
        [PROGRAM, "serve", "-c", str(configuration)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            wait_until(lambda: _answers(url))
            _post(f"{url}/catalogs", {"name": "main", "catalog_type": "MANAGED_CATALOG"})
            for schema in schemas:
                _post(f"{url}/schemas", {"name": schema, "catalog_name": "main"})
            yield url
        finally:
            process.kill()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/catalogs", timeout=2):
            return True
    except OSError:
        return False


def _post(url: str, body: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=20):
        pass
