"""What the target has: every table's position, read from its own commits, and its live files.

A table's own commits are the truth (WL#3970): the ``txn`` action ``spark_repl:<channel>`` holds the
packed relay position, userMetadata the GTID set, in the same commit as the data.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from .. import formats
from ..binlog.definition import ForeignKey, TableDefinition
from ..control.alterations import Alterations
from ..control.copies import current_paths, shown_paths
from ..control.layout import Layout
from ..control.name_case import NameCase
from ..ddl.lower_names import fold, folded_definition
from ..delta import features
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
        self._alterations = Alterations(control)
        self.names = NameCase(control, options.lower_case_table_names)
        self.commits = TableCommits(control, delta, self.app, options)
        self.tables: dict[str, Table] = {}
        self._shown: frozenset[str] = frozenset()
        self._decided = False  # then any table may have keys that no log holds
        self.ahead: dict[str, GtidSet] = {}
        """what tables hold beyond the last cut, where their positions are of another log's"""

    def load(self, cut: Cut | None) -> None:
        """Reads every known table. Raises TargetError when others replaced or changed one."""
        self._alterations.load()
        self.names.load()
        own = self.names.of
        changed = {own(json.loads(row["detail"])["name"]) for row in self.control.rows(FOREIGN)}
        self._shown, self._decided = shown_paths(self.control), self.control.makes_rows_differ()
        paths = {own(name): path for name, path in current_paths(self.control).items()}
        at_cuts = {own(name): version for name, version in cut.tables.items()} if cut else {}
        with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
            newest = pool.map(self.delta.snapshot, map(self.layout.table, paths.values()))
            snapshots = dict(zip(paths, newest, strict=True))
        for name, path in paths.items():
            folder, snapshot = self.layout.table(path), snapshots[name]
            at_cut = at_cuts.get(name)
            if at_cut is not None and at_cut.path != path:
                at_cut = None  # the cut shows what was there before a copy
            if snapshot is None:
                if at_cut is not None:
                    raise TargetError(
                        "the table is gone",
                        table=name,
                        file=folder,
                        hint="restore it, or start again with an empty target",
                    )
                continue  # the applier died between the announcement and the creation
            position = self.delta.last_txn(snapshot, self.app)
            table = self._table(name, path, snapshot, position)
            table.complete &= name not in changed
            self.tables[table.name] = table
            if at_cut is not None:
                self.commits.check(table, at_cut.metadata_id, at_cut.version, snapshot)
            else:  # in no cut yet: from its creation on
                self.commits.check(table, snapshot.metadata_id, 0, snapshot)

    def set_defaults(
        self, name: str, defaults: Sequence[tuple[str, str | None]], position: int
    ) -> None:
        table = self.tables[name]
        self._alterations.set_defaults(name, table.path, defaults, position)
        table.definition = self._alterations.of(table.path, table.definition)

    def foreign_keys(self) -> dict[str, tuple[ForeignKey, ...] | None]:
        """The foreign keys of each table that is there, or is going to be made from its first
        TABLE_MAP; None: they are not known."""
        keys = self._alterations.foreign_keys()
        return keys | {t.name: t.definition.foreign_keys for t in list(self.tables.values())}

    def set_foreign_keys(self, name: str, keys: Sequence[ForeignKey], position: int) -> None:
        """Records the foreign keys that a table has, or will have once it is made, behind a
        statement that ends at ``position``."""
        table = self.tables.get(name)
        path = table.path if table else Layout.path_of(*name.split(".", 1))
        if self._alterations.has_foreign_keys_of(path, position):
            return
        self._alterations.set_foreign_keys(name, path, keys, position)
        if table:
            table.definition = self._alterations.of(path, table.definition)

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
        for table in self.tables.values():
            if cut.position < table.position < lowest:
                metadata = last_user_metadata(table.folder, table.snapshot.version, self.app)
                if metadata is None:
                    raise TargetError(
                        "the table is ahead of the last cut, and its last commit is not in its log"
                        " any more: nobody can tell what it holds",
                        table=table.name,
                        file=table.folder,
                        hint="give the log that was applied before, or use an empty target",
                    )
                metadata = formats.unstamp(
                    metadata, _COMMIT_FORMAT, "the last commit", table.folder
                )
                self.ahead[table.name] = GtidSet.parse(json.loads(metadata)["gtid_executed"])

    def is_ahead(self, executed: GtidSet) -> bool:
        """Whether a table holds more than ``executed``, so that there is no cut."""
        return any(not held.issubset(executed) for held in self.ahead.values())

    def _table(self, name: str, path: str, snapshot: Snapshot, position: int | None) -> Table:
        properties = snapshot.configuration
        if _DEFINITION not in properties or position is None:
            raise TargetError(
                "the Delta table at this path was not made by this channel",
                table=name,
                file=snapshot.folder,
                hint="move it away, or use another target",
            )
        features.check(snapshot, direct=self.options.direct, table=name)
        definition = formats.unstamp(
            properties[_DEFINITION], _DEFINITION_FORMAT, "this table", snapshot.folder
        )
        return Table(
            name,
            path,
            snapshot.folder,
            self._definition(path, TableDefinition.from_json(definition)),
            not self._decided
            and (
                properties.get(_COMPLETE) == "true"
                or (properties.get(_COMPLETE) == _COPIED and path in self._shown)
            ),
            snapshot,
            position,
            Columns.of(snapshot.schema_string, snapshot.partition_columns),
        )

    def _definition(self, path: str, created: TableDefinition) -> TableDefinition:
        altered = self._alterations.of(path, created)
        return folded_definition(altered) if self.names.folds else altered

    def create(
        self,
        definition: TableDefinition,
        *,
        complete: bool,
        position: int,
        user_metadata: str,
        copied_to: str = "",
    ) -> Table:
        """Makes the table, position in the same commit. ``complete``: from CREATE TABLE.
        ``copied_to``: path of a copy, which the control table names already."""
        definition = self.options.forms.apply(definition)
        path = copied_to or Layout.path_of(definition.database, definition.table)
        folder = self.layout.table(path)
        if self.delta.snapshot(folder) is None:
            if not copied_to:
                announcement = {"name": definition.name, "path": path}
                self.control.write("table", position=position, detail=json.dumps(announcement))
            self.delta.create(
                folder,
                self.options.new_table(definition, self._own(definition, complete, copied_to)),
                self.app,
                position,
                user_metadata,
            )
        elif not copied_to and path not in current_paths(self.control).values():
            raise TargetError(
                "there is a Delta table already that this channel did not make",
                table=definition.name,
                file=folder,
                hint="move it away, or use another target",
            )
        snapshot = self.delta.snapshot(folder)
        assert snapshot is not None
        table = self._table(
            definition.name, path, snapshot, self.delta.last_txn(snapshot, self.app)
        )
        self.tables[definition.name] = table
        return table

    @staticmethod
    def _own(definition: TableDefinition, complete: bool, copied_to: str) -> dict[str, str]:
        complete_as = _COPIED if copied_to else str(complete).lower()
        stamped = formats.stamp(definition.to_json(), _DEFINITION_FORMAT)
        return {_DEFINITION: stamped, _COMPLETE: complete_as}

    def key_index(self, table: Table) -> KeyIndex:
        return KeyIndex(self.layout.keys(table.path), table.folder, list(table.key_columns))


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
