"""Stream checkpoint: Spark's record of where a stream resumes. It is only a hint, because the
tables' own positions decide.

``resume_offset`` returns the recorded place, and ``batch_end`` the end of a batch.
``forget_unfit`` removes a checkpoint that does not fit the log or the tables.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

from ...errors import LogError
from ...relay.stream_place import StreamPlace

if TYPE_CHECKING:
    from ...relay.log import RelayLog


def resume_offset(checkpoint: str) -> int | None:
    """Return the packed position after which a stream with this checkpoint resumes, or None."""
    place = _last_place(checkpoint, "commits")
    return None if place is None else place.position


def forget_unfit(checkpoint: str, log: RelayLog, base: int, low: int, high: int) -> None:
    """Remove a checkpoint from which a stream can't resume in this log, which ends at ``high``. The
    checkpoint may belong to another log, or be ahead of this one. Or its last batch was begun but
    not recorded as done, and the batch's part of the log was purged later. Or Spark would refuse
    the checkpoint. The tables have all earlier transactions.

    Also remove a checkpoint before ``low``: ``apply`` without a stream has applied what follows it,
    and a stream would bring all of that again."""
    if not _is_whole(checkpoint):
        _remove(checkpoint)
        return
    places = [_last_place(checkpoint, folder) for folder in ("commits", "offsets")]
    try:
        for place in filter(None, places):
            place.check(log, base)
        if places[0] is not None and not low <= places[0].position <= high:
            _remove(checkpoint)
    except LogError:
        _remove(checkpoint)


def _remove(checkpoint: str) -> None:
    """Remove the checkpoint in one step, because Spark refuses one of which only a part is left. If
    the process is killed here, the next start removes the renamed folder."""
    removed = f"{checkpoint}.removed"
    shutil.rmtree(removed, ignore_errors=True)
    os.rename(checkpoint, removed)
    shutil.rmtree(removed, ignore_errors=True)


def _is_whole(checkpoint: str) -> bool:
    """Return whether Spark accepts the checkpoint. Spark refuses it if a loss of power damaged its
    newest file. Spark also refuses a folder that has a file but no batch: a process ended while it
    wrote the first batch's place."""
    newest = [os.path.join(checkpoint, "metadata")]
    for folder in ("offsets", "commits"):
        path = os.path.join(checkpoint, folder)
        numbers = _numbers(path)
        if not numbers and os.path.isdir(path) and os.listdir(path):
            return False
        newest += [os.path.join(path, str(number)) for number in sorted(numbers)[-1:]]
    try:
        for path in filter(os.path.exists, newest):
            _last_line(path)
    except (ValueError, IndexError):
        return False
    return True


def _last_line(path: str) -> Any:
    """Return the JSON of a file's last line. Raise OSError, ValueError and IndexError."""
    with open(path, encoding="utf-8") as lines:
        return json.loads(lines.read().splitlines()[-1])


def _last_place(checkpoint: str, folder: str) -> StreamPlace | None:
    """Return the end of the last batch that is recorded as done (``commits``) or as begun
    (``offsets``)."""
    numbers = _numbers(os.path.join(checkpoint, folder))
    return batch_end(checkpoint, max(numbers)) if numbers else None


def batch_end(checkpoint: str, number: int) -> StreamPlace | None:
    """Return the end of a batch that has begun, None if the checkpoint does not show it. Spark
    writes it before it calls the function of ``foreachBatch``."""
    try:
        return StreamPlace.of(_last_line(os.path.join(checkpoint, "offsets", str(number))))
    except (OSError, ValueError, KeyError, IndexError):
        return None


def _numbers(folder: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder) if re.fullmatch(r"\d+", name)]
    except FileNotFoundError:
        return []
