"""DroppingProxy: a proxy before a store's server that drops requests, or their answers.

Whoever asked sees a connection that ends, as it is when a line breaks: the store may have done what
it was asked for, or not.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

from .http_handler import EveryMethod

Dropped = Literal["request", "answer"] | None


class DroppingProxy(ThreadingHTTPServer):
    """``drops`` is asked of each request, by its method and target, what of it gets lost;
    ``strips``: headers that are not passed on, in lower case."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(upstream).netloc
        self.strips = frozenset[str]()
        self.drops: Callable[[str, str], Dropped] = lambda method, target: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep silent: clients end connections, too."""


class _Handler(EveryMethod):
    protocol_version = "HTTP/1.1"
    server: DroppingProxy

    def respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        dropped = self.server.drops(self.command, self.path)
        self.close_connection = True
        if dropped == "request":
            return
        there = http.client.HTTPConnection(self.server.upstream, timeout=60)
        kept = {k: v for k, v in self.headers.items() if k.lower() not in self.server.strips}
        there.request(self.command, self.path, body, kept)
        answer = there.getresponse()
        content = answer.read()
        there.close()
        if dropped == "answer":
            return
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(length or 0))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def dropping_proxy(upstream: str) -> Iterator[DroppingProxy]:
    with DroppingProxy(upstream) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        yield proxy
        proxy.shutdown()
        thread.join()


def first_answer_to(method: str) -> Callable[[str, str], Dropped]:
    """Return a rule that drops the first answer to a method."""
    dropped = threading.Event()

    def rule(asked: str, _: str) -> Dropped:
        if asked != method or dropped.is_set():
            return None
        dropped.set()
        return "answer"

    return rule
