"""XaParts: follows the XA transactions of the log, batch by batch, in the log's order.

The pipeline calls ``resolve`` with each batch, and then ``enter`` with each group of it. An XA
transaction has a first part (XA PREPARE) and a second one (XA COMMIT or XA ROLLBACK), which may
come much later in the log. Two states are kept: the branches at the last record that was resolved,
and those at the last group that was entered.

Invariant: a branch that is still prepared after a group has its bytes on disk, in ``XaStore``,
before the group can commit. Rows of a branch are applied only at its XA COMMIT. An unknown XID is
error 1397 and a duplicate one 1440, as on MySQL; ``resolve`` returns such an error with the records
before it instead of raising it. Design: docs/design/xa.md.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...binlog.event_types import CRC_LENGTH
from ...binlog.events.xid import DAMAGED, Xid
from ...control.records.name_case import ASK
from ...control.records.operator_decisions import XaDecision, xa_decisions
from ...control.transaction_files.xa_store import XaStore
from ...delta.store.remover import Remover
from ...errors import GivenUpError, SparkReplError, StatementError
from ...position import OFFSET_BITS, OFFSET_MASK, RelayPosition
from ...relay.logged_query import read_statement
from ...relay.record import Flag, Kind, gtid_text
from ...relay.split_transactions import Piece, is_split, pieces_of, size_of
from ...relay.xa_branches import Branch, Branches, Step, XaGroup, wrong_state
from ...schedule.group import XA_PARTS, Records, of_kinds
from ...tables.case_folding import fold
from .failure_report import said

if TYPE_CHECKING:
    from ...control.table.cut import Cut
    from ...gtid import GtidSet
    from ...runtime.retry import Retries
    from ...schedule.group import Group
    from ...write.tables.tracking import Tracking
    from ..applied.applied_log import AppliedLog

logger = logging.getLogger(__name__)

_NAMED = 20
COMMIT, ROLLBACK = "COMMIT", "ROLLBACK"

OnKeep = Callable[[Branch], None]


class XaParts:
    """The XA branches of one log. ``resolve`` determines the branch of every XA record; ``enter``
    tracks the branches group by group.

    ``decisions``: the user's decisions to end branches by hand.
    """

    def __init__(
        self,
        store: XaStore,
        prepared: Iterable[Branch],
        decisions: Iterable[XaDecision] = (),
    ) -> None:
        self.store = store
        self._decided: dict[int, str] = {}  # by the position of the XA PREPARE
        self._by_hand: dict[Xid, str] = {}  # for a second part that comes late
        for decision in decisions:
            self._decided[decision.position] = decision.action
            who = f"XA {decision.action} by {decision.user} on {decision.host}"
            self._by_hand[decision.xid] = who
        self._seen = Branches(prepared)  # up to the last record that was resolved
        self._now = Branches(self._seen)  # up to the last group that was entered
        self._said_old: set[int] = set()
        self._reread: dict[int, int] = {}  # position of a part -> number of retries

    @classmethod
    def of(cls, tracking: Tracking, cut: Cut | None, *, keep_all: bool) -> XaParts:
        """Return the branches that the cut names, with their bytes and the user's decisions about
        them. Raise TargetError if bytes are missing, FencedError if another applier owns the target
        now, and OSError if the record that other branches have ended can't be made durable."""
        control, layout = tracking.control, tracking.layout
        rules = tracking.column_rules
        hidden = partial(_hidden, tracking) if rules.any else None
        store = XaStore(
            layout.xa, layout.xa_here, keep_all=keep_all, hidden=hidden, epoch=control.epoch,
            remover=Remover(control.check_owner),
        )  # fmt: skip
        prepared = [store.kept(branch) for branch in (cut.prepared if cut else ())]
        decisions = xa_decisions(control)
        dropped = {decision.position for decision in decisions if decision.action == ROLLBACK}
        store.check(branch for branch in prepared if branch.position not in dropped)
        control.check_owner()  # else the folder may hold another owner's branches
        store.clean(prepared, tracking.barrier)
        if prepared:
            named = ", ".join(str(branch.xid) for branch in prepared[:_NAMED])
            more = f" and {len(prepared) - _NAMED} more" if len(prepared) > _NAMED else ""
            logger.warning("Found %d prepared XA transactions: %s%s", len(prepared), named, more)
        return cls(store, prepared, decisions)

    @property
    def prepared(self) -> list[Branch]:
        return list(self._now)

    def old(self, limit_s: int) -> list[str]:
        """Return warnings about branches that have been prepared for more than ``limit_s`` seconds.
        Return the warning about each branch only once."""
        now, texts = time.time(), []
        for branch in self._now:
            age = now - branch.prepared_at / 1e6
            if age > limit_s and branch.position not in self._said_old:
                self._said_old.add(branch.position)
                texts.append(f"XA branch {branch.xid} has been prepared for {age:.0f} s: is its XA"
                            f" COMMIT lost? [gtid {branch.gtid}]")  # fmt: skip
                logger.warning("%s", texts[-1])
        return texts

    def waiting(self) -> list[Branch]:
        """Return the prepared branches that the user has decided to end, in the order of the
        decisions. A branch whose end was interrupted by a crash therefore comes first."""
        now = {branch.position: branch for branch in self._now}
        return [now[position] for position in self._decided if position in now]

    def end_by_hand(self, branch: Branch, *, begun: bool) -> XaGroup:
        """Return a group that only ends a branch by hand. If the branch's commit has already
        ``begun``, it stays a commit. Call it only between two batches."""
        self._seen.end(branch.xid)
        commits = begun or self._decided[branch.position] == COMMIT
        kind = Kind.XA_COMMIT if commits else Kind.XA_ROLLBACK
        group = self._follow(self.prepared, [(0, kind, branch)], lambda kept: None)
        self._now = Branches(group.prepared)
        return group

    def resolve(
        self, applied: AppliedLog, records: Records, copied: GtidSet, retries: Retries
    ) -> tuple[Records, dict[int, Branch], SparkReplError | None]:
        """Return (records, branch by the position of its part, error after these records or None).

        Give an XA COMMIT the size of its branch, and mark a second part as empty if the branch was
        ended by hand before. The error is one of these: an unknown XID (1397), a duplicate XID
        (1440), a malformed first part, or a part that could not be read with all
        ``retries``. An unknown XID is not an error in transactions of ``copied``, which a copy
        contains.
        """
        # Rows after an XA START, whose offset the record has, without an XA_PREPARE event.
        kind = np.ascontiguousarray(records["kind"])
        unended = (kind == Kind.ROWS) & (records["query_offset"] > 0)
        places = np.flatnonzero(of_kinds(kind, XA_PARTS) | unended)
        if not len(places):
            return records, {}, None
        records = records.copy()
        branches: dict[int, Branch] = {}
        self._reread = {}
        hits = copied.contains_arrays(records["uuid"], records["gno"], records["tag"])
        for i in places:
            record = records[i]
            try:
                if unended[i]:
                    raise wrong_state()
                branch = self._read(applied, record, retries, lenient=bool(hits[i]))
            except GivenUpError as error:
                applied.placed(error, record)
                error.message = (
                    f"Coordinator failed reading {said(applied, record)}; {error.message}"
                )
                return records[:i], branches, error
            except SparkReplError as error:
                return records[:i], branches, applied.placed(error, record)
            if branch is None:
                records["kind"][i] = Kind.EMPTY
                continue
            branches[int(record["position"])] = branch
            if record["kind"] == Kind.XA_COMMIT:
                records["length"][i] = branch.size
                records["uncompressed"][i] = branch.uncompressed
        return records, branches, None

    def _read(
        self, applied: AppliedLog, record: Any, retries: Retries, *, lenient: bool
    ) -> Branch | None:
        attempts = 0

        def attempt() -> Branch | None:
            nonlocal attempts
            attempts += 1
            return self._part(applied, record, lenient=lenient)

        branch = retries.run(attempt)
        if attempts > 1:
            self._reread[int(record["position"])] = attempts - 1
        return branch

    def reread(self, group: Group) -> dict[int, int]:
        """Return how often the group's XA statements were read again, by worker. A worker with
        several statements gets its highest number."""
        had: dict[int, int] = {}
        for position, count in self._reread.items():
            for worker in group.worker[group.records["position"] == position].tolist():
                had[worker] = max(count, had.get(worker, 0))
        return had

    def _part(self, applied: AppliedLog, record: Any, *, lenient: bool) -> Branch | None:
        """Return the branch of an XA record, or None if the record has to be skipped. Raise
        OSError before any state changes, so that the call can be repeated."""
        position = int(record["position"])
        path = applied.view.relay.file((position >> OFFSET_BITS) - applied.base).path
        start, end = position & OFFSET_MASK, int(record["end"]) & OFFSET_MASK
        pieces: tuple[Piece, ...] = ()
        if is_split(record):
            pieces = pieces_of(applied.view.relay, record, applied.base)
            start, end = 0, size_of(pieces)
        flags = int(record["flags"])
        checksum = bool(flags & Flag.CHECKSUM)
        prepares, compressed = record["kind"] == Kind.XA_PREPARE, bool(flags & Flag.COMPRESSED)
        if prepares and not compressed and not record["query_offset"]:
            raise StatementError("an XA_PREPARE event outside of an XA transaction", hint=DAMAGED)
        query = read_statement(pieces or path, start, checksum=checksum, start=b"XA ")
        xid = Xid.parse(query.statement)
        if not prepares:
            if xid not in self._seen and xid in self._by_hand:
                logger.warning("%s was ended by hand (%s): %s comes late, and is passed over",
                            xid, self._by_hand[xid], Kind(int(record["kind"])).name)  # fmt: skip
                return None
            return None if lenient and xid not in self._seen else self._seen.end(xid)
        branch = Branch(
            xid, position, gtid_text(record)[0], int(record["commit_time"]), path, start, end,
            checksum, compressed, int(record["uncompressed"]), pieces,
        )  # fmt: skip
        if not compressed:  # the index has checked compressed ones
            _check_prepared(branch)
        self._seen.prepare(branch)
        return branch

    def enter(self, records: Records, branches: Mapping[int, Branch], on_keep: OnKeep) -> XaGroup:
        """Track a group's parts, and call ``on_keep`` with each branch before its bytes are kept.
        Raise OSError if a branch can't be made durable."""
        if not branches:
            now = tuple(self.prepared)
            return XaGroup(now, (), now)
        places = np.flatnonzero(of_kinds(records["kind"], XA_PARTS)).tolist()
        steps = [
            (i, Kind(int(records["kind"][i])), branches[int(records["position"][i])])
            for i in places
        ]
        group = self._follow(self.prepared, steps, on_keep)
        self._now = Branches(group.prepared)
        return group

    def prefix(self, group: XaGroup, count: int, on_keep: OnKeep) -> XaGroup:
        """Return the effect of only the first
        ``count`` records of a group on branches. Call ``on_keep`` as ``enter`` does."""
        steps = [step for step in group.steps if step[0] < count]
        return self._follow(group.before, steps, on_keep)

    def _follow(self, before: Iterable[Branch], steps: Iterable[Step], on_keep: OnKeep) -> XaGroup:
        """Return what the steps do to the branches ``before``. A branch that is still prepared
        after the group is made durable before the group can commit. A branch that also ends in the
        group is read from the relay log."""
        before, steps = tuple(before), tuple(steps)
        now, fresh = Branches(before), set[Xid]()
        ended, commits = list[Branch](), dict[int, Branch]()
        for index, kind, branch in steps:
            if kind == Kind.XA_PREPARE:
                now.prepare(branch)
                fresh.add(branch.xid)
                continue
            # An earlier group has kept it, or it is still in the relay log.
            ended_branch = now.end(branch.xid)
            fresh.discard(branch.xid)
            ended.append(ended_branch)
            if kind == Kind.XA_COMMIT:
                commits[index] = ended_branch
        prepared = list[Branch]()
        for one in now:
            if one.xid in fresh:
                on_keep(one)
            prepared.append(self.store.keep(one) if one.xid in fresh else one)
        return XaGroup(before, steps, tuple(prepared), commits, tuple(ended))


def keep_with_retries(work: Callable[[OnKeep], XaGroup], group: Group, retries: Retries) -> XaGroup:
    """Call ``work`` with retries; return the group's effect on branches that it returns. ``work``
    calls its argument with each branch before it keeps the branch's bytes.

    A failure counts for the worker that has the XA PREPARE, also if other workers share the group.
    Raise an error that is not temporary unchanged. After all attempts have failed, raise
    GivenUpError with the position of the XA PREPARE.
    """
    begun: list[Branch] = []

    def attempt() -> XaGroup:
        begun.clear()
        return work(begun.append)

    def failed() -> list[int]:
        position = begun[-1].position if begun else -1
        return [int(worker) for worker in group.worker[group.records["position"] == position]]

    try:
        return retries.run(attempt, slot=group.slot, failed=failed)
    except GivenUpError as error:
        if begun:
            error.at(position=RelayPosition.unpack(begun[-1].position))
        raise


def _check_prepared(branch: Branch) -> None:
    """Raise StatementError if the XA_PREPARE event has another XID than its XA START."""
    want = branch.xid.logged
    with branch.open() as file:
        file.seek(branch.end - CRC_LENGTH * branch.checksum - len(want))
        if file.read(len(want)) != want:
            raise StatementError(
                f"an XA_PREPARE event holds an invalid XID: not {branch.xid}", hint=DAMAGED
            )


def _hidden(tracking: Tracking, logged: str) -> str:
    """Return the target's name of the source's table ``logged``, or "" if the table has no hidden
    columns. Until the applier knows whether the source's names are in lower case, it also compares
    them in lower case."""
    rules, names, filters = tracking.column_rules, tracking.names, tracking.filters
    rewrites = filters.now.rewrites
    name, asks = rewrites.table(logged), names.value == ASK
    return name if rules.hides(name) or (asks and rules.folded().hides(fold(name))) else ""
