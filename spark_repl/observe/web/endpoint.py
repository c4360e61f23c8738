"""Endpoint: the page, ``/metrics`` for Prometheus and ``/status.json`` over HTTP, on a thread of
the applier's process. It only reads: nothing can be changed by a request.

Nobody but this machine reaches it unless ``observe.listen`` says so, and then a token is asked for.
A request with the name of another host is refused: a page in somebody's browser can't read what is
here by having its own name mean this machine.
"""

from __future__ import annotations

import hmac
import logging
import socket
import socketserver
import threading
import time
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from ...config.rules import LISTEN, host_port, is_local
from ...errors import ConfigError, SparkReplError
from ...runtime.threads import channel_here, under_channel
from ..reports.applier_status import Notice
from .page import POLICY

if TYPE_CHECKING:
    from ...config import Observe
    from .endpoint_snapshots import EndpointSnapshot

log = logging.getLogger(__name__)

_PLAIN = "text/plain; charset=utf-8"
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_TIMEOUT_S = 10.0
_KEPT_S = 1.0
"""however many ask, there is no more than one look in so long"""
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


class Endpoint:
    """Listens from the beginning, answers between ``serve`` and ``close``. Raises ConfigError where
    it can't listen, or the token can't be read. ``port``: the one that it has; ``address``: what
    a browser on this machine is given."""

    def __init__(self, observe: Observe) -> None:
        self._token = _token(observe.token_file)
        host, port = host_port(observe.listen)
        self._names = (*_LOCAL_NAMES, host) if is_local(observe.listen) else ()
        self._looks: Mapping[str, EndpointSnapshot] = {}
        self._last = dict[str, tuple[float, str]]()  # when it was looked, and what was seen
        self._looking, self._channel = threading.Lock(), channel_here()
        family = _Server6 if ":" in host else _Server
        try:
            self._server = family((host, port), _handler(self))
        except (OSError, UnicodeError) as error:
            said = getattr(error, "strerror", None) or error
            raise ConfigError(
                f"observe.listen: can't listen on {observe.listen}: {said}",
                hint='give another port, or stop who has this one; observe.listen = "" is none',
            ) from error
        self.port = self._server.server_address[1]
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics",
                                        kwargs={"poll_interval": 0.5}, daemon=True)  # fmt: skip
        self._thread.start()

    def serve(self, looks: Mapping[str, EndpointSnapshot]) -> None:
        """From now on each path has a look, which is taken by a thread of a request."""
        self._looks = looks

    def close(self) -> None:
        """The port is free again."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_TIMEOUT_S)

    def answer(self, path: str, headers: Any) -> tuple[HTTPStatus, str, str]:
        """What a GET is answered, and its Content-Type. Errors say what is wrong, and nothing that
        is secret."""
        with under_channel(self._channel):
            code, text = self._answer(path, headers)
        path = path.partition("?")[0]
        return code, text, self._looks[path].kind if code == HTTPStatus.OK else _PLAIN

    def _answer(self, path: str, headers: Any) -> tuple[HTTPStatus, str]:
        host = headers.get("Host", "")
        if self._names and _without_port(host) not in self._names:
            return HTTPStatus.MISDIRECTED_REQUEST, "this is not the host that was asked for\n"
        if self._token and not self._is_allowed(headers.get("Authorization", "")):
            return HTTPStatus.UNAUTHORIZED, "the token of observe.token_file is asked for\n"
        path = path.partition("?")[0]
        if not self._looks:
            return HTTPStatus.SERVICE_UNAVAILABLE, "the applier is starting\n"
        if path not in self._looks:
            return HTTPStatus.NOT_FOUND, f"here are {' '.join(self._looks)}\n"
        try:
            return HTTPStatus.OK, self._seen(path)
        except (OSError, SparkReplError) as error:
            log.warning("nothing to be seen at %s: %s", path, error)
            return HTTPStatus.SERVICE_UNAVAILABLE, "the target can't be looked at: see the log\n"

    def _seen(self, path: str) -> str:
        with self._looking:
            at, text = self._last.get(path, (-_KEPT_S, ""))
            if time.monotonic() - at > _KEPT_S:
                text = self._looks[path].text()
                self._last[path] = time.monotonic(), text
            return text

    def _is_allowed(self, said: str) -> bool:
        """Whether the token came: as Bearer, or as the password that a browser asks for."""
        scheme, _, given = said.encode("latin-1", "replace").partition(b" ")  # as it came
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
        """Who asked has gone: nothing for standard error."""
        log.debug("a request for metrics was cut off", exc_info=True)

    def server_bind(self) -> None:
        """Without the look for a name of the address, for which DNS would be asked."""
        socketserver.TCPServer.server_bind(self)


class _Server6(_Server):
    address_family = socket.AF_INET6


def check_free(observe: Observe) -> None:
    """Raises ConfigError where nobody could listen that was asked to: said before long work
    begins."""
    if observe.listen not in ("", "auto"):
        Endpoint(observe).close()


def open_endpoint(
    observe: Observe, *, serves: bool, automatic: str = LISTEN
) -> tuple[Endpoint | None, Notice | None]:
    """The endpoint that is asked for; None: none is. With "auto" it listens on ``automatic`` where
    the applier ``serves`` and that is free; else the note says why not. Raises ConfigError for an
    address that was asked for by name."""
    if observe.listen != "auto":
        return (Endpoint(observe) if observe.listen else None), None
    if not serves:
        return None, None
    try:
        return Endpoint(replace(observe, listen=automatic)), None
    except ConfigError as error:
        log.warning("there is no page: %s", error)
        return None, Notice(f"there is no page: {error}", error.hint or "")


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_S  # of a client that connects and says nothing
        server_version, sys_version = "spark_repl", ""

        def do_GET(self) -> None:
            self._send(*endpoint.answer(self.path, self.headers))

        def do_HEAD(self) -> None:
            self.do_GET()

        def send_error(self, code: int, *said: Any, **_: Any) -> None:
            """What is no request, too, is answered under our headers, and not in HTML; a method
            that is not here, whatever its name, is none that may be used."""
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
            """Requests are not logged: there is one every few seconds."""

    return Handler


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).strip("[]").lower()


def _token(file: str) -> str:
    """The first line of the file. Raises ConfigError where there is none."""
    if not file:
        return ""
    try:
        with open(file, encoding="utf-8") as lines:
            token = lines.readline().strip()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(f"observe.token_file can't be read: {said}", file=file) from error
    if not token:
        raise ConfigError("observe.token_file is empty: its first line is the token", file=file)
    return token
