"""A reader of the relay stream and a log that is purged, or begun again, under its feet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.apply.stream.spark_source import MySQLRelayReader
from spark_repl.apply.stream.stream_checkpoint import forget_unfit
from spark_repl.errors import ConfigError, LogError
from spark_repl.position import OFFSET_BITS, RelayPosition
from spark_repl.receiver.purge import purge
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from tests.support.binlog_writer import LogWriter, insert
from tests.support.relay_reader import T, ask, read, reader_of, receive_into, take_away


def in_the_middle(folder: Path) -> int:
    """The end of a transaction in the third file."""
    log = open_log(str(folder))
    index = build_index(log, f"{folder}-index")
    return int(index.files[2].records["end"][0])


def test_a_stream_goes_on_from_where_it_was(relay: Path, tmp_path: Path) -> None:
    reader = reader_of(relay, tmp_path)
    first = reader.initialOffset()
    end = ask(reader, first)
    assert end["log"] == open_log(str(relay)).log_id
    assert len(read(reader, first, end)) == 31
    assert ask(reader_of(relay, tmp_path), end) == end
    purge(relay, 100)  # the place is in the last file, which stays
    assert ask(reader_of(relay, tmp_path), end) == end


def test_batches_of_a_spark_that_passes_neither_a_start_nor_a_limit(
    relay: Path, tmp_path: Path
) -> None:
    """As Spark does before 4.2. It calls ``partitions`` only if a job reads a batch's rows, and
    when a stream resumes: then with the end of the last batch."""
    limit = {"maxBytesPerTrigger": "700"}
    reader = reader_of(relay, tmp_path, **limit)
    at, gtids = reader.initialOffset(), list[str]()
    while (end := reader.latestOffset()) != at:
        batch = read(reader_of(relay, tmp_path), at, end)
        assert 0 < len(batch) < 31
        gtids, at = gtids + batch, end
        if len(gtids) > 15:
            reader = reader_of(relay, tmp_path, **limit)
            reader.partitions(at, at)
    assert len(set(gtids)) == len(gtids) == 31


@pytest.mark.parametrize("option", ["start", "base", "maxBytesPerTrigger", "waitMs"])
def test_an_option_that_is_no_number_is_named(relay: Path, tmp_path: Path, option: str) -> None:
    with pytest.raises(ConfigError, match=f"option {option} .* whole number, not '1 s'"):
        reader_of(relay, tmp_path, **{option: "1 s"})


def test_a_place_that_was_purged_is_an_error(relay: Path, tmp_path: Path) -> None:
    """p: what lies between the place and the log's beginning would be lost to the reader."""
    place = {"position": in_the_middle(relay), "log": open_log(str(relay)).log_id}
    assert ask(reader_of(relay, tmp_path), place)["position"] > place["position"]
    end = ask(reader_of(relay, tmp_path), place)
    purge(relay, 3)
    assert len(read(reader_of(relay, tmp_path), place, end))
    purge(relay, 4)
    for do in (lambda r: ask(r, place), lambda r: read(r, place, end)):
        with pytest.raises(LogError, match=r"relay.000003.*purged.*relay.000004") as caught:
            do(reader_of(relay, tmp_path))
        assert caught.value.hint
    start = reader_of(relay, tmp_path, start=str(place["position"]))
    with pytest.raises(LogError, match="purged"):
        start.initialOffset()
    begins = reader_of(relay, tmp_path).initialOffset()
    assert begins["position"] == RelayPosition(4, 0).packed


def test_a_purge_before_the_first_batch_is_read(relay: Path, tmp_path: Path) -> None:
    reader = reader_of(relay, tmp_path)
    first = reader.initialOffset()
    end = ask(reader, first)
    reader.stop()  # while it runs it holds the file
    purge(relay, 2)
    with pytest.raises(LogError, match="purged"):
        read(reader_of(relay, tmp_path), first, end)


@pytest.mark.parametrize("longer", [True, False])
def test_a_place_in_another_log_is_an_error(
    relay: Path, source: LogWriter, tmp_path: Path, longer: bool
) -> None:
    """A renewed log gives the old numbers to other transactions."""
    reader = reader_of(relay, tmp_path)
    end = ask(reader, reader.initialOffset())
    take_away(relay)
    for key in range(100, 160 if longer else 100):
        source.transaction(insert(T, (key, "y" * 30)))
    receive_into(relay, source)
    before = replace_position(end, -100)
    for do in (
        lambda r: ask(r, end),
        lambda r: ask(r, before),
        lambda r: read(r, before, end),
        lambda r: read(r, r.initialOffset(), end),
    ):
        with pytest.raises(LogError, match="another log") as caught:
            do(reader_of(relay, tmp_path))
        assert caught.value.hint


def replace_position(place: dict[str, Any], by: int) -> dict[str, Any]:
    return {**place, "position": place["position"] + by}


def test_a_recorded_folder_is_known_by_its_files(source: LogWriter, tmp_path: Path) -> None:
    for key in range(30, 33):
        source.rotate()
        source.transaction(insert(T, (key, "x")))
    reader = reader_of(source.folder, tmp_path)
    index = build_index(open_log(str(source.folder)), str(tmp_path / "own"))
    end = ask(reader, reader.initialOffset())
    assert len(read(reader, reader.initialOffset(), end)) == 34
    second = {"position": int(index.files[1].records["end"][0])}
    place = ask(reader_of(source.folder, tmp_path), second)
    assert place == end  # written by a version before: taken, and upgraded

    source.transaction(insert(T, (34, "x")))
    assert len(read(reader, end, ask(reader, end))) == 1
    other = LogWriter(tmp_path / "other", server_id=9)
    other.ddl(T.create)
    for key in range(5):
        other.rotate()
        other.transaction(insert(T, (key, "y")))
    with pytest.raises(LogError, match="another log"):
        ask(reader_of(other.folder, tmp_path), end)
    for file in sorted(other.folder.iterdir())[3:]:
        file.unlink()  # of the new log there is less than was read of the old one
    with pytest.raises(LogError, match="another log"):
        ask(reader_of(other.folder, tmp_path), end)

    (source.folder / "bin.000001").unlink()
    (source.folder / "bin.000002").unlink()
    with pytest.raises(LogError, match="purged"):
        ask(reader_of(source.folder, tmp_path), second)
    assert ask(reader_of(source.folder, tmp_path), end)["position"] > end["position"]


def test_offsets_of_the_earlier_version_are_read(relay: Path, tmp_path: Path) -> None:
    reader = reader_of(relay, tmp_path)
    log_id = open_log(str(relay)).log_id
    old = {"position": in_the_middle(relay)}
    end = ask(reader, old)
    assert end["log"] == log_id
    assert read(reader, old, {"position": end["position"]}) == read(reader, old, end)
    assert ask(reader, {"position": end["position"]}) == {"position": end["position"]}
    # It began with 0, wherever the log began.
    purge(relay, 3)
    assert len(read(reader, {"position": 0}, ask(reader, {"position": 0})))
    reader.stop()
    purge(relay, 4)
    with pytest.raises(LogError, match="purged"):
        ask(reader, old)


def checkpoint_of(folder: Path, *, planned: Any, done: Any) -> Path:
    for name, offset in (("offsets/0", done), ("offsets/1", planned)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"v1\n{{}}\n{json.dumps(offset)}")
    (folder / "commits").mkdir()
    (folder / "commits" / "0").write_text("v1\n{}")
    return folder


def test_the_appliers_checkpoint_is_dropped_where_the_stream_would_stop(
    relay: Path, tmp_path: Path
) -> None:
    """Scenario 54: for the applier it is only a hint: the tables say where it goes on."""
    log = open_log(str(relay))
    index = build_index(log, str(tmp_path / "index"))
    middle, end = in_the_middle(relay), index.end
    base = 7
    shift = base << OFFSET_BITS

    def kept(done: int, planned: int, log_id: str | None = log.log_id, *, low: int = 0) -> bool:
        name = {} if log_id is None else {"log": log_id}
        places = [{"position": at, **name} for at in (done, planned)]
        folder = checkpoint_of(tmp_path / "checkpoint", done=places[0], planned=places[1])
        now = open_log(str(relay))
        forget_unfit(str(folder), now, base, low, index.end + shift)
        found = folder.exists()
        shutil.rmtree(folder, ignore_errors=True)
        return found

    assert kept(middle + shift, end + shift)
    assert kept(middle + shift, end + shift, None)
    assert not kept(middle + shift, end + shift, "another")
    assert not kept(middle, end)  # of the history before
    assert not kept(end + shift + 1, end + shift + 2)
    assert kept(middle + shift, end + shift, low=middle + shift)
    assert not kept(middle + shift, end + shift, low=middle + shift + 1), "far behind the tables"
    purge(relay, 4)
    assert not kept(middle + shift, end + shift), "the batch that is done again begins there"
    assert not kept(middle + shift, end + shift, None)
    assert kept(end + shift, end + shift)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("offsets/1", ""), ("commits/0", ""), ("metadata", ""), ("offsets/1", "v1\n{}\n{\"posi"),
        ("metadata", '{"id":"1"'), ("offsets/0", None),
    ],
)  # fmt: skip
def test_a_checkpoint_that_spark_would_refuse_is_dropped(
    relay: Path, tmp_path: Path, file: str, content: str | None
) -> None:
    """A loss of power has damaged a file, or a process ended in the first batch's file (None)."""
    log = open_log(str(relay))
    place = {"position": in_the_middle(relay), "log": log.log_id}
    folder = checkpoint_of(tmp_path / "checkpoint", done=place, planned=place)
    (folder / "metadata").write_text('{"id":"1"}')
    end = build_index(log, str(tmp_path / "index")).end
    forget_unfit(str(folder), log, 0, 0, end)
    assert folder.exists()
    if content is not None:
        (folder / file).write_text(content)
    else:
        for name in ("offsets/1", "commits/0"):
            (folder / name).unlink()
        (folder / file).rename(folder / "offsets" / ".0.72cb1d78.tmp")
    forget_unfit(str(folder), log, 0, 0, end)
    assert not folder.exists()


def places(
    reader: MySQLRelayReader, start: dict[str, Any], end: dict[str, Any]
) -> list[tuple[int, int]]:
    """The first position and the end of each row of a batch."""
    parts = [part for one in reader.partitions(start, end) for part in reader.read(one)]
    rows = pa.Table.from_batches(parts).to_pylist() if parts else []
    return [(row["position"], row["end"]) for row in rows]


def test_an_extent_is_one_row_with_the_places_of_a_batch(
    relay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row selects the batch's transactions. The source does not index the log for it."""
    each, alone = (reader_of(relay, tmp_path, rows=rows) for rows in ("each", "extent"))
    start = each.initialOffset()
    end = ask(each, start)
    middle = {**start, "position": in_the_middle(relay)}
    batches = [(start, end), (start, middle), (middle, end)]
    found = [places(each, *batch) for batch in batches]
    assert len(found[0]) == 31
    index = build_index(open_log(str(relay)), str(tmp_path / "index"))
    monkeypatch.delattr("spark_repl.relay.index.build_index")
    for batch, rows in zip(batches, found, strict=True):
        ((first, last),) = places(alone, *batch)
        records = index.slice(first, last)
        assert list(zip(records["position"], records["end"], strict=True)) == rows
    assert places(alone, end, end) == []


def test_a_final_end_is_taken_without_a_check_of_the_log(
    relay: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    middle = in_the_middle(relay)
    reader = reader_of(relay, tmp_path, final=str(middle))
    limited = reader_of(relay, tmp_path, final=str(middle), maxBytesPerTrigger="700")
    start = reader.initialOffset()
    for one in (reader, limited):
        one.prepareForTriggerAvailableNow()
    first = limited.latestOffset(start, limited.getDefaultReadLimit())
    assert start["position"] < first["position"] < middle, "the limit comes first"
    monkeypatch.delattr("spark_repl.relay.index.build_index")
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end["position"] == middle
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
