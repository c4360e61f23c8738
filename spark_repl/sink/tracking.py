"""What the target has: every table's position, read from its own commits, and its live files.

A table's own commits are the truth (WL#3970): the ``txn`` action ``spark_repl:<channel>`` holds the
packed relay position, userMetadata the GTID set, in the same commit as the data.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from typing import Any

from ..apply.name_case import fold, folded_definition
from ..binlog.definition import ForeignKey, TableDefinition
from ..errors import FormerOwnerError, SparkReplError, TargetError
from ..gtid import GtidSet
from . import features, foreign, storage
from .alterations import Alterations
from .columns import Columns
from .control import Control, Cut
from .copies import current_paths, shown_paths
from .direct import LiveFile
from .key_index import KeyIndex
from .layout import Layout
from .log_replay import Action, commits_after, last_user_metadata
from .name_case import NameCase
from .table import LiveFiles, Table
from .table_log import ConcurrentChangeError, Snapshot, TableLog, fenced
from .table_options import TableOptions

log = logging.getLogger(__name__)

_DEFINITION, _COMPLETE = "spark_repl.definition", "spark_repl.complete"
_COPIED = "copied"  # complete from the first cut on that shows the copy
_FOREIGN = "foreign"  # rows of the control table: tables whose rows others have changed
_READ_AT_ONCE = 4  # tables


class Outcome(Enum):
    """What became of an attempt to commit. BEATEN: another commit has taken its version.
    UNKNOWN: it isn't there, and may still come."""

    LANDED, BEATEN, UNKNOWN = range(3)


class Tracking:
    """The tables of one target and channel."""

    def __init__(
        self, layout: Layout, control: Control, delta: TableLog, options: TableOptions
    ) -> None:
        self.layout, self.control, self.delta, self.options = layout, control, delta, options
        self.app = f"spark_repl:{control.channel}"
        self._alterations = Alterations(control)
        self.names = NameCase(control, options.lower_case_table_names)
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
        changed = {own(json.loads(row["detail"])["name"]) for row in self.control.rows(_FOREIGN)}
        self._shown, self._decided = shown_paths(self.control), self.control.makes_rows_differ()
        known = {own(name): path for name, path in current_paths(self.control).items()}
        at_cuts = {own(name): found for name, found in cut.tables.items()} if cut else {}
        with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
            found = pool.map(self.delta.snapshot, map(self.layout.table, known.values()))
            snapshots = dict(zip(known, found, strict=True))
        for name, path in known.items():
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
                self._check(table, at_cut.metadata_id, at_cut.version)

    def set_defaults(
        self, name: str, defaults: Sequence[tuple[str, str | None]], position: int
    ) -> None:
        table = self.tables[name]
        self._alterations.set_defaults(name, table.path, defaults, position)
        table.definition = self._alterations.of(table.path, table.definition)

    def foreign_keys(self) -> dict[str, tuple[ForeignKey, ...] | None]:
        """Of each table that is there, or is going to be made from its first TABLE_MAP; None: they
        are not known."""
        found = self._alterations.foreign_keys()
        return found | {t.name: t.definition.foreign_keys for t in list(self.tables.values())}

    def set_foreign_keys(self, name: str, keys: Sequence[ForeignKey], position: int) -> None:
        """As for ``foreign_keys``, behind a statement that ends at ``position``."""
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
                self.tables = {fold(found): table for found, table in self.tables.items()}
                for lower, table in self.tables.items():
                    table.name, table.definition = lower, folded_definition(table.definition)

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
        return Table(
            name,
            path,
            snapshot.folder,
            self._definition(path, TableDefinition.from_json(found[_DEFINITION])),
            not self._decided
            and (
                found.get(_COMPLETE) == "true"
                or (found.get(_COMPLETE) == _COPIED and path in self._shown)
            ),
            snapshot,
            position,
            Columns.of(snapshot.schema_string, snapshot.partition_columns),
        )

    def _definition(self, path: str, made: TableDefinition) -> TableDefinition:
        now = self._alterations.of(path, made)
        return folded_definition(now) if self.names.folds else now

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
        return {_DEFINITION: definition.to_json(), _COMPLETE: known}

    def refresh(self, table: Table) -> None:
        """Takes in what was committed since we last looked. Raises TargetError, FencedError,
        FormerOwnerError."""
        if self.delta.version(table.folder) != table.snapshot.version:
            self._check(table, table.snapshot.metadata_id, table.snapshot.version)

    def _check(self, table: Table, metadata_id: str, version: int) -> None:
        """Looks at all commits behind ``version``, of which those up to the table's own are known
        by their position."""
        snapshot = self.delta.snapshot(table.folder)
        if snapshot is None or snapshot.metadata_id != metadata_id:
            raise TargetError(
                "the table has been replaced by another one",
                table=table.name,
                file=table.folder,
                hint="start again with an empty target, or restore the table",
            )
        newer = commits_after(table.folder, version, snapshot.version)
        position = self._walk(table, version, newer, snapshot)
        if snapshot.version != table.snapshot.version:
            self._features(table.name, snapshot)
            table.take(snapshot, position)

    def _walk(
        self, table: Table, version: int, newer: Sequence[list[Action]], snapshot: Snapshot
    ) -> int:
        """The table's position behind the commits ``newer``, which follow ``version``. Raises for
        what others did, unless they have undone it."""
        position, sound, refused = table.position, [version], None
        for number, actions in enumerate(newer, version + 1):
            ours = _position(actions, self.app)
            if ours is None:
                try:
                    self._foreign(table, number, actions)
                except TargetError as error:
                    refused = refused or error
                if not refused:
                    sound.append(number)
                continue
            if refused:  # a commit of ours stands on it
                raise self._refused(table, refused, None)
            if number > table.snapshot.version:
                if ours != table.pending:
                    raise self.not_ours(table.name)
                position = ours
            sound = [number]
        if refused:
            if not foreign.undone(table.folder, sound, snapshot, table.columns):
                raise self._refused(table, refused, sound[-1])
            log.warning("%s: what somebody else changed was undone", table.name)
        return position

    @staticmethod
    def _refused(table: Table, error: TargetError, base: int | None) -> TargetError:
        error.hint = foreign.way_out(table.folder, table.name, base)
        return error.at(table=table.name, file=table.folder)

    def not_ours(self, name: str) -> SparkReplError:
        """What to raise for a commit of this channel that this process did not make: there is a
        second applier, or there was one, which slept and woke behind our look at the table."""
        if self.control.is_owner():
            return FormerOwnerError(
                "an applier that owned the target before has committed late", table=name
            )
        return self.control.named(fenced(name))

    def _foreign(self, table: Table, version: int, actions: list[Action]) -> None:
        """Lets pass what may be; a table whose rows others changed has keys that no log holds."""
        if foreign.check(version, actions, table.columns, accept=self.options.accept_foreign):
            log.warning("%s: somebody else changed rows in version %d", table.name, version)
            if table.complete:
                said = json.dumps({"name": table.name, "version": version})
                self.control.write(_FOREIGN, detail=said)
            table.complete = False

    def live_files(self, table: Table) -> tuple[LiveFile, ...]:
        live = self.live(table).adds
        return tuple(LiveFile(path, a.get("deletionVector")) for path, a in live.items())

    def live(self, table: Table) -> LiveFiles:
        """The files of the version that was last looked at. The table's lock is held."""
        assert table.lock.locked(), f"{table.name} is read without its lock"
        found, snapshot = table.files, table.snapshot
        if found is None or found.version != snapshot.version:
            found = LiveFiles(snapshot.version, self.delta.files(snapshot), object())
            table.files = found
        return found

    @contextmanager
    def files_there(self, tables: Iterable[Table]) -> Iterator[None]:
        """While a commit is planned on the tables, whose locks are held. A data file that is gone
        then was taken out by somebody's OPTIMIZE and removed by their VACUUM: raises
        ConcurrentChangeError, to plan anew; or TargetError, where the newest version names it."""
        try:
            yield
        except Exception as error:
            table = next((t for t in tables if storage.is_gone(error, t.folder)), None)
            if table is None:
                raise
            if self.delta.version(table.folder) != table.snapshot.version:
                raise ConcurrentChangeError(
                    "a data file is gone", table=table.name, file=table.folder
                ) from error
            raise TargetError(
                f"a data file that the table's newest version names is gone: {error}",
                table=table.name,
                file=table.folder,
                hint="bring it back from a backup of the folder, or copy the table again:"
                f" spark-repl snapshot --table {table.name}",
            ) from error

    def key_index(self, table: Table) -> KeyIndex:
        return KeyIndex(self.layout.keys(table.path), table.folder, list(table.key_columns))

    def action(self, table: Table, path: str) -> Action:
        """The ``add`` action of a file that was planned on. Raises ConcurrentChangeError when it is
        live no more."""
        found = self.live(table).adds.get(path)
        if found is None:
            raise ConcurrentChangeError(f"{path} is gone", table=table.name, file=table.folder)
        return found

    def landed(self, table: Table, actions: list[Action], position: int, version: int) -> None:
        """A commit of ours, planned on the version that was last looked at, is ``version``. What
        others have committed behind it is seen by the next ``refresh``."""
        files = self.live(table).behind(actions)
        table.take(self.delta.advance(table.snapshot, version), position, files)

    def rewritten(self, table: Table, actions: list[Action]) -> None:
        """Commits other files with the same rows, position and all else as they were."""
        version = self.delta.rewrite(table.snapshot, actions, self.app)
        self.landed(table, actions, table.position, version)

    def settle(self, table: Table, position: int) -> Outcome:
        """What became of our attempt to commit ``position``, whatever its caller was told: asked of
        the table's log.

        Raises TargetError for what others did before it, FencedError and FormerOwnerError for a
        commit that is not this process's.
        """
        if table.position >= position:
            return Outcome.LANDED
        newer = self._newer(table)
        for number, actions in enumerate(newer, table.snapshot.version + 1):
            if _position(actions, self.app) == position:
                self._take_ours(table, newer[: number - table.snapshot.version], position)
                return Outcome.LANDED
            if _position(actions, self.app) is not None:
                raise self.not_ours(table.name)
        if newer and self.delta.direct:  # on the one version that it could have been
            table.pending = None
            return Outcome.BEATEN
        return Outcome.UNKNOWN

    def merged(self, table: Table, position: int) -> None:
        """Looks at what MERGE has committed. Raises FencedError and FormerOwnerError when Delta
        passed the commit over because another applier was there, TargetError for changes of others
        below it."""
        if self.settle(table, position) is not Outcome.LANDED:
            raise self.not_ours(table.name)

    def _newer(self, table: Table) -> list[list[Action]]:
        newest = self.delta.version(table.folder)
        return commits_after(table.folder, table.snapshot.version, newest)

    def _take_ours(self, table: Table, upto: list[list[Action]], position: int) -> None:
        """``upto``: the commits behind the version that was last looked at, ours the last. MERGE
        lands above what others have committed since our plan."""
        version = table.snapshot.version
        snapshot = self.delta.snapshot(table.folder, version + len(upto))
        assert snapshot is not None
        refused: TargetError | None = None
        for number, actions in enumerate(upto[:-1], version + 1):
            try:
                self._foreign(table, number, actions)
            except TargetError as error:
                refused = refused or self._refused(table, error, None)
        table.take(snapshot, position)
        if refused:
            raise refused


def _position(actions: Sequence[Action], app: str) -> int | None:
    """The position that a commit records for ``app``."""
    found = [a["txn"]["version"] for a in actions if a.get("txn", {}).get("appId") == app]
    return int(found[0]) if found else None


def user_metadata(cut: Cut, channel: str) -> str:
    """The commit's userMetadata: everything of the channel up to this position, and the group that
    ends there."""
    found: dict[str, Any] = {
        "channel": channel,
        "log_id": cut.log_id,
        "position": cut.position,
        "gtid_executed": cut.gtid_executed,
        "group": cut.group,
        "source": dict(cut.source),
    }
    return json.dumps(found)
