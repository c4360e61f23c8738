"""Endpoint: the page, ``/metrics`` for Prometheus and ``/status.json`` over HTTP.

It runs on a thread of the applier's process, and only reads: no request can change anything. Only
this machine reaches it, unless ``observe.listen`` allows others, and then it requires a token. A
request with the name of another host is refused: a page in a browser could otherwise read the
endpoint, if that page's own host name resolved to this machine.

An ``EndpointSnapshot`` is what the endpoint answers, by path. Requests within a second share one
status.
"""

from __future__ import annotations

import hmac
import json
import logging
import socket
import socketserver
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from ...config.rules import LISTEN, host_port, is_local
from ...errors import ConfigError, SparkReplError
from ...runtime.threads import channel_here, under_channel
from ..metrics import metrics
from ..reports.applier_status import Notice
from ..status.status import status
from .lag_history import lag_history
from .page import POLICY, page

if TYPE_CHECKING:
    from ...config import Config, Observe
    from ...control.records.channels import Channel

logger = logging.getLogger(__name__)

_PLAIN = "text/plain; charset=utf-8"
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_TIMEOUT_S = 10.0
_SNAPSHOT_AGE_MAX_S = 1.0
"""age up to which requests of one path share a snapshot"""
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


class Endpoint:
    """Listens from its creation; answers between ``serve`` and ``close``.

    Raise ConfigError if it can't listen, or can't read the token. ``port``: the port in use;
    ``address``: the URL for a browser on this machine.
    """

    def __init__(self, observe: Observe) -> None:
        self._token = _token(observe.token_file)
        host, port = host_port(observe.listen)
        self._names = (*_LOCAL_NAMES, host) if is_local(observe.listen) else ()
        self._snapshots: Mapping[str, EndpointSnapshot] = {}
        self._last = dict[str, tuple[float, str]]()  # path -> when, and the text
        self._snapshot_lock, self._channel = threading.Lock(), channel_here()
        family = _Server6 if ":" in host else _Server
        try:
            self._server = family((host, port), _handler(self))
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"observe.listen: can't listen on {observe.listen}: {reason}",
                hint='give another port, or stop who has this one; observe.listen = "" is none',
            ) from error
        self.port = self._server.server_address[1]
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics",
                                        kwargs={"poll_interval": 0.5}, daemon=True)  # fmt: skip
        self._thread.start()

    def serve(self, snapshots: Mapping[str, EndpointSnapshot]) -> None:
        """Begin to answer. A request's thread creates the snapshot of its path."""
        self._snapshots = snapshots

    def close(self) -> None:
        """Stop, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_TIMEOUT_S)

    def answer(self, path: str, headers: Any) -> tuple[HTTPStatus, str, str]:
        """Return the answer to a GET: code, text and Content-Type. Errors show no secret."""
        with under_channel(self._channel):
            code, text = self._answer(path, headers)
        path = path.partition("?")[0]
        return code, text, self._snapshots[path].kind if code == HTTPStatus.OK else _PLAIN

    def _answer(self, path: str, headers: Any) -> tuple[HTTPStatus, str]:
        host = headers.get("Host", "")
        if self._names and _without_port(host) not in self._names:
            return HTTPStatus.MISDIRECTED_REQUEST, "this is not the host that was asked for\n"
        if self._token and not self._is_allowed(headers.get("Authorization", "")):
            return HTTPStatus.UNAUTHORIZED, "the token of observe.token_file is asked for\n"
        path = path.partition("?")[0]
        if not self._snapshots:
            return HTTPStatus.SERVICE_UNAVAILABLE, "the applier is starting\n"
        if path not in self._snapshots:
            return HTTPStatus.NOT_FOUND, f"here are {' '.join(self._snapshots)}\n"
        try:
            return HTTPStatus.OK, self._snapshot(path)
        except (OSError, SparkReplError) as error:
            logger.warning("nothing to be seen at %s: %s", path, error)
            return HTTPStatus.SERVICE_UNAVAILABLE, "the target can't be looked at: see the log\n"

    def _snapshot(self, path: str) -> str:
        with self._snapshot_lock:
            at, text = self._last.get(path, (-_SNAPSHOT_AGE_MAX_S, ""))
            if time.monotonic() - at > _SNAPSHOT_AGE_MAX_S:
                text = self._snapshots[path].text()
                self._last[path] = time.monotonic(), text
            return text

    def _is_allowed(self, header: str) -> bool:
        """Return whether the header has the token: as Bearer, or as a browser's password."""
        scheme, _, given = header.encode("latin-1", "replace").partition(b" ")  # the raw bytes
        if scheme.lower() == b"basic":
            try:
                given = b64decode(given, validate=True).partition(b":")[2]
            except ValueError:
                return False
        elif scheme.lower() != b"bearer":
            return False
        return hmac.compare_digest(given, self._token.encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log that a client has disconnected, without printing to standard error."""
        logger.debug("a request for metrics was cut off", exc_info=True)

    def server_bind(self) -> None:
        """Bind without resolving the address's name, which would ask DNS."""
        socketserver.TCPServer.server_bind(self)


class _Server6(_Server):
    address_family = socket.AF_INET6


def check_free(observe: Observe) -> None:
    """Raise ConfigError if the configured address can't be used, before long work begins."""
    if observe.listen not in ("", "auto"):
        Endpoint(observe).close()


def open_endpoint(
    observe: Observe, *, serves: bool, automatic: str = LISTEN
) -> tuple[Endpoint | None, Notice | None]:
    """Return the configured endpoint, or None, and a notice if "auto" found no free port.

    With "auto" it listens on ``automatic`` if the applier ``serves``. Raise ConfigError if an
    address in the configuration can't be used.
    """
    if observe.listen != "auto":
        return (Endpoint(observe) if observe.listen else None), None
    if not serves:
        return None, None
    try:
        return Endpoint(replace(observe, listen=automatic)), None
    except ConfigError as error:
        logger.warning("there is no page: %s", error)
        return None, Notice(f"there is no page: {error}", error.hint or "")


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_S  # of a client that connects and sends nothing
        server_version, sys_version = "spark_repl", ""

        def do_GET(self) -> None:
            self._send(*endpoint.answer(self.path, self.headers))

        def do_HEAD(self) -> None:
            self.do_GET()

        def send_error(
            self, code: int, message: str | None = None, explain: str | None = None
        ) -> None:
            """Answer a malformed request with the same headers, and as text, not HTML.

            An unknown method is answered as one that is not allowed.
            """
            code = code if code != HTTPStatus.NOT_IMPLEMENTED else HTTPStatus.METHOD_NOT_ALLOWED
            self.close_connection = True
            self._send(HTTPStatus(code), f"{HTTPStatus(code).phrase}\n", _PLAIN)

        def _send(self, code: HTTPStatus, text: str, kind: str) -> None:
            body = text.encode()
            self.send_response(code)
            for name, value in {"Content-Type": kind, **_HEADERS}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            if code == HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", "Bearer")
                self.send_header("WWW-Authenticate", 'Basic realm="spark_repl", charset="UTF-8"')
            if code == HTTPStatus.METHOD_NOT_ALLOWED:
                self.send_header("Allow", "GET, HEAD")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Log nothing: there is a request every few seconds."""

    return Handler


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).strip("[]").lower()


def _token(file: str) -> str:
    """Return the file's first line. Raise ConfigError if there is none."""
    if not file:
        return ""
    try:
        with open(file, encoding="utf-8") as lines:
            token = lines.readline().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(f"observe.token_file can't be read: {reason}", file=file) from error
    if not token:
        raise ConfigError("observe.token_file is empty: its first line is the token", file=file)
    return token


TEXT = "text/plain; version=0.0.4; charset=utf-8"


_STATUS_AGE_MAX_S = 1.0
"""age up to which requests of all paths share one status"""


@dataclass(frozen=True)
class EndpointSnapshot:
    """One kind of answer. ``kind``: the Content-Type; ``text`` takes the snapshot and returns
    it."""

    kind: str
    text: Callable[[], str]


def endpoint_snapshots(config: Config, relay: str, at: Channel) -> dict[str, EndpointSnapshot]:
    """Return the page, `status --json` and `status --metrics`, by path.

    They leave out information that is only in the tables' own logs. They share one status; the
    endpoint calls one of them at a time.
    """
    target = config.target
    last = [(-_STATUS_AGE_MAX_S, dict[str, Any]())]

    def current() -> dict[str, Any]:
        at_s, fields = last[0]
        if time.monotonic() - at_s > _STATUS_AGE_MAX_S:
            fields = status(target.path, relay, target.state_path, at=at, each_table=False)
            last[0] = time.monotonic(), fields
        return fields

    return {
        "/": EndpointSnapshot(
            "text/html; charset=utf-8", lambda: page(current(), lag_history(at.control), live=True)
        ),
        "/metrics": EndpointSnapshot(TEXT, lambda: metrics(current())),
        "/status.json": EndpointSnapshot(
            "application/json", lambda: json.dumps(current(), default=str) + "\n"
        ),
    }
