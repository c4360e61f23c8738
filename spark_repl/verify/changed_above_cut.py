"""Other writers' commits to a table above the version that a cut shows.

The applier sees such a commit when it next commits to the table: on a source at rest, never. Until
then the table's newest version has rows that the source does not have. Readers of cuts do not see
them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..config.renaming import SHARD, whole_of
from ..delta.log import foreign_commits
from ..delta.log.log_replay import read_commit
from ..errors import TargetError
from ..tables.case_folding import fold
from ..write.shared.shared_commits import ALONE, SharingChannels, columns_in
from ..write.tables.table_metadata import keeps_position, position_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..config import Config
    from ..delta.files.delta_columns import Columns
    from ..delta.log.log_replay import Action
    from .target_files import FileSet


def changed_above(
    folder: str, version: int, columns: Columns, app: str, sharing: SharingChannels = ALONE
) -> int | None:
    """Return the first version above ``version`` in which another writer has changed rows or
    columns.

    The channel ``app``, and channels that also feed the table, do not count as other writers.
    Return None if there is no such version, or if the rows and columns were restored. Reads the
    commits above ``version``.
    """
    sound, now = [version], columns
    changed: int | None = None

    def stays(last: int) -> bool:
        """Return whether a change by other writers is still there at version ``last``."""
        return changed is not None and not (
            now == columns and foreign_commits.same_rows(folder, last, sound)
        )

    for number in itertools.count(version + 1):
        actions = read_commit(folder, number)
        if actions is None:
            break
        if _is_ours(actions, app) or sharing.has_made(actions):
            if stays(number - 1):
                return changed
            changed, columns, sound = None, columns_in(actions) or columns, [number]
            now = columns
            continue
        now = columns_in(actions) or now
        if _is_change(number, actions, columns):
            changed = changed or number
        else:
            sound.append(number)
    return changed if stays(number - 1) else None


def rewritten_version(folder: str, version: int, columns: Columns, app: str) -> int:
    """Return the last version that has the same rows as ``version``.

    Between the two, no commit is the channel's, and none changes rows or columns. If another writer
    has rewritten files, the rows are in other files.
    """
    for number in itertools.count(version + 1):
        actions = read_commit(folder, number)
        if actions is None or _is_ours(actions, app) or _is_change(number, actions, columns):
            return number - 1
    raise AssertionError("a log has an end")


@dataclass(frozen=True)
class ByOthers:
    """A table that another writer has changed in ``version``, above the version that the cut shows.
    ``hint``: the remedy."""

    version: int
    cut_version: int
    hint: str

    @property
    def description(self) -> str:
        return (
            f"another writer changed it in version {self.version}; what was compared is version"
            f" {self.cut_version}, which the cut shows"
        )


def look_above(files: FileSet, name: str, config: Config) -> ByOthers | None:
    """Return other writers' change of a table above the version of ``files``; None if there is
    none."""
    named = (rule.channels for rule in config.tables if fold(rule.to) == fold(whole_of(name)))
    sharing = SharingChannels.beside(config.channel, next(named, ()))
    app = f"spark_repl:{config.channel}"
    changed = changed_above(files.folder, files.version, files.columns, app, sharing)
    if changed is None:
        return None
    if config.target.on_foreign_change == "accept":
        hint = (
            "on_foreign_change = accept: the next change of the table takes it over as it is; to"
            f" have the source's rows again: spark-repl snapshot --config F --table {name}"
        )
    else:
        hint = foreign_commits.way_out(files.folder, name, changed - 1, shared=SHARD in name)
    return ByOthers(changed, files.version, hint)


def _is_ours(actions: Sequence[Action], app: str) -> bool:
    return position_of(actions, app) is not None or keeps_position(actions, app)


def _is_change(version: int, actions: Sequence[Action], columns: Columns) -> bool:
    try:
        return foreign_commits.check(version, actions, columns, accept=False)
    except TargetError:
        return True
