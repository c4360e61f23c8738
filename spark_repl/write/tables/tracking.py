"""What the target has: every table's position, read from its own commits, and its live files.

A table's own commits are the truth (WL#3970): the ``txn`` action ``spark_repl:<channel>`` holds the
packed relay position, userMetadata the GTID set, in the same commit as the data.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...config.renaming import SHARD, is_shared
from ...control.records.database_charsets import DatabaseCharsets
from ...control.records.definitions import Definitions
from ...control.records.durability_barrier import DurabilityBarrier
from ...control.records.name_case import NameCase, unlike_table_rule
from ...control.records.names import Names, raise_setting_errors
from ...control.records.recorded_filters import FilterRules
from ...control.records.schema_tool_tables import SchemaToolTables
from ...control.records.shared_tables import shared_rules
from ...control.records.table_paths import MADE_BY_ROWS, shown_paths
from ...delta.stamp import Stamp
from ...errors import DecodeError, SchemaError, SettingError, StatementError
from ...sql.case_folding import fold, folded_definition
from ...tables.table_definition import LEFT_OUT
from ..files.key_index import KeyIndex
from ..shared.shard_tables import check_ended, not_copied
from .ahead_of_cut import TablesAhead
from .discovery import BrokenTables, check_places, places, start_faults
from .new_tables import NewTables
from .paused_tables import QuarantinedTables, WaitingTables
from .table_commits import TableCommits
from .table_metadata import COPIED, WITHOUT_HISTORY, user_metadata
from .table_reader import TableReader

if TYPE_CHECKING:
    from ...binlog.types.forms import Forms
    from ...control.records.quarantine import Quarantine
    from ...control.table.control import Control
    from ...control.table.cut import Cut, InQuarantine, Waiting
    from ...control.table.layout import Layout
    from ...delta.table_log import TableLog
    from ...errors import SparkReplError
    from ...gtid import GtidSet
    from ...relay.source_place import SourcePlace
    from ...rules.column_rules import ColumnRules
    from ...sql.policy import Policy
    from ...tables.table_definition import TableDefinition
    from ...tables.table_keys import ForeignKey
    from .ahead_of_cut import Held
    from .discovery import TablePlace
    from .table import Table
    from .table_options import TableOptions

log = logging.getLogger(__name__)


def left_out_before(name: str) -> SchemaError:
    """The error of a table that filters leave out no more: the target lacks rows of it."""
    return SchemaError(
        "earlier filters have left rows of the table out", table=name,
        hint=f"copy it: spark-repl snapshot --config F --table {name}; or leave it out again by"
        " [filters]",
    )  # fmt: skip


class Tracking:
    """The tables of one target and channel."""

    def __init__(
        self, layout: Layout, control: Control, delta: TableLog, options: TableOptions
    ) -> None:
        self.layout, self.control, self.delta, self.options = layout, control, delta, options
        self.app = f"spark_repl:{control.channel}"
        self.definitions, self.left = Definitions(control), SchemaToolTables(control)
        self.databases = DatabaseCharsets(control)
        self.names = NameCase(control, options.lower_case_table_names)
        self.filters = FilterRules(control, options.filters, self.names)
        self.commits = TableCommits(control, delta, self.app, options)
        self.tables: dict[str, Table] = {}
        self.waiting, self.quarantine = WaitingTables(), QuarantinedTables()
        self._begun: dict[tuple[str, str], Table] = {}
        """tables that statements behind the cut have made: by name and statement"""
        self._beyond = TablesAhead()
        self.taken = Names(control, layout.target, shared_rules(options.columns.rules.rules))
        self._new = NewTables(
            layout, control, delta, options, self.names, self.taken, self.commits, self.definitions
        )
        self._making, self._changing = threading.Lock(), threading.Lock()
        self._reader = TableReader(control, delta, self.definitions, self.names, self.app, options)
        self.settle = DurabilityBarrier(control, layout)

    def load(self, cut: Cut | None) -> None:
        """Reads every known table. Raises TargetError with all that others replaced or changed, and
        SettingError with all tables of which ``[[tables]]`` says something else now."""
        self.tables, self._begun, self._beyond = {}, {}, TablesAhead()
        if (written := self.control.snapshot().newest_time) is not None:
            self.commits.time.follow(written.timestamp())
        self.definitions.load()
        self.left.load(cut)
        self.databases.load(cut)
        self.names.load()
        self.taken.load()
        self.filters.load()
        self._new.load()
        self._reader.load()
        own = self.names.of
        shown = {own(name): path for name, path in shown_paths(self.control, cut).items()}
        self.waiting.load(cut, shown)
        faults, read, broken = list[SettingError](), list[Any](), BrokenTables()
        for place in places(self, shown, cut, broken):
            table = broken.noted(partial(self._read, place, cut))
            if table is None:
                continue
            if wrong := start_faults(self, table, self._new):
                faults += wrong
                continue
            if place.made_by == MADE_BY_ROWS:
                self.tables[table.name] = table
                self.filters.seen(table.definition)
            else:
                self._begun[table.name, place.made_by] = table
            read.append((table, place))
        check_places(self.commits, read, broken)
        broken.raise_all(self.filters.now.keeps)
        raise_setting_errors(faults)
        ended = self.filters.ended([*self.tables, *self.waiting])
        check_ended(ended, self.tables.values())
        self.waiting.drop(ended)
        self.tables = {name: table for name, table in self.tables.items() if name not in ended}

    def _change(self, changed: Callable[[dict[str, Table]], dict[str, Table]]) -> None:
        """Replace the tables as a whole, so that any thread may look at them. Without commit order
        several lanes make tables at the same time."""
        with self._changing:
            self.tables = changed(self.tables)

    def _put(self, name: str, table: Table) -> None:
        self._change(lambda tables: {**tables, name: table})

    def _read(self, place: TablePlace, cut: Cut | None) -> Table:
        beside = self._at(place.path)
        return self._reader.at(place.name, place.path, place.snapshot, cut, beside)

    def lacking(self, error: SparkReplError) -> str:
        """The table of an error, if the target doesn't have it because earlier filters have left
        its rows out; "" otherwise. Under binlog_row_metadata = MINIMAL its rows can't be read."""
        if not error.table or not isinstance(error, SchemaError | DecodeError | StatementError):
            return ""
        name = self.names.of(error.table)
        elsewhere = name in self.waiting or name in self.left.tables or self.live(name) is not None
        lacks = not elsewhere and self.filters.now.keeps(name)
        return name if lacks and self.filters.left_out_before(name) else ""

    @property
    def column_rules(self) -> ColumnRules:
        return self.options.columns_of(folds=self.names.folds)

    @property
    def forms(self) -> Forms:
        """How values are kept that Delta has no type for."""
        return self.options.forms

    def policy(self, name: str) -> Policy:
        """What statements may do to the table."""
        return self.options.policy(name, folds=self.names.folds)

    def may_quarantine(self, name: str) -> bool:
        """Whether the table goes into quarantine with a change that can't be applied to it."""
        return self.options.quarantines(name, folds=self.names.folds)

    def all_tables(self) -> list[Table]:
        """Also those that no statement has made again yet."""
        return [*self.tables.values(), *self._begun.values()]

    @property
    def highest(self) -> int:
        """The highest position of any table."""
        return max((table.position for table in self.all_tables()), default=0)

    def logged_definitions(self) -> dict[str, TableDefinition]:
        """What the log's rows of each table are, at the place that is applied."""
        tables = [t for t in list(self.tables.values()) if not t.at_place.dropped]
        left = {t.name: t.definition for t in self.left.tables.values() if t.definition}
        return left | {t.name: t.definition_in_log for t in tables}

    def foreign_keys(self) -> dict[str, tuple[ForeignKey, ...] | None]:
        """The foreign keys of each table that is there, or is going to be made from its first
        TABLE_MAP; None: they are not known."""
        keys: dict[str, tuple[ForeignKey, ...] | None] = {}
        keys.update(self.definitions.expected_keys())
        left = self.left.tables
        there = [t for t in list(self.tables.values()) if not t.at_place.dropped]
        return keys | {
            t.name: t.definition_in_log.foreign_keys for t in there if t.name not in left
        }

    def drop(self, names: Iterable[str], position: int) -> None:
        """Takes tables out of what the next cut shows, by a statement that ends at ``position``."""
        gone = set(names)
        self.waiting.drop(gone)
        self._change(lambda tables: {n: table for n, table in tables.items() if n not in gone})
        expected = self.definitions.expected_keys()
        for name in sorted(gone):
            if expected.get(name):
                self.definitions.expect_keys(name, (), position)

    def is_shard(self, name: str) -> bool:
        """Whether the table is, or would be, in one Delta table with others."""
        return bool(self.options.rules_of(name, folds=self.names.folds).shards_by)

    def live(self, name: str) -> Table | None:
        """The table of that name, if the source has it, too."""
        table = self.tables.get(name)
        return None if table is None or table.at_place.dropped else table

    def _set_aside(self, name: str) -> None:
        """Gives a table that the source has dropped another name, where its name is used again."""
        if name in self.tables and self.live(name) is None:
            names = itertools.chain([""], itertools.count(2))
            free = next(n for n in (f"{name}@dropped{i}" for i in names) if n not in self.tables)
            self.taken.claim([free])
            self.tables[name].rename(free)
            self._change(lambda tables: {free if n == name else n: t for n, t in tables.items()})
            log.warning("%s was dropped and comes again: what is kept is %s now", name, free)

    def left_out(self) -> dict[str, TableDefinition]:
        """Tables whose rows are not applied, as staging is told of them."""
        rowless = [t.name for t in list(self.tables.values()) if t.at_place.rowless]
        return dict.fromkeys([*self.left.tables, *self.waiting, *rowless], LEFT_OUT)

    def wait(self, name: str, why: Waiting) -> None:
        """Takes a table out of what the next cut shows until it is copied. Raises TargetError for a
        name that is another channel's, StatementError for a shard."""
        if self.is_shard(name):
            raise not_copied(name, why.reason)
        self.taken.claim([name])
        self.waiting.add(name, why)
        self._change(lambda tables: {n: table for n, table in tables.items() if n != name})

    def rename(self, before: str, after: str, position: int) -> None:
        """Gives a table another name from the next cut on; others that refer to it follow. Raises
        TargetError for a name that is another channel's."""
        if before in self.tables or before in self.waiting:
            self.taken.claim([after], later=True)
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

    def define(self, table: Table, definition: TableDefinition, cut: Cut) -> None:
        """Takes over what the statement before ``cut`` makes of a table's definition. A table that
        is ahead of the statement has it already, or what later ones made of it."""
        if self.has(table, cut):
            table.take_at_place(definition)
            return
        self.definitions.record(table.path, definition, cut.position, cut.group_gtids)
        table.definition, table.logged = definition, None

    def take_key(self, table: Table, key: tuple[int, ...], before: Cut) -> None:
        """Takes over the key that the log names, behind ``before``."""
        definition = table.definition.with_logged_key(key)
        self.definitions.record(table.path, definition, before.position, by_rows=True)
        table.definition = definition

    def see_logged(self, names: Iterable[str]) -> None:
        """Takes in the names of TABLE_MAPs. Raises SchemaError, and SettingError where a rule would
        be about a table's rows, which were read without it, if the source folds names."""
        for name in names:
            concluded = self.names.logged(name, self.tables)
            if self.names.is_new and self.options.differs_folded(name):
                raise unlike_table_rule(name, known=self.names.found_folding)
            if concluded:
                self._change(lambda tables: {fold(logged): t for logged, t in tables.items()})
                for lower, table in self.tables.items():
                    table.name, table.definition = lower, folded_definition(table.definition)

    def find_ahead(
        self, cut: Cut | None, lowest: int, since: SourcePlace | None, *, by_place: bool
    ) -> None:
        """Finds what tables hold beyond the cut, for a log that is not the cut's and begins at
        ``lowest``; see ``TablesAhead.find``."""
        self._beyond.find(self.all_tables(), self.app, cut, lowest, since, by_place=by_place)

    def held_by(self, table: Table) -> Held | None:
        """What the table holds beyond the cut, where such a log was given."""
        return self._beyond.of(table.path)

    def without_history(self) -> frozenset[str]:
        """Return the names of the mirrors that lack the rows from before their copy: changes of
        those are passed over."""
        tables = list(self.tables.values())
        return frozenset(t.name for t in tables if t.without_history and not t.definition.mode)

    def ahead(self) -> dict[str, Held]:
        """The same by the tables' names."""
        tables = list(self.tables.values()) if self._beyond.all() else []
        return {t.name: held for t in tables if (held := self.held_by(t)) is not None}

    def is_ahead(self, position: int, executed: GtidSet, place: SourcePlace | None) -> bool:
        """Whether a table has more than what ends at the packed ``position``, or, of another log,
        more than ``executed`` or than what is before ``place``."""
        beyond = any(table.position > position for table in list(self.tables.values()))
        return beyond or self._beyond.exceeds(executed, place)

    def quarantines(self) -> dict[str, Quarantine]:
        """The tables in quarantine that are there, by name."""
        return self.quarantine.of(self.tables)

    def quarantine_marks(self) -> dict[str, InQuarantine]:
        """What a cut says of them."""
        return self.quarantine.marks(self.tables)

    def has(self, table: Table, cut: Cut) -> bool:
        """Whether the table has already what the statement before ``cut`` makes of it."""
        return self._beyond.has(table.path, cut) or table.position >= cut.position

    def create(
        self, definition: TableDefinition, stamp: Stamp, made_by: str = MADE_BY_ROWS
    ) -> Table:
        """Makes the table, position in the same commit, or finds what was made of it before a
        crash. ``made_by``: its CREATE TABLE, without which it isn't complete. Raises
        TargetError."""
        shaped = self._new.shaped(definition)
        self._set_aside(shaped.name)
        begun = self._begun.pop((shaped.name, made_by), None)
        if begun is None:
            path = self._new.make(shaped, stamp, made_by, self.all_tables())
            if made_by != MADE_BY_ROWS:
                self._reader.made_by_statement(path)
            begun = self._opened(shaped.name, path)
        self._put(shaped.name, begun)
        return begun

    def create_copy(
        self, definition: TableDefinition, path: str, stamp: Stamp, *, without_rows: bool = False
    ) -> Table:
        """Makes the table of a copy, whose path the control table names already; ``without_rows``:
        it stays empty until the log has rows."""
        shaped = self._new.shaped(definition)
        with self._making:  # of one Delta table
            there = self._at(path)
            if SHARD in path and there is None:
                self.definitions.load()
                made = self.delta.snapshot(self.layout.table(path)) is not None
                if made and (self.definitions.has(path) or not is_shared(path)):
                    there = self._opened(shaped.name, path)
            complete = WITHOUT_HISTORY if without_rows else COPIED
            self._new.make_copy(shaped, path, stamp, there, complete=complete)
            table = self._opened(shaped.name, path)
            self._put(shaped.name, table)
        return table

    def shaped(self, definition: TableDefinition) -> TableDefinition:
        """The target's table of the source's, without what its rules leave out. Raises
        SettingError."""
        return self._new.shaped(definition)

    def stamp(self, cut: Cut) -> Stamp:
        """What a commit of the channel bears that takes a table up to ``cut``."""
        return Stamp(self.app, cut.position, user_metadata(cut, self.control.channel))

    def _opened(self, name: str, path: str) -> Table:
        there = self._at(path)
        snapshot = there.snapshot if there else self.delta.snapshot(self.layout.table(path))
        assert snapshot is not None
        return self._reader.made(name, path, snapshot, there)

    def _at(self, path: str) -> Table | None:
        """A table that is in the Delta table of the shard at ``path``; None of any other."""
        folder, there = self.layout.table(path), self.all_tables() if SHARD in path else ()
        return next((one for one in there if one.folder == folder), None)

    def key_index(self, table: Table) -> KeyIndex:
        schema, physical = table.definition.arrow_schema(), table.columns.physical
        types = [schema.types[physical.index(name)] for name in table.key_columns]
        folder, key = self.key_folder(table), list(table.key_columns)
        return KeyIndex(folder, table.folder, key, types, table.live_column)

    def key_folder(self, table: Table, columns: Sequence[str] = ()) -> str:
        """Folder of the index of the table's key, as it is now, or of these physical columns."""
        return self.layout.keys(table.path, columns or table.key_columns)
