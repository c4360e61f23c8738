"""LogIdentity: which log the packed positions belong to, and whether a log continues the target.

The number in a file's name says nothing by itself: after RESET, or on another server, the same
names come again. So the control table keeps a fingerprint for every file. If a number comes with
another fingerprint, it belongs to another history. The numbers of that history start above every
position recorded so far, and only GTIDs decide which transactions the tables already have.

A log may also lack transactions after the target's position (WL#3970: a position has a meaning only
in its own log). In the log that was applied before, file and offset show that. In another one
(``LogIdentity.renewed``) only GTIDs do: the log must contain what the target has executed, and the
target must contain what precedes the log.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...errors import BEGIN_AGAIN, HistoryError, LogError
from ...gtid import GtidSet
from ...position import OFFSET_BITS
from ...relay.index import TransactionIndex, build_index
from ...relay.log import split_name
from ...relay.record import Flag
from ...relay.source_places import SourcePlace

if TYPE_CHECKING:
    from ...relay.index import TransactionIndex
    from ...relay.log import RelayLog
    from ..table.control import Control
    from ..table.cut import Cut


@dataclass(frozen=True)
class LogIdentity:
    """The identity of a log in the target. ``base``: added to the number in a file's name.
    ``renewed``: it is not the log that was applied before, so transactions are skipped by GTID."""

    log_id: str
    base: int
    fingerprints: Mapping[int, str]
    renewed: bool = False


def fingerprints(log: RelayLog) -> dict[int, str]:
    """Return the fingerprints of the files that are complete enough to have one, by number."""
    return {
        file.number: log.fingerprint(file.number)
        for file in log.files
        if log.head_complete(file.number)
    }


def resolve(control: Control, log: RelayLog, cut: Cut | None, highest: int) -> LogIdentity:
    """Return the history of ``log``. ``highest``: the largest position in any table or cut."""
    present = fingerprints(log)
    for earlier in reversed(recorded(control)):
        digests = earlier.fingerprints
        shared = digests.keys() & present.keys()
        if not shared or any(digests[number] != present[number] for number in shared):
            continue
        if cut is None or cut.log_id == earlier.log_id:
            return replace(earlier, fingerprints={**digests, **present})
        # The last cut is of another log. If this one's positions are above it, it was begun and
        # has no cut yet. Otherwise the source has returned to an older log: numbers restart.
        if earlier.base + min(shared) > cut.position >> OFFSET_BITS:
            return replace(earlier, fingerprints={**digests, **present}, renewed=True)
        break
    base = max(0, (highest >> OFFSET_BITS) + 1 - min(present, default=1))
    # Tables may exist before the first cut: their positions are also of the log before.
    return LogIdentity(uuid.uuid4().hex, base, present, renewed=cut is not None or highest > 0)


def recorded(control: Control) -> list[LogIdentity]:
    """Return the logs that were applied, each with the files of all its rows. The log that was
    written most recently is the last one."""
    logs: dict[str, LogIdentity] = {}
    for row in control.rows("history"):
        detail = json.loads(row["detail"])
        digests = {int(number): digest for number, digest in detail["fingerprints"].items()}
        before = logs.pop(detail["log_id"], None)
        files = {**before.fingerprints, **digests} if before else digests
        logs[detail["log_id"]] = LogIdentity(detail["log_id"], detail["base"], files)
    return list(logs.values())


def record(control: Control, history: LogIdentity) -> None:
    """Write those files of the history that no row has. There is one row for each file; with all
    files in each row, the size of the rows would grow with the square of the number of files."""
    recorded_log = next((log for log in recorded(control) if log.log_id == history.log_id), None)
    have = recorded_log.fingerprints if recorded_log else {}
    new = {str(n): digest for n, digest in history.fingerprints.items() if have.get(n) != digest}
    if new or recorded_log is None:
        detail = {"log_id": history.log_id, "base": history.base, "fingerprints": new}
        control.write("history", detail=json.dumps(detail))


def indexed(
    log: RelayLog, history: LogIdentity, folder: str, known: TransactionIndex | None = None
) -> tuple[LogIdentity, TransactionIndex]:
    """Return the history with all files of the log, and the index of the readable part. ``known``:
    an earlier index. Raise LogError as ``build_index``, and for a file that was replaced."""
    index = build_index(
        log, folder, history.base, complete=False, previous=known, up_to_damage=True
    )
    present = fingerprints(log)
    check_same(log, history.fingerprints, present)
    first = min(present, default=0)  # purged files are not compared again
    still = {n: digest for n, digest in history.fingerprints.items() if n >= first}
    return replace(history, fingerprints={**still, **present}), index


def check_same(log: RelayLog, before: Mapping[int, str], present: Mapping[int, str]) -> None:
    """Raise LogError for a file whose content has changed."""
    for number in before.keys() & present.keys():
        if before[number] != present[number]:
            raise LogError(
                "the file was replaced by another one of the same name while the applier ran",
                file=log.file(number).path,
                hint="stop, and start the applier again",
            )


def continues_at(
    find: Callable[[SourcePlace], int | None], log: RelayLog, index: TransactionIndex, cut: Cut
) -> int | None:
    """Return where a log that differs from the previous one continues the target, by the source's
    file and position: packed, after the last transaction that the cut has. Return None if this is
    unknown, because the log does not contain the position or its GTIDs contradict it. ``find``:
    returns the packed position of a source position in the log."""
    place = SourcePlace.of(cut.source)
    position = None if place is None else find(place)
    if position is None:
        return None
    executed = GtidSet.parse(cut.gtid_executed)
    before = log.previous_gtids().union(index.gtids(0, position))
    agrees = before.issubset(executed) and not index.gtids(position).intersect(executed)
    return position if agrees else None


def check_continuity(
    history: LogIdentity, log: RelayLog, index: TransactionIndex, cut: Cut | None, skip: GtidSet
) -> GtidSet:
    """Return the GTID set that counts as executed before this log's first transaction to apply, if
    the log's positions are the cut's, or if GTIDs decide. ``skip``: transactions that need not be
    in the log.

    Raise HistoryError if transactions are missing between the target and the log, if the log
    belongs to another server, or if there are no GTIDs to decide.
    """
    before = log.previous_gtids()
    if index.lost_to and (cut is None or history.renewed or cut.position < index.lost_to):
        raise HistoryError(
            "the log begins with the rest of a transaction whose beginning is in an older file",
            file=log.files[0].path,
            hint="give the older files too, or a log that begins with a whole transaction",
        )
    if cut is None:
        return before
    executed = GtidSet.parse(cut.gtid_executed)
    if not history.renewed:
        _check_start(log, history, cut)
        return executed
    logged = before.union(index.gtids()).union(skip)
    files = f"{log.files[0].name} to {log.files[-1].name}"
    if is_anonymous(index) or not executed or not logged:
        raise HistoryError(
            "these files are another log than the one that was applied before, and without GTIDs"
            f" nobody can tell what of it is already in the tables{_position_text(cut)}",
            file=log.path,
            hint="give the folder of the log that was applied before, one that was received from"
            f" the same source and holds that place, or {BEGIN_AGAIN}",
        )
    if absent := executed.subtract(logged):
        if index.damage:
            raise index.damage  # the missing ones may follow the damage
        raise HistoryError(
            f"the log ({files}) is of another server: the target has {absent}, the log has not",
            file=log.path,
            hint="give the log of the same source, or of a replica of it that has these",
        )
    if missing := before.subtract(executed):
        raise HistoryError(
            f"transactions are missing between the target and the log ({files}): {missing}",
            file=log.path,
            hint=f"give the older files too, or {BEGIN_AGAIN}",
        )
    return executed


Begin = tuple[str, int] | None
"""the file and position of the source where the user accepts that a log begins; None: anywhere"""
NOWHERE: Begin = ("", 0)
_BEGIN = 4
"""the position of a binary log's first event"""


def check_beginning(
    log: RelayLog, index: TransactionIndex, first: SourcePlace | None, begin: Begin
) -> None:
    """Raise HistoryError if a log for an empty target lacks the source's first transactions: the
    tables would lack their rows. ``first``: the source position where the log begins."""
    if begin is None or (first is not None and begin == (first.file, first.position)):
        return
    if before := _before(log, index, first):
        raise HistoryError(
            f"the log begins in mid-history, and the target is empty: it lacks {before}",
            file=log.files[0].path,
            hint="copy the tables: spark-repl run --config F (before it, if the target has tables:"
            " spark-repl reset --all --config F); or go without these rows: spark-repl apply"
            " --from-here",
        )


def _before(log: RelayLog, index: TransactionIndex, first: SourcePlace | None) -> str:
    """Return the GTIDs executed before the log, as far as the log shows them; "" if there are
    none."""
    if previous := log.previous_gtids():
        return str(previous)
    # A replica's own relay log does not record what the replica had before.
    begins = {source: spans[0][0] for source, spans in index.gtids().intervals.items()}
    if gap := {source: (1, start) for source, start in begins.items() if start > 1}:
        return str(GtidSet({source: [span] for source, span in gap.items()}))
    if first is None or not is_anonymous(index):
        return ""
    mid = split_name(first.file)[1] > 1 or first.position > _BEGIN
    return f"what is before {first} of the source" if mid else ""


def is_anonymous(index: TransactionIndex) -> bool:
    """Return whether a transaction of the log has no GTID."""
    return any(bool((file.records["flags"] & Flag.ANONYMOUS).any()) for file in index.files)


def _position_text(cut: Cut) -> str:
    place = SourcePlace.of(cut.source)
    if place is None:
        return ""
    return f": they stand at {place} of server {place.server_id}, which is not in it"


def _check_start(log: RelayLog, history: LogIdentity, cut: Cut) -> None:
    """Raise HistoryError unless the file at the tables' position still exists, or was applied to
    its end."""
    number = (cut.position >> OFFSET_BITS) - history.base
    first = log.files[0].number
    executed = GtidSet.parse(cut.gtid_executed)
    # Without GTIDs the file before must be assumed to have been applied to its end.
    if not cut.position or number >= (first if executed else first - 1):
        return
    missing = log.previous_gtids().subtract(executed)
    if missing or not executed:
        raise HistoryError(
            f"the log begins at {log.files[0].name}, the tables are in file number {number}:"
            f" {missing or 'what lies between'} is missing",
            file=log.path,
            hint="give the older files too",
        )
