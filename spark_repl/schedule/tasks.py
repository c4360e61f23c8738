"""Tasks of a group: which spans of the log each worker reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..decode.metadata_values import Commits
from ..position import OFFSET_BITS
from ..relay.record import Flag
from ..relay.span import Span
from ..relay.split_transactions import is_split, pieces_of
from .group import WITH_ROWS, Group, Records

if TYPE_CHECKING:
    from ..decode.stage_task import StageTask
    from ..relay.log import RelayLog
    from ..relay.xa_branches import Branch

Mask = npt.NDArray[np.bool_]


def stage_tasks(
    log: RelayLog, base: int, group: Group, skip: Mapping[str, Mask], template: StageTask
) -> list[StageTask]:
    """Return one task for each worker that has transactions with rows.

    ``base``: the difference between packed positions' file numbers and those of the log's files.
    ``skip``: by table, which of the group's transactions [n] the table already has. ``template``: a
    task without spans, whose settings every task gets.
    """
    holds = np.flatnonzero(np.isin(group.records["kind"], WITH_ROWS))
    records, worker = group.records[holds], group.worker[holds]
    skip = {table: mask[holds] for table, mask in skip.items()}
    commits, named = group.xa.commits, template.columns.adds_columns
    tasks = []
    for number in np.unique(worker).tolist():
        own = np.flatnonzero(worker == number)
        branches = {i: commits[at] for i, at in enumerate(holds[own].tolist()) if at in commits}
        spans = spans_of(log, base, records[own], branches)
        skipped = {table: mask[own] for table, mask in skip.items() if mask[own].any()}
        names = Commits.of(records[own], *group.gtids_by_hand) if named else None
        tasks.append(replace(template, worker=number, spans=spans, skip=skipped, commits=names))
    return tasks


def spans_of(
    log: RelayLog, base: int, records: Records, branches: Mapping[int, Branch]
) -> tuple[Span, ...]:
    """Return the spans of transactions, given in the order of the log.

    ``branches``: by index of its XA COMMIT among the records, the XA branch that it commits.
    """
    file_no = records["position"] >> OFFSET_BITS
    apart = np.union1d(list(branches), np.flatnonzero(is_split(records))).astype(np.int64)
    file_no[apart] = ~apart  # a number of its own: each of these gets a span of its own
    return tuple(
        _branch_span(branches[int(part[0])], records[part[0]])
        if int(part[0]) in branches
        else _span(log, base, records[part])
        for part in np.split(np.arange(len(records)), np.flatnonzero(np.diff(file_no)) + 1)
    )


def _span(log: RelayLog, base: int, records: Records) -> Span:
    first = records[0]
    if is_split(first):
        flags = int(first["flags"])
        return Span.joined(
            pieces_of(log, first, base),
            int(first["position"]),
            compressed=bool(flags & Flag.COMPRESSED),
            checksum=bool(flags & Flag.CHECKSUM),
        )
    file_no = int(first["position"] >> OFFSET_BITS)
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
        branch.pieces,
    )
