"""Cut: which version of each table belongs to one committed state of the source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from functools import cached_property
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any

from ...config.renaming import SHARD, whole_of
from ...errors import TargetError
from .row_formats import format_of_cut, known_fields

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class TableVersion:
    """A table at a cut. ``path`` is relative to the target; ``position`` is the table's own,
    packed."""

    path: str
    version: int
    metadata_id: str
    position: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> TableVersion:
        """Return what ``text`` has encoded."""
        return cls(fields["path"], fields["version"], fields["metadata_id"], fields["position"])

    @cached_property
    def text(self) -> str:
        """Return its JSON in a cut's row, cached: each of thousands of cuts names every table, and
        few change."""
        return json.dumps({field.name: getattr(self, field.name) for field in fields(self)})


@dataclass(frozen=True)
class Waiting:
    """Why no cut shows a table until it is copied: the log doesn't contain what a statement made of
    its rows. ``since``: the statement, by its GTID or else by the position of its end; for a reset
    its time."""

    reason: str
    since: str


@dataclass(frozen=True)
class InQuarantine:
    """Why a table is not applied: one of its changes could not be. ``since``: that transaction, by
    its GTID or position. ``transactions`` of them are kept, in ``bytes`` of the log. ``owners``:
    the same counts for each owner, after its epoch; empty: no file has an owner's epoch in its
    name."""

    reason: str
    since: str
    transactions: int
    bytes: int
    owners: tuple[tuple[int, int, int], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "owners", tuple(map(tuple, self.owners)))

    @property
    def by_owner(self) -> dict[int, tuple[int, int]]:
        """Return (transactions, bytes) by the epoch of the owner that kept them; 0: no epoch is
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
    ] = ()  # XA branches (schedule/branches), as JSON has them
    group_gtids: str = ""  # of the group that ends here, for the tables' commits
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    quarantined: Mapping[str, InQuarantine] = field(default_factory=dict)
    begin: Mapping[str, Any] = field(default_factory=dict)
    """``source`` where that group begins, for a table that is created before it"""

    def row_format(self, *, since: bool = False) -> int:
        """Return the number of the format of its row. ``since``: the row is encoded as
        differences."""
        owners = [mark.owners for mark in self.quarantined.values()]
        return format_of_cut(owners, self.prepared, since=since)

    def to_detail(self) -> str:
        """Return the detail of its row, with all tables."""
        return self.detail({}, self.tables)

    def detail(
        self,
        head: Mapping[str, Any],
        tables: Mapping[str, TableVersion],
        gone: Sequence[str] = (),
    ) -> str:
        """Return the detail of its row with these ``tables`` only, after a ``head``, and with the
        names of tables that are ``gone`` (``cut_encoding``)."""
        before = json.dumps({**head, "log_id": self.log_id, "source": dict(self.source)})
        tail: dict[str, Any] = {"gone": list(gone)} if gone else {}
        if self.waiting:
            tail["waiting"] = {name: asdict(reason) for name, reason in self.waiting.items()}
        if self.quarantined:
            marks = {name: asdict(reason) for name, reason in self.quarantined.items()}
            tail["quarantined"] = marks
        tail |= {"counts": dict(self.counts or {}), "prepared": list(self.prepared)}
        text = tables_text(tables)
        return f'{before[:-1]}, "tables": {{{text}}}, {json.dumps(tail)[1:]}'

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Cut:
        """Return the cut of a row that has all tables."""
        detail = json.loads(row["detail"])
        assert "since" not in detail
        tables = {name: TableVersion.of(fields) for name, fields in detail["tables"].items()}
        return cls.with_tables(row, detail, tables)

    @classmethod
    def with_tables(
        cls, row: Mapping[str, Any], detail: Mapping[str, Any], tables: Mapping[str, TableVersion]
    ) -> Cut:
        """Return the cut of a row that shows ``tables``, whichever of them the row has itself;
        ``detail``: the row's."""
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


def tables_text(tables: Mapping[str, TableVersion]) -> str:
    """Return the JSON of tables in a row, without its braces."""
    return ", ".join(f"{_quoted(name)}: {table.text}" for name, table in tables.items())


def reader_tables(cut: Cut) -> Mapping[str, TableVersion]:
    """Return the Delta table of each name, and its version. All shards of one Delta table have its
    version. Raise TargetError if shards of one name are in two Delta tables."""
    tables: dict[str, TableVersion] = {}
    for name, version in cut.tables.items():
        if SHARD in version.path:
            name, version = whole_of(name), replace(version, path=whole_of(version.path))
            if tables.get(name, version) != version:
                raise TargetError("the cut has shards of it at two places", table=name)
        tables[name] = version
    return tables
