"""Cascading: adds to a group the changes that foreign keys made on the source without logging them.

It works in the group's turn, when the tables are as all earlier groups left them. If a table is
ahead (after a crash or an earlier attempt), it starts from all tables as the last cut shows them.
Then it also follows the groups after that cut. Changes that a table already has remain as they are;
the group gets the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...alter.declared_charsets import with_logged_charsets
from ...control.records.quarantine import CURE
from ...decode.cascades.cascade_plan import HINT, CascadePlan, plan_cascades
from ...decode.stage_task import same_shape
from ...errors import DecodeError
from ...position import RelayPosition
from ...tables.case_folding import fold
from ...write.cascades.emulated_cascades import CascadeTask
from ...write.cascades.referencing import ReferencingTask, find_referencing
from ...write.files.compaction import CompactTask
from ...write.files.key_index import build
from ...write.files.write_task import LiveFile
from .staging_folder import remove_staged

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...decode.stage_task import Part, Staged
    from ...delta.log.log_replay import Action
    from ...schedule.group import Group, StagedGroup
    from ...tables.source_table import SourceTable
    from ...write.cascades.emulated_cascades import Cascaded
    from ...write.tables.table import Table
    from .cut_publisher import CutPublisher
    from .stager import Stager

logger = logging.getLogger(__name__)

_SCAN = 1000  # rows that cost as much work as one scan
_COPIED_HINT = "wait with it until the copy is shown; " + HINT


@dataclass(frozen=True)
class _Base:
    """The tables' files before the ``groups`` whose cascades are to be followed."""

    files: Mapping[str, tuple[LiveFile, ...]]
    groups: tuple[Group, ...]


@dataclass
class _LazyFolder:
    """A folder that ``make`` makes when executors first need it: ``make`` may wait for Spark."""

    make: Callable[[], str]
    path: str | None = None

    def made(self) -> str:
        """Return the folder. Raise OSError, TargetError."""
        if self.path is None:
            self.path = self.make()
        return self.path


class Cascading:
    """Emulates the cascades of groups. Call ``followed`` for one group at a time, in the order of
    the log."""

    def __init__(self, stager: Stager, cuts: CutPublisher) -> None:
        self._stager, self._cuts = stager, cuts
        self._tracking, self._workers = stager.tracking, stager.workers
        self._commits = stager.tracking.commits

    @contextmanager
    def followed(self, staged: StagedGroup) -> Iterator[StagedGroup]:
        """Return a context with the staged group, to which the changes are added that the source's
        engine made through foreign keys. At its end, the files of these changes are removed. Raise
        DecodeError if the changes can't be computed."""
        cascading = staged.cascading
        if not cascading:
            yield staged
            return
        folder = _LazyFolder(self._stager.folder.make)
        try:
            try:
                whole = self._followed(staged, folder)
            except DecodeError as error:
                table = min(cascading, key=lambda name: cascading[name])
                position = RelayPosition.unpack(cascading[table])
                error.is_of_cascade = True
                raise error.at(position=position, table=table) from error
            yield whole
        finally:
            remove_staged(folder.path)

    def _followed(self, staged: StagedGroup, folder: _LazyFolder) -> StagedGroup:
        tracking, group = self._tracking, staged.group
        forms = tracking.options.forms
        following = plan_cascades(
            staged.cascading,
            tracking.foreign_keys(),
            self._definitions(staged),
            group.cascades.harmless,
            forms.zero_dates,
        )
        self._check(following, group)
        base = self._base(following, group)
        tasks = tuple(
            task for covered in base.groups for task in self._stager.tasks_of_one_worker(covered)
        )
        size = sum(covered.uncompressed for covered in base.groups)
        task = CascadeTask(following, tasks)
        while True:
            rows = sum(part.rows for _, part in task.referencing)
            in_driver = self._workers.is_small(log_bytes=size, rows=rows)
            cascaded = self._emulate(task, None if in_driver else folder.made())
            if cascaded.staged is not None:
                break
            parts = self._referencing_rows(task, cascaded.wanted, base, folder)
            task = replace(
                task,
                referencing=(*task.referencing, *parts),
                lookups=(*task.lookups, *cascaded.wanted),
            )
        logger.debug("%d changes by foreign keys that the log has not", cascaded.changes)
        by_worker = [*(_without(part, following) for part in staged.by_worker), cascaded.staged]
        return replace(staged, by_worker=by_worker)

    def _emulate(self, task: CascadeTask, folder: str | None) -> Cascaded:
        """Run the task on an executor, with a folder for its files, or else in this process. Run it
        in this process also if it reads too much of the log that is not archived yet."""
        in_driver, task = folder is None, replace(task, folder=folder)
        if not in_driver and self._stager.remote is not None:
            sent = self._stager.remote.tasks(task.stage)
            in_driver, task = sent is None, replace(task, stage=sent or task.stage)
        (cascaded,) = self._workers.run(self._stager.emulate, [task], here=in_driver)
        return cascaded

    def _definitions(self, staged: StagedGroup) -> dict[str, SourceTable]:
        """Return the definitions of the existing tables, with the character sets that the group's
        TABLE_MAPs record."""
        definitions = self._tracking.logged_definitions()
        for part in staged.by_worker:
            for name, logged in part.definitions.items():
                if name in definitions and same_shape(definitions[name], logged):
                    definitions[name] = with_logged_charsets(definitions[name], logged)
        return definitions

    def _referencing_rows(
        self, task: CascadeTask, wanted: Iterable[tuple[int, Part]], base: _Base,
        folder: _LazyFolder,
    ) -> list[tuple[str, Part]]:  # fmt: skip
        """Return the rows that reference the ``wanted`` values, with the names of their tables."""
        looks: list[ReferencingTask] = []
        for number, values in wanted:
            key = task.plan.keys[number]
            table = self._tracking.tables[key.child]
            names = [table.columns.physical[i] for i in key.referencing]
            index = self._tracking.key_folder(table, names)
            of = CompactTask.of(table, index, ())
            compared = tuple(task.plan.collation((key.child, i)) for i in key.referencing)
            look = ReferencingTask(of, table.definition, key.referencing, compared, values)
            looks += [replace(look, of=replace(of, files=(f,))) for f in base.files[key.child]]
        missing = [task for look in looks for task in look.missing()]
        # A look-up by an index costs almost nothing. A scan, and a look-up that builds its index,
        # read columns of a file.
        reads = len(missing) + sum(not look.by_index for look in looks)
        in_driver = self._workers.is_small(rows=len(looks) + reads * _SCAN)
        if not in_driver:
            looks = [replace(look, folder=folder.made()) for look in looks]
            if not self._workers.has_own_disks():  # else each executor builds it on its disk
                self._workers.run(build, missing, here=len(missing) < 2)
        parts = self._workers.run(find_referencing, looks, here=in_driver)
        return [
            (look.definition.name, part)
            for look, part in zip(looks, parts, strict=True)
            if part.rows
        ]

    def _check(self, following: CascadePlan, group: Group) -> None:
        """Raise DecodeError if a table differs from the source's, or can't be followed now."""
        executed, tracking = group.executed, self._tracking
        still = tracking.quarantines()
        for name in following.definitions:
            table = tracking.tables.get(name)
            if name in still:
                raise DecodeError(
                    "a foreign key carries the change on to a table whose changes are in quarantine"
                    f" since {still[name].since}",
                    table=name, hint=CURE,
                )  # fmt: skip
            if table is None or not table.has_rows_as_logged:
                raise DecodeError(
                    "a foreign key carries the change on, and the target has not the same rows and"
                    " columns of a table as the source",
                    table=name, hint=HINT,
                )  # fmt: skip
            if table.at_place.dropped or table.at_place.truncated:
                raise DecodeError(
                    "a foreign key carries the change on, and the target keeps rows that the source"
                    " has removed",
                    table=name, hint=HINT,
                )  # fmt: skip
            if name in self._stager.catch_up.copies(executed):
                raise DecodeError(
                    "a foreign key carries the change on while a table's copy catches up",
                    table=name, hint=_COPIED_HINT,
                )  # fmt: skip
            if name in group.idempotent:
                raise DecodeError(
                    "a foreign key carries the change on, which can't be followed idempotently",
                    table=name, hint='set apply.exec_mode = "strict"; or ' + HINT,
                )  # fmt: skip

    def _base(self, following: CascadePlan, group: Group) -> _Base:
        tables = {name: self._tracking.tables[name] for name in following.children}
        for table in tables.values():
            with table.lock:
                self._commits.refresh(table)
        if not any(self._is_ahead(table, group) for table in tables.values()):
            return _Base({name: self._live(table) for name, table in tables.items()}, (group,))
        between = self._cuts.groups_after_cut
        if between is None or not all(previous.with_rows for previous in between):
            raise DecodeError(
                "a foreign key carries the change on, and what its tables were before is not known",
                hint=HINT,
            )
        files = {name: self._at_cut(table) for name, table in tables.items()}
        return _Base(files, (*between, group))

    def _is_ahead(self, table: Table, group: Group) -> bool:
        reached = self._tracking.progress_of(table)
        if reached is not None and self._stager.begins_within(reached, group):
            return True
        return table.position > group.start

    def _live(self, table: Table) -> tuple[LiveFile, ...]:
        with table.lock:
            return _seen(table, self._commits.live(table).adds)

    def _at_cut(self, table: Table) -> tuple[LiveFile, ...]:
        """Return the files of the table as the last cut shows it, or none if the table was created
        after the cut. The table has the same name in that cut, because no statement was applied
        since."""
        cut = self._cuts.last_cut
        shown = cut.tables.get(table.name) if cut else None
        if shown is None:
            return ()
        delta = self._tracking.delta
        snapshot = delta.snapshot(table.folder, shown.version)
        assert snapshot is not None, "a version that a cut shows is kept"
        return _seen(table, delta.files(snapshot))


def _seen(table: Table, adds: Mapping[str, Action]) -> tuple[LiveFile, ...]:
    """Return the files of a table. Raise DecodeError if the table's log records only the names of
    the files, and not which of their rows are live."""
    if any("size" not in add for add in adds.values()):
        raise DecodeError(
            "a foreign key carries the change on, and the table's log can't be read as files",
            table=table.name, hint=HINT,
        )  # fmt: skip
    return tuple(LiveFile(path, add.get("deletionVector")) for path, add in adds.items())


def _without(part: Staged, following: CascadePlan) -> Staged:
    """Return what a worker has staged, without the tables that are the plan's children."""
    children = {fold(name) for name in following.children}
    return replace(
        part,
        definitions={n: d for n, d in part.definitions.items() if fold(n) not in children},
        parts=[piece for piece in part.parts if fold(piece.table) not in children],
    )
