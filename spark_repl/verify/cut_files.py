"""CutFiles: the files of the tables at a cut, digested and compared.

A table that lacks a file is left out, unless another writer has rewritten the file since: then the
version that has its rows is read. ``files_of`` reads the live files of a version from the log.

``CutDefinitions`` has the definitions of the tables at a cut, by the statements up to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..control.records.definitions import Definitions
from ..delta.files.delta_columns import Columns
from ..errors import TargetError
from ..gtid import GtidSet
from ..runtime.retry import first_line
from ..write.tables.table_metadata import COMPLETE, DEFINITION, WITHOUT_HISTORY, created
from .changed_above_cut import rewritten_version
from .target_files import FileSet, lacking

if TYPE_CHECKING:
    from ..control.table.control import Control
    from ..control.table.cut import Cut, TableVersion
    from ..control.table.layout import Layout
    from ..delta.log.table_log import TableLog
    from ..delta.log.table_snapshot import Snapshot
    from ..tables.target_table import TargetTable
    from .source_range import RangeRows
    from .table_check import TableCheck
    from .target_files import FileTask

logger = logging.getLogger(__name__)

Files = Callable[[str, int], FileSet]
"""a table's folder and version -> its live files"""


@dataclass
class CutFiles:
    """Files of a cut's tables. ``sets``: each table's files, with the compared columns;
    ``all_columns``: the same files with all columns. ``app``: the channel's appId; ``left_out``:
    table -> reason."""

    checks: Mapping[str, TableCheck]
    sets: dict[str, FileSet]
    all_columns: Mapping[str, FileSet]
    files: Files
    app: str
    left_out: dict[str, str] = field(default_factory=dict)

    def digest(self, run: Callable[[list[FileTask]], object]) -> None:
        """Digest the files; continue without a table that lacks one. ``run`` runs the tasks."""
        while True:
            tasks = [
                task
                for name, at in self.sets.items()
                for task in at.tasks(
                    self.checks[name].work, self.checks[name].definition.arrow_schema(),
                    self.checks[name].definition.primary_key, self.checks[name].sample,
                )
            ]  # fmt: skip
            try:
                run(tasks)
            except Exception as error:
                if not self._lacks(error):
                    raise
            else:
                return

    def compare(
        self, read: Mapping[str, Sequence[RangeRows]], run: Callable[[list[FileTask]], object]
    ) -> None:
        """Compare each unchanged table's files with the ranges ``read`` from the source."""
        for name in [name for name in self.sets if not self.checks[name].changed]:
            while name in self.sets:
                try:
                    self.checks[name].compare(read.get(name, []), self.sets[name])
                    break
                except Exception as error:
                    if not self._lacks(error):
                        raise
                self.digest(run)

    def _lacks(self, error: Exception) -> bool:
        """Return whether an error of reading means that a table lacks a file. Leave that table out,
        or choose another version of it."""
        name = lacking(error, self.sets)
        if name is not None and not self._takes_rewritten(name):
            del self.sets[name]
            self.left_out[name] = f"a data file is gone: {first_line(error)}"
        return name is not None

    def _takes_rewritten(self, name: str) -> bool:
        """Return whether a later version has the same rows; if so, choose its files."""
        at = self.sets[name]
        version = rewritten_version(at.folder, at.version, self.all_columns[name].columns, self.app)
        if version == at.version:
            return False
        logger.warning(
            "%s: a data file that the cut shows is gone; version %d, in which another writer"
            " has rewritten its rows, is compared", name, version,
        )  # fmt: skip
        files = self.files(at.folder, version).files
        self.sets[name] = replace(at, version=version).with_files(files)
        return True


def files_of(log: TableLog, folder: str, version: int) -> FileSet:
    """Return the live files of one version. Raise TargetError if the table does not exist."""
    snapshot = snapshot_of(log, folder, version)
    columns = Columns.of(snapshot.schema_string, snapshot.partition_columns)
    return FileSet(folder, version, snapshot.schema_string, columns, log.files(snapshot))


def snapshot_of(log: TableLog, folder: str, version: int) -> Snapshot:
    """Return the snapshot of one version. Raise TargetError if the table does not exist."""
    snapshot = log.snapshot(folder, version)
    if snapshot is None:
        raise TargetError(
            "the cut names a table that does not exist", file=folder,
            hint="copy the table again if another program removed it: spark-repl snapshot"
            " --config F --table DB.T",
        )  # fmt: skip
    return snapshot


class CutDefinitions:
    """Definitions of tables at cuts; the recorded statements are read once for each cut."""

    def __init__(self, control: Control, layout: Layout, log: TableLog) -> None:
        self._layout, self._log, self._definitions = layout, log, Definitions(control)
        self._read_for: Cut | None = None

    def of(self, cut: Cut, at: TableVersion) -> TargetTable | None:
        """Return the definition of one of the cut's tables. Return None if it is not recorded,
        because another writer has replaced the table's properties. Raise TargetError if the table
        does not exist."""
        if self._read_for is not cut:
            self._definitions.load()
            self._read_for = cut
        executed = GtidSet.parse(cut.gtid_executed)
        changed = self._definitions.at(at.path, max(at.position, cut.position), executed)
        if changed is not None:
            return changed
        snapshot = snapshot_of(self._log, self._layout.table(at.path), at.version)
        return created(snapshot) if DEFINITION in snapshot.configuration else None

    def is_without_history(self, at: TableVersion) -> bool:
        """Return whether one of a cut's tables started without rows. Raise TargetError if it does
        not exist."""
        snapshot = snapshot_of(self._log, self._layout.table(at.path), at.version)
        return snapshot.configuration.get(COMPLETE) == WITHOUT_HISTORY
