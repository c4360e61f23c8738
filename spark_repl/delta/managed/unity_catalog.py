"""UnityCatalog: the requests of Unity Catalog's Delta API, version 1.0, that managed tables need.

The API is published as "Unity Catalog Managed Tables Specification" and ``delta.yaml``. Field names
are the specification's. A request that only reads is repeated after a failure; any other request is
sent once, because its caller first has to find out what it has done.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from ...errors import TargetError

API = "delta/v1"
PROTOCOL = "1.0"
_TIMEOUT_S, _READS, _PAUSE_S, _LONGEST_PAUSE_S = 30.0, 4, 0.2, 5.0
_TRY_AGAIN = (429, 500, 502, 503, 504)
_SHOWN = 300
_MISSING_PARENTS = ("NoSuchCatalogException", "NoSuchSchemaException")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ManagedName:
    """The name of a managed table."""

    catalog: str
    schema: str
    table: str

    @classmethod
    def parse(cls, text: str) -> ManagedName:
        """Return the name that ``str`` has returned."""
        return cls(*text.split(".", 2))

    def __str__(self) -> str:
        return f"{self.catalog}.{self.schema}.{self.table}"

    @property
    def schema_path(self) -> str:
        catalog, schema = quote(self.catalog, safe=""), quote(self.schema, safe="")
        return f"catalogs/{catalog}/schemas/{schema}"

    @property
    def path(self) -> str:
        return f"{self.schema_path}/tables/{quote(self.table, safe='')}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the catalog. ``kind``: the type of an error, "" if the request succeeded;
    ``pause_s``: the seconds after which the catalog accepts another request, None if it names
    none."""

    status: int
    body: Json
    kind: str = ""
    message: str = ""
    pause_s: float | None = None

    @property
    def is_refusal(self) -> bool:
        """Return whether the catalog has refused for good."""
        return bool(self.kind) and self.status > 0 and not self.is_temporary

    @property
    def is_temporary(self) -> bool:
        return self.status in _TRY_AGAIN


@dataclass(frozen=True, slots=True)
class RatifiedCommit:
    """A commit that the catalog has accepted and that may not be in ``_delta_log`` yet."""

    version: int
    file_name: str


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table as the catalog describes it. ``latest``: its newest version; ``commits``: accepted
    commits that the catalog still stores, in the order of their versions."""

    table_id: str
    latest: int
    commits: tuple[RatifiedCommit, ...]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: another host would get the token."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


class UnityCatalog:
    """One catalog of a server. ``uri``: up to ``/api/2.1/unity-catalog``; ``token`` returns the
    bearer token, "" for none. Safe to call from several threads."""

    def __init__(
        self,
        uri: str,
        token: Callable[[], str] = str,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.uri, self._token, self._pause = uri.rstrip("/"), token, pause
        self._cached_token: str | None = None
        self._lock = threading.Lock()

    def check(self, catalog: str) -> None:
        """Raise TargetError if the server does not have this version of the API, and OSError."""
        query = urlencode({"catalog": catalog, "protocol-versions": PROTOCOL})
        answer = self.read(f"config?{query}")
        if answer.status == http.client.OK and answer.body.get("protocol-version") == PROTOCOL:
            return
        if answer.kind and "Catalog" not in answer.kind and answer.status in (400, 404):
            raise TargetError(
                f"the catalog does not have version {PROTOCOL} of the Delta API: {answer.message}",
                file=f"{self.uri}/{API}",
                hint="set catalog.uri to a server with managed tables, as"
                ' "https://HOST/api/2.1/unity-catalog"; or catalog.managed = false',
            )
        self.expect(answer, f"catalog {catalog}")

    def stage(self, name: ManagedName) -> Answer:
        """Request an id and a location for a new table. Raise OSError."""
        return self.send(f"{name.schema_path}/staging-tables", {"name": name.table})

    def load(self, name: ManagedName) -> LoadedTable | None:
        """Return the table; None if there is no table of this name. Raise OSError and
        TargetError."""
        answer = self.read(name.path)
        if answer.status == http.client.NOT_FOUND and answer.kind not in _MISSING_PARENTS:
            return None
        return loaded(self.expect(answer, str(name)))

    def read(self, path: str) -> Answer:
        """Return the answer to a request that changes nothing; repeat it after a temporary failure.
        Raise OSError after the last one."""
        for left in reversed(range(_READS)):
            pause_s = None
            try:
                answer = self._answer("GET", path, None)
                if not left or not answer.is_temporary:
                    break
                pause_s = answer.pause_s
            except OSError:
                if not left:
                    raise
            self.wait(_READS - 1 - left, pause_s)
        if answer.is_temporary:
            raise OSError(f"the catalog does not answer: {answer.status} {answer.message}")
        return answer

    def wait(self, attempt: int, pause_s: float | None = None) -> None:
        """Wait before another attempt. ``attempt``: the number of earlier ones."""
        usual_s = _PAUSE_S * 2**attempt
        self._pause(min(usual_s if pause_s is None else pause_s, _LONGEST_PAUSE_S))

    def send(self, path: str, body: Json) -> Answer:
        """Return the answer to a request, which is sent once. Raise OSError if there is none: what
        the request has done is then unknown."""
        return self._answer("POST", path, body)

    def expect(self, answer: Answer, what: str) -> Json:
        """Return the body of an answer. Raise TargetError if the catalog has refused, and OSError
        if another attempt may succeed. ``what``: the subject of the request."""
        if not answer.kind:
            return answer.body
        reason = f"{answer.kind} ({answer.status}): {answer.message}"
        if answer.is_temporary:
            raise OSError(f"the catalog does not answer: {reason}")
        raise TargetError(
            f"the catalog refuses {what}: {reason}", file=self.uri, hint=_hint(answer)
        )

    def _answer(self, method: str, path: str, body: Json | None) -> Answer:
        answer = self._once(method, path, body)
        if answer.status != http.client.UNAUTHORIZED:
            return answer
        with self._lock:
            self._cached_token = None  # it may have expired: a refused request has done nothing
        return self._once(method, path, body)

    def _once(self, method: str, path: str, body: Json | None) -> Answer:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if token := self._current_token():
            headers["Authorization"] = f"Bearer {token}"
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.uri}/{API}/{path}", content, headers, method=method
        )
        try:
            try:
                with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
                    return Answer(answer.status, _object(answer.read()))
            except urllib.error.HTTPError as error:
                with error:
                    return _refusal(error.code, error.read(), error.headers.get("Retry-After"))
        except urllib.error.URLError as error:
            raise OSError(f"the catalog does not answer: {error.reason}") from error
        except http.client.HTTPException as error:
            raise OSError(f"the catalog ended the connection: {error}") from error

    def _current_token(self) -> str:
        with self._lock:
            if self._cached_token is None:
                self._cached_token = self._token()
            return self._cached_token


def loaded(body: Mapping[str, Any]) -> LoadedTable:
    """Return the table of an answer to ``loadTable``, ``createTable`` or ``updateTable``. Raise
    OSError for the answer of something else than the catalog."""
    try:
        commits = sorted(
            (RatifiedCommit(int(one["version"]), str(one["file-name"])) for one in body["commits"]),
            key=lambda commit: commit.version,
        )
        table_id, latest = str(body["metadata"]["table-uuid"]), int(body["latest-table-version"])
    except (KeyError, TypeError, ValueError) as error:
        raise OSError(f"the answer is not one of the catalog's Delta API: no {error}") from error
    return LoadedTable(table_id, latest, tuple(commits))


def _refusal(status: int, content: bytes, retry_after: str | None) -> Answer:
    error = _object(content).get("error")
    body = error if isinstance(error, dict) else {}
    kind = str(body.get("type") or f"HTTP {status}")
    message = str(body.get("message") or content.decode("utf-8", "replace"))[:_SHOWN]
    pause_s = float(retry_after) if retry_after and retry_after.isdecimal() else None
    return Answer(status, {}, kind, message, pause_s)


def _object(content: bytes) -> Json:
    """Return a JSON object; an empty one for anything else."""
    try:
        body = json.loads(content)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _hint(answer: Answer) -> str:
    if answer.status == http.client.UNAUTHORIZED:
        return "set catalog.token_env, token_file or token_command to a valid token"
    if answer.status == http.client.FORBIDDEN:
        return (
            "grant the applier's account USE CATALOG, USE SCHEMA, CREATE TABLE, SELECT, MODIFY and,"
            " on Databricks, EXTERNAL USE SCHEMA (docs/catalogs.md)"
        )
    if answer.kind in _MISSING_PARENTS or answer.status == http.client.NOT_FOUND:
        return "create it: CREATE SCHEMA IF NOT EXISTS CATALOG.SCHEMA, then start again"
    return "see docs/catalogs.md, Managed tables"
