"""Verifier: compares all tables side by side, and collects their results.

A look queries the source's executed GTIDs, reads what is left to compare, and queries the GTIDs
again. Then it waits for a cut that contains the second answer, and compares with that cut. The
first answer contains the cut of the previous look, so the source was read between both cuts.

The command ``verify`` and the scheduled check of ``run`` call it. It writes neither to the source
nor to the tables. Raises SourceError and TargetError. Design: docs/design/verify.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ..binlog.types.forms import Forms
from ..control.cuts.cut_reader import find_cut
from ..control.table.control import Control
from ..copy.copy_chunk import patiently
from ..copy.source_tables import case_of_names, chunk_ends, list_tables, quoted, wheres
from ..errors import NoTableError, SchemaError, SourceError, SparkReplError
from ..gtid import GtidSet
from ..observe.reports.verify_status import MODE_REASON, WITHOUT_HISTORY
from ..rules.column_rules import ColumnRules, masked_otherwise
from ..rules.masking import mask_key
from ..rules.replication_filters import ReplicationFilters
from ..rules.table_rules import TableRules
from ..source.connection import DumpConnection
from .changed_above_cut import ByOthers, look_above
from .cut_files import CutDefinitions, CutFiles, files_of
from .row_sample import SampledRows, sample_of
from .shared_keys_check import CLAIMED, SharedKeysCheck
from .source_range import RangeRows, RangeTask, read_ranges
from .table_check import TableCheck, repairs_of
from .target_files import FileSet, digest_files
from .waits_for_cut import CutWait
from .work_folder import TablePlan, WorkFolder

if TYPE_CHECKING:
    from ..config import Config
    from ..control.table.cut import Cut
    from ..control.table.layout import Layout
    from ..copy.source_tables import ListedTable
    from ..delta.log.table_log import TableLog
    from ..tables.target_table import TargetTable
    from .table_check import Repairs
    from .target_files import FileTask

logger = logging.getLogger(__name__)

_LOOKS_MAX, _BEGUN_MAX = 12, 4
_START_RETRIES = 3
"""before the first look: the user should see soon that the source is down"""
_CHANGED = (1054, 1146, 1049, 1412)  # a column or table is missing, or was redefined


class Runs(Protocol):
    """A pool of workers that runs tasks (runtime/workers)."""

    def run(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]: ...


@dataclass(frozen=True)
class VerifyLimits:
    """Limits of a verify. ``rows_per_s``: 0 for no limit; ``wait_s``: longest wait for a cut;
    ``shown_rows``: the number of rows shown with their values; ``percent``: the part of each
    table's rows to compare; ``repairs``: whether repairs of the differing rows are collected."""

    connections: int = 2
    rows_per_s: int = 0
    wait_s: float = 300.0
    shown_rows: int = 100
    percent: float = 100
    repairs: bool = False


@dataclass
class VerifyResult:
    """The result of a verify.

    ``tables``: compared tables with their counts; ``not_compared``: table -> reason; ``by_others``:
    tables that other writers changed after the version that the cut shows; ``repairs``: table ->
    its repair; ``outliving``: those tables in ``repairs`` that may have rows or columns which the
    source no longer has; ``paths``: folder of each compared table; ``by_kind``: table -> number of
    its keys that are missing, extra, different, or have another count.
    """

    gtid_executed: str = ""
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    not_compared: dict[str, str] = field(default_factory=dict)
    by_others: dict[str, ByOthers] = field(default_factory=dict)
    differences: list[dict[str, Any]] = field(default_factory=list)
    looks: int = 0
    repairs: dict[str, Repairs] = field(default_factory=dict)
    outliving: set[str] = field(default_factory=set)
    paths: dict[str, str] = field(default_factory=dict)
    by_kind: dict[str, dict[str, int]] = field(default_factory=dict)

    def total(self, name: str) -> int:
        return sum(counts[name] for counts in self.tables.values())


class Verifier:
    """A comparison of a target's tables with the source. ``tables``: the logs of the target's
    tables."""

    def __init__(
        self, config: Config, layout: Layout, tables: TableLog, workers: Runs, limits: VerifyLimits
    ) -> None:
        self.config, self._layout = config, layout
        self._files = partial(files_of, tables)
        self._rules = ColumnRules(TableRules(config.tables), mask_key(config.target))
        self._workers, self._limits = workers, limits
        self._control = Control(layout.control, config.channel)
        self._waiting = CutWait(config, layout, self._control, limits.wait_s)
        self._definitions = CutDefinitions(self._control, layout, tables)
        self._begun = dict[str, int]()
        self._paths = dict[str, str]()
        self._shown_files: dict[str, FileSet] = {}  # with all columns, at the last cut
        self._wholes: dict[str, TargetTable] = {}
        """the target's definitions, with the columns that the source lacks"""
        self.comparison = VerifyResult()

    def verify(self, only: tuple[str, ...] = ()) -> VerifyResult:
        """Compare all tables, or only those in ``only``. Raise SourceError, TargetError or
        NoTableError."""
        with WorkFolder(self._layout.verify) as work:
            before = find_cut(self._control, "latest")
            checks = self._plan(only, work)
            while checks and self.comparison.looks < _LOOKS_MAX:
                # A replica of the source may lag behind the cut: its rows would be too old.
                self._waiting.for_source(partial(self._not_yet, before))
                before = self._look(checks)
                self.comparison.looks += 1
                for name in [n for n, check in checks.items() if not check.is_open]:
                    self._finish(checks.pop(name))
                self._begin_again(checks, work)
            for check in checks.values():
                self._finish(check)
            work.clear()
        self.comparison.paths = self._paths
        self.comparison.outliving = {n for n in self.comparison.repairs if self._outlives(n)}
        return self.comparison

    def _outlives(self, name: str) -> bool:
        """Return whether the table may have rows or columns that the source no longer has, or its
        definition is unknown."""
        cut = find_cut(self._control, "latest")
        at = cut.tables.get(name)
        definitions = self._definitions.of(cut, at) if at else None
        return definitions is None or definitions.keeps_more

    def _plan(self, only: tuple[str, ...], work: WorkFolder) -> dict[str, TableCheck]:
        rules = self._rules

        def shaped(table: ListedTable) -> TargetTable:
            return rules.shaped(forms.apply(table.definition))

        def plan(source: DumpConnection) -> list[tuple[ListedTable, TablePlan]]:
            nonlocal rules
            rules = rules.folded() if case_of_names(source.rows) > 0 else rules
            if source.server().variables.get("gtid_mode", "OFF") != "ON":
                raise SourceError(
                    "the source has no GTIDs, by which a cut is known to hold what was read",
                    hint="verify needs gtid_mode = ON on the source",
                )
            tables = list_tables(source.rows, only, filters)
            plans = (self._plan_of(source.rows, table, shaped(table)) for table in tables)
            return [*zip(tables, plans, strict=True)]

        filters = ReplicationFilters.of(self.config)
        forms = Forms.of_target(self.config.target)
        checks, cut = {}, find_cut(self._control, "latest")
        for table, planned in self._query(plan):
            whole = shaped(table)
            of_mode = f"{MODE_REASON} {whole.mode}" if whole.appends else ""
            why = of_mode or _set_aside(whole.name, cut) or self._without_history(whole.name, cut)
            why = why or self._other_masks(whole, cut)
            if why:
                self.comparison.not_compared[whole.name] = why
                continue
            self._wholes[whole.name], definition = whole, whole.without_extra
            folder, saved = work.of(definition, planned)
            rate = self._limits.rows_per_s / self._limits.connections
            sample = SampledRows.from_json(saved.sample) if saved.sample else None
            checks[definition.name] = TableCheck(
                self.config,
                definition,
                saved.ranges,
                folder,
                sample,
                rate,
                rules.key,
                self._limits.shown_rows,
            )
        return checks

    def _plan_of(
        self, query: Callable[[str], Any], table: ListedTable, target: TargetTable
    ) -> TablePlan:
        percent = self._limits.percent
        if percent < 100:
            sample, ranges = sample_of(
                query, table, target, percent,
                replaces=self.config.target.text_errors == "replace",
            )  # fmt: skip
            return TablePlan(ranges, percent, sample.to_json() if sample else "")
        first = table.definition.primary_key[:1]
        column = quoted(table.definition.columns[first[0]].name) if first else ""
        return TablePlan(tuple(wheres(column, chunk_ends(query, table, target))))

    def _query(self, question: Callable[[DumpConnection], Any]) -> Any:
        def ask() -> Any:
            connection = DumpConnection(self.config.source)
            try:
                return question(connection)
            finally:
                connection.close()

        retries = None if self.comparison.looks else _START_RETRIES
        return patiently(self.config.source, ask, retries=retries)

    def _executed(self) -> GtidSet:
        executed: GtidSet = self._query(lambda source: source.server().executed)
        return executed

    def _not_yet(self, cut: Cut) -> GtidSet:
        """Return the cut's GTIDs that the source has not committed: a replica may be ahead of
        it."""
        return GtidSet.parse(cut.gtid_executed).subtract(self._executed())

    def _look(self, checks: dict[str, TableCheck]) -> Cut:
        read = self._read(checks)
        executed = self._executed()  # after reading: a cut with these GTIDs contains what was read
        newest = [find_cut(self._control, "latest")]

        def missing() -> GtidSet:
            newest[0] = find_cut(self._control, "latest")
            return executed.subtract(GtidSet.parse(newest[0].gtid_executed))

        self._waiting.for_cut(missing)
        cut = newest[0]
        self.comparison.gtid_executed = cut.gtid_executed
        sets = {n: at for n, check in checks.items() if (at := self._files_of(check, cut))}
        app = f"spark_repl:{self.config.channel}"
        cut_files = CutFiles(checks, sets, self._shown_files, self._files, app)
        cut_files.digest(self._digest)
        cut_files.compare(read, self._digest)
        for name, why in cut_files.left_out.items():
            del checks[name]
            self.comparison.not_compared[name] = why
            if self._limits.repairs:
                self.comparison.repairs[name] = "a data file is gone"
        return cut

    def _digest(self, tasks: list[FileTask]) -> None:
        self._workers.run(digest_files, self._shares(tasks))

    def _shares(self, tasks: list[Any]) -> list[list[Any]]:
        count = min(len(tasks), self._limits.connections)
        return [tasks[first::count] for first in range(count)]

    def _read(self, checks: Mapping[str, TableCheck]) -> dict[str, list[RangeRows]]:
        """Return the ranges read, by table; record a table's change in its check."""
        tasks = [task for check in checks.values() for task in check.tasks()]
        shares, read = self._shares(tasks), dict[str, list[RangeRows]]()
        for share, results in zip(shares, self._workers.run(read_ranges, shares), strict=True):
            self._sort(share, results, checks, read)
        return read

    @staticmethod
    def _sort(
        share: list[RangeTask],
        results: list[RangeRows | SparkReplError],
        checks: Mapping[str, TableCheck],
        read: dict[str, list[RangeRows]],
    ) -> None:
        for task, result in zip(share, results, strict=True):
            name = task.definition.name
            if isinstance(result, RangeRows):
                read.setdefault(name, []).append(result)
            elif isinstance(result, NoTableError) or result.number in _CHANGED:
                checks[name].changed = str(result)
            else:
                raise result

    def _files_of(self, check: TableCheck, cut: Cut) -> FileSet | None:
        """Return the table's files at the cut. Return None, and set ``changed`` to the reason, if
        the cut has none that can be compared."""
        at, name = cut.tables.get(check.name), check.name
        if why := _set_aside(name, cut):
            check.changed = why
        elif at is None:
            check.changed = "the target has no such table"
        elif self._paths.get(name, at.path) != at.path:
            check.changed = "it was replaced while it was compared"
        elif other := self._other_masks(self._wholes[name], cut):
            check.changed = other
        else:
            files, whole = self._files(self._layout.table(at.path), at.version), self._wholes[name]
            self._shown_files[name], files = files, files.of_shard(whole)
            if files.columns.fits(whole.arrow_schema()):
                return files.of_source(len(check.definition.columns), whole.deleted_column)
            check.changed = f"the target has other columns: {files.columns.describe()}"
        return None

    def _without_history(self, name: str, cut: Cut) -> str:
        """Return the reason not to compare a table that began without rows; "" for another
        table."""
        at = cut.tables.get(name)
        return WITHOUT_HISTORY if at and self._definitions.is_without_history(at) else ""

    def _other_masks(self, whole: TargetTable, cut: Cut) -> str:
        """Return the reason not to read the cut's table if its masks differ from those of
        ``whole``. Return "" if they do not differ, or this path was checked before."""
        at = cut.tables.get(whole.name)
        if at is None or self._paths.get(whole.name) == at.path:
            return ""
        self._paths[whole.name] = at.path
        definitions = self._definitions.of(cut, at)
        if definitions is None or not (column := masked_otherwise(definitions, whole)):
            return ""
        return (
            f"column {column} is masked otherwise than the table has it, or by another key"
            " (target.mask_key_env, mask_key_file)"
        )

    def _begin_again(self, checks: dict[str, TableCheck], work: WorkFolder) -> None:
        """Plan tables again that were changed meanwhile; report a table as not compared after 4
        attempts."""
        for name in [name for name, check in checks.items() if check.changed]:
            reason = checks.pop(name).changed
            self._paths.pop(name, None)
            work.forget(name)
            self._begun[name] = self._begun.get(name, 0) + 1
            if self._begun[name] >= _BEGUN_MAX:
                self.comparison.not_compared[name] = reason
                continue
            try:
                checks.update(self._plan((name,), work))
            except NoTableError:
                logger.info("%s is gone", name)
            except SchemaError as error:
                self.comparison.not_compared[name] = str(error)

    def _finish(self, check: TableCheck) -> None:
        named = len(check.named)
        undecided = len(check.left) - named
        ranges = len(check.ranges)
        self.comparison.tables[check.name] = {
            "rows": check.rows, "ranges": ranges, "differing": named, "undecided": undecided,
        }  # fmt: skip
        if named:
            self.comparison.by_kind[check.name] = check.differing().by_kind(check.definition)
        if named and self._limits.repairs:
            self.comparison.repairs[check.name] = repairs_of(check)
        self._look_above(check.name)
        most = self._limits.shown_rows - len(self.comparison.differences)
        self.comparison.differences += check.differences(max(most, 0))
        whole = self._wholes[check.name]
        if whole.is_separated_by_filter and check.at is not None and check.sample is None:
            self._look_for_claimed(whole, check.at, check.work)

    def _look_for_claimed(self, whole: TargetTable, at: FileSet, work: str) -> None:
        """Count keys of a channel's table that other channels have as well."""
        every, name = self._files(at.folder, at.version), whole.name
        claimed = SharedKeysCheck.find(whole, every, work, self._digest)
        if count := len(claimed.keys):
            self.comparison.tables[name]["differing"] += count
            kinds = self.comparison.by_kind.setdefault(name, {})
            kinds[CLAIMED] = count
            most = self._limits.shown_rows - len(self.comparison.differences)
            self.comparison.differences += claimed.differences(work, most)

    def _look_above(self, name: str) -> None:
        """Record other writers' change of the table above the compared version. Unless their rows
        are accepted, a copy repairs the table: the applier will not commit on top of them."""
        files = self._shown_files.get(name)
        other = look_above(files, name, self.config) if files else None
        if other is None:
            return
        self.comparison.by_others[name] = other
        if self._limits.repairs and self.config.target.on_foreign_change != "accept":
            self.comparison.repairs[name] = f"another writer changed it in version {other.version}"


def _set_aside(name: str, cut: Cut) -> str:
    """Return why the cut has no current rows of the table to compare; "" if it may have them. A
    table that waits for a copy or is in quarantine has none."""
    if why := cut.waiting.get(name):
        return f"it waits for a copy since {why.since}: {why.reason}"
    if quarantine := cut.quarantined.get(name):
        return f"it is in quarantine since {quarantine.since}: {quarantine.reason}"
    return ""
