"""UnityServer: Unity Catalog's Delta API for managed tables, written from its specification.

It has what a writer of managed tables needs: ``config``, staging tables, ``createTable``,
``loadTable`` and ``updateTable``, in memory. A version belongs to the first commit that names it.
``limit``: unpublished commits that a table may have. It reads no file, as the specification allows.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from .http_handler import EveryMethod

Json = dict[str, Any]
_PREFIX = "/api/2.1/unity-catalog/delta/v1/"
_FEATURES = ("catalogManaged", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck")
_PROPERTIES = {
    "delta.checkpointPolicy": "v2", "delta.enableDeletionVectors": "true",
    "delta.enableInCommitTimestamps": "true", "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "true",
}  # fmt: skip
_RESTRICTED = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")


class Refusal(Exception):
    """An error answer. ``arguments``: status, type, message."""


@dataclass
class Table:
    """A table: ``commits`` are the accepted ones that were not reported as published."""

    table_id: str
    location: str
    metadata: Json
    latest: int = 0
    commits: dict[int, Json] = field(default_factory=dict)

    def loaded(self) -> Json:
        commits = [self.commits[version] for version in sorted(self.commits, reverse=True)]
        metadata = {**self.metadata, "table-uuid": self.table_id, "location": self.location}
        return {
            "metadata": metadata, "commits": commits, "latest-table-version": self.latest,
        }  # fmt: skip


class UnityServer(ThreadingHTTPServer):
    """``root``: where locations of tables begin; ``token``: the bearer token, "" for none."""

    daemon_threads = True

    def __init__(self, root: str, catalog: str = "main", limit: int = 10, token: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root, self.catalog, self.limit, self.token = root, catalog, limit, token
        self.required = dict(_PROPERTIES)
        self.features = list(_FEATURES)
        self.staged = dict[str, str]()  # location -> id
        self.tables = dict[tuple[str, str], Table]()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/api/2.1/unity-catalog"

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep silent, because clients also end connections."""

    def answer(self, method: str, path: str, body: Json) -> Json:
        if path.startswith("config?"):
            return {"endpoints": [], "protocol-version": "1.0"}
        match [method, *map(unquote, path.split("/"))]:
            case ["POST", "catalogs", self.catalog, "schemas", schema, "staging-tables"]:
                return self._stage(schema, body["name"])
            case ["POST", "catalogs", self.catalog, "schemas", schema, "tables"]:
                return self._create(schema, body)
            case ["GET", "catalogs", self.catalog, "schemas", schema, "tables", name]:
                return self._table(schema, name).loaded()
            case ["POST", "catalogs", self.catalog, "schemas", schema, "tables", name]:
                return self._update(self._table(schema, name), body)
        raise Refusal(404, "NoSuchCatalogException", path)

    def _table(self, schema: str, name: str) -> Table:
        if (table := self.tables.get((schema, name))) is None:
            raise Refusal(404, "NoSuchTableException", f"Table '{schema}.{name}' does not exist")
        return table

    def _stage(self, schema: str, name: str) -> Json:
        if (schema, name) in self.tables:
            raise Refusal(409, "AlreadyExistsException", f"{schema}.{name} exists")
        table_id = str(uuid.uuid4())
        location = f"{self.root}/__unitystorage/tables/{table_id}"
        self.staged[location] = table_id
        return {
            "table-id": table_id, "table-type": "MANAGED", "location": location,
            "storage-credentials": [],
            "required-protocol": {
                "min-reader-version": 3, "min-writer-version": 7,
                "reader-features": self.features,
                "writer-features": [*self.features, "inCommitTimestamp"],
            },
            "required-properties": {**self.required, "io.unitycatalog.tableId": table_id},
        }  # fmt: skip

    def _create(self, schema: str, body: Json) -> Json:
        if (schema, body["name"]) in self.tables:
            raise Refusal(409, "AlreadyExistsException", f"{schema}.{body['name']} exists")
        table_id = self.staged.pop(body["location"], None)
        if table_id is None:
            raise Refusal(404, "NoSuchTableException", "no staging table there")
        properties = body["properties"]
        wanted = {**self.required, "io.unitycatalog.tableId": table_id}
        if wrong := {name for name, value in wanted.items() if properties.get(name) != value}:
            raise Refusal(400, "InvalidParameterValueException", f"properties: {sorted(wrong)}")
        _check_properties(properties)
        missing = {*self.features, "inCommitTimestamp"} - {*body["protocol"]["writer-features"]}
        if missing or body["columns"]["type"] != "struct":
            raise Refusal(400, "InvalidParameterValueException", f"features: {sorted(missing)}")
        names = ("columns", "properties", "protocol", "partition-columns", "comment")
        metadata = {name: body.get(name) for name in names}
        table = self.tables[schema, body["name"]] = Table(table_id, body["location"], metadata)
        return table.loaded()

    def _update(self, table: Table, body: Json) -> Json:
        required = {one["type"]: one for one in body["requirements"]}
        if required["assert-table-uuid"]["uuid"] != table.table_id:
            raise Refusal(409, "UpdateRequirementConflictException", "assert-table-uuid failed")
        updates = {one["action"]: one for one in body["updates"]}
        if not updates or len(updates) != len(body["updates"]):
            raise Refusal(400, "InvalidParameterValueException", "at most one action of each type")
        published = updates.get("set-latest-backfilled-version", {}).get("latest-published-version")
        if published is not None and published > table.latest:
            raise Refusal(400, "InvalidParameterValueException", "published before it was accepted")
        _check_properties(updates.get("set-properties", {}).get("updates", {}))
        if "add-commit" in updates:
            self._add(table, updates["add-commit"]["commit"], published or 0)
        if published is not None:
            for version in [version for version in table.commits if version <= published]:
                del table.commits[version]
        _describe(table.metadata, updates)
        return table.loaded()

    def _add(self, table: Table, commit: Json, published: int) -> None:
        version = commit["version"]
        numbers = ("timestamp", "file-size", "file-modification-timestamp")
        if min(commit[name] for name in numbers) <= 0:
            raise Refusal(400, "InvalidParameterValueException", f"not positive: {commit}")
        if version <= table.latest:
            raise Refusal(409, "CommitVersionConflictException", f"version {version} is taken")
        if version != table.latest + 1:
            raise Refusal(400, "InvalidParameterValueException", f"not the next: {version}")
        if len([one for one in table.commits if one > published]) >= self.limit:
            raise Refusal(429, "ResourceExhaustedException", "too many unpublished commits")
        table.commits[version], table.latest = commit, version


def _check_properties(properties: Mapping[str, str]) -> None:
    if restricted := [name for name in _RESTRICTED if name in properties]:
        raise Refusal(400, "InvalidParameterValueException", f"restricted: {restricted}")
    if any(len(value) > 255 for value in properties.values()):
        raise Refusal(500, "InternalServerErrorException", "value too long, as for the Java server")


def _describe(metadata: Json, updates: Mapping[str, Json]) -> None:
    if "set-properties" in updates:
        metadata["properties"] |= updates["set-properties"]["updates"]
    for name in updates.get("remove-properties", {}).get("removals", ()):
        metadata["properties"].pop(name, None)
    for action, key in (
        ("set-columns", "columns"), ("set-protocol", "protocol"),
        ("set-partition-columns", "partition-columns"), ("set-table-comment", "comment"),
    ):  # fmt: skip
        if action in updates:
            metadata[key] = updates[action][key]


class _Handler(EveryMethod):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: UnityServer

    def respond(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = self.server
        try:
            if server.token and self.headers.get("Authorization") != f"Bearer {server.token}":
                raise Refusal(401, "NotAuthorizedException", "no valid token")
            with server.lock:
                body = json.loads(content) if content else {}
                answer = server.answer(self.command, self.path.removeprefix(_PREFIX), body)
            self._send(200, answer)
        except Refusal as refusal:
            status, kind, message = refusal.args
            self._send(status, {"error": {"type": kind, "code": status, "message": message}})

    def _send(self, status: int, body: Json) -> None:
        content = json.dumps(body).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def unity_server(root: str, **options: Any) -> Iterator[UnityServer]:
    """A server in this process."""
    with UnityServer(root, **options) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
