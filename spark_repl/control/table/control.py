"""Control: writes the control table, ``<target>/_repl/control``: owner, histories, tables and cuts.

The table is a small Delta table (``control_log``), which any engine can read. An applier that slept
through a takeover can't publish anything (``fence``). After an error of a commit, ``Control`` first
looks for the commit in the log: it may have landed, another process may have cleaned up the table,
or storage has failed.

``clean_up`` removes commits and files that nothing needs after a checkpoint of the table.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ... import formats
from ...delta.log.checkpoint_schedule import ends_with, forget_lost
from ...delta.log.log_cleanup import remove_commits
from ...delta.log.log_replay import commit_path
from ...delta.store import storage
from ...delta.store.remover import Remover
from ...errors import ConcurrentChangeError, FencedError, SparkReplError, TargetError
from .control_log import ControlLog, RowsCommit, WriteRows
from .control_rows import ControlRows
from .control_snapshot import CUT, ControlSnapshot, Row
from .cut_tables import LastTables, change_rows
from .earlier_cuts import converted
from .fence import Fence, beaten, check_stays, other_channel, taken_over
from .owner import Owner, give_back, open_claim, who
from .owner_lease import LEASE_S, check_unclaimed, start_renewals
from .pending_rows import PendingRow, PendingRows, RowTimes
from .row_formats import (
    FIRST,
    KNOWN_FORMAT,
    format_of,
    row_content,
    rows_table,
    with_all_columns,
)  # fmt: skip

if TYPE_CHECKING:
    from ...delta.log.durable import Durable
    from ...delta.store.remover import Remover
    from .cut import Cut

logger = logging.getLogger(__name__)

_PRUNE_EVERY, _BESIDE_MOST = 100, 100
_STATE = attrgetter("version", "position")


class PruningRules(Protocol):
    """Chooses the rows of the control table that pruning keeps (``records/pruning``)."""

    def __call__(self, rows: pa.Table, *, epoch: int, gone: Collection[str]) -> pa.Table:
        """Return the rows to keep, of ``rows`` as they are stored. ``epoch``: the owner's;
        ``gone``: paths where no table exists any more."""


class Control(ControlRows):
    """The reader of the control table, and its writer after ``claim``. Thread-safe.

    ``channel``: the channel to which the target must belong; "" for any. ``write_rows``: the
    function that commits rows. ``lease_s``: seconds for which the owner's lease is valid, from the
    next claim on; 0 for no lease. ``moving_to``: the URI to which the next owner moves the target.
    ``on_taken``: called in the lease's thread after a takeover.
    """

    def __init__(
        self, path: str, channel: str = "", *, write_rows: WriteRows = ControlLog.commit
    ) -> None:
        super().__init__(path)
        self.channel, self._write_rows = channel, write_rows
        self.lease_s, self.moving_to = LEASE_S, ""
        self.on_taken: Callable[[FencedError], object] = lambda error: None
        self._end_renewals: Callable[[], object] = bool
        self.took_over = False  # whether the target was taken from an owner that may be alive
        self._fence, self._times = Fence(), RowTimes()
        self._seen: ControlLog | None = None  # the newest version; None: not the owner
        self._pending = PendingRows()
        self._owned_at: int | None = None  # the newest version that confirmed the ownership
        self._pruned, self._lock = 0, threading.Lock()  # the version of the last pruning

    @property
    def epoch(self) -> int:
        """Return the epoch of this process as an owner; 0 if it has not claimed the target."""
        return self._fence.epoch

    def table_id(self) -> str:
        """Return the id as ``ControlRows`` does. The owner sends no request."""
        return self._seen.table_id if self._seen is not None else super().table_id()

    def claim(self, *, take_over: bool = False) -> int:
        """Make this process the owner, and return the new epoch. Convert the cuts of a target that
        an earlier version wrote, in the same commit. Claim again if the former owner, which still
        runs, has committed meanwhile.

        Raise FencedError, naming the other owner, if that owner runs or may run. An owner on
        another host may run until ``owner_lease.wait_until_unclaimed`` has seen its lease expire.
        Raise TargetError if the target belongs to another channel.
        """
        if self._read.version < 0:  # else the bucket has been read
            storage.check_bucket(self.path)
        for tries in reversed(range(_BESIDE_MOST)):
            owner = self._newest_owner()
            if not take_over:
                check_unclaimed(self.path, owner[1] if owner else None)
            try:
                me = self._claim_after(owner, again=tries < _BESIDE_MOST - 1)
                break
            except (FencedError, ConcurrentChangeError) as error:
                now = self.owner()
                if tries and (now and now[0]) == (owner and owner[0]):
                    logger.info("others have committed meanwhile, claiming again%s", who(now))
                elif isinstance(error, FencedError):
                    raise beaten(error, self.path, now, self.channel) from error
                else:
                    raise
        self._renew_lease(me)
        return self.epoch

    def _newest_owner(self) -> tuple[int, Owner] | None:
        """Read the newest version, and return its owner. Raise TargetError if the target belongs to
        another channel."""
        self._looks.forget()
        self._fence = Fence()  # nothing is claimed, so ``release`` writes nothing
        seen = self._seen = self._newest_log() or self._create()
        if self._read.version != seen.version:
            self._read = self._snapshot_of(seen)
        # Each commit since the last pruning is a file: a start is not a reason to prune.
        self._pruned = seen.version - len(seen.files)
        owner = self.owner()
        recorded = owner[1].channel if owner else ""
        if self.channel and recorded not in ("", self.channel):
            raise other_channel(self.path, recorded, self.channel)
        self.channel = self.channel or recorded
        return owner

    def _claim_after(self, owner: tuple[int, Owner] | None, *, again: bool) -> Owner:
        """Commit the claim of this process as the successor of ``owner``, and return the row.
        ``again``: the owner has committed since the last attempt began. Raise as ``write``."""
        self.took_over = owner is not None and not owner[1].is_dead
        self._fence = Fence.after(owner[0] if owner else 0)
        self._times.follow(self.snapshot())
        self._owned_at = None
        with open_claim(claim := self._fence.claim):
            me = replace(Owner.me(self.channel, claim, self.lease_s), moving_to=self.moving_to)
            self._write_owner(json.dumps(asdict(me)), first=again)
            remover = Remover(self.check_owner)
            try:  # Spark and delta-rs open no table with a damaged checkpoint
                forget_lost(self.path, remover)
            except OSError as error:
                logger.warning("damaged checkpoints of the control table stay: %s", error)
        return me

    def _create(self) -> ControlLog:
        storage.check_conditions(self.path)
        with storage.named(self.path):
            with contextlib.suppress(ConcurrentChangeError):  # another process was first
                ControlLog.create(self.path)
            return self._open()

    def _renew_lease(self, me: Owner) -> None:
        """Renew the owner's lease until it releases the target, or drops this object."""
        self._end_renewals()
        if me.lease_s:
            own = weakref.ref(self)

            def taken(by: tuple[int, Owner] | None) -> None:
                if (control := own()) is not None:
                    control.on_taken(taken_over(control.path, by))

            self._end_renewals = weakref.finalize(
                self, start_renewals(ControlRows(self.path), self.epoch, me, taken)
            )

    def _write_owner(self, detail: str, *, first: bool) -> None:
        """Write the owner's row, and convert earlier cuts in the same commit. ``first``: commit the
        row also before that, to fence off the former owner: a conversion may take longer than it
        takes that owner to commit. Raise as ``write``."""
        assert self._seen is not None
        if self._seen.has_all_columns and not self.snapshot().is_earlier:
            self.write("owner", detail=detail)
            return
        if first:  # with the number and the columns of the earlier version, which may continue
            row = self._row("owner", 0, "", detail, FIRST)
            rows = rows_table([row]).select(self._seen.column_names)
            with self._lock:
                self._commit(rows, row_content(row, f"first {detail}"))
        row = self._row("owner", 0, "", detail)

        def rows_of(before: pa.Table) -> pa.Table:
            return pa.concat_tables([converted(before, self.path), rows_table([row])])

        with self._lock:
            self._overwrite(rows_of, row_content(row, detail), columns=True)

    def check_owner(self) -> None:
        """Raise FencedError unless this process owns the target: another process has taken it over
        since ``claim``, or the target was removed or created again. While no process writes to the
        control table this costs two look-ups of names in its log, so it can be called before each
        of many removals. Raise OSError, TargetError."""
        if self._owned_at is not None and ends_with(self.path, self._owned_at):
            return
        self._looks.forget()
        snapshot = self.snapshot()
        if not storage.is_file(commit_path(self.path, snapshot.version)):
            self._read = ControlSnapshot()  # what it has read is of another table
            snapshot = self.snapshot()
        owner = self.owner()
        if owner is None or not self._is_self(owner):
            raise taken_over(self.path, owner)
        self._owned_at = snapshot.version

    def _is_self(self, owner: tuple[int, Owner]) -> bool:
        return (owner[0], owner[1].claim) == (self._fence.epoch, self._fence.claim)

    def is_owner(self) -> bool:
        """Return whether no process has taken the target over since ``claim``."""
        owner = self.owner()
        return owner is None or self._is_self(owner)

    def release(self) -> None:
        """Release the target. Another owner may then claim it, also in this process, and this one
        can't write any more. Pending rows are given up; their statements are applied again."""
        if not self.epoch:  # never claimed, or fenced off when it tried
            return
        self._end_renewals()
        released = replace(Owner.me(self.channel), released=True)
        self._pending.clear()
        # Also if storage fails. After a takeover there is nothing to release.
        with give_back(self._fence.claim), contextlib.suppress(FencedError):
            self.write("owner", detail=json.dumps(asdict(released)))
        self._seen = None

    def copy_to(self, path: str) -> None:
        """Create the control table of a moved target at ``path``, with all rows of this one, in one
        commit. The copy has no owner. The caller owns this target. Raise ConcurrentChangeError if
        there already is a control table, and as ``check_owner``."""
        self.check_owner()
        rows = with_all_columns(self._rows_of(self._open()))
        released = replace(Owner.me(self.channel), released=True)
        row = self._row("owner", 0, "", json.dumps(asdict(released)))
        ControlLog.create(path, pa.concat_tables([rows, rows_table([row])]))

    def give_up(self) -> None:
        """Record that the target was moved to ``moving_to``: no other process can claim it here
        without ``take_over``. Raise as ``write``."""
        moved = replace(Owner.me(self.channel), moving_to=self.moving_to).after_move()
        self.write("owner", detail=json.dumps(asdict(moved)))
        self._end_renewals()
        with give_back(self._fence.claim):
            self._fence, self._seen = Fence(), None

    def write(
        self,
        kind: str,
        *,
        position: int = 0,
        gtid_executed: str = "",
        detail: str = "{}",
        check: Callable[[], object] = bool,
        number: int = 0,
    ) -> None:
        """Append one row as the owner. If the method is called again after an error, it does not
        append the row a second time.

        ``check`` is called with the version that the row follows. ``number``: the row's format; 0
        for the format of its kind. Raise what ``check`` raises, FencedError after a takeover,
        OSError and ConcurrentChangeError for transient errors, TargetError for other storage
        errors.
        """
        row = self._row(kind, position, gtid_executed, detail, number)
        with self._lock:
            self._append([*self._pending.rows, PendingRow(row, detail)], check)

    def write_pending(self) -> None:
        """Append the pending rows in one commit. Raise as ``write``."""
        with self._lock:
            if self._pending.rows:
                self._append(list(self._pending.rows))

    def _append(self, rows: list[PendingRow], check: Callable[[], object] = bool) -> None:
        """Append rows, the pending ones first, in one commit. The caller holds the lock."""
        for tries in reversed(range(_BESIDE_MOST)):  # other processes may write at the same time
            check()
            self._pending.check()
            encoded = self._encoded(rows)
            with contextlib.suppress(*[ConcurrentChangeError] if tries else ()):
                as_they_are = self._commit(encoded.table, encoded.content)
                break
        self._pending.clear()
        assert self._seen is not None
        if as_they_are and self._seen.version == encoded.follows.version + 1:
            self._read = encoded.follows.followed_by(encoded.rows, encoded.table, encoded.last)
        checkpoint_if_due(self._seen)

    def _encoded(self, rows: Sequence[PendingRow]) -> _EncodedRows:
        """Return the rows of one commit. A cut's tables are compared with the cut before, of the
        version that the commit follows: the commit fails if there is a newer one."""
        follows = self._read
        if any(row.tables is not None for row in rows) and (
            self._seen is None or follows.version < self._seen.version
        ):
            follows = self.snapshot()
        stored, plain, content = list[Row](), list[Row](), list[str]()
        last: LastTables | None = None
        for pending in rows:
            row, detail = pending.row, pending.detail
            content.append(row_content(row, detail))
            if pending.tables is not None:
                last = last or follows.last_tables
                changes, number = last.changes_of(pending.tables), last.sequence + 1
                row = {**row, "sequence": number}
                place = {name: row[name] for name in ("epoch", "at", "position")}
                stored += change_rows(changes, number, **place)
                last = LastTables(number, pending.tables)
            stored.append(row)
            plain.append({**row, "detail": detail})
        if last is not None:
            # Not the changes, which depend on the version that the commit follows: a retry after a
            # lost answer has to find this mark. The last cut's tables are enough: the rows of
            # earlier cuts have other positions.
            content.append(str(hash((*last.tables, *map(_STATE, last.tables.values())))))
        return _EncodedRows(follows, rows_table(stored), "".join(content), plain, last)

    def _row(
        self, kind: str, position: int, gtid_executed: str, detail: str, number: int = 0
    ) -> Row:
        """Return a row to write. ``number``: its format; 0: the format of its kind."""
        at = self._times.of(kind, position, self.snapshot)
        row = {"kind": kind, "epoch": self.epoch, "at": at, "position": position}
        stamped = formats.stamp(detail, number or format_of(kind))
        return {**row, "gtid_executed": gtid_executed, "detail": stamped}

    def prune(
        self, rules: PruningRules, barrier: Barrier,
        gone: Callable[[], Collection[str]] = frozenset, *, due: bool = False,
    ) -> bool:  # fmt: skip
        """Remove the rows that ``rules`` do not keep, and rewrite many small files as one. ``gone``
        returns the paths at which no table exists any more. ``due``: prune now, instead of after
        each hundred commits. Return whether rows were pruned. Raise as ``write``, and OSError if
        ``barrier`` can't make the remaining rows durable; nothing is removed then."""
        if not (due or self._is_prune_due()):
            return False
        paths = gone()  # no path is given to a table again before the rows below are removed
        with self._lock:
            if self._seen is None or not (due or self._is_prune_due()):
                return False
            began = time.time()
            rows, version = self._rows_of(self._seen), self._seen.version + 1
            remaining = rules(rows, epoch=self.epoch, gone=paths)
            self._commit(remaining, f"prune {rows.num_rows}", replaces=True)
            self._pruned = self._seen.version
            if self._pruned == version:
                self._read = ControlSnapshot.of(version, remaining, KNOWN_FORMAT, self.path)
            clean_up(self._seen, barrier, Remover(self.check_owner), began)
            return True

    def begin_again(
        self, stay: Collection[str], rows: Mapping[str, str],
        check: Callable[[], object] = bool,
    ) -> None:  # fmt: skip
        """Replace all rows by ``rows`` (kind -> detail), in one commit, except rows of the kinds in
        ``stay``. ``check``: as for ``write``. Raise as ``write``."""
        with self._lock:
            self._pending.clear()
            new = [(self._row(kind, 0, "", detail), detail) for kind, detail in rows.items()]

            def rows_of(before: pa.Table) -> pa.Table:
                remaining = before.filter(pc.is_in(before.column("kind"), pa.array(list(stay))))
                return pa.concat_tables([remaining, rows_table([row for row, _ in new])])

            content = "".join(row_content(row, detail) for row, detail in new)
            self._overwrite(rows_of, content, check)

    def _overwrite(
        self, rows_of: Callable[[pa.Table], pa.Table], content: str,
        check: Callable[[], object] = bool, *, columns: bool = False,
    ) -> None:  # fmt: skip
        """Replace all rows by what ``rows_of`` makes of them, in one commit. The caller holds the
        lock. ``columns``: as of ``RowsCommit``. Raise as ``write``."""
        for tries in reversed(range(_BESIDE_MOST)):  # other processes may write at the same time
            check()
            before = with_all_columns(self._rows_of(self._seen or self._open()))
            with contextlib.suppress(*[ConcurrentChangeError] if tries else ()):
                self._commit(rows_of(before), content, replaces=True, columns=columns)
                return

    def _is_prune_due(self) -> bool:
        seen = self._seen
        return seen is not None and seen.version >= self._pruned + _PRUNE_EVERY

    def _commit(
        self, rows: pa.Table, content: str, *, replaces: bool = False, columns: bool = False
    ) -> bool:
        """Commit rows. Return False if rows of the same content have landed before, at another
        time."""
        if self._seen is None:
            raise FencedError("this process does not own the target", file=self.path)
        self._looks.forget()
        mark = self._fence.mark(content)
        commit = self._fence.commit(mark, replaces=replaces, columns=columns)
        try:
            with storage.named(self.path):
                landed = self._write_rows(self._seen, rows, commit)
                is_sequel = self._seen.is_in_log()
        except (ConcurrentChangeError, OSError) as error:
            self._resolve(mark, error)
            return False
        if not is_sequel:
            self._read = ControlSnapshot()  # it may have read this commit as one of the table's
            if not self.is_owner():
                self._seen = None  # it slept: a successor has removed the commits that came first
                raise taken_over(self.path, self.owner())
        self._seen = landed
        self._looks.forget()
        return True

    def _resolve(self, mark: str, error: Exception) -> None:
        """Find out whether a commit that failed has landed. Raise ``error`` if not."""
        assert self._seen is not None
        before, newest = self._seen.version, self._open()
        marks = self._fence.marks_after(self.path, before, newest.version, self.is_owner)
        self._seen = newest if marks is not None else None  # the versions in between are checked
        if marks is None:
            raise taken_over(self.path, self.owner()) from error
        if mark in marks:
            return
        if newest.version > before:
            raise ConcurrentChangeError(f"another writer wrote to {self.path}") from error
        raise error

    def named(self, error: SparkReplError) -> SparkReplError:
        """Return the error. If a FencedError does not name the current owner, and that is another
        one, add its name."""
        if isinstance(error, FencedError) and "pid" not in error.message:
            owner = self.owner()
            error.message += who(owner) if owner and owner[0] != self.epoch else ""
        return error

    def write_beside(
        self, kind: str, check: Callable[[], bool], *, position: int = 0, detail: str = "{}",
        number: int = 0,
    ) -> None:  # fmt: skip
        """Append one row while an applier may run, if ``check`` returns True for the version that
        the row follows. ``number``: as for ``write``. Raise as ``check``, OSError, TargetError, and
        FencedError after a move or while its mover runs, because the new place would lack the row.
        """
        for _ in range(_BESIDE_MOST):
            self._looks.forget()  # ``check`` has to see what this call has written
            seen = self._open()
            owner = self.owner()
            if owner is not None and not owner[1].is_dead:
                check_stays(self.path, owner[1])
            if not check():
                return
            # The owner may be of an earlier version, whose table has fewer columns.
            row = self._row(kind, position, "", detail, number)
            rows = rows_table([row]).select(seen.column_names)
            try:
                with storage.named(self.path):
                    self._write_rows(seen, rows, RowsCommit())
                    if seen.is_in_log():
                        self._looks.forget()
                        return
            except (ConcurrentChangeError, OSError):
                if self._open().version == seen.version:
                    raise
            # Another commit came first, or this one may have landed, which ``check`` sees.
        raise TargetError(f"other commits came first {_BESIDE_MOST} times", file=self.path)

    def add_pending(
        self,
        kind: str,
        check: Callable[[], object] = bool,
        *,
        position: int = 0,
        gtid_executed: str = "",
        detail: str,
    ) -> None:
        """Add a row that is written together with the next row, in one commit. That write raises
        what ``check`` raises."""
        with self._lock:
            row = self._row(kind, position, gtid_executed, detail)
            self._pending.add(PendingRow(row, detail), check)

    def publish(self, cut: Cut, *, later: bool = False) -> None:
        """Publish a cut after all tables of its group are committed. ``later``: write it with the
        next row. Raise as ``write``."""
        detail = cut.row_detail()
        with self._lock:
            row = self._row(CUT, cut.position, cut.gtid_executed, detail)
            pending = PendingRow(row, detail, cut.tables)
            if later:
                self._pending.add(pending)
            else:
                self._append([*self._pending.rows, pending])


@dataclass(frozen=True)
class _EncodedRows:
    """Rows of one commit, which ``follows`` a snapshot. ``table``: as they are stored; ``content``:
    what identifies them; ``rows``: those of the snapshot, without the rows of cuts' tables;
    ``last``: the tables of the last cut among them."""

    follows: ControlSnapshot
    table: pa.Table
    content: str
    rows: list[Row]
    last: LastTables | None


_CHECKPOINT_EVERY = 64
_OPENED_S = 300  # no reader takes so long to open the table
_WRITTEN_H = 1
"""hours for which a file stays that no version names any more, or not yet. A commit that takes
longer is made on a version before the pruning, and is refused."""


class Barrier(Protocol):
    """Syncs a target before files are removed from it (``records/durability_barrier``)."""

    @property
    def durable(self) -> Durable: ...

    def __call__(self, *, checkpoint: bool = False) -> None: ...


def checkpoint_if_due(log: ControlLog) -> None:
    """Write a checkpoint after every ``_CHECKPOINT_EVERY`` versions."""
    if log.version % _CHECKPOINT_EVERY == 0:
        try:
            log.write_checkpoint()
        except (TargetError, OSError) as error:  # a checkpoint only makes reading quicker
            logger.warning("no checkpoint of the control table: %s", error)


def clean_up(log: ControlLog, barrier: Barrier, remover: Remover, began: float) -> None:
    """Remove commits and files that the newest version does not need, after ``barrier`` has made
    that version durable. Also remove files that the log does not name, because their commit failed
    or was removed. ``began``: the time (``time.time``) at which the commit of that version began.
    No later version names a file that was written before that time. Raise OSError, TargetError and
    FencedError."""
    with storage.named(log.folder):
        log.write_checkpoint()
        needless = log.needless_files(began - 3600 * _WRITTEN_H)
        barrier(checkpoint=True)
        # Another process may read an earlier version: first its log, then its files.
        remove_commits(log.folder, barrier.durable, before=began - _OPENED_S, remover=remover)
        remover.files(needless)
