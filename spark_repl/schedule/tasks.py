"""Tasks: a group -> what each worker has to read of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..decode.staged import Span, StageTask
from ..position import OFFSET_BITS
from .group import WITH_ROWS, Group, Records

if TYPE_CHECKING:
    from ..relay.log import RelayLog
    from .branches import Branch

Mask = npt.NDArray[np.bool_]


def stage_tasks(
    log: RelayLog, base: int, group: Group, skip: Mapping[str, Mask], **options: Any
) -> list[StageTask]:
    """One task per worker that has rows. ``skip``: by table, which transactions [n] it has already;
    ``options``: of every task."""
    holds = np.flatnonzero(np.isin(group.records["kind"], WITH_ROWS))
    records, worker = group.records[holds], group.worker[holds]
    skip = {table: mask[holds] for table, mask in skip.items()}
    commits = group.xa.commits
    branches = {i: commits[at] for i, at in enumerate(holds.tolist()) if at in commits}
    file_no = records["position"] >> OFFSET_BITS
    file_no[list(branches)] = -1 - np.array(list(branches), np.int64)  # each lies somewhere else
    tasks = []
    for number in np.unique(worker).tolist():
        mine = np.flatnonzero(worker == number)
        spans = tuple(
            _branch_span(branches[int(part[0])], records[part[0]])
            if file_no[part[0]] < 0
            else _span(log, base, records[part])
            for part in np.split(mine, np.flatnonzero(np.diff(file_no[mine])) + 1)
            if len(part)
        )
        if spans:
            done = {table: mask[mine] for table, mask in skip.items() if mask[mine].any()}
            tasks.append(StageTask(number, spans, skip=done, **options))
    return tasks


def _span(log: RelayLog, base: int, records: Records) -> Span:
    file_no = int(records["position"][0] >> OFFSET_BITS)
    return Span.of(log.file(file_no - base).path, file_no, records)


def _branch_span(branch: Branch, record: Any) -> Span:
    return Span(
        branch.path,
        branch.position >> OFFSET_BITS,
        np.array([branch.start], np.int64),
        np.array([branch.end], np.int64),
        np.array([branch.compressed]),
        branch.checksum,
        np.array([record["position"]], np.int64),
    )
