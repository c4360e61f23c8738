"""A receiver's log of many small files, and the stream's reader asked as Spark asks it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spark_repl.apply.stream.spark_source import MySQLRelayReader
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay.log import open_log
from spark_repl.runtime.spark_release import ReadAllAvailable
from tests.support.binlog_writer import LogWriter, Table
from tests.support.dump_stream import receive

T = Table("a")


def receive_into(folder: Path, source: LogWriter) -> Path:
    with RelayWriter(folder, 4711, Limits(700, 0)) as writer:
        receive(writer, sorted(source.folder.iterdir()))
    assert len(open_log(str(folder)).files) > 5
    return folder


def reader_of(folder: Path, tmp_path: Path, **options: str) -> MySQLRelayReader:
    given = {"path": str(folder), "index": str(tmp_path / "index"), "waitMs": "0", **options}
    return MySQLRelayReader(given)


def ask(reader: MySQLRelayReader, start: dict[str, Any]) -> dict[str, Any]:
    """As Spark does: offsets go through JSON."""
    return dict(json.loads(json.dumps(reader.latestOffset(start, ReadAllAvailable()))))


def read(reader: MySQLRelayReader, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
    parts = [part for one in reader.partitions(start, end) for part in reader.read(one)]
    return [str(gtid) for part in parts for gtid in part.column("gtid").to_pylist()]


def take_away(folder: Path) -> None:
    """Remove a relay log whatever reads it, as a person does with ``rm``."""
    for path in folder.iterdir():
        path.unlink()
