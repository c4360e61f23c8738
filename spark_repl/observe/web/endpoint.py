"""Endpoint: the page, ``/metrics`` for Prometheus and ``/status.json`` over HTTP.

It runs on a thread of the applier's process, and only reads: no request can change anything. Only
this machine reaches it, unless ``observe.listen`` allows others, and then it requires a token. A
request with the name of another host is refused: a page in a browser could otherwise read the
endpoint, if that page's own host name resolved to this machine.

An ``EndpointSnapshot`` is what the endpoint answers, by path. Requests within a second share one
status. Styles and scripts need no token: they are the same everywhere. A browser without the token
gets a page that asks for it.
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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from ...config.rules import LISTEN, host_port, is_local
from ...errors import ConfigError, SparkReplError
from ...runtime.threads import channel_here, under_channel
from ..hints import pasteable
from ..metrics import metrics
from ..reports.applier_status import Notice
from ..status.status import status
from ..status.table_figures import FigureReader
from .docs import doc_names, doc_page
from .lag_history import lag_history
from .page import POLICY, SCRIPTS, STYLES, Extras, asset, page, sign_in_page
from .table_rows import TableRows

if TYPE_CHECKING:
    from ...config import Config, Observe
    from ...control.records.channels import Channel

logger = logging.getLogger(__name__)

_PLAIN, _HTML = "text/plain; charset=utf-8", "text/html; charset=utf-8"
_JSON = "application/json"
_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
_OWN_SITE = ("same-origin", "none")
"""values of Sec-Fetch-Site of requests that no page of another site makes"""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_BASIC = 'Basic realm="spark_repl", charset="UTF-8"'
_TOKEN_LEAST = 16
"""characters of a token that protects rows: requests may try others"""
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
        if observe.rows and len(self._token) < _TOKEN_LEAST:
            raise ConfigError(
                f"observe.rows needs a token of at least {_TOKEN_LEAST} characters",
                file=observe.token_file,
                hint="openssl rand -hex 24 > TOKEN_FILE",
            )
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
            free = port + 1 if port < 65535 else port - 1
            raise ConfigError(
                f"observe.listen: can't listen on {observe.listen}: {reason}",
                hint=f'set observe.listen = "127.0.0.1:{free}" or a free port; "" for no page',
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
            return self._answer(path, headers)

    def _answer(self, path: str, headers: Any) -> tuple[HTTPStatus, str, str]:
        path, _, query = path.partition("?")
        snapshot = self._snapshots.get(path)
        if refusal := self._refusal(path, snapshot, headers):
            return refusal
        if not self._snapshots:
            return HTTPStatus.SERVICE_UNAVAILABLE, "the applier is starting\n", _PLAIN
        if snapshot is None:
            listed = " ".join(
                path for path, snapshot in self._snapshots.items() if snapshot.is_listed
            )
            return HTTPStatus.NOT_FOUND, f"here are {listed}\n", _PLAIN
        try:
            text = self._snapshot(path) if snapshot.of is None else snapshot.of(_fields(query))
            return HTTPStatus.OK, text, snapshot.kind
        except (OSError, SparkReplError) as error:
            logger.warning("nothing to be seen at %s: %s", path, error)
            code = HTTPStatus.SERVICE_UNAVAILABLE
            return code, "the target can't be looked at: see the log\n", _PLAIN

    def _refusal(
        self, path: str, snapshot: EndpointSnapshot | None, headers: Any
    ) -> tuple[HTTPStatus, str, str] | None:
        """Return the answer to a request that is not allowed; None if it is."""
        if self._names and _without_port(headers.get("Host", "")) not in self._names:
            text = "this is not the host that was asked for\n"
            return HTTPStatus.MISDIRECTED_REQUEST, text, _PLAIN
        if snapshot is not None and snapshot.of is not None:  # data of the source
            if not self._token or headers.get("Sec-Fetch-Site", "none") not in _OWN_SITE:
                return HTTPStatus.FORBIDDEN, "only the page itself may ask for rows\n", _PLAIN
        elif snapshot is not None and snapshot.is_public:
            return None
        if self._token and not self._is_allowed(headers.get("Authorization", "")):
            if path == "/" and "text/html" in headers.get("Accept", ""):
                return HTTPStatus.UNAUTHORIZED, sign_in_page(), _HTML
            text = "the token of observe.token_file is asked for\n"
            return HTTPStatus.UNAUTHORIZED, text, _PLAIN
        return None

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
        logger.warning("there is no page: %s. Try: %s", error, error.hint)
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
                # A browser would ask for a password, beside the page that asks for the token.
                if kind == _PLAIN and self.headers.get("Sec-Fetch-Mode", "navigate") == "navigate":
                    self.send_header("WWW-Authenticate", _BASIC)
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


_FIELDS_MOST = 8
_STATUS_AGE_MAX_S = 1.0
"""age up to which requests of all paths share one status"""


@dataclass(frozen=True)
class EndpointSnapshot:
    """One kind of answer. ``kind``: the Content-Type; ``text`` takes the snapshot and returns it.

    ``of``: returns rows of a table instead, for the fields of a query. Such an answer is never
    kept, and needs a token. ``is_public``: whether it is the same for all targets, and needs no
    token; ``is_listed``: whether people may look for it.
    """

    kind: str
    text: Callable[[], str]
    of: Callable[[Mapping[str, str]], str] | None = None
    is_public: bool = False
    is_listed: bool = True


def endpoint_snapshots(config: Config, relay: str, at: Channel) -> dict[str, EndpointSnapshot]:
    """Return the page, `status --json` and `status --metrics`, by path, and what the page needs.

    They leave out information that is only in the tables' own logs, except for the page's figures
    of tables. They share one status; the endpoint calls one of them at a time.
    """
    target, observe = config.target, config.observe
    last = [(-_STATUS_AGE_MAX_S, dict[str, Any]())]
    figures = FigureReader(at)

    def current() -> dict[str, Any]:
        at_s, fields = last[0]
        if time.monotonic() - at_s > _STATUS_AGE_MAX_S:
            fields = status(target.path, relay, target.state_path, at=at, each_table=False)
            last[0] = time.monotonic(), fields
        return fields

    def html() -> str:
        extras = Extras(target.path, config.file, figures.figures(), observe.rows,
                        has_docs=bool(doc_names()))  # fmt: skip
        return page(current(), lag_history(at.control), live=True, extras=extras)

    return {
        "/": EndpointSnapshot(_HTML, html),
        "/metrics": EndpointSnapshot(TEXT, lambda: metrics(current())),
        "/status.json": EndpointSnapshot(
            _JSON, lambda: json.dumps(current(), default=str) + "\n"
        ),
        **({"/rows": _rows(config, at)} if observe.rows else {}),
        **_public("/assets/", (*STYLES, *SCRIPTS), asset),
        **_public("/docs/", doc_names(), doc_page),
    }  # fmt: skip


def _public(
    folder: str, names: Iterable[str], text: Callable[[str], str]
) -> dict[str, EndpointSnapshot]:
    """Return the answers of a folder's files."""
    return {
        folder + name: EndpointSnapshot(
            _KINDS.get(name.rpartition(".")[2], _HTML), partial(text, name), is_public=True,
            is_listed=False,
        )
        for name in names
    }  # fmt: skip


def _rows(config: Config, at: Channel) -> EndpointSnapshot:
    """Return the answer with rows of a table: JSON, also for an error."""
    target, place = config.target, {"config": config.file, "target": config.target.path}
    tables = TableRows(target.path, target.state_path, at.name)

    def read(fields: Mapping[str, str]) -> str:
        try:
            return tables.read(fields.get("table", ""), fields.get("at", "latest"))
        except SparkReplError as error:
            hint = pasteable(error.hint or "", place)
            return json.dumps({"error": error.message, "hint": hint})

    return EndpointSnapshot(_JSON, str, read, is_listed=False)


def _fields(query: str) -> dict[str, str]:
    """Return the fields of a query; of a repeated field its last value."""
    return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=_FIELDS_MOST))
