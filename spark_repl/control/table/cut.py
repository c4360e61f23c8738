"""Cut: which version of each table belongs to one committed state of the source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from ...config.renaming import SHARD, whole_of
from ...errors import TargetError
from .row_formats import format_of_cut, known_fields


@dataclass(frozen=True)
class TableVersion:
    """A table at a cut. ``path`` is relative to the target; ``position`` is the table's own packed
    position."""

    path: str
    version: int
    metadata_id: str
    position: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> TableVersion:
        """Return the table version from a cut's JSON."""
        return cls(fields["path"], fields["version"], fields["metadata_id"], fields["position"])


@dataclass(frozen=True)
class Waiting:
    """The reason why no cut shows a table until it is copied: the log doesn't determine its rows
    after a statement. ``since``: the statement, by its GTID or else by the position of its end; for
    a reset its time."""

    reason: str
    since: str


@dataclass(frozen=True)
class InQuarantine:
    """The reason why a table is not applied: one of its changes could not be applied. ``since``:
    that transaction, by its GTID or position. ``transactions``: how many are kept, in ``bytes`` of
    the log. ``owners``: the same counts for each owner, by its epoch; empty if no file has an
    owner's epoch in its name."""

    reason: str
    since: str
    transactions: int
    bytes: int
    owners: tuple[tuple[int, int, int], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "owners", tuple(map(tuple, self.owners)))

    @property
    def by_owner(self) -> dict[int, tuple[int, int]]:
        """Return (transactions, bytes) by the epoch of the owner that kept them; epoch 0 if none is
        recorded."""
        owners = self.owners or ((0, self.transactions, self.bytes),)
        return {epoch: (transactions, size) for epoch, transactions, size in owners}


@dataclass(frozen=True)
class Cut:
    """All tables at one point of the source's history. Together they are one committed state,
    except tables that wait for a copy, and those in quarantine, which stay as they were."""

    position: int
    gtid_executed: str
    log_id: str
    source: Mapping[str, Any]
    tables: Mapping[str, TableVersion]
    at: datetime | None = None
    counts: Mapping[str, int] | None = None
    prepared: tuple[
        Mapping[str, Any], ...
    ] = ()  # XA branches (relay/xa_branches), as JSON has them
    group_gtids: str = ""  # of the group that ends here, for the tables' commits
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    quarantined: Mapping[str, InQuarantine] = field(default_factory=dict)
    begin: Mapping[str, Any] = field(default_factory=dict)
    """``source`` where that group begins, for a table that is created before it"""

    def nested_format(self) -> int:
        """Return the number of the format of a row that contains ``to_detail``."""
        return format_of_cut([mark.owners for mark in self.quarantined.values()], self.prepared)

    def to_detail(self) -> str:
        """Return the cut with all tables as JSON. A copy's row contains it."""
        tables = {name: asdict(table) for name, table in self.tables.items()}
        return json.dumps(self._fields({"tables": tables}))

    def row_detail(self) -> str:
        """Return the detail of its row: everything except the tables, which have their own rows."""
        return json.dumps(self._fields({}))

    def _fields(self, tables: Mapping[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {"log_id": self.log_id, "source": dict(self.source), **tables}
        if self.waiting:
            fields["waiting"] = {name: asdict(reason) for name, reason in self.waiting.items()}
        if self.quarantined:
            marks = {name: asdict(reason) for name, reason in self.quarantined.items()}
            fields["quarantined"] = marks
        return fields | {"counts": dict(self.counts or {}), "prepared": list(self.prepared)}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Cut:
        """Return the cut that ``to_detail`` wrote, from the ``detail`` of ``row``."""
        detail = json.loads(row["detail"])
        tables = {name: TableVersion.of(fields) for name, fields in detail["tables"].items()}
        return cls.with_tables(row, detail, tables)

    @classmethod
    def with_tables(
        cls, row: Mapping[str, Any], detail: Mapping[str, Any], tables: Mapping[str, TableVersion]
    ) -> Cut:
        """Return the cut of a row, with ``tables``. ``detail``: the row's detail, decoded."""
        return cls(
            row["position"],
            row["gtid_executed"],
            detail["log_id"],
            detail["source"],
            tables,
            row["at"],
            detail["counts"],
            tuple(detail.get("prepared", ())),
            waiting={
                name: Waiting(**known_fields(Waiting, reason))
                for name, reason in detail.get("waiting", {}).items()
            },
            quarantined={
                name: InQuarantine(**known_fields(InQuarantine, reason))
                for name, reason in detail.get("quarantined", {}).items()
            },
        )


def reader_tables(cut: Cut) -> Mapping[str, TableVersion]:
    """Return the Delta table of each name, and its version. All shards of one Delta table have the
    same version. Raise TargetError if shards with the same name are in two Delta tables."""
    tables: dict[str, TableVersion] = {}
    for name, version in cut.tables.items():
        if SHARD in version.path:
            name, version = whole_of(name), replace(version, path=whole_of(version.path))
            if tables.get(name, version) != version:
                raise TargetError("the cut has shards of it at two places", table=name)
        tables[name] = version
    return tables
