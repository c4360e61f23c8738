"""Spans for executors without the driver's disk have the same transactions at the same places."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_repl.apply.group.remote_spans import RemoteSpans
from spark_repl.decode.spans import read_span
from spark_repl.decode.stage_task import StageTask
from spark_repl.errors import DecodeError
from spark_repl.relay.archived_ranges import (
    ArchivedChunk,
    ArchiveRecord,
    append_chunk,
    write_record,
)
from spark_repl.relay.remote_bytes import RemoteBytes, SentBytes
from spark_repl.relay.span import Span
from spark_repl.relay.split_transactions import Piece
from spark_repl.runtime.executor_disk import ExecutorDisk
from spark_repl.runtime.object_store import ObjectStore
from tests.support.child import in_child

CONTENT = bytes(np.random.default_rng(1).integers(0, 256, 1000, np.uint8))
STORE = "memory://remote-spans"


def remote(most: int = 1000) -> RemoteSpans:
    return RemoteSpans("/state/xa", f"{STORE}/lake/_repl/xa", "control-id", most)


def log_file(folder: Path, number: int, archived: Sequence[int]) -> str:
    """A log file of which the bytes up to the last edge are archived, in objects between edges."""
    path = folder / f"relay.{number:06d}"
    path.write_bytes(CONTENT)
    write_record(folder, number, ArchiveRecord("objects"))
    for begin, end in zip([0, *archived], archived, strict=False):
        uri = f"objects/{begin:012d}"
        append_chunk(folder, number, ArchivedChunk(begin, end, uri))
    return str(path)


def span(path: str, *edges: tuple[int, int], **more: Any) -> Span:
    starts, ends = (np.array(side, np.int64) for side in zip(*edges, strict=True))
    return Span(path, 7, starts, ends, np.zeros(len(edges), bool), True, **more)


def converted(*spans: Span, most: int = 1000) -> tuple[Span, ...] | None:
    task = remote(most).task(StageTask(0, spans, 1, None))
    return None if task is None else task.spans


def content(spans: Sequence[Span]) -> bytes:
    return b"".join(read_span(one, one.positions).tobytes() for one in spans)


def assert_alike(before: Span, after: Sequence[Span]) -> None:
    assert np.concatenate([one.positions for one in after]).tolist() == before.positions.tolist()
    sizes = np.concatenate([one.ends - one.starts for one in after])
    assert sizes.tolist() == (before.ends - before.starts).tolist()


def test_archived_transactions_are_ranges_and_others_travel(tmp_path: Path) -> None:
    path = log_file(tmp_path, 3, [200, 500, 800])
    whole = span(path, (100, 150), (450, 510), (790, 800), (800, 850), (900, 1000))
    archived, sent = converted(whole) or ()
    assert_alike(whole, [archived, sent])
    assert isinstance(archived.source, RemoteBytes)
    assert [part.begin for part in archived.source.ranges] == [0, 200, 500]
    assert sent.source == SentBytes(CONTENT[800:850] + CONTENT[900:])
    assert content([sent]) == CONTENT[800:850] + CONTENT[900:]


def test_transaction_across_the_archived_end_travels(tmp_path: Path) -> None:
    path = log_file(tmp_path, 3, [500])
    (sent,) = converted(span(path, (499, 501))) or ()
    assert sent.source == SentBytes(CONTENT[499:501])


@pytest.mark.parametrize(("most", "travels"), [(150, True), (149, False)])
def test_task_with_too_much_is_the_driver_s(tmp_path: Path, most: int, travels: bool) -> None:
    path = log_file(tmp_path, 3, [])
    parts = span(path, (0, 100)), span(path, (200, 250))
    assert (converted(*parts, most=most) is not None) == travels
    tasks = [StageTask(0, (part,), 1, None) for part in parts]
    together = remote(most).tasks(tasks)  # those of one executor, as one task has them
    assert (together is not None and len(together) == 2) == travels


def test_only_ranges_that_a_span_reads_travel(tmp_path: Path) -> None:
    path = log_file(tmp_path, 3, [200, 500, 800])
    (archived,) = converted(span(path, (250, 300))) or ()
    assert isinstance(archived.source, RemoteBytes)
    assert [part.begin for part in archived.source.ranges] == [200]


def test_pieces_of_a_split_transaction_are_ranges_if_all_are_archived(tmp_path: Path) -> None:
    """They are ranges where all of them are archived, and travel where one is not."""
    paths = [log_file(tmp_path, number, [300, 1000]) for number in (1, 2)]
    pieces = Piece(paths[0], 250, 1000), Piece(paths[1], 100, 400)
    whole = Span.joined(pieces, 7 << 40, compressed=False, checksum=True)
    (part,) = converted(whole) or ()
    assert_alike(whole, [part])
    assert isinstance(part.source, RemoteBytes)
    found = [(r.begin, r.end, r.offset) for r in part.source.ranges]
    assert found == [(0, 50, 250), (50, 750, 0), (750, 950, 100), (950, 1050, 0)]
    write_record(tmp_path, 2, ArchiveRecord("objects"))
    (part,) = converted(whole, most=1050) or ()
    assert part.source == SentBytes(CONTENT[250:] + CONTENT[100:400]) and not part.pieces
    assert_alike(whole, [part])


def test_branches_and_kept_transactions_are_in_the_target_s_store() -> None:
    ObjectStore().put(f"{STORE}/lake/_repl/xa/7-2.events", CONTENT)
    places = np.array([7 << 40], np.int64)
    (branch,) = converted(span("/state/xa/7-2.events", (10, 1000), at=places)) or ()
    kept = f"{STORE}/lake/_repl/xa/7-2.events"
    (whole,) = converted(span(kept, (10, 20), at=places)) or ()
    assert content([branch]) == CONTENT[10:] and content([whole]) == CONTENT[10:20]
    assert branch.positions.tolist() == whole.positions.tolist() == places.tolist()


def test_executors_know_the_branches_of_another_control_table_apart(tmp_path: Path) -> None:
    """A target that was emptied by hand counts its owners from one again, so a new branch may have
    an old one's name and length. Found: an executor that outlived it had the old one's block."""
    places = np.array([7 << 40], np.int64)
    branch = span("/state/xa/7-1.events", (0, 5), at=places)

    def contents() -> list[bytes]:
        os.environ["SPARK_LOCAL_DIRS"] = str(tmp_path)
        results = []
        for control_id, content in (("a", b"first"), ("b", b"other")):
            ObjectStore().put(f"{STORE}/again/_repl/xa/7-1.events", content)
            spans = RemoteSpans("/state/xa", f"{STORE}/again/_repl/xa", control_id, 0)
            task = spans.task(StageTask(0, (branch,), 1, None))
            assert task is not None
            with ExecutorDisk(1 << 30).entered():
                results.append(read_span(task.spans[0], places).tobytes())
        return results

    assert in_child(contents) == [b"first", b"other"]


def test_file_that_lost_bytes_is_an_error(tmp_path: Path) -> None:
    path = log_file(tmp_path, 3, [])
    with pytest.raises(DecodeError, match="shorter"):
        remote(10000).task(StageTask(0, (span(path, (900, 1100)),), 1, None))
