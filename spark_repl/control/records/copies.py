"""Copies of tables from the source, as the control table records them: planned, then done.

A copy reads without a lock while the source continues, so its rows are of several moments. Its
tables are consistent once the log has been applied from its beginning up to ``until``. Changes of
tables with a key are applied idempotently. Changes of a table that was read as of one moment are
applied exactly, after the GTID set of its own.

A copy of all tables begins a log of its own. A copy of some tables is written beside the old ones.
When it is done, the applier goes back to the cut after which it began. The other tables already
have what follows, by their own positions. A copy is *pending* until a cut shows its tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...errors import BEGIN_AGAIN, HistoryError
from ...gtid import GtidSet
from ...position import RelayPosition
from ..table.cut import Cut, TableVersion
from ..table.row_formats import SAFE
from .operator_decisions import skipped

if TYPE_CHECKING:
    from ...relay.log import RelayLog
    from ..table.control import Control
    from ..table.control_snapshot import ControlSnapshot
    from .log_identity import LogIdentity

KIND = "copy"


@dataclass(frozen=True)
class Copy:
    start: GtidSet
    """the GTID set after which the log has to begin"""
    bounds: Mapping[str, tuple[str, ...]]
    """table -> upper ends of its chunks except the last, as SQL literals of the first key column"""
    paths: Mapping[str, str]
    """table -> the path of its copy, relative to the target"""
    views: tuple[str, ...] = ()
    """tables that are read as of one moment"""
    held: GtidSet = field(default_factory=GtidSet)
    """executed before the first row was read. The copy has all rows of these transactions, except
    of XA branches that were prepared and not committed then (so ``start`` may be earlier)."""
    until: GtidSet | None = None
    """executed after the last row was read: the high-water mark; None: not finished"""
    exact: Mapping[str, GtidSet] = field(default_factory=dict)
    """table that was read as of one moment -> the GTID set that its rows contain"""
    behind: Cut | None = None
    """in a copy of some tables: the cut that the applier goes back to; None: a copy of all"""
    rows: int = 0
    error: str = ""
    """why the copy was given up"""
    shown: bool = False
    """whether a cut has shown the copy: that cut may be pruned, and the tables dropped"""
    at: datetime | None = None
    asked: str = ""
    """the request that it answers (``recopy.ask``)"""
    unfinished: Mapping[str, str] = field(default_factory=dict)
    """table that a statement changed while it was read -> the source's message"""
    again: str = ""
    """why the copy has to begin again: a statement changed a table while it was read"""
    digests: Mapping[str, str] = field(default_factory=dict)
    """table -> its definition's digest when the copy was planned"""
    lower_case_table_names: int = 0
    """the source's; recorded by ``name_case``"""
    since: Mapping[str, int] = field(default_factory=dict)
    """path of a Delta table that other channels feed also -> its version before the copy"""
    system_time_zone: str = ""
    """the source's; recorded by ``system_time_zone``"""
    without_rows: tuple[str, ...] = ()
    """tables that begin empty (``copy = "none"``), as planned: a copy that is resumed with another
    configuration keeps them"""

    def to_detail(self) -> str:
        behind = self.behind and {
            "position": self.behind.position,
            "gtid_executed": self.behind.gtid_executed,
            "detail": self.behind.to_detail(),
        }
        detail = {
            "start": str(self.start),
            "bounds": {name: list(ends) for name, ends in self.bounds.items()},
            "paths": dict(self.paths),
            "views": list(self.views),
            "held": str(self.held),
            "until": None if self.until is None else str(self.until),
            "exact": {name: str(gtids) for name, gtids in self.exact.items()},
            "behind": behind,
            "rows": self.rows,
            "error": self.error,
            "shown": self.shown,
            "asked": self.asked,
            "unfinished": dict(self.unfinished),
            "again": self.again,
            "digests": dict(self.digests),
            **({"since": dict(self.since)} if self.since else {}),
            **({"without_rows": list(self.without_rows)} if self.without_rows else {}),
        }
        return json.dumps(detail)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Copy:
        detail = json.loads(row["detail"])
        until, behind = detail["until"], detail["behind"]
        return cls(
            GtidSet.parse(detail["start"]),
            {name: tuple(ends) for name, ends in detail["bounds"].items()},
            detail["paths"],
            tuple(detail["views"]),
            GtidSet.parse(detail["held"]),
            None if until is None else GtidSet.parse(until),
            {name: GtidSet.parse(text) for name, text in detail["exact"].items()},
            behind and Cut.of({**behind, "at": None}),
            detail["rows"],
            detail["error"],
            detail.get("shown", False),
            row["at"],
            detail.get("asked", ""),
            detail.get("unfinished", {}),
            detail.get("again", ""),
            detail.get("digests", {}),
            since=detail.get("since", {}),
            without_rows=tuple(detail.get("without_rows", ())),
        )

    @property
    def is_done(self) -> bool:
        """Return whether all rows are copied. The tables are consistent only after ``until``."""
        return self.until is not None and not self.again


def logged_while_copied(control: Control, copy: Copy) -> GtidSet:
    """Return the transactions that the source committed while a finished copy was read. The log has
    all of these. It may lack transactions that the target had before, or that an operator skipped.
    """
    assert copy.until is not None
    before = copy.held if copy.behind is None else GtidSet.parse(copy.behind.gtid_executed)
    return copy.until.subtract(before).subtract(skipped(control))


def last_copy(control: Control) -> Copy | None:
    rows = control.rows(KIND)
    return Copy.of(rows[-1]) if rows else None


def record_copy(control: Control, copy: Copy, check: Callable[[], object] = bool) -> None:
    """Write the copy's row; the caller owns the target. Raise FencedError after a takeover, and
    what ``check`` raises."""
    of_cut = copy.behind.nested_format() if copy.behind else 0
    number = SAFE if copy.without_rows else of_cut
    control.write(KIND, detail=copy.to_detail(), check=check, number=number)


@dataclass(frozen=True)
class Standing:
    """The state from which the next start continues. ``cut``: the newest cut; None if there is
    none, or if a copy of all tables was begun after it. ``copy``: a copy that no cut shows yet."""

    cut: Cut | None
    copy: Copy | None

    @property
    def begin(self) -> Cut | None:
        """Return the cut from which the applier continues; None: it starts at the log's
        beginning."""
        copy = self.copy
        return copy.behind if copy and copy.behind and copy.is_done else self.cut

    @property
    def needed(self) -> Cut | None:
        """Return the cut after which the log is still needed."""
        return self.copy.behind if self.copy and self.copy.behind else self.cut

    @property
    def executed(self) -> GtidSet | None:
        """Return the GTID set after which a new log begins; None: the target is empty."""
        if self.copy and not self.copy.behind:
            return self.copy.start
        return GtidSet.parse(self.needed.gtid_executed) if self.needed else None


def standing(control: Control) -> Standing:
    """Return the state from which the next start continues. Raise as ``Control.rows``."""
    last, copy = control.last_cut(), last_copy(control)
    if copy is None or copy.error or copy.shown or _is_shown(copy, control.snapshot()):
        return Standing(last, None)
    return Standing(last if copy.behind else None, copy)


def note_shown(control: Control) -> None:
    """Record that a cut has shown the last copy, so that no later start searches for that cut. The
    caller owns the target."""
    copy = last_copy(control)
    if copy and not copy.shown and not copy.error and _is_shown(copy, control.snapshot()):
        record_copy(control, replace(copy, shown=True))


def _is_shown(copy: Copy, snapshot: ControlSnapshot) -> bool:
    """Return whether a cut shows one of the copied tables. Cuts of the old tables may have been
    published after the copy's end."""
    if copy.shown or not copy.is_done:
        return copy.shown
    if not copy.paths:
        assert copy.at is not None
        return any(at > copy.at for _, at in snapshot.cut_places())
    # Not by the clock: no path is given twice.
    paths = {path for path, _ in snapshot.shown_versions}
    return not paths.isdisjoint(copy.paths.values())


def consistent_paths(control: Control) -> frozenset[str]:
    """Return the paths of copied tables that have passed their high-water mark, so that all their
    rows are known."""
    copies = [Copy.of(row) for row in control.rows(KIND)]
    copies = [copy for copy in copies if copy.is_done and not copy.error]
    snapshot = control.snapshot()
    shown_copies = [copy for copy in copies if _is_shown(copy, snapshot)]
    return frozenset(path for copy in shown_copies for path in copy.paths.values())


def check_log(copy: Copy, executed: GtidSet, relay_path: str) -> None:
    """Check that the log fits a copy of all tables that no cut shows yet. ``executed``: the GTID
    set after which the log begins.

    Raise HistoryError for a gap between copy and log, and for a copy that is not finished.
    """
    if not copy.is_done:
        raise HistoryError(
            "the first copy is not finished",
            hint="let it go on where it stopped: spark-repl snapshot --config F",
        )
    if missing := executed.subtract(copy.start):
        raise HistoryError(
            f"transactions are missing between the copy and the log: {missing}",
            file=relay_path,
            hint=f"give a log that begins before the copy, or {BEGIN_AGAIN}",
        )


def first_cut(
    relay: RelayLog, history: LogIdentity, executed: GtidSet, tables: Mapping[str, TableVersion]
) -> Cut:
    """Return the cut of a copy after which nothing has to be applied, because the source was
    idle."""
    number = relay.files[0].number
    begin = RelayPosition(history.base + number, relay.head(number).length)
    return Cut(begin.packed, str(executed), history.log_id, {}, dict(sorted(tables.items())))


class CatchUp:
    """The state until the tables of a copy are consistent: the applier applies their changes
    idempotently, and publishes no cut. ``copy`` None: nothing was copied."""

    def __init__(self, copy: Copy | None) -> None:
        self._copy = copy if copy and copy.is_done else None
        self._noted = self._copy is None

    def active(self, executed: GtidSet) -> bool:
        """Return whether some of the copy's tables are not consistent after ``executed``."""
        until = self._copy.until if self._copy else None
        return until is not None and not until.issubset(executed)

    def until(self, executed: GtidSet) -> GtidSet | None:
        """Return the GTID set that has to be executed before the tables are consistent; None if
        they already are."""
        return self._copy.until if self._copy and self.active(executed) else None

    def cut_published(self, control: Control) -> None:
        """Record, at the first cut, that it shows the copy. A statement after the copy may already
        have removed the copy's tables from that cut."""
        if not self._noted:
            copy = last_copy(control)
            if copy and copy.is_done and not copy.shown and not copy.error:
                record_copy(control, replace(copy, shown=True))
            self._noted = True

    def tables(self, executed: GtidSet) -> Container[str]:
        """Return the tables whose changes are applied idempotently. Tables in ``held`` are not
        among them, because they get each change only once."""
        if self._copy is None or not self.active(executed):
            return frozenset()
        return self._copy.bounds.keys() - self._copy.exact.keys()

    def copies(self, executed: GtidSet) -> Container[str]:
        """Return the tables that are not consistent yet."""
        return self._copy.bounds if self._copy and self.active(executed) else ()

    def held(self, executed: GtidSet) -> Mapping[str, GtidSet]:
        """Return the GTID set at which each table was read, for tables that were read as of one
        moment. Such a table gets only later transactions."""
        return self._copy.exact if self._copy and self.active(executed) else {}

    @property
    def copied(self) -> GtidSet:
        """Return the transactions whose rows were copied: they change nothing any more, except that
        XA branches which they leave prepared stay prepared."""
        return self._copy.held if self._copy and self._copy.behind is None else GtidSet()
