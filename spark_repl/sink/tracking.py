"""What the target has: every table's position, read from its own commits, and its live files.

A table's own commits are the truth (WL#3970): the ``txn`` action ``spark_repl:<channel>`` holds the
packed relay position, userMetadata the GTID set, in the same commit as the data.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from .. import formats
from ..binlog.definition import TableDefinition
from ..errors import FencedError, TargetError
from ..gtid import GtidSet
from . import features, foreign
from .columns import Columns
from .control import Control, Cut, TableVersion
from .copies import current_paths, shown_paths
from .direct import LiveFile
from .key_index import KeyIndex
from .layout import Layout
from .log_replay import Action, commits_after, last_user_metadata
from .table_log import ConcurrentChangeError, Snapshot, TableLog
from .table_options import TableOptions

log = logging.getLogger(__name__)

_DEFINITION, _COMPLETE = "spark_repl.definition", "spark_repl.complete"
_DEFINITION_FORMAT = _COMMIT_FORMAT = 1
_COPIED = "copied"  # complete from the first cut on that shows the copy
_FOREIGN = "foreign"  # rows of the control table: tables whose rows others have changed
_READ_AT_ONCE = 4  # tables


@dataclass
class Table:
    """One target table. ``position``: packed end of the last transaction in it (0: none yet)."""

    name: str
    path: str
    folder: str
    definition: TableDefinition
    complete: bool
    snapshot: Snapshot
    position: int
    columns: Columns
    _files: dict[str, Action] | None = field(default=None, repr=False)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    """held from a plan to its commit: by a group's writer, or by a compaction between two groups"""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """What tells rows apart, by its names in the data files: the key, or all columns."""
        chosen = self.definition.primary_key or range(len(self.columns.names))
        return tuple(self.columns.physical[i] for i in chosen)

    @property
    def has_vectors(self) -> bool:
        """Whether rows are marked in deletion vectors; else files that lose rows are rewritten."""
        return self.snapshot.has("delta.enableDeletionVectors")

    def version(self) -> TableVersion:
        found = self.snapshot
        return TableVersion(self.path, found.version, found.metadata_id, self.position)


class Tracking:
    """The tables of one target and channel."""

    def __init__(
        self, layout: Layout, control: Control, delta: TableLog, options: TableOptions
    ) -> None:
        self.layout, self.control, self.delta, self.options = layout, control, delta, options
        self.app = f"spark_repl:{control.channel}"
        self.tables: dict[str, Table] = {}
        self._shown: frozenset[str] = frozenset()
        self._decided = False  # then any table may have keys that no log holds
        self.ahead: dict[str, GtidSet] = {}
        """what tables hold beyond the last cut, where their positions are of another log's"""

    def load(self, cut: Cut | None) -> None:
        """Reads every known table. Raises TargetError when others replaced or changed one."""
        changed = {json.loads(row["detail"])["name"] for row in self.control.rows(_FOREIGN)}
        self._shown, self._decided = shown_paths(self.control), self.control.makes_rows_differ()
        known = current_paths(self.control)
        with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
            found = pool.map(self.delta.snapshot, map(self.layout.table, known.values()))
            snapshots = dict(zip(known, found, strict=True))
        for name, path in known.items():
            folder, snapshot = self.layout.table(path), snapshots[name]
            at_cut = cut.tables.get(name) if cut else None
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
                self._check(table, at_cut.metadata_id, at_cut.version)
        for row in self.control.rows("defaults"):
            self._take_defaults(json.loads(row["detail"]))

    def set_defaults(
        self, name: str, defaults: Sequence[tuple[str, str | None]], position: int
    ) -> None:
        """What an INSERT means from here on that leaves a column out. Everything before has been
        committed, so the table's one definition can just change."""
        detail = json.dumps({"name": name, "path": self.tables[name].path, "defaults": defaults})
        self.control.write("defaults", position=position, detail=detail)
        self._take_defaults(json.loads(detail))

    def _take_defaults(self, row: dict[str, Any]) -> None:
        table = self.tables.get(row["name"])
        if table is not None and table.path == row["path"]:
            table.definition = table.definition.with_defaults(row["defaults"])

    def find_ahead(self, cut: Cut, lowest: int) -> None:
        """In a log that is not the cut's: positions of the other log, behind the cut and below
        ``lowest``, say nothing here, so the GTIDs of the table's last commit have to."""
        for table in self.tables.values():
            if cut.position < table.position < lowest:
                said = last_user_metadata(table.folder, table.snapshot.version, self.app)
                if said is None:
                    raise TargetError(
                        "the table is ahead of the last cut, and its last commit is not in its log"
                        " any more: nobody can tell what it holds",
                        table=table.name,
                        file=table.folder,
                        hint="give the log that was applied before, or use an empty target",
                    )
                said = formats.unstamp(said, _COMMIT_FORMAT, "the last commit", table.folder)
                self.ahead[table.name] = GtidSet.parse(json.loads(said)["gtid_executed"])

    def is_ahead(self, executed: GtidSet) -> bool:
        """Whether a table holds more than ``executed``, so that there is no cut."""
        return any(not held.issubset(executed) for held in self.ahead.values())

    def _table(self, name: str, path: str, snapshot: Snapshot, position: int | None) -> Table:
        found = snapshot.configuration
        if _DEFINITION not in found or position is None:
            raise TargetError(
                "the Delta table at this path was not made by this channel",
                table=name,
                file=snapshot.folder,
                hint="move it away, or use another target",
            )
        self._features(name, snapshot)
        said = formats.unstamp(
            found[_DEFINITION], _DEFINITION_FORMAT, "this table", snapshot.folder
        )
        return Table(
            name,
            path,
            snapshot.folder,
            TableDefinition.from_json(said),
            not self._decided
            and (
                found.get(_COMPLETE) == "true"
                or (found.get(_COMPLETE) == _COPIED and path in self._shown)
            ),
            snapshot,
            position,
            Columns.of(snapshot.schema_string, snapshot.partition_columns),
        )

    def _features(self, name: str, snapshot: Snapshot) -> None:
        try:
            features.check(snapshot, direct=self.options.direct)
        except TargetError as error:
            raise error.at(table=name) from None

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
                known = {"name": definition.name, "path": path}
                self.control.write("table", position=position, detail=json.dumps(known))
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
        known = _COPIED if copied_to else str(complete).lower()
        said = formats.stamp(definition.to_json(), _DEFINITION_FORMAT)
        return {_DEFINITION: said, _COMPLETE: known}

    def refresh(self, table: Table) -> None:
        """Takes in what others committed since we last looked. Raises TargetError, FencedError."""
        if self.delta.version(table.folder) != table.snapshot.version:
            self._check(table, table.snapshot.metadata_id, table.snapshot.version)

    def _check(self, table: Table, metadata_id: str, version: int) -> None:
        snapshot = self.delta.snapshot(table.folder)
        if snapshot is None or snapshot.metadata_id != metadata_id:
            raise TargetError(
                "the table has been replaced by another one",
                table=table.name,
                file=table.folder,
                hint="start again with an empty target, or restore the table",
            )
        own = table.snapshot.version
        for number, actions in enumerate(
            commits_after(table.folder, version, snapshot.version), version + 1
        ):
            ours = any(a.get("txn", {}).get("appId") == self.app for a in actions)
            if ours and number > own:
                raise FencedError(
                    f"another applier committed version {number}",
                    table=table.name,
                    hint="only one applier may work on a channel: stop the other one",
                )
            if not ours:
                self._foreign(table, number, actions)
        if snapshot.version != own:
            self._features(table.name, snapshot)
            table.snapshot, table._files = snapshot, None

    def _foreign(self, table: Table, version: int, actions: list[Action]) -> None:
        """Lets pass what may be; a table whose rows others changed has keys that no log holds."""
        try:
            changed = foreign.check(
                version, actions, table.columns, accept=self.options.accept_foreign
            )
        except TargetError as error:
            raise error.at(table=table.name, file=table.folder) from None
        if changed:
            log.warning("%s: somebody else changed rows in version %d", table.name, version)
            if table.complete:
                said = json.dumps({"name": table.name, "version": version})
                self.control.write(_FOREIGN, detail=said)
            table.complete = False

    def live_files(self, table: Table) -> tuple[LiveFile, ...]:
        return tuple(
            LiveFile(path, a.get("deletionVector")) for path, a in self.live(table).items()
        )

    def live(self, table: Table) -> dict[str, Action]:
        """The ``add`` action of each live file. The same object as long as nobody else commits."""
        if table._files is None:
            table._files = self.delta.files(table.snapshot)
        return table._files

    def key_index(self, table: Table) -> KeyIndex:
        return KeyIndex(self.layout.keys(table.path), table.folder, list(table.key_columns))

    def action(self, table: Table, path: str) -> Action:
        """The ``add`` action of a file that was planned on. Raises ConcurrentChangeError when it is
        live no more."""
        found = self.live(table).get(path)
        if found is None:
            raise ConcurrentChangeError(f"{path} is gone", table=table.name, file=table.folder)
        return found

    def landed(self, table: Table, actions: list[Action], position: int) -> None:
        """Keeps the list of live files in step with a commit of ours that has just landed."""
        files = self.live(table)
        for action in actions:
            if "remove" in action:
                files.pop(action["remove"]["path"])
        for action in actions:
            if "add" in action:
                files[action["add"]["path"]] = action["add"]
        snapshot = self.delta.advance(table.snapshot)
        if snapshot.version != table.snapshot.version + 1:
            table._files = None  # others committed before or after ours: read the list anew
        table.snapshot, table.position = snapshot, position

    def rewritten(self, table: Table, actions: list[Action]) -> None:
        """Commits other files with the same rows, position and all else as they were."""
        self.delta.rewrite(table.snapshot, actions, self.app)
        self.landed(table, actions, table.position)

    def settle(self, table: Table, position: int) -> bool:
        """Whether our commit at ``position`` is in the table, whatever its caller was told."""
        if table.position >= position:
            return True
        snapshot = self.delta.snapshot(table.folder)
        assert snapshot is not None
        found = self.delta.last_txn(snapshot, self.app)
        if found is None or found < position:
            return False
        table.snapshot, table.position, table._files = snapshot, found, None
        return True

    def merged(self, table: Table, position: int) -> None:
        """Looks at what MERGE has committed: it must be ours, and next to what we knew.

        Raises FencedError when Delta passed the commit over because another applier was there.
        """
        snapshot = self.delta.snapshot(table.folder)
        assert snapshot is not None
        newer = commits_after(table.folder, table.snapshot.version, snapshot.version)
        mine = newer and any(
            action.get("txn", {}).get("appId") == self.app and action["txn"]["version"] == position
            for action in newer[-1]
        )
        if not mine:
            raise FencedError(
                "the newest version is not the one that was just committed",
                table=table.name,
                hint="only one applier may work on a channel: stop the other one",
            )
        known = table.snapshot.version
        table.snapshot, table.position, table._files = snapshot, position, None
        for version, actions in enumerate(newer[:-1], known + 1):
            self._foreign(table, version, actions)  # Delta let our MERGE land behind it


def user_metadata(cut: Cut, channel: str) -> str:
    """The commit's userMetadata: everything of the channel up to this position."""
    found: dict[str, Any] = {
        "channel": channel,
        "log_id": cut.log_id,
        "position": cut.position,
        "gtid_executed": cut.gtid_executed,
        "source": dict(cut.source),
    }
    return formats.stamp(json.dumps(found), _COMMIT_FORMAT)
