"""Checkpoint: where Spark's own notes say that a stream resumes, and when they say nothing."""

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
    """The packed position behind which a stream with this checkpoint resumes; None: none."""
    place = _last_place(checkpoint, "commits")
    return None if place is None else place.position


def forget_foreign(checkpoint: str, log: RelayLog, base: int, high: int) -> None:
    """Removes a checkpoint that doesn't resume up to ``high`` in this log: one of another history,
    which says nothing about it, or one whose last batch, begun but not noted as done, lies in what
    was purged since. The tables have what lies before."""
    places = [_last_place(checkpoint, folder) for folder in ("commits", "offsets")]
    try:
        for place in filter(None, places):
            place.check(log, base)
        if places[0] is not None and places[0].position > high:
            shutil.rmtree(checkpoint)
    except LogError:
        shutil.rmtree(checkpoint)


def _last_place(checkpoint: str, folder: str) -> StreamPlace | None:
    """Up to where the last batch goes that is noted as done (``commits``), or as begun."""
    numbers = _numbers(os.path.join(checkpoint, folder))
    if not numbers:
        return None
    path = os.path.join(checkpoint, "offsets", str(max(numbers)))
    try:
        with open(path, encoding="utf-8") as lines:
            offset: Any = json.loads(lines.read().splitlines()[-1])
        return StreamPlace.of(offset)
    except (OSError, ValueError, KeyError, IndexError):
        return None  # a damaged checkpoint: Spark says so itself when the stream starts


def _numbers(folder: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder) if re.fullmatch(r"\d+", name)]
    except FileNotFoundError:
        return []
