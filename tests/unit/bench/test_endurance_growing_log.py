"""A recorded log that grows: whole transactions, byte for byte, also over the end of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.bench.endurance import GrowingLog
from spark_repl.errors import ConfigError
from spark_repl.position import RelayPosition
from spark_repl.schedule.until import Until
from tests.support.binlog_writer import LogWriter, Table, insert

A = Table("a")


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """Two files of three transactions each."""
    made = LogWriter(tmp_path / "recorded")
    for text in ("CREATE DATABASE t", A.create):
        made.ddl(text)
    made.transaction(insert(A, (0, "x")))
    made.rotate()
    for key in (1, 2, 3):
        made.transaction(insert(A, (key, "x")))
    return made


def behind(log: LogWriter, number: int) -> Until:
    file, _, end = log.spans[number]
    return Until.parse(f"relay:{file}:{end}")


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("prepared", range(4))
def test_a_growing_log_grows_by_whole_transactions(
    log: LogWriter, tmp_path: Path, prepared: int
) -> None:
    folder = tmp_path / "growing"
    whole = {name: data for name, data in written(log.folder).items() if not name.endswith("index")}
    growing = GrowingLog(str(log.folder), str(folder), behind(log, prepared))
    for file, _, end in log.spans[prepared:6]:
        there = written(folder)
        assert len(there[file]) == end and list(there)[-1] == file
        assert all(whole[name].startswith(data) for name, data in there.items())
        growing.add()
    assert len(growing.ends) == 5 - prepared
    assert list(growing.at) == sorted(growing.at) and growing.at.all()
    last = RelayPosition.unpack(int(growing.ends[-1])).offset
    first, second = written(folder).values()
    assert first == whole["bin.000001"] and len(second) == last


def test_a_growing_log_ends_with_a_whole_transaction(log: LogWriter, tmp_path: Path) -> None:
    growing = GrowingLog(str(log.folder), str(tmp_path / "growing"), behind(log, 2))
    growing.add()
    growing.grow(1000)
    assert list(growing.at) == sorted(growing.at) and growing.at.all()
    file, _, end = log.spans[5]
    assert len(written(tmp_path / "growing")[file]) == end


@pytest.mark.parametrize("number", [4, 5])
def test_a_log_of_fewer_than_two_transactions_is_refused(
    log: LogWriter, tmp_path: Path, number: int
) -> None:
    with pytest.raises(ConfigError, match="less than two"):
        GrowingLog(str(log.folder), str(tmp_path / "growing"), behind(log, number))
