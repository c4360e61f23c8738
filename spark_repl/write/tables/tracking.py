"""Tracking: the state of the target. Every table's position, read from its own commits, and its
live files.

A table's own commits are the truth (WL#3970): the ``txn`` action ``spark_repl:<channel>`` has the
packed relay position, userMetadata the GTID set, in the same commit as the data.

The applier has one, and a first copy has one of its own. All changes of the target go through it or
its parts, under the fence of the control table. Raises SchemaError, SettingError and TargetError.
Design: docs/design/table-definitions.md, docs/design/control-table.md.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ...config.renaming import SHARD, is_shared
from ...control.records.claimed_names import ClaimedNames, raise_setting_errors
from ...control.records.database_charsets import DatabaseCharsets
from ...control.records.definitions import Definitions
from ...control.records.durability_barrier import DurabilityBarrier
from ...control.records.name_case import NameCase, unlike_table_rule
from ...control.records.recorded_filters import RecordedFilters
from ...control.records.schema_tool_tables import SchemaToolTables
from ...control.records.shared_tables import shared_rules
from ...control.records.table_paths import MADE_BY_ROWS, shown_paths
from ...delta.log.stamp import Stamp
from ...errors import DecodeError, SchemaError, SettingError, StatementError
from ...tables.case_folding import fold, folded_definition
from ...tables.source_table import Unapplied
from ..files.key_index import KeyIndex
from ..shared.shard_tables import check_ended, not_copied
from .ahead_of_cut import TablesAhead
from .discovery import BrokenTables, Discovery, check_discovered, start_faults
from .new_tables import NewTables
from .paused_tables import QuarantinedTables, WaitingTables
from .source_description import completed
from .table_commits import TableCommits
from .table_metadata import COPIED, WITHOUT_HISTORY, user_metadata
from .table_reader import TableReader

if TYPE_CHECKING:
    from ...control.records.quarantine import Quarantine
    from ...control.table.control import Control
    from ...control.table.cut import Cut, InQuarantine, Waiting
    from ...control.table.layout import Layout
    from ...delta.log.table_log import TableLog
    from ...errors import SparkReplError
    from ...gtid import GtidSet
    from ...relay.source_places import SourcePlace
    from ...rules.column_rules import ColumnRules
    from ...sql.policy import Policy
    from ...tables.source_table import SourceTable
    from ...tables.table_keys import ForeignKey
    from ...tables.target_table import TargetTable
    from .ahead_of_cut import TableProgress
    from .discovery import DiscoveredTable
    from .table import Table
    from .target_options import TargetOptions

logger = logging.getLogger(__name__)
_POSITION = attrgetter("delta.position")


def left_out_before(name: str) -> SchemaError:
    """Return the error for a table that the filters no longer exclude, so that the target lacks its
    earlier rows."""
    return SchemaError(
        "earlier filters have left rows of the table out", table=name,
        hint=f"copy it: spark-repl snapshot --config F --table {name}; or leave it out again by"
        " [filters]",
    )  # fmt: skip


class Tracking:
    """The tables of one target and channel."""

    def __init__(
        self, layout: Layout, control: Control, delta: TableLog, options: TargetOptions
    ) -> None:
        self.layout, self.control, self.delta, self.options = layout, control, delta, options
        self.app = f"spark_repl:{control.channel}"
        self.definitions, self.left = Definitions(control), SchemaToolTables(control)
        self.databases = DatabaseCharsets(control)
        self.names = NameCase(control, options.lower_case_table_names)
        self.filters = RecordedFilters(control, options.filters, self.names)
        self.commits = TableCommits(control, delta, self.app, options)
        self.tables: dict[str, Table] = {}
        self.waiting, self.quarantine = WaitingTables(), QuarantinedTables()
        self._begun: dict[tuple[str, str], Table] = {}
        """tables that statements after the cut created, by name and statement"""
        self._beyond = TablesAhead()
        self.claimed_names = ClaimedNames(
            control, layout.target, shared_rules(options.columns.rules.rules)
        )
        self._new = NewTables(
            layout,
            control,
            delta,
            options,
            self.names,
            self.claimed_names,
            self.commits,
            self.definitions,
        )
        self._making, self._changing = threading.Lock(), threading.Lock()
        self._reader = TableReader(control, delta, self.definitions, self.names, self.app, options)
        self.barrier = DurabilityBarrier(control, layout)

    def load(self, cut: Cut | None) -> None:
        """Read every known table. Raise TargetError with all tables that other writers replaced or
        changed, and SettingError with all tables whose ``[[tables]]`` rules have changed."""
        self.tables, self._begun, self._beyond = {}, {}, TablesAhead()
        if (written := self.control.snapshot().newest_time) is not None:
            self.commits.time.follow(written.timestamp())
        self.definitions.load()
        self.left.load(cut)
        self.databases.load(cut)
        self.names.load()
        self.claimed_names.load()
        self.filters.load()
        self._new.paths.load()
        self._reader.load()
        own = self.names.of
        paths_at_cut = {own(name): path for name, path in shown_paths(self.control, cut).items()}
        self.waiting.load(cut, paths_at_cut)
        discovery = Discovery(self.control, self.layout, self.delta, self.definitions, own)
        faults, read, broken = list[SettingError](), list[Any](), BrokenTables()
        for place in discovery.tables(paths_at_cut, cut, broken):
            table = broken.noted(partial(self._read, place, cut))
            if table is None:
                continue
            if wrong := start_faults(table, self.column_rules, self.policy(table.name), self._new):
                faults += wrong
                continue
            if place.made_by == MADE_BY_ROWS:
                self.tables[table.name] = table
                self.filters.seen(table.definition)
            else:
                self._begun[table.name, place.made_by] = table
            read.append((table, place))
        check_discovered(self.commits, read, broken)
        broken.raise_all(self.filters.now.keeps)
        raise_setting_errors(faults)
        ended = self.filters.ended([*self.tables, *self.waiting])
        check_ended(ended, self.tables.values())
        self.waiting.drop(ended)
        self.tables = {name: table for name, table in self.tables.items() if name not in ended}

    def _change(self, changed: Callable[[dict[str, Table]], dict[str, Table]]) -> None:
        """Replace the tables as a whole, so that any thread may read them. Without commit order,
        several threads create tables at the same time."""
        with self._changing:
            self.tables = changed(self.tables)

    def _put(self, name: str, table: Table) -> None:
        self._change(lambda tables: {**tables, name: table})

    def _read(self, place: DiscoveredTable, cut: Cut | None) -> Table:
        beside = self._at(place.path)
        return self._reader.read(place.name, place.path, place.snapshot, cut, beside)

    def lacking(self, error: SparkReplError) -> str:
        """Return the table of an error, if the target lacks the table because earlier filters
        excluded its rows; "" otherwise. With binlog_row_metadata = MINIMAL its rows can't be read.
        """
        if not error.table or not isinstance(error, SchemaError | DecodeError | StatementError):
            return ""
        name = self.names.of(error.table)
        elsewhere = name in self.waiting or name in self.left.tables or self.live(name) is not None
        lacks = not elsewhere and self.filters.now.keeps(name)
        return name if lacks and self.filters.left_out_before(name) else ""

    @property
    def column_rules(self) -> ColumnRules:
        return self.options.columns_of(folds=self.names.folds)

    def policy(self, name: str) -> Policy:
        """Return what statements may do to the table."""
        return self.options.policy(name, folds=self.names.folds)

    def may_quarantine(self, name: str) -> bool:
        """Return whether the table goes into quarantine if a change can't be applied to it."""
        return self.options.quarantines(name, folds=self.names.folds)

    def all_tables(self) -> list[Table]:
        """Return all tables, including those whose CREATE statement has not been applied again
        yet."""
        return [*self.tables.values(), *self._begun.values()]

    @property
    def highest(self) -> int:
        """Return the highest position of any table."""
        return max(map(_POSITION, self.all_tables()), default=0)

    def logged_definitions(self) -> dict[str, SourceTable]:
        """Return the definitions of the log's rows of each table, at the log position that is being
        applied."""
        tables = [t for t in list(self.tables.values()) if not t.at_place.dropped]
        left = {t.name: t.definition for t in self.left.tables.values() if t.definition}
        return left | {t.name: t.at_place.source for t in tables}

    def foreign_keys(self) -> dict[str, tuple[ForeignKey, ...] | None]:
        """Return the foreign keys of each table that exists, or that its first TABLE_MAP will
        create; None if a table's keys are unknown."""
        keys: dict[str, tuple[ForeignKey, ...] | None] = {}
        keys.update(self.definitions.expected_keys())
        left = self.left.tables
        existing = [t for t in list(self.tables.values()) if not t.at_place.dropped]
        return keys | {
            t.name: t.at_place.source.foreign_keys for t in existing if t.name not in left
        }

    def drop(self, names: Iterable[str], position: int) -> None:
        """Remove tables from the next cut, because of a statement that ends at ``position``."""
        dropped = set(names)
        self.waiting.drop(dropped)
        self._change(lambda tables: {n: table for n, table in tables.items() if n not in dropped})
        expected = self.definitions.expected_keys()
        for name in sorted(dropped):
            if expected.get(name):
                self.definitions.expect_keys(name, (), position)

    def is_shard(self, name: str) -> bool:
        """Return whether the table is, or would be, in one Delta table with others."""
        return bool(self.options.rules_of(name, folds=self.names.folds).shards_by)

    def live(self, name: str) -> Table | None:
        """Return the table of that name, None if the source does not have it."""
        table = self.tables.get(name)
        return None if table is None or table.at_place.dropped else table

    def _set_aside(self, name: str) -> None:
        """Rename a table that the source has dropped, if its name is used again."""
        if name in self.tables and self.live(name) is None:
            names = itertools.chain([""], itertools.count(2))
            free = next(n for n in (f"{name}@dropped{i}" for i in names) if n not in self.tables)
            self.claimed_names.claim([free])
            self.tables[name].rename(free)
            self._change(lambda tables: {free if n == name else n: t for n, t in tables.items()})
            logger.warning("%s was dropped and comes again: what is kept is %s now", name, free)

    def left_out(self) -> dict[str, Unapplied]:
        """Return the tables whose rows are not applied, in the form that staging needs."""
        rowless = [t.name for t in list(self.tables.values()) if t.at_place.rowless]
        return dict.fromkeys([*self.left.tables, *self.waiting, *rowless], Unapplied.LEFT_OUT)

    def wait(self, name: str, why: Waiting) -> None:
        """Remove a table from the next cuts until it is copied. Raise TargetError for a name that
        belongs to another channel, StatementError for a shard."""
        if self.is_shard(name):
            raise not_copied(name, why.reason)
        self.claimed_names.claim([name])
        self.waiting.add(name, why)
        self._change(lambda tables: {n: table for n, table in tables.items() if n != name})

    def rename(self, before: str, after: str, position: int) -> None:
        """Rename a table from the next cut on, also in the foreign keys of other tables. Raise
        TargetError for a name that belongs to another channel."""
        if before in self.tables or before in self.waiting:
            self.claimed_names.claim([after], later=True)
        self._set_aside(after)
        table = self.tables.get(before)
        if table is not None:
            table.rename(after)
            self._change(
                lambda tables: {n: t for n, t in tables.items() if n != before} | {after: table}
            )
        self.waiting.rename(before, after)
        keys = self.definitions.expected_keys().get(before)
        if keys:
            self.definitions.expect_keys(before, (), position)
            self.definitions.expect_keys(after, keys, position)

    def define(self, table: Table, definition: TargetTable, cut: Cut) -> None:
        """Set the definition that the statement before ``cut`` gives a table. A table that is ahead
        of the statement already has this definition, or that of a later statement."""
        if self.has(table, cut):
            table.define_at_place(definition)
            return
        self.definitions.record(table.path, definition, cut.position, cut.group_gtids)
        table.definition, table.logged = definition, None

    def record_key(self, table: Table, key: tuple[int, ...], before: Cut) -> None:
        """Record the key that the log contains, as of ``before``."""
        definition = table.definition.with_source_key(key)
        self.definitions.record(table.path, definition, before.position, by_rows=True)
        table.definition = definition

    def record_logged_names(self, names: Iterable[str]) -> None:
        """Record the names of TABLE_MAPs. Raise SchemaError. Raise SettingError if the source turns
        out to fold names, and a rule would apply to a table whose rows were read without it."""
        for name in names:
            concluded = self.names.logged(name, self.tables)
            if self.names.is_new and self.options.differs_folded(name):
                raise unlike_table_rule(name, known=self.names.found_folding)
            if concluded:  # the source folds names, so the target's tables get names in lower case
                self._change(lambda tables: {fold(logged): t for logged, t in tables.items()})
                for lower, table in self.tables.items():
                    table.name, table.definition = lower, folded_definition(table.definition)

    def find_ahead(
        self, cut: Cut | None, lowest: int, since: SourcePlace | None, *, by_place: bool
    ) -> None:
        """Determine what tables have beyond the cut, for a log that is not the cut's and begins at
        ``lowest``. See ``TablesAhead.find``."""
        self._beyond.find(self.all_tables(), self.app, cut, lowest, since, by_place=by_place)

    def progress_of(self, table: Table) -> TableProgress | None:
        """Return what the table has beyond the cut, if another log was given."""
        return self._beyond.progress.get(table.path)

    def without_history(self) -> frozenset[str]:
        """Return the names of the mirrors that lack the rows from before their copy: changes of
        such rows are ignored."""
        tables = list(self.tables.values())
        return frozenset(t.name for t in tables if t.without_history and not t.definition.appends)

    def ahead(self) -> dict[str, TableProgress]:
        """Return what each table has beyond the cut, by name."""
        tables = list(self.tables.values()) if self._beyond.progress else []
        return {t.name: progress for t in tables if (progress := self.progress_of(t)) is not None}

    def is_ahead(self, position: int, executed: GtidSet, place: SourcePlace | None) -> bool:
        """Return whether a table has more than everything up to the packed ``position``; for
        another log, more than ``executed``, or more than everything before ``place``."""
        highest = max(map(_POSITION, list(self.tables.values())), default=0)
        return highest > position or self._beyond.exceeds(executed, place)

    def quarantines(self) -> dict[str, Quarantine]:
        """Return the quarantines of existing tables, by name."""
        return self.quarantine.of(self.tables)

    def quarantine_marks(self) -> dict[str, InQuarantine]:
        """Return the entries of a cut for quarantined tables."""
        return self.quarantine.marks(self.tables)

    def has(self, table: Table, cut: Cut) -> bool:
        """Return whether the table already has the result of the statement before ``cut``."""
        return self._beyond.has(table.path, cut) or table.position >= cut.position

    def create(self, definition: SourceTable, stamp: Stamp, made_by: str = MADE_BY_ROWS) -> Table:
        """Create the table, with the position in the same commit, or return the one that was
        created before a crash. ``made_by``: its CREATE TABLE; without it the table isn't complete.
        Raise TargetError."""
        shaped = self._new.shaped(definition)
        self._set_aside(shaped.name)
        begun = self._begun.pop((shaped.name, made_by), None)
        if begun is None:
            path = self._new.make(shaped, stamp, made_by, self.all_tables())
            if made_by != MADE_BY_ROWS:
                self._reader.created_paths.add(path)
            begun = self._opened(shaped.name, path)
        self._put(shaped.name, begun)
        return begun

    def create_copy(
        self, definition: SourceTable, path: str, stamp: Stamp, *, without_rows: bool = False
    ) -> Table:
        """Create the table of a copy, whose path is already in the control table. ``without_rows``:
        it stays empty until the log has rows."""
        shaped = self._new.shaped(definition)
        with self._making:  # of one Delta table
            sibling = self._at(path)
            if SHARD in path and sibling is None:
                self.definitions.load()
                exists = self.delta.snapshot(self.layout.table(path)) is not None
                if exists and (self.definitions.has(path) or not is_shared(path)):
                    sibling = self._opened(shaped.name, path)
            complete = WITHOUT_HISTORY if without_rows else COPIED
            self._new.make_copy(shaped, path, stamp, sibling, complete=complete)
            table = self._opened(shaped.name, path)
            self._put(shaped.name, table)
        return table

    def shaped(self, definition: SourceTable) -> TargetTable:
        """Return the target's table for a table of the source, without the columns that its rules
        exclude. Raise SettingError."""
        return self._new.shaped(definition)

    def stamp(self, cut: Cut) -> Stamp:
        """Return the stamp of a commit that brings a table up to ``cut``."""
        return Stamp(self.app, cut.position, user_metadata(cut, self.control.channel))

    def lacking_declarations(self) -> list[str]:
        """Return the names of the tables whose metadata lacks what MySQL declares."""
        tables = list(self.tables.values())
        return [t.name for t in tables if completed(t.snapshot, t.definition) is not None]

    def _opened(self, name: str, path: str) -> Table:
        sibling, folder = self._at(path), self.layout.table(path)
        snapshot = sibling.snapshot if sibling else self.delta.created(folder)
        snapshot = snapshot or self.delta.snapshot(folder)
        assert snapshot is not None
        return self._reader.read_created(name, path, snapshot, sibling)

    def _at(self, path: str) -> Table | None:
        """Return a table that is in the Delta table of the shard at ``path``; None for a path of no
        shard."""
        folder, tables = self.layout.table(path), self.all_tables() if SHARD in path else ()
        return next((table for table in tables if table.folder == folder), None)

    def key_index(self, table: Table) -> KeyIndex:
        schema, physical = table.definition.arrow_schema(), table.columns.physical
        types = [schema.types[physical.index(name)] for name in table.key_columns]
        folder, key = self.key_folder(table), list(table.key_columns)
        return KeyIndex(folder, table.folder, key, types, table.live_column)

    def key_folder(self, table: Table, columns: Sequence[str] = ()) -> str:
        """Return the folder of the index of the table's current key, or of ``columns`` (physical
        names)."""
        return self.layout.keys(table.path, columns or table.key_columns)
