"""Discovery: a start finds the tables of the target, and which version the cut shows of each.

A start reports all broken tables together: a copy of one of them would only let it reach the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ...config.renaming import SHARD, is_shared
from ...control.records.copies import standing
from ...control.records.table_paths import MADE_BY_ROWS, announced_after
from ...errors import BEGIN_AGAIN, SettingError, TargetError
from ...runtime.threads import map_at_once
from ..shared.shard_tables import check_policy, check_put_back
from .logged_shape import check_columns
from .table_commits import gone_table, overwritten_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ...control.records.definitions import Definitions
    from ...control.table.control import Control
    from ...control.table.cut import Cut, TableVersion
    from ...control.table.layout import Layout
    from ...delta.log.table_log import TableLog
    from ...delta.log.table_snapshot import Snapshot
    from ...rules.column_rules import ColumnRules
    from ...sql.policy import Policy
    from .new_tables import NewTables
    from .table import Table
    from .table_commits import TableCommits

_READ_AT_ONCE = 16
"""tables that are read in parallel; on an object store, each takes four requests in sequence"""


@dataclass(frozen=True)
class DiscoveredTable:
    """A table, or one that a statement after the cut created (``made_by``). ``at_cut``: its version
    at the cut, None if the cut does not show it; ``since``: a start reads all commits after this
    version."""

    name: str
    made_by: str
    path: str
    snapshot: Snapshot
    at_cut: TableVersion | None
    since: int


@dataclass(frozen=True)
class Discovery:
    """Finds the tables of a target. ``own``: returns a name with the letter case that the source
    uses."""

    control: Control
    layout: Layout
    delta: TableLog
    definitions: Definitions
    own: Callable[[str], str]

    def tables(
        self, paths_at_cut: Mapping[str, str], cut: Cut | None, broken: BrokenTables
    ) -> Iterator[DiscoveredTable]:
        """Yield each table that exists. ``paths_at_cut``: the paths at the cut. If a table that the
        cut shows no longer exists, add it to ``broken``."""
        paths = {(name, MADE_BY_ROWS): path for name, path in paths_at_cut.items()}
        copy = standing(self.control).copy
        first_versions = {
            self.layout.table(path_in_copy): since
            for path_in_copy, since in (copy.since if copy else {}).items()
        }
        for created in announced_after(self.control, cut):
            # The statement of a table at the cut is not applied again.
            if created.path not in paths_at_cut.values():
                paths.setdefault((self.own(created.name), created.made_by), created.path)
            if is_shared(created.path):
                folder, first = self.layout.table(created.path), created.since
                first_versions[folder] = min(first, first_versions.get(folder, first))
        at_cuts = {self.own(name): version for name, version in cut.tables.items()} if cut else {}
        folder_of = self.layout.table
        folders = sorted({*map(folder_of, paths.values())})
        read = map_at_once(self.delta.snapshot, folders, _READ_AT_ONCE)
        snapshots = dict(zip(folders, read, strict=True))
        since = first_versions | {
            folder_of(table.path): table.version for table in at_cuts.values()
        }
        for (name, made_by), path in paths.items():
            at_cut, folder = at_cuts.get(name), folder_of(path)
            if at_cut is not None and at_cut.path != path:
                at_cut = None  # the cut shows the table before a copy, or another table
            snapshot, shard = snapshots[folder], SHARD in path
            if snapshot is None and at_cut is not None:
                broken.errors.append(gone_table(name, folder))
            if shard and not self.definitions.has(path):
                snapshot = None
                if at_cut is not None:
                    raise TargetError(
                        "the control table does not say any more what the table is", table=name,
                        hint=f"put the control table back as it was, or {BEGIN_AGAIN}",
                    )  # fmt: skip
            # Without a snapshot the applier died before it created the announced table.
            if snapshot is not None:
                version = since.get(folder, 0) if at_cut or shard else 0
                yield DiscoveredTable(name, made_by, path, snapshot, at_cut, version)


def check_discovered(
    commits: TableCommits, tables: Iterable[tuple[Table, DiscoveredTable]], broken: BrokenTables
) -> None:
    """Check the commits to tables since the cut. A Delta table that several channels feed is
    checked once for all of its shards. Add broken tables to ``broken``. Raise what
    ``TableCommits.check`` raises."""
    seen = set[str]()
    for table, place in tables:
        if table.is_shared:
            check_put_back(table, place.at_cut)
            if table.folder in seen:
                continue
            seen.add(table.folder)
        broken.noted(partial(_check, commits, table, place))


def _check(commits: TableCommits, table: Table, place: DiscoveredTable) -> None:
    metadata_id = (place.at_cut or place.snapshot).metadata_id
    commits.check(table, metadata_id, place.since, place.snapshot)
    if place.at_cut and table.position < place.at_cut.position:
        raise overwritten_table(table.name, table.folder, place.at_cut.version)


T = TypeVar("T")


class BrokenTables:
    """Errors that a start finds in tables of the target."""

    def __init__(self) -> None:
        self.errors: list[TargetError] = []

    def noted(self, read: Callable[[], T]) -> T | None:
        """Return what ``read`` returns. After a TargetError that names a table, add the error and
        return None. Raise errors of its subclasses, because they concern more than one table."""
        try:
            return read()
        except TargetError as error:
            if type(error) is not TargetError or not error.table:
                raise
            self.errors.append(error)
            return None

    def raise_all(self, keeps: Callable[[str], bool]) -> None:
        """Raise TargetError if a table that the filters keep is broken. If there is only one, raise
        its own error; otherwise raise one error with all tables and a command that copies them
        together."""
        by_table = {str(error.table): error for error in self.errors}
        errors = [error for name, error in by_table.items() if keeps(name)]
        if len(errors) < 2:
            for error in errors:
                raise error
            return
        listed = "".join(f"\n  - {error.table}: {error.message}" for error in errors)
        names = [str(error.table) for error in errors]
        alone = [name for name in names if SHARD not in name]
        shards = [error.hint for error in errors if SHARD in str(error.table) and error.hint]
        named = " ".join(f"--table {name}" for name in alone)
        copied = [f"copy them again together: spark-repl snapshot --config F {named}"]
        hints = [*(copied if alone else []), *dict.fromkeys(shards)]
        raise TargetError(
            f"{len(errors)} tables are broken{listed}", table=", ".join(names),
            hint="; ".join([*hints, "or put their folders back as they were at the stop"]),
        )  # fmt: skip


def start_faults(
    table: Table, rules: ColumnRules, policy: Policy, new: NewTables
) -> list[SettingError]:
    """Return the problems of an existing table with the configuration: the first one of its columns
    and rows, the first of its policy, and the first of rows that other channels may have. Record
    the table's rows as those of ``new`` tables."""
    checks = [partial(check_columns, table, rules)]
    if table.is_shard:
        checks.append(partial(check_policy, table.definition, policy))
    if table.is_shared and table.definition.filters_rows:
        checks.append(partial(new.record, table.definition, table.path))
    faults = list[SettingError]()
    for check in checks:
        try:
            check()
        except SettingError as error:
            faults.append(error)
    return faults
