"""CutReader: every table of a target at one committed state of the source.

``cut`` is the package's function for readers, and ``find_cut`` selects the row of the control table
that it reads. The commands of ``cut``, ``verify`` and the bench call them. Reading takes no lock
and writes nothing to the target, so it may run beside the applier, and on another host. A cut names
a version of each Delta table, and a reader asks Spark for exactly these versions: commits before or
after the cut are not visible. ``table`` refuses a table that waits for a copy, and one in
quarantine unless the caller allows it.

Raises ConfigError for a wrong name, TargetError for a cut that is not kept any more, and SetupError
for a session that can't read Delta. Design: docs/design/control-table.md.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from ...delta.store.spark_names import quoted
from ...errors import ConfigError, SetupError, TargetError
from ...gtid import GtidSet
from ...runtime.target_uri import on_s3
from ...tables.case_folding import fold
from ..records.channels import channel_at
from ..records.retention import is_name, pinned
from ..records.shared_tables import Shards, shared_shards, shared_tables
from ..table.control import Control
from ..table.control_rows import NOT_APPLIED
from ..table.cut import reader_tables
from ..table.layout import Layout
from .cut_export import manifest
from .history_views import create_history_views, has_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..table.control_snapshot import Row
    from ..table.cut import Cut, TableVersion


# No server's UUID, and no pinned name, begins like a date.
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?![0-9A-Fa-f])")
_HOUR = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?")
_ENFORCED = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"


class CutReader:
    """The tables of one cut. Commits before or after it are not visible."""

    def __init__(
        self, spark: SparkSession, layout: Layout, cut: Cut, *, quarantined: bool = False
    ) -> None:
        """Read the tables of ``cut``. ``quarantined``: also those in quarantine, which lack later
        changes."""
        self._spark, self._layout, self._cut = spark, layout, cut
        self._quarantined = quarantined
        self._tables, self._shards = reader_tables(cut), shared_shards(cut)

    @property
    def tables(self) -> Sequence[str]:
        return list(self._tables)

    @property
    def waiting(self) -> Sequence[str]:
        """Return the tables that the cut does not show until they are copied."""
        return list(self._cut.waiting)

    @property
    def gtid_executed(self) -> str:
        return self._cut.gtid_executed

    def table(self, name: str) -> DataFrame:
        """Return ``db.table`` as it was at the cut. Raise ConfigError if the cut has no such table,
        or has it in quarantine."""
        version = table_at(self._cut, name, quarantined=self._quarantined)
        frame = self._load(self._layout.table(version.path), version.version)
        return self._own(name, frame) if name in self._shards else frame

    def is_shared(self, name: str) -> bool:
        """Return whether other channels also feed the table: the cut then shows only this channel's
        rows."""
        return name in self._shards

    def _own(self, name: str, frame: DataFrame) -> DataFrame:
        """Return the rows of this channel's shards, of a table that other channels feed also."""
        from pyspark.sql.functions import col

        column = shard_column(self._layout, name)
        return frame.where(col(quoted(column)).isin(self._shards[name]))

    def _load(self, folder: str, version: int) -> DataFrame:
        """Return a version, even of a cut that was pinned for longer than Delta lets a version be
        read: Delta can't know that the files were kept. Raise SetupError in a session without
        Delta."""
        reader = self._spark.read.format("delta").option("versionAsOf", version)
        try:
            return reader.load(folder)
        except Exception as error:  # without Delta a class of Py4J's, which Spark Connect lacks
            if "DATA_SOURCE_NOT_FOUND" in str(error):
                raise SetupError(
                    "this Spark session can't read Delta tables: it has no Delta",
                    hint="make the session with spark_repl.build_session(), or give spark-submit"
                    " the jars that spark-repl setup --delta fetches",
                ) from error
            if "TIME_TRAVEL_BEYOND" not in str(error):
                raise
        before = self._spark.conf.get(_ENFORCED, None)
        self._spark.conf.set(_ENFORCED, "false")
        try:
            return reader.load(folder)
        finally:
            if before is None:
                self._spark.conf.unset(_ENFORCED)
            else:
                self._spark.conf.set(_ENFORCED, before)

    def union(self, pattern: str, column: str = "_shard") -> DataFrame:
        """Return all tables that ``pattern`` matches (db.table, with one ``%``) as one. Its first
        column, ``column``, has the text that ``%`` matched. The tables' columns follow, combined by
        name, and are NULL if a table lacks them. Raise ConfigError as ``Shards``, and as ``table``
        for each of them."""
        from pyspark.sql.functions import col, lit

        shards = Shards.of(pattern, {*self._tables, *self._cut.waiting})
        frames = {name: self.table(name) for name in shards.parts}
        of_each = {
            name: {field.name: field.dataType.simpleString() for field in frame.schema}
            for name, frame in frames.items()
        }
        columns = shards.union(of_each, column)
        parts = []
        for name, frame in frames.items():
            own_names = {field.lower(): field for field in of_each[name]}
            values = [
                col(quoted(own_names[column_name.lower()])).alias(column_name)
                if column_name.lower() in own_names
                else lit(None).cast(kind).alias(column_name)
                for column_name, kind in columns.items()
            ]
            parts.append(frame.select(lit(shards.parts[name]).alias(column), *values))
        return reduce(lambda left, right: left.union(right), parts)

    def manifest(self) -> dict[str, Any]:
        """Return what ``spark-repl cut export`` writes: each table's path, version, schema and
        files."""
        return manifest(self._layout, self._cut, quarantined=self._quarantined)

    def create_views(self, prefix: str = "") -> list[str]:
        """Create temporary views ``<prefix><db>_<table>`` of the tables at the cut, and return
        their names. Raise TargetError, before any view is created, if two tables would get the same
        view name."""
        views = view_names(self.tables, prefix)
        for name, view in views.items():
            self.table(name).createOrReplaceTempView(quoted(view))
        return [*views.values()]

    @property
    def histories(self) -> dict[str, DataFrame]:
        """Return the tables of mode history, by name; none of them is ever in quarantine."""
        frames = ((n, self.table(n)) for n in self._tables if n not in self._cut.quarantined)
        return {name: frame for name, frame in frames if has_history(frame)}

    def create_history_views(self, prefix: str = "") -> list[str]:
        """Create for each table of mode history the temporary views
        ``<prefix><db>_<table>_versions`` and ``_current``, and SQL functions that return its former
        rows: ``_at(gtid_executed)``, ``_at_time(moment)``, ``_at_position(position)``. Return the
        names. Raise TargetError if two would be the same."""
        return create_history_views(self.histories, self._tables, prefix)


def table_at(cut: Cut, name: str, *, quarantined: bool = False) -> TableVersion:
    """Return the path and version of ``db.table`` at a cut. Raise ConfigError if the cut has no
    such table, or has it in quarantine, unless ``quarantined``."""
    tables = reader_tables(cut)
    if waiting := cut.waiting.get(name):
        raise ConfigError(
            f"the cut does not show {name}, which waits for a copy since {waiting.since}:"
            f" {waiting.reason}",
            hint="take a cut from before that, or one that shows the copy",
        )
    if name not in tables:
        raise ConfigError(f"the cut has no table {name!r}", hint=f"it has: {', '.join(tables)}")
    if (quarantine := cut.quarantined.get(name)) and not quarantined:
        raise ConfigError(
            f"{name} is in quarantine at the cut since {quarantine.since}: {quarantine.reason}",
            hint="cut(..., quarantined=True) reads it as it was before; or take an earlier cut",
        )
    return tables[name]


def shard_column(layout: Layout, name: str) -> str:
    """Return the column that has the shards of a table that several channels feed. Raise
    TargetError if it is not recorded."""
    shared = shared_tables(Control(Layout(layout.target).control))
    if (recorded := shared.get(fold(name))) is None:
        raise TargetError(
            "what tells the channels' rows apart is not on record any more", table=name,
            hint="put the control table of the target's first channel back as it was",
        )  # fmt: skip
    return recorded.column


def view_names(tables: Iterable[str], prefix: str = "") -> dict[str, str]:
    """Return the name of each table's view. Spark treats names that differ only in case as equal.
    Raise TargetError if two tables would get the same view name."""
    views, by_view = dict[str, str](), dict[str, str]()
    for name in tables:
        views[name] = prefix + name.replace(".", "_")
        other = by_view.setdefault(fold(views[name]), name)
        if other != name:
            raise TargetError(
                f"the view of {other} would be this table's, too", table=name,
                hint=f'take these two by table("{other}") and table("{name}")',
            )  # fmt: skip
    return views


def find_cut(control: Control, at: str) -> Cut:
    """Return the cut that ``at`` selects:

    - the newest (``latest``),
    - the one that is pinned under this name,
    - the last one published by a time, in ISO 8601; without a zone in UTC,
    - the first kept one that has all transactions of a GTID set.

    Raise TargetError if there is no such cut, ConfigError if ``at`` is none of these.
    """
    snapshot = control.snapshot()
    newest = snapshot.last_cut()
    if newest is None:
        raise TargetError(
            "no cut has been published yet",
            file=control.path,
            hint=NOT_APPLIED,
        )
    if at == "latest":
        return snapshot.cut_of(newest)
    rows = list(snapshot.cut_rows())
    if is_name(at):
        pin = pinned(control, at)
        row = next(row for row in rows if (row["position"], row["at"]) == pin.cut)
        return snapshot.cut_of(row)
    if _TIME.match(at):
        return snapshot.cut_of(_published_by(rows, at, control))
    if _HOUR.fullmatch(at):
        raise ConfigError(
            f"{at!r} has no date",
            hint=f"such as {datetime.now(UTC).date()}T{'0' * (at[1] == ':')}{at}",
        )
    wanted = GtidSet.parse(at)

    def holds(row: Mapping[str, Any]) -> bool:
        return wanted.issubset(GtidSet.parse(row["gtid_executed"]))

    first = bisect_left(rows, True, key=holds)
    if first < len(rows):
        return snapshot.cut_of(rows[first])
    raise TargetError(
        f"no cut holds all of {at}",
        file=control.path,
        hint=f"the newest cut is at {newest['gtid_executed']}",
    )


def _published_by(rows: Sequence[Row], at: str, control: Control) -> Row:
    """Return the row of what readers saw as the newest state at a time, by the applier's clock."""
    try:
        time = datetime.fromisoformat(at)
    except ValueError:
        raise ConfigError(f"{at!r} is no time", hint="such as 2026-11-24T14:00:00Z") from None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    until = [row for row in rows if row["at"] <= time]
    if until:
        return max(until, key=lambda row: (row["at"], row["position"]))
    oldest = min(row["at"] for row in rows)
    raise TargetError(
        f"no cut that was published by {time.isoformat()} is kept", file=control.path,
        hint=f"the oldest one is of {oldest.isoformat()}; target.cut_retention_hours and cut pin"
        " keep cuts for longer",
    )  # fmt: skip


def cut(
    spark: SparkSession,
    target: str,
    at: str = "latest",
    *,
    quarantined: bool = False,
    channel: str = "",
) -> CutReader:
    """Return all tables of a ``channel`` below ``target`` at the cut that ``at`` selects, as in
    ``find_cut``. ``quarantined``: allow reading tables in quarantine, as they were before.

    Raise TargetError if there is no such cut. Raise ConfigError if there are several channels and
    none is named; ``joint_cut`` reads the tables of all channels.
    """
    make_readable(spark, target)
    named_channel = channel_at(target, channel)
    return CutReader(
        spark, named_channel.layout, find_cut(named_channel.control, at), quarantined=quarantined
    )


def make_readable(spark: SparkSession, target: str) -> None:
    """Raise ConfigError for a wrong ``target``, SetupError if the session can't read it."""
    from ...runtime.spark_session import (
        check_store,
    )  # imports Spark, which reading the list of cuts does not need

    if on_s3(target):
        check_store(spark)
