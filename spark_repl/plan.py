"""Plan of a group: which worker re-reads which spans, and which tables already have what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .apply.schedule import assign, runs
from .apply.stage import Span, StageTask
from .position import OFFSET_BITS
from .relay.index import Flag, Kind
from .relay.log import RelayLog

Records = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

_OFFSET_MASK = (1 << OFFSET_BITS) - 1
# Kinds whose row events are applied; ROLLBACK holds some that never happened.
WITH_ROWS = (Kind.ROWS, Kind.XA_ONE_PHASE)
WITHOUT_ROWS = (Kind.EMPTY, Kind.ROLLBACK)


def stage_tasks(
    log: RelayLog,
    base: int,
    records: Records,
    wave: npt.NDArray[np.int32],
    workers: int,
    skip: Mapping[str, Mask],
    **options: Any,
) -> list[StageTask]:
    """One task per worker that has work. ``records`` and ``wave`` [n], ``skip`` masks [n]."""
    holds = np.flatnonzero(np.isin(records["kind"], WITH_ROWS))
    records, wave = records[holds], wave[holds]
    skip = {table: mask[holds] for table, mask in skip.items()}
    worker = assign(wave, records["length"], workers)
    tasks = []
    for number, found in enumerate(runs(worker, records["position"], records["end"], workers)):
        spans = tuple(_span(log, base, records[a:b]) for a, b in found)
        chosen = [np.arange(a, b) for a, b in found]
        if spans:
            picked = np.concatenate(chosen)
            mine = {table: mask[picked] for table, mask in skip.items() if mask[picked].any()}
            tasks.append(StageTask(number, spans, skip=mine, **options))
    return tasks


def _span(log: RelayLog, base: int, records: Records) -> Span:
    file_no = int(records["position"][0] >> OFFSET_BITS)
    return Span(
        log.file(file_no - base).path,
        file_no,
        (records["position"] & _OFFSET_MASK).astype(np.int64),
        (records["end"] & _OFFSET_MASK).astype(np.int64),
        records["flags"] & Flag.COMPRESSED != 0,
        bool(records["flags"][0] & Flag.CHECKSUM),
    )
