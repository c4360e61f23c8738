"""RemoteSpans: spans that executors read without the driver's disk.

The archive has most of the relay log, and the target's store has prepared XA branches and kept
transactions. Bytes that are not archived yet travel with the task, up to a bound. The driver runs a
task above the bound itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...decode.spans import read_span
from ...relay.archived_ranges import archived_chunks
from ...relay.file_list import read_list
from ...relay.log import split_name
from ...relay.remote_bytes import RemoteBytes, RemoteRange, SentBytes
from ...runtime.target_uri import is_remote

if TYPE_CHECKING:
    from ...decode.stage_task import StageTask
    from ...relay.span import Span
    from ...relay.split_transactions import Piece


@dataclass(frozen=True)
class RemoteSpans:
    """Converts spans on the driver's disk to spans in stores. ``xa_here``, ``xa``: the folders of
    prepared branches on the driver's disk and in the store. ``control_id``: the id of the control
    table, by which the branches of two targets at one place differ. ``sent_bytes``: largest number
    of log bytes that are sent with a task."""

    xa_here: str
    xa: str
    control_id: str
    sent_bytes: int

    def task(self, task: StageTask) -> StageTask | None:
        """Return the task for an executor, or None if too many of its bytes are not archived. Raise
        OSError, FormatError, LogError for a damaged list of files, and DecodeError if a file is too
        short."""
        sent = self.tasks([task])
        return None if sent is None else sent[0]

    def tasks(self, tasks: Sequence[StageTask]) -> tuple[StageTask, ...] | None:
        """Return tasks that one executor reads together, or None if too many of their bytes are not
        archived. Raise as ``task``."""
        spans = [[part for span in task.spans for part in self._parts(span)] for task in tasks]
        if sum(_unarchived(span) for parts in spans for span in parts) > self.sent_bytes:
            return None
        read = (tuple(map(_readable, parts)) for parts in spans)
        return tuple(replace(task, spans=of) for task, of in zip(tasks, read, strict=True))

    def _parts(self, span: Span) -> Iterator[Span]:
        """Yield one or two spans with the transactions of ``span``, in their order. An unarchived
        span has no source."""
        if span.source is not None:
            yield span
        elif span.pieces:
            yield self._split(span)
        elif is_remote(span.path) or os.path.dirname(span.path) == self.xa_here:
            path = span.path
            if not is_remote(path):
                path = os.path.join(self.xa, os.path.basename(path))
            whole = RemoteRange(0, int(span.ends[-1]), path, log_id=self.control_id)
            yield replace(span, source=RemoteBytes((whole,)))
        else:
            yield from self._logged(span)

    def _logged(self, span: Span) -> Iterator[Span]:
        """Yield the archived transactions of a log file as ranges, and then the others."""
        chunks = _chunks(span.path)
        archived = int(np.searchsorted(span.ends, chunks[-1].end, "right")) if chunks else 0
        if archived:
            begin, end = int(span.starts[0]), int(span.ends[archived - 1])
            read = tuple(chunk for chunk in chunks if chunk.begin < end and chunk.end > begin)
            yield replace(span.part(0, archived), source=RemoteBytes(read))
        if archived < len(span):
            yield span.part(archived, len(span))

    def _split(self, span: Span) -> Span:
        """Return the span of one transaction in several files."""
        ranges, at = list[RemoteRange](), 0
        for piece in span.pieces:
            chunks = _chunks(piece.path)
            if not chunks or chunks[-1].end < piece.end:
                return span
            ranges += _within(chunks, piece, at)
            at += piece.size
        return replace(span, pieces=(), source=RemoteBytes(tuple(ranges)))


def _within(chunks: Sequence[RemoteRange], piece: Piece, at: int) -> Iterator[RemoteRange]:
    """Yield the ranges of a piece's bytes, which begin at the offset ``at`` in the pieces end to
    end."""
    for chunk in chunks:
        if chunk.begin < piece.end and chunk.end > piece.begin:
            yield chunk.within(piece.begin, piece.end, at=at)


def _chunks(path: str) -> tuple[RemoteRange, ...]:
    """Return the archived bytes of a log file."""
    folder, name = os.path.split(path)
    chunks = archived_chunks(Path(folder), split_name(name)[1])
    files = read_list(Path(folder)) if chunks else None
    log_id = files.log_id if files else ""
    return tuple(RemoteRange(chunk.begin, chunk.end, chunk.uri, log_id=log_id) for chunk in chunks)


def _unarchived(span: Span) -> int:
    """Return the number of a span's bytes that have to travel with the task."""
    return 0 if span.source is not None else int((span.ends - span.starts).sum())


def _readable(span: Span) -> Span:
    """Return the span, with its bytes if no store has them."""
    if span.source is not None:
        return span
    edges = np.concatenate(([0], np.cumsum(span.ends - span.starts)))
    positions = span.positions
    data = read_span(span, positions).tobytes()
    return replace(
        span, starts=edges[:-1], ends=edges[1:], at=positions, pieces=(), source=SentBytes(data)
    )
