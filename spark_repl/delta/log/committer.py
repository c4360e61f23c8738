"""Committer: what makes the actions of a version the table's commit of that version.

A table that the file system manages has ``FileCommitter``: the first writer that creates the
version's file has committed. A table with the feature ``catalogManaged`` belongs to a catalog, and
``delta.managed`` has its committer. ``TableLog`` chooses one by the table's protocol
(docs/design/catalog-managed.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from .commit_file import publish
from .table_protocol import features_of
from .table_snapshot import CATALOG_MANAGED

if TYPE_CHECKING:
    from .log_replay import Action
    from .log_state import LogState
    from .table_snapshot import NewTable


class Committer(Protocol):
    """Commits to tables, and finds their newest versions."""

    def create(self, folder: str, state: LogState, actions: Sequence[Action]) -> None:
        """Make ``actions`` version 0 of a new table, which has the ``state`` afterwards. Raise
        ConcurrentChangeError if there is a table, OSError and TargetError."""

    def commit(self, folder: str, before: LogState, actions: Sequence[Action]) -> None:
        """Make ``actions`` the version after ``before``. The commit is in the log on return.

        Raise ConcurrentChangeError if another commit has this version, TargetError if the commit is
        refused, and OSError if the outcome is unknown: the commit may exist, or may appear later.
        """

    def newest(self, folder: str, state: LogState) -> int:
        """Return the newest version of the table, which is at least the version of ``state`` unless
        an older state of the table was put back. Its commits are in the log on return. Raise
        OSError and TargetError."""


class TableCatalog(Committer, Protocol):
    """A catalog that manages tables."""

    def assign(self, table: str) -> str:
        """Return a folder or URI for a new table of the target, which the catalog assigns.
        ``table``: its name in the target. Raise OSError and TargetError."""

    def completed(self, folder: str, new: NewTable) -> NewTable:
        """Return the metadata of a new table with what the catalog requires, and without properties
        whose values the catalog decides. Raise OSError and TargetError."""


class FileCommitter:
    """Commits by a file that must not exist."""

    def create(self, folder: str, state: LogState, actions: Sequence[Action]) -> None:
        publish(folder, state.version, actions)

    def commit(self, folder: str, before: LogState, actions: Sequence[Action]) -> None:
        publish(folder, before.version + 1, actions)

    def newest(self, folder: str, state: LogState) -> int:
        return state.version


FILE_COMMITTER = FileCommitter()


def is_managed(state: LogState) -> bool:
    """Return whether a catalog decides which commit has a version of the table."""
    return CATALOG_MANAGED in features_of(state.protocol) if state.protocol else False
