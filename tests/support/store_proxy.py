"""StoreProxy: a proxy before a store's server that answers late, refuses, repeats and drops.

``fault`` chooses the fault of each request. ``random_faults`` is a seeded mixture of everything
that a store or a line may do. ``python -m tests.support.store_proxy UPSTREAM`` serves in
a process of its own until its input ends, and prints its port first.
"""

from __future__ import annotations

import argparse
import http.client
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

from .http_handler import EveryMethod

_UPSTREAM_S = 60
_BODIES = {
    429: b"<Error><Code>TooManyRequests</Code></Error>",
    503: b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
}


@dataclass(frozen=True)
class Fault:
    """A fault of a request: it is late, answered by ``status`` in the store's place, sent to the
    store twice (the client gets the second answer), or dropped. If its answer is dropped, the store
    has done its work."""

    late_s: float = 0
    status: int = 0
    retry_after_s: int | None = None
    twice: bool = False
    drops: Literal["", "request", "answer"] = ""


Rule = Callable[[str, str], Fault | None]
"""the fault of a request, by its method and target"""
DROPPED_REQUEST, DROPPED_ANSWER = Fault(drops="request"), Fault(drops="answer")


@dataclass(frozen=True)
class Request:
    """A request that reached the proxy, and the seconds at which it came (monotonic clock)."""

    method: str
    target: str
    at: float


class StoreProxy(ThreadingHTTPServer):
    """``fault`` chooses the fault of each request; ``latency_s`` is added to each; ``strips``:
    names of removed headers, in lower case; ``requests``: all requests so far, in order."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(upstream).netloc
        self.strips = frozenset[str]()
        self.latency_s = 0.0
        self.fault: Rule = lambda method, target: None
        self.requests = list[Request]()
        self.ending = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep silent, because clients also end connections."""


class _Handler(EveryMethod):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: StoreProxy

    def respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append(Request(self.command, self.path, time.monotonic()))
        fault = self.server.fault(self.command, self.path) or Fault()
        self.server.ending.wait(self.server.latency_s + fault.late_s)
        if fault.drops == "request":
            self.close_connection = True
        elif fault.status:
            self._refuse(fault)
        else:
            for _ in range(1 + fault.twice):
                answer, content = self._forward(body)
            if fault.drops == "answer":
                self.close_connection = True
            else:
                self._pass_on(answer, content)

    def _forward(self, body: bytes) -> tuple[http.client.HTTPResponse, bytes]:
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=_UPSTREAM_S)
        kept = {k: v for k, v in self.headers.items() if k.lower() not in self.server.strips}
        upstream.request(self.command, self.path, body, kept)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        return answer, content

    def _pass_on(self, answer: http.client.HTTPResponse, content: bytes) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(length or 0))
        self.end_headers()
        self.wfile.write(content)

    def _refuse(self, fault: Fault) -> None:
        content = b"" if self.command == "HEAD" else _BODIES.get(fault.status, b"")
        self.send_response_only(fault.status)
        if fault.retry_after_s is not None:
            self.send_header("Retry-After", str(fault.retry_after_s))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def store_proxy(upstream: str) -> Iterator[StoreProxy]:
    """A proxy in this process."""
    with StoreProxy(upstream) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield proxy
        proxy.ending.set()
        proxy.shutdown()
        thread.join()


@contextmanager
def proxy_process(upstream: str, *options: str) -> Iterator[str]:
    """The URL of a proxy in a process of its own, with options of the command line."""
    command = [sys.executable, "-m", "tests.support.store_proxy", upstream, *options]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()


def first_answer_to(method: str) -> Rule:
    """Return a rule that drops the first answer to a method."""
    dropped = threading.Event()

    def rule(asked: str, _: str) -> Fault | None:
        if asked != method or dropped.is_set():
            return None
        dropped.set()
        return DROPPED_ANSWER

    return rule


def first_requests(count: int, fault: Fault) -> Rule:
    """Return a rule that gives the first ``count`` requests a fault."""
    numbers = iter(range(count))
    return lambda method, target: fault if next(numbers, None) is not None else None


def random_faults(seed: int | str, share: float) -> Rule:
    """Return a rule for a share of the requests, in which every kind of fault occurs."""
    dice, lock = random.Random(seed), threading.Lock()
    faults = (
        Fault(late_s=0.5), Fault(late_s=3), Fault(twice=True), Fault(status=503), Fault(status=429),
        Fault(status=503, retry_after_s=1), Fault(status=500), DROPPED_REQUEST, DROPPED_ANSWER,
    )  # fmt: skip

    def rule(method: str, target: str) -> Fault | None:
        with lock:
            return dice.choice(faults) if dice.random() < share else None

    return rule


def _serve() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("upstream")
    parser.add_argument("--latency-s", type=float, default=0)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--faults", type=float, default=0, help="share of requests with a fault")
    given = parser.parse_args()
    with store_proxy(given.upstream) as proxy:
        proxy.latency_s, proxy.fault = given.latency_s, random_faults(given.seed, given.faults)
        print(proxy.url.rpartition(":")[2], flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _serve()
