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
    """A table at a cut: ``path`` is relative to the target, ``position`` its own, packed."""

    path: str
    version: int
    metadata_id: str
    position: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> TableVersion:
        """Read what ``text`` writes."""
        return cls(fields["path"], fields["version"], fields["metadata_id"], fields["position"])

    @cached_property
    def text(self) -> str:
        """The JSON of it in a cut: each of thousands of cuts names every table, and few change."""
        return json.dumps({one.name: getattr(self, one.name) for one in fields(self)})


@dataclass(frozen=True)
class Waiting:
    """Why no cut shows a table until it has been copied: the log doesn't say what a statement made
    of its rows. ``since``: that statement, by its GTID or else the position of its end; of a reset
    its time."""

    reason: str
    since: str


@dataclass(frozen=True)
class InQuarantine:
    """Why a table stands still: a change of it could not be applied. ``since``: that transaction,
    by its GTID or position; so many ``transactions``, in so many ``bytes`` of the log, are kept.
    ``owners``: the same of what each owner has kept, behind its epoch; empty: no file has an
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
        """(transactions, bytes) by the epoch of the owner that kept them; 0: none is recorded."""
        owners = self.owners or ((0, self.transactions, self.bytes),)
        return {epoch: (transactions, size) for epoch, transactions, size in owners}


@dataclass(frozen=True)
class Cut:
    """All tables at one point of the source's history: together one committed state, but for those
    that wait for a copy, and those in quarantine, which stand as they were before."""

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
    """``source`` where that group begins, for a table that is made before it"""

    def row_format(self, *, since: bool = False) -> int:
        """Return the number of the format of its row; ``since``: told since another one."""
        owners = [mark.owners for mark in self.quarantined.values()]
        return format_of_cut(owners, self.prepared, since=since)

    def to_detail(self) -> str:
        """What a row says of it, all tables told."""
        return self.detail({}, self.tables)

    def detail(
        self,
        head: Mapping[str, Any],
        tables: Mapping[str, TableVersion],
        gone: Sequence[str] = (),
    ) -> str:
        """The same with those ``tables`` told, behind a ``head``, and ``gone`` (``told_cuts``)."""
        before = json.dumps({**head, "log_id": self.log_id, "source": dict(self.source)})
        behind: dict[str, Any] = {"gone": list(gone)} if gone else {}
        if self.waiting:
            behind["waiting"] = {name: asdict(why) for name, why in self.waiting.items()}
        if self.quarantined:
            marks = {name: asdict(why) for name, why in self.quarantined.items()}
            behind["quarantined"] = marks
        behind |= {"counts": dict(self.counts or {}), "prepared": list(self.prepared)}
        told = tables_text(tables)
        return f'{before[:-1]}, "tables": {{{told}}}, {json.dumps(behind)[1:]}'

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Cut:
        """A cut of a row that tells all tables."""
        detail = json.loads(row["detail"])
        assert "since" not in detail
        tables = {name: TableVersion.of(fields) for name, fields in detail["tables"].items()}
        return cls.told(row, detail, tables)

    @classmethod
    def told(
        cls, row: Mapping[str, Any], detail: Mapping[str, Any], tables: Mapping[str, TableVersion]
    ) -> Cut:
        """A cut that shows ``tables``, whatever of them its row tells; ``detail``: the row's."""
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
                name: Waiting(**known_fields(Waiting, why))
                for name, why in detail.get("waiting", {}).items()
            },
            quarantined={
                name: InQuarantine(**known_fields(InQuarantine, why))
                for name, why in detail.get("quarantined", {}).items()
            },
        )


def tables_text(tables: Mapping[str, TableVersion]) -> str:
    """The tables in a row's JSON, without its braces."""
    return ", ".join(f"{_quoted(name)}: {one.text}" for name, one in tables.items())


def shown_tables(cut: Cut) -> Mapping[str, TableVersion]:
    """Name -> the Delta table, and its version. All shards that are in one have its version. Raises
    TargetError where shards of one name are in two."""
    shown: dict[str, TableVersion] = {}
    for name, at in cut.tables.items():
        if SHARD in at.path:
            name, at = whole_of(name), replace(at, path=whole_of(at.path))
            if shown.get(name, at) != at:
                raise TargetError("the cut has shards of it at two places", table=name)
        shown[name] = at
    return shown
