"""ExpiringProxy: a proxy before an S3 server that refuses keys whose time is over, as S3 does.

It is a process of its own: delta-rs holds the interpreter's lock while it waits for an answer.
``python -m tests.support.expiring_proxy URL FOLDER`` prints its URL, and serves until its input
ends.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .store_proxy import StoreProxy, _Handler

_KEY = re.compile(r"Credential=([^/]+)/")
_ANSWER = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>ExpiredToken</Code>'
    b"<Message>The provided token has expired.</Message></Error>"
)
_RENEW_AFTER = 3


@dataclass(frozen=True)
class ExpiringProxy:
    """A running proxy. ``expired``: an access key that it refuses is the name of a file there;
    ``refusals``: a file with a byte for each refusal. After the third one the proxy renames
    ``renewed`` to ``credentials``, if it exists."""

    url: str
    folder: Path

    def expire(self, key: str) -> None:
        (self.folder / key).touch()

    @property
    def refusals(self) -> int:
        file = self.folder / "refusals"
        return file.stat().st_size if file.exists() else 0


class _Server(StoreProxy):
    def __init__(self, upstream: str, folder: Path) -> None:
        super().__init__(upstream)
        self.RequestHandlerClass, self.folder = _ExpiringHandler, folder
        self.lock = threading.Lock()

    def refuse(self) -> None:
        with self.lock, (self.folder / "refusals").open("ab") as file:
            file.write(b".")
            renewed = self.folder / "renewed"
            if file.tell() >= _RENEW_AFTER and renewed.exists():
                renewed.rename(self.folder / "credentials")


class _ExpiringHandler(_Handler):
    server: _Server

    def respond(self) -> None:
        key = _KEY.search(self.headers.get("Authorization") or "")
        if key is None or not (self.server.folder / key[1]).exists():
            super().respond()
            return
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.close_connection = True
        self.server.refuse()
        self.send_response_only(400, "Bad Request")
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(_ANSWER)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(_ANSWER)


@contextmanager
def expiring_proxy(upstream: str, folder: Path) -> Iterator[ExpiringProxy]:
    """A proxy that reads and writes its files in the ``folder``."""
    command = [sys.executable, "-m", "tests.support.expiring_proxy", upstream, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        yield ExpiringProxy(process.stdout.readline().strip(), folder)
        process.stdin.close()


def _serve(upstream: str, folder: Path) -> None:
    with _Server(upstream, folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.url, flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    _serve(sys.argv[1], Path(sys.argv[2]))
