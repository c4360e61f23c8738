"""Tasks of a group: which spans of the log each worker reads."""

from __future__ import annotations

import itertools
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
from .group import WITH_ROWS, Group, Records, of_kinds

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
    holds = of_kinds(group.columns["kind"], WITH_ROWS)
    commits, named = group.xa.commits, template.columns.adds_columns
    tasks = []
    for number in np.flatnonzero(np.bincount(group.worker[holds])).tolist():
        own = np.flatnonzero(holds & (group.worker == number))
        places = np.searchsorted(own, list(commits)).tolist() if commits else []
        branches = {
            place: branch
            for place, (at, branch) in zip(places, commits.items(), strict=True)
            if place < len(own) and own[place] == at
        }
        spans = spans_of(log, base, group.records, branches, own, group.columns)
        skipped = {table: mask[own] for table, mask in skip.items() if mask[own].any()}
        names = Commits.of(group.records[own], *group.gtids_by_hand) if named else None
        tasks.append(replace(template, worker=number, spans=spans, skip=skipped, commits=names))
    return tasks


def spans_of(
    log: RelayLog,
    base: int,
    records: Records,
    branches: Mapping[int, Branch],
    own: npt.NDArray[np.int64] | None = None,
    columns: Mapping[str, Any] | None = None,
) -> tuple[Span, ...]:
    """Return the spans of transactions, given in the order of the log: all of ``records``, or those
    with the indexes ``own``.

    ``branches``: by index of its XA COMMIT among the transactions, the XA branch that it commits.
    ``columns``: the records' fields, from ``group.columns_of``; by default they are read here.
    """
    own = np.arange(len(records)) if own is None else own
    # Column by column, because NumPy takes structures field by field.
    fields: Any = records if columns is None else columns
    chosen = {name: fields[name][own] for name in ("position", "end", "flags")}
    file_no = chosen["position"] >> OFFSET_BITS
    apart = np.union1d(list(branches), np.flatnonzero(is_split(chosen))).astype(np.int64)
    file_no[apart] = ~apart  # a number of its own: each of these gets a span of its own
    edges = [0, *(np.flatnonzero(np.diff(file_no)) + 1).tolist(), len(own)]
    return tuple(
        _branch_span(branches[first], int(chosen["position"][first]))
        if first in branches
        else _span(log, base, {name: column[first:last] for name, column in chosen.items()})
        if file_no[first] >= 0
        else _joined(log, base, records[own[first]])
        for first, last in itertools.pairwise(edges)
        if last > first
    )


def _span(log: RelayLog, base: int, columns: Mapping[str, Any]) -> Span:
    file_no = int(columns["position"][0] >> OFFSET_BITS)
    return Span.of(log.file(file_no - base).path, file_no, columns)


def _joined(log: RelayLog, base: int, record: Any) -> Span:
    """Return the span of a transaction in several files."""
    flags = int(record["flags"])
    return Span.joined(
        pieces_of(log, record, base),
        int(record["position"]),
        compressed=bool(flags & Flag.COMPRESSED),
        checksum=bool(flags & Flag.CHECKSUM),
    )


def _branch_span(branch: Branch, position: int) -> Span:
    return Span(
        branch.path,
        branch.position >> OFFSET_BITS,
        np.array([branch.start], np.int64),
        np.array([branch.end], np.int64),
        np.array([branch.compressed]),
        branch.checksum,
        np.array([position], np.int64),
        branch.pieces,
    )
