"""CutViews: cuts as schemas of views, for readers of SQL.

A published cut is a schema of its own, ``shop_cut_12``, whose views never change. ``shop_cut``
shows the cut that was published last; a catalog can't change several views at once, so its views
are replaced one by one. ``shop_cut._cuts`` lists the published cuts.

**Invariant**: ``_cuts`` names only complete schemas. A schema is created, filled, marked as
complete, and then announced; it is removed in the reverse order. The control table records which
cuts are kept. Marks in the catalog record which schemas are complete. So the next call repairs what
a kill or a lost answer leaves at any step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..control.records.retention import pins, promised_until
from ..control.records.shared_tables import shared_shards, shared_tables
from ..control.table.control import Control
from ..control.table.cut import reader_tables
from ..control.table.layout import Layout
from ..delta.log.table_log import TableLog
from ..errors import Stopped, TargetError
from ..observe.reports.applier_status import Notice
from ..tables.case_folding import fold
from .cut_view import CUTS, view_of_cuts, view_of_table
from .entry import CatalogEntry, CatalogView, EntryName
from .naming import accepted
from .registration import listed
from .session_catalog import drop_own

if TYPE_CHECKING:
    from ..control.records.channels import Channel
    from ..control.table.control_snapshot import ControlSnapshot
    from ..control.table.cut import Cut
    from .naming import Naming
    from .session_catalog import CatalogClient

logger = logging.getLogger(__name__)

_TARGET, _CHANNEL = "spark_repl.cut_views", "spark_repl.channel"
_BASE, _CUT, _AT, _PIN, _COMPLETE = (
    f"spark_repl.{name}" for name in ("base", "cut", "published_at", "pin", "complete")
)
Id = tuple[int, str]
"""a cut's sequence number, and when it was published: another target of the path has other cuts"""
Views = Mapping[str, Mapping[str, CatalogView]]
"""schema of the tables -> table -> view"""


@dataclass(frozen=True)
class PublishedCut:
    """A schema of a published cut. ``base``: the schema of its tables; ``pin``: the name under
    which a user published it, or ""."""

    schema: str
    base: str
    id: Id
    pin: str
    is_complete: bool

    @classmethod
    def of(cls, schema: str, properties: Mapping[str, str]) -> PublishedCut:
        """Return the published cut of a schema with these properties."""
        return cls(
            schema, properties[_BASE], (int(properties[_CUT]), properties[_AT]),
            properties.get(_PIN, ""), _COMPLETE in properties,
        )  # fmt: skip


class CutViews:
    """A ``CatalogTask``: publishes the newest cut, repoints the views of ``shop_cut`` to it, and
    removes cuts that are no longer kept. ``every_s``: at most once in so many seconds.
    ``former``: earlier places of the target, whose schemas and views are taken for ours.
    ``schema_of`` returns Delta's schema string of a table's version."""

    def __init__(
        self,
        at: Channel,
        naming: Naming,
        every_s: float = 0.0,
        former: Collection[str] = (),
        schema_of: Callable[[str, int], str] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._at, self._naming, self.every_s, self._former = at, naming, every_s, former
        self._schema_of, self._now = schema_of or _delta_schema, now
        self._schema_strings: dict[tuple[str, int], str] = {}
        self._published: dict[str, PublishedCut] | None = None
        self._is_stopping: Callable[[], bool] = bool

    def wanted(self, cut: Cut) -> Cut:
        """Return the cut: a newer one is published in its turn."""
        return cut

    def carry_out(
        self, catalog: CatalogClient, cut: Cut, is_stopping: Callable[[], bool] = bool
    ) -> list[Notice]:
        """Publish the newest cut, and return what can't be. Raise CatalogError, and Stopped between
        two requests. After an error the next call reads all schemas again."""
        self._is_stopping = is_stopping
        snapshot = self._at.control.snapshot()
        newest = snapshot.last_cut()
        if newest is None:
            return []
        existing = self._existing(catalog)
        self._published = None
        views, ambiguous = self._views(snapshot.cut_of(newest), newest["sequence"])
        foreign = self._fill(catalog, views, _id(newest), str(newest["sequence"]))
        filled = {f"{base}_cut_{newest['sequence']}" for base in views}
        known = {schema: each for schema, each in existing.items() if schema not in filled}
        existing = self._existing(catalog, known)
        published = self._usable(existing, snapshot)
        for base in sorted({*views, *(each.base for each in existing.values())}):
            foreign += self._announce(catalog, base, published, needed=base in views)
            foreign += self._equal(catalog, f"{base}_cut", views.get(base, {}), keep=(CUTS,))
            if base not in views:
                self._remove_empty(catalog, f"{base}_cut")
        for schema in sorted(existing.keys() - {each.schema for each in published}):
            self._remove(catalog, schema)
        self._published = {each.schema: each for each in published}
        return _notices(foreign, ambiguous)

    def publish(self, catalog: CatalogClient, cut: Cut, name: str) -> list[str]:
        """Publish a pinned cut under the name of its pin, and return its schemas. Complete it, if
        it was published before. Raise CatalogError, and TargetError if another schema has the
        name."""
        snapshot = self._at.control.snapshot()
        place = cut.position, cut.at
        rows = snapshot.cut_rows()
        row = next(row for row in rows if (row["position"], row["at"]) == place)
        views, ambiguous = self._views(cut, row["sequence"])
        if foreign := self._fill(catalog, views, _id(row), accepted(name), name):
            raise TargetError(
                f"the catalog has another schema or view: {foreign[0]}",
                hint="publish the cut under another name",
            )
        published = self._usable(self._existing(catalog), snapshot)
        for base in views:
            self._announce(catalog, base, published)
        for notice in _notices([], ambiguous):
            logger.warning("%s", notice.what)
        return sorted(f"{base}_cut_{accepted(name)}" for base in views)

    def published_as(self, catalog: CatalogClient, name: str) -> list[str]:
        """Return the schemas of the cut that was published as ``name``. Raise CatalogError."""
        return sorted(each.schema for each in self._existing(catalog).values() if each.pin == name)

    def unpublish(self, catalog: CatalogClient, name: str) -> None:
        """Remove the schemas of the cut that was published as ``name``. Raise CatalogError."""
        existing = self._existing(catalog).values()
        gone = [each for each in existing if each.pin == name]
        for base in sorted({each.base for each in gone}):
            self._announce(catalog, base, [each for each in existing if each.pin != name])
        for each in gone:
            self._remove(catalog, each.schema)

    @property
    def _owner(self) -> dict[str, str]:
        """Return the properties that mark our schemas and views."""
        return {_TARGET: self._at.layout.target, _CHANNEL: self._at.name}

    def _is_own(self, properties: Mapping[str, str]) -> bool:
        target, channel = properties.get(_TARGET), properties.get(_CHANNEL)
        return target in (self._at.layout.target, *self._former) and channel == self._at.name

    def _existing(
        self, catalog: CatalogClient, known: Mapping[str, PublishedCut] | None = None
    ) -> dict[str, PublishedCut]:
        """Return all our schemas of published cuts. ``known``: schemas that need no request if they
        are complete and have no pin, because these never change."""
        known = self._published or {} if known is None else known
        existing = dict[str, PublishedCut]()
        for schema in catalog.schemas():
            before = known.get(schema)
            if before is not None and before.is_complete and not before.pin:
                existing[schema] = before
            elif "_cut_" in schema:
                properties = catalog.schema_properties(schema) or {}
                if _CUT in properties and self._is_own(properties):
                    published = PublishedCut.of(schema, properties)
                    # The views of a former place of the target read that place.
                    is_here = properties[_TARGET] == self._at.layout.target
                    complete = published.is_complete and is_here
                    existing[schema] = replace(published, is_complete=complete)
        return existing

    def _usable(
        self, existing: Mapping[str, PublishedCut], snapshot: ControlSnapshot
    ) -> list[PublishedCut]:
        """Return the schemas that stay: the complete ones whose cuts' files are promised. One with
        a pin may also be incomplete, because a command may be filling it."""
        control, now = self._at.control, self._now()
        until, newest = promised_until(control, snapshot, now), snapshot.last_cut()
        pinned = {(name, pin.cut) for name, pin in pins(control).items()}
        places = {cut for _, cut in pinned}
        retained = dict[Id, tuple[int, datetime]]()
        for row in snapshot.cut_rows():
            place = row["position"], row["at"]
            if place in places or until[place] > now or row == newest:
                retained[_id(row)] = place
        return [
            each
            for each in existing.values()
            if each.id in retained
            and ((each.pin, retained[each.id]) in pinned if each.pin else each.is_complete)
        ]

    def _views(self, cut: Cut, number: int) -> tuple[Views, Mapping[EntryName, str]]:
        """Return the views of the cut's tables, and the names that several tables would have. A
        table in quarantine has no view: it is not of the cut's state."""
        tables = {n: at for n, at in reader_tables(cut).items() if n not in cut.quarantined}
        names, ambiguous = self._naming.assign(tables)
        for entry in [entry for entry in names if entry.table == CUTS]:
            ambiguous[entry] = f"{names.pop(entry)}, the list of cuts"
        shards, views = shared_shards(cut), dict[str, dict[str, CatalogView]]()
        schema_strings = self._schema_strings
        self._schema_strings = {}
        for entry, name in names.items():
            at = tables[name]
            folder, key = self._at.layout.table(at.path), (at.path, at.version)
            schema = schema_strings.get(key) or self._schema_of(folder, at.version)
            self._schema_strings[key] = schema
            own = shards.get(name)
            rows = None if own is None else (self._shard_column(name), own)
            view = view_of_table(folder, at.version, schema, number, rows)
            views.setdefault(entry.schema, {})[entry.table] = view
        return views, ambiguous

    def _shard_column(self, name: str) -> str:
        """Return the column that tells the channels' rows apart. Raise TargetError if it is not
        recorded by the target's first channel."""
        first = Control(Layout(self._at.layout.target).control)
        recorded = shared_tables(first).get(fold(name))
        if recorded is None:
            raise TargetError("what tells the channels' rows apart is not recorded", table=name)
        return recorded.column

    def _fill(
        self, catalog: CatalogClient, views: Views, cut_id: Id, suffix: str, pin: str = ""
    ) -> list[str]:
        """Create the schemas of a cut, and mark them as complete. Return the names that belong to
        another writer."""
        foreign = []
        for base, tables in sorted(views.items()):
            schema = f"{base}_cut_{suffix}"
            mark = {**self._owner, _BASE: base, _CUT: str(cut_id[0]), _AT: cut_id[1]}
            mark |= {_PIN: pin} if pin else {}
            properties = dict(catalog.schema_properties(schema) or {})
            is_complete = properties.pop(_COMPLETE, "") == "true"
            if properties and properties != mark:
                if self._is_own(properties) and properties.get(_PIN, "") == pin:
                    self._remove(catalog, schema)  # of a target that was at this path before
                properties = {}
            if properties != mark:
                if catalog.schema_properties(schema) is not None:
                    foreign.append(schema)
                    continue
                catalog.create_schema(schema, mark)
            if is_complete and properties == mark:
                continue
            if others := self._equal(catalog, schema, tables):
                foreign += others
            else:
                catalog.set_schema_properties(schema, {**mark, _COMPLETE: "true"})
        return foreign

    def _announce(
        self, catalog: CatalogClient, base: str, published: Iterable[PublishedCut], *,
        needed: bool = False,
    ) -> list[str]:  # fmt: skip
        """Give ``_cuts`` the complete schemas, by one request. ``needed``: create its schema even
        without them."""
        schema, shown = f"{base}_cut", dict[str, int]()
        for each in sorted(published, key=lambda each: (each.id, each.schema)):
            if each.base == base and each.is_complete:
                shown[each.schema] = each.id[0]
        if catalog.schema_properties(schema) is None:
            if not shown and not needed:
                return []
            catalog.create_schema(schema, {**self._owner, _BASE: base})
        views = {CUTS: view_of_cuts(self._at.layout.control, shown)} if shown else {}
        return self._equal(catalog, schema, views, only=(CUTS,))

    def _equal(
        self, catalog: CatalogClient, schema: str, views: Mapping[str, CatalogView], *,
        keep: Iterable[str] = (), only: Iterable[str] | None = None,
    ) -> list[str]:  # fmt: skip
        """Make our views of a schema equal to ``views``: of all names, except ``keep``, or of
        ``only`` some. Return the names that belong to another writer."""
        names = None if only is None else [*only]
        existing = {each.name.table: each for each in catalog.entries(schema, names)}
        foreign = []
        for table, view in sorted(views.items()):
            self._check()
            entry = CatalogEntry(EntryName(schema, table), "", "", self._owner, view)
            present = existing.get(table)
            if present is None:
                catalog.create(entry)
            elif not self._is_own(present.properties):
                foreign.append(str(entry.name))
            elif present.view != view:
                catalog.replace(entry)
        for table in sorted(existing.keys() - views.keys() - {*keep}):
            self._check()
            drop_own(catalog, EntryName(schema, table), lambda view: self._is_own(view.properties))
        return foreign

    def _remove(self, catalog: CatalogClient, schema: str) -> None:
        """Remove a schema of ours with our views in it."""
        self._equal(catalog, schema, {})
        self._remove_empty(catalog, schema)

    def _remove_empty(self, catalog: CatalogClient, schema: str) -> None:
        """Remove a schema of ours that has no entries of anybody."""
        properties = catalog.schema_properties(schema)
        if properties and self._is_own(properties) and not catalog.entries(schema):
            catalog.drop_schema(schema)

    def _check(self) -> None:
        if self._is_stopping():
            raise Stopped


def _id(row: Mapping[str, Any]) -> Id:
    return row["sequence"], row["at"].isoformat()


def _delta_schema(folder: str, version: int) -> str:
    """Return Delta's schema string of a table's version. Raise TargetError if it is gone."""
    snapshot = TableLog().snapshot(folder, version)
    if snapshot is None:
        raise TargetError("the cut's table is not there", file=folder)
    return snapshot.schema_string


def _notices(foreign: Iterable[str], ambiguous: Mapping[EntryName, str]) -> list[Notice]:
    notices = []
    if names := listed(foreign):
        notices.append(
            Notice(
                f"the catalog has other schemas or views under names of cuts: {names}",
                "rename or drop them, or give the tables other schemas (catalog.schema)",
            )
        )
    if names := listed(f"{name} ({tables})" for name, tables in sorted(ambiguous.items())):
        notices.append(
            Notice(f"several tables would have one view of a cut: {names}", "set catalog.names")
        )
    return notices
