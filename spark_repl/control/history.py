"""History: which log the packed positions belong to.

The number in a file's name says nothing by itself: after RESET, or on another server, the same
names come again. So the control table keeps a fingerprint for every file; the same number with
another fingerprint is another history, whose numbers start above every position recorded so far,
and there only GTIDs decide what is already in the tables.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import LogError
from ..position import OFFSET_BITS
from ..relay.index import TransactionIndex, build_index

if TYPE_CHECKING:
    from ..relay.log import RelayLog
    from .control import Control
    from .cut import Cut


@dataclass(frozen=True)
class History:
    """A log as the target counts it. ``base``: added to the number in a file's name. ``renewed``:
    it is not the log that was applied before, so transactions are skipped by GTID."""

    log_id: str
    base: int
    fingerprints: Mapping[int, str]
    renewed: bool = False


def fingerprints(log: RelayLog) -> dict[int, str]:
    return {
        file.number: log.fingerprint(file.number)
        for file in log.files
        if log.head_complete(file.number)
    }


def resolve(control: Control, log: RelayLog, cut: Cut | None, highest: int) -> History:
    """The history of ``log``. ``highest``: the largest position in any table or cut."""
    present = fingerprints(log)
    for earlier in reversed(recorded(control)):
        digests = earlier.fingerprints
        shared = digests.keys() & present.keys()
        if not shared or any(digests[number] != present[number] for number in shared):
            continue
        if cut is None or cut.log_id == earlier.log_id:
            return replace(earlier, fingerprints={**digests, **present})
        # The last cut is of another log. Where this one's positions lie above it, it was begun and
        # has no cut yet; else the source has come back to an older log: numbers begin anew.
        if earlier.base + min(shared) > cut.position >> OFFSET_BITS:
            return replace(earlier, fingerprints={**digests, **present}, renewed=True)
        break
    base = max(0, (highest >> OFFSET_BITS) + 1 - min(present, default=1))
    # Before the first cut tables may be there: their positions are of the log before, too.
    return History(uuid.uuid4().hex, base, present, renewed=cut is not None or highest > 0)


def recorded(control: Control) -> list[History]:
    """The logs that were applied, each with the files of all its rows; the one that was written
    last at the end."""
    logs: dict[str, History] = {}
    for row in control.rows("history"):
        detail = json.loads(row["detail"])
        digests = {int(number): digest for number, digest in detail["fingerprints"].items()}
        before = logs.pop(detail["log_id"], None)
        known = {**before.fingerprints, **digests} if before else digests
        logs[detail["log_id"]] = History(detail["log_id"], detail["base"], known)
    return list(logs.values())


def record(control: Control, history: History) -> None:
    """Writes those files of the history that no row has: a row for each file, not all files with
    each, or the rows would grow with the square of the files."""
    known = next((log for log in recorded(control) if log.log_id == history.log_id), None)
    have = known.fingerprints if known else {}
    new = {str(n): digest for n, digest in history.fingerprints.items() if have.get(n) != digest}
    if new or known is None:
        detail = {"log_id": history.log_id, "base": history.base, "fingerprints": new}
        control.write("history", detail=json.dumps(detail))


def indexed(
    log: RelayLog, history: History, folder: str, known: TransactionIndex | None = None
) -> tuple[History, TransactionIndex]:
    """(the history with all files of the log, the index of what can be read of it). ``known``: an
    earlier index. Raises LogError as ``build_index``, and for a file that was replaced."""
    index = build_index(log, folder, history.base, complete=False, known=known, up_to_damage=True)
    present = fingerprints(log)
    check_same(log, history.fingerprints, present)
    first = min(present, default=0)  # what was purged is not looked at again
    still = {n: digest for n, digest in history.fingerprints.items() if n >= first}
    return replace(history, fingerprints={**still, **present}), index


def check_same(log: RelayLog, before: Mapping[int, str], present: Mapping[int, str]) -> None:
    """Raises LogError for a file that has other contents than it had."""
    for number in before.keys() & present.keys():
        if before[number] != present[number]:
            raise LogError(
                "the file was replaced by another one of the same name while the applier ran",
                file=log.file(number).path,
                hint="stop, and start the applier again",
            )
