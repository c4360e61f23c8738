"""What the target has: every table's position, read from its own commits, and its live files.

A table's own commits are the truth (WL#3970): the ``txn`` action ``spark_repl:<channel>`` holds the
packed relay position, userMetadata the GTID set, in the same commit as the data.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import formats
from ..binlog.definition import ForeignKey, TableDefinition
from ..control.copies import consistent_paths
from ..control.definitions import Definitions
from ..control.layout import Layout
from ..control.name_case import NameCase
from ..control.table_paths import (
    MADE_BY_ROWS,
    announce,
    made_behind,
    shown_paths,
    used_paths,
)
from ..ddl.lower_names import fold, folded_definition
from ..ddl.renamed import rename
from ..delta import features, storage
from ..delta.columns import Columns
from ..delta.log_replay import last_user_metadata
from ..errors import TargetError
from ..gtid import GtidSet
from .key_index import KeyIndex
from .table import Table
from .table_commits import FOREIGN, TableCommits

if TYPE_CHECKING:
    from ..control.control import Control
    from ..control.cut import Cut
    from ..delta.table_log import Snapshot, TableLog
    from .table_options import TableOptions

log = logging.getLogger(__name__)

_DEFINITION, _COMPLETE = "spark_repl.definition", "spark_repl.complete"
_DEFINITION_FORMAT = _COMMIT_FORMAT = 1
_COPIED = "copied"  # complete from the first cut on that shows the copy
_READ_AT_ONCE = 4  # tables


class Tracking:
    """The tables of one target and channel."""

    def __init__(
        self, layout: Layout, control: Control, delta: TableLog, options: TableOptions
    ) -> None:
        self.layout, self.control, self.delta, self.options = layout, control, delta, options
        self.app = f"spark_repl:{control.channel}"
        self.definitions = Definitions(control)
        self.names = NameCase(control, options.lower_case_table_names)
        self.commits = TableCommits(control, delta, self.app, options)
        self.tables: dict[str, Table] = {}
        self._begun: dict[tuple[str, str], Table] = {}
        """tables that statements behind the cut have made: by name and statement"""
        self._consistent: frozenset[str] = frozenset()
        self._decided = False  # then any table may have keys that no log holds
        self._ahead: dict[str, GtidSet] = {}  # by path
        self._used: set[str] = set()  # paths, as far as they were given when it was loaded

    def load(self, cut: Cut | None) -> None:
        """Reads every known table. Raises TargetError when others replaced or changed one."""
        self.definitions.load()
        self.names.load()
        self._used = used_paths(self.control)
        own = self.names.of
        changed = {own(json.loads(row["detail"])["name"]) for row in self.control.rows(FOREIGN)}
        self._consistent = consistent_paths(self.control)
        self._decided = self.control.makes_rows_differ()
        places = {
            (own(n), MADE_BY_ROWS): path for n, path in shown_paths(self.control, cut).items()
        }
        for made in made_behind(self.control, cut):
            places.setdefault((own(made.name), made.made_by), made.path)
        at_cuts = {own(name): version for name, version in cut.tables.items()} if cut else {}
        with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
            newest = pool.map(self.delta.snapshot, map(self.layout.table, places.values()))
            snapshots = dict(zip(places, newest, strict=True))
        for (name, made_by), path in places.items():
            at_cut, snapshot = at_cuts.get(name), snapshots[name, made_by]
            if at_cut is not None and at_cut.path != path:
                at_cut = None  # the cut shows what was there before a copy, or another table
            if snapshot is None:
                if at_cut is not None:
                    raise TargetError(
                        "the table is gone",
                        table=name,
                        file=self.layout.table(path),
                        hint="restore it, or start again with an empty target",
                    )
                continue  # the applier died between the announcement and the creation
            table = self._loaded(name, path, snapshot, cut)
            table.complete &= name not in changed
            if made_by == MADE_BY_ROWS:
                self.tables[table.name] = table
            else:
                self._begun[table.name, made_by] = table
            if at_cut is not None:
                self.commits.check(table, at_cut.metadata_id, at_cut.version, snapshot)
            else:  # in no cut yet: from its creation on
                self.commits.check(table, snapshot.metadata_id, 0, snapshot)

    def _loaded(self, name: str, path: str, snapshot: Snapshot, cut: Cut | None) -> Table:
        """A table as it is, and, where it is ahead of the cut, as the log has it at the cut."""
        table = self._table(name, path, snapshot)
        executed = GtidSet.parse(cut.gtid_executed) if cut else GtidSet()
        at_cut = self.definitions.at(path, cut.position if cut else -1, executed)
        table.definition = self._named(name, at_cut or self._created(snapshot))
        if self.definitions.has(path) and (not cut or table.position > cut.position):
            held = executed.union(self._held(snapshot) or GtidSet())
            table.logged = table.definition
            now = self.definitions.at(path, table.position, held)
            table.definition = self._named(name, now or self._created(snapshot))
        return table

    def _held(self, snapshot: Snapshot) -> GtidSet | None:
        """What the last commit of this channel says that the table holds; None where it is not in
        the table's log any more."""
        metadata = last_user_metadata(snapshot.folder, snapshot.version, self.app)
        if metadata is None:
            return None
        text = formats.unstamp(metadata, _COMMIT_FORMAT, "the last commit", snapshot.folder)
        return GtidSet.parse(json.loads(text).get("gtid_executed", ""))

    @property
    def highest(self) -> int:
        """The highest position of any table, also of one that no statement has made again yet."""
        tables = [*self.tables.values(), *self._begun.values()]
        return max((table.position for table in tables), default=0)

    def logged_definitions(self) -> dict[str, TableDefinition]:
        """What the log's rows of each table are, at the place that is applied."""
        return {t.name: t.definition_in_log for t in list(self.tables.values())}

    def foreign_keys(self) -> dict[str, tuple[ForeignKey, ...] | None]:
        """The foreign keys of each table that is there, or is going to be made from its first
        TABLE_MAP; None: they are not known."""
        keys: dict[str, tuple[ForeignKey, ...] | None] = {}
        keys.update(self.definitions.expected_keys())
        return keys | {n: d.foreign_keys for n, d in self.logged_definitions().items()}

    def drop(self, names: Iterable[str], position: int) -> None:
        """Takes tables out of what the next cut shows, by a statement that ends at ``position``."""
        gone = set(names)
        self.tables = {name: table for name, table in self.tables.items() if name not in gone}
        expected = self.definitions.expected_keys()
        for name in sorted(gone):
            if expected.get(name):
                self.definitions.expect_keys(name, (), position)

    def rename(self, before: str, after: str, position: int) -> None:
        """Gives a table another name from the next cut on; others that refer to it follow."""
        tables = dict(self.tables)
        table = tables.pop(before, None)
        if table is not None:
            table.rename(after)
            tables[after] = table
        self.tables = tables
        keys = self.definitions.expected_keys().get(before)
        if keys:
            self.definitions.expect_keys(before, (), position)
            self.definitions.expect_keys(after, keys, position)

    def define(self, table: Table, definition: TableDefinition, cut: Cut) -> None:
        """Takes over what the statement before ``cut`` makes of a table's definition. A table that
        is ahead of the statement has it already, or what later ones made of it."""
        if self.has(table, cut):
            table.logged = definition
            return
        self.definitions.record(table.path, definition, cut.position, cut.group)
        table.definition, table.logged = definition, None

    def take_key(self, table: Table, key: tuple[int, ...], before: Cut) -> None:
        """Takes over the key that the log names, behind ``before``."""
        definition = replace(table.definition, primary_key=key)
        self.definitions.record(table.path, definition, before.position)
        table.definition = definition

    def see_logged(self, names: Iterable[str]) -> None:
        """Takes in the names of TABLE_MAPs. Raises SchemaError."""
        for name in names:
            if self.names.logged(name, self.tables):
                self.tables = {fold(logged): table for logged, table in self.tables.items()}
                for lower, table in self.tables.items():
                    table.name, table.definition = lower, folded_definition(table.definition)

    def find_ahead(self, cut: Cut, lowest: int) -> None:
        """Fills ``ahead`` for a log that is not the cut's. Positions of the other log, behind the
        cut and below ``lowest``, say nothing here: the GTIDs of a table's last commit have to."""
        for table in [*self.tables.values(), *self._begun.values()]:
            if cut.position < table.position < lowest:
                held = self._held(table.snapshot)
                if held is None:
                    raise TargetError(
                        "the table is ahead of the last cut, and its last commit is not in its log"
                        " any more: nobody can tell what it holds",
                        table=table.name,
                        file=table.folder,
                        hint="give the log that was applied before, or use an empty target",
                    )
                self._ahead[table.path] = held

    def is_ahead(self, executed: GtidSet) -> bool:
        """Whether a table holds more than ``executed``, so that there is no cut."""
        return any(not held.issubset(executed) for held in self._ahead.values())

    def ahead(self) -> dict[str, GtidSet]:
        """What tables hold beyond the last cut, where their positions are of another log's."""
        tables = list(self.tables.values())
        return {t.name: self._ahead[t.path] for t in tables if t.path in self._ahead}

    def has(self, table: Table, cut: Cut) -> bool:
        """Whether the table has already what the statement before ``cut`` makes of it."""
        held, gtids = self._ahead.get(table.path), GtidSet.parse(cut.group)
        if held is not None and gtids and gtids.issubset(held):
            return True
        return table.position >= cut.position

    def _table(self, name: str, path: str, snapshot: Snapshot) -> Table:
        """A table as it was created."""
        properties, position = snapshot.configuration, self.delta.last_txn(snapshot, self.app)
        if _DEFINITION not in properties or position is None:
            raise TargetError(
                "the Delta table at this path was not made by this channel",
                table=name, file=snapshot.folder, hint="move it away, or use another target",
            )  # fmt: skip
        features.check(snapshot, direct=self.options.direct, table=name)
        return Table(
            name,
            path,
            snapshot.folder,
            self._named(name, self._created(snapshot)),
            not self._decided
            and (
                properties.get(_COMPLETE) == "true"
                or (properties.get(_COMPLETE) == _COPIED and path in self._consistent)
            ),
            snapshot,
            position,
            Columns.of(snapshot.schema_string, snapshot.partition_columns),
        )

    @staticmethod
    def _created(snapshot: Snapshot) -> TableDefinition:
        """The table's definition as it was created."""
        text = snapshot.configuration[_DEFINITION]
        return TableDefinition.from_json(
            formats.unstamp(text, _DEFINITION_FORMAT, "this table", snapshot.folder)
        )

    def _named(self, name: str, definition: TableDefinition) -> TableDefinition:
        """The definition under the name that the table has now."""
        if definition.name != name and not self.names.folds:
            return rename(definition, name)
        return folded_definition(definition) if self.names.folds else definition

    def create(
        self,
        definition: TableDefinition,
        *,
        complete: bool,
        position: int,
        user_metadata: str,
        made_by: str = MADE_BY_ROWS,
    ) -> Table:
        """Makes the table, position in the same commit, or finds what was made of it before a
        crash. ``complete``: from CREATE TABLE; ``made_by``: that statement. Raises TargetError."""
        definition = self.options.forms.apply(definition)
        begun = self._begun.pop((definition.name, made_by), None)
        if begun is None:
            path = self._new_path(definition)
            announce(self.control, definition.name, path, position, made_by)
            self._make(definition, path, position, user_metadata, str(complete).lower())
            begun = self._opened(definition.name, path)
        self.tables = {**self.tables, definition.name: begun}
        return begun

    def create_copy(
        self, definition: TableDefinition, path: str, position: int, user_metadata: str
    ) -> Table:
        """Makes the table of a copy, whose path the control table names already."""
        definition = self.options.forms.apply(definition)
        if self.delta.snapshot(self.layout.table(path)) is None:
            self._make(definition, path, position, user_metadata, _COPIED)
        table = self._opened(definition.name, path)
        self.tables = {**self.tables, definition.name: table}
        return table

    def _new_path(self, definition: TableDefinition) -> str:
        path = Layout.path_of(definition.database, definition.table)
        if path not in self._used and not storage.exists(self.layout.table(path)):
            self._used.add(path)  # without a look at all that the control table holds
            return path
        used = used_paths(self.control)
        if path not in used and self.delta.snapshot(self.layout.table(path)) is not None:
            raise TargetError(
                "there is a Delta table already that this channel did not make",
                table=definition.name, file=self.layout.table(path),
                hint="move it away, or use another target",
            )  # fmt: skip
        return self.layout.fresh_path(definition.database, definition.table, used)

    def _make(
        self, definition: TableDefinition, path: str, position: int, metadata: str, complete: str
    ) -> None:
        stamped = formats.stamp(definition.to_json(), _DEFINITION_FORMAT)
        own = {_DEFINITION: stamped, _COMPLETE: complete}
        new = self.options.new_table(definition, own)
        self.delta.create(self.layout.table(path), new, self.app, position, metadata)

    def _opened(self, name: str, path: str) -> Table:
        snapshot = self.delta.snapshot(self.layout.table(path))
        assert snapshot is not None
        return self._table(name, path, snapshot)

    def key_index(self, table: Table) -> KeyIndex:
        schema, physical = table.definition.arrow_schema(), table.columns.physical
        types = [schema.types[physical.index(name)] for name in table.key_columns]
        return KeyIndex(self.key_folder(table), table.folder, list(table.key_columns), types)

    def key_folder(self, table: Table) -> str:
        """Folder of the index of the table's key, as it is now."""
        return self.layout.keys(table.path, table.key_columns)


def user_metadata(cut: Cut, channel: str) -> str:
    """The commit's userMetadata: everything of the channel up to this position, and the group that
    ends there."""
    fields: dict[str, Any] = {
        "channel": channel,
        "log_id": cut.log_id,
        "position": cut.position,
        "gtid_executed": cut.gtid_executed,
        "group": cut.group,
        "source": dict(cut.source),
    }
    return formats.stamp(json.dumps(fields), _COMMIT_FORMAT)
