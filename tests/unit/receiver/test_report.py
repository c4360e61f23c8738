"""The receiver's report: what was received, and the last error."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import MagicMock

from spark_repl.errors import SourceLostError
from spark_repl.gtid import GtidSet
from spark_repl.receiver.report import Report, has_received, read_report
from spark_repl.receiver.writer import RelayWriter
from tests.support.binlog_writer import SOURCE, LogWriter
from tests.support.dump_stream import receive


def test_what_was_received_counts_once_it_is_published(tmp_path: Path) -> None:
    log, folder = LogWriter(tmp_path / "log"), tmp_path / "relay"
    log.ddl("CREATE DATABASE t")
    log.ddl("CREATE DATABASE u")
    have = GtidSet.parse(f"{SOURCE}:1-2")
    assert not has_received(folder, GtidSet())
    with RelayWriter(folder, 9) as writer:
        receive(writer, [log.path])
        Report(folder, "default").write("ON", writer)
        assert has_received(folder, have)
        assert not has_received(folder, GtidSet.parse(f"{SOURCE}:1-3"))
        columns = json.loads((folder / "receiver.json").read_text("utf-8"))
        columns["RELAY_LOG_POS"] += 1  # read, and not published yet
        (folder / "receiver.json").write_text(json.dumps(columns), "utf-8")
        assert not has_received(folder, have)


def test_an_error_is_said_until_the_source_answers(tmp_path: Path) -> None:
    """One that is over must not be taken for what has stopped the receiver."""
    report, error = Report(tmp_path, "default"), SourceLostError("can't connect", number=2003)
    with RelayWriter(tmp_path, 9) as writer:
        report.failed(error)
        report.write("CONNECTING", writer)
        assert (read_report(tmp_path) or {})["LAST_ERROR_MESSAGE"] == str(error)
        report.connected(MagicMock(uuid="u", host="h"))
        report.write("OFF", writer)
    said = read_report(tmp_path)
    assert said is not None
    assert (said["LAST_ERROR_NUMBER"], said["LAST_ERROR_MESSAGE"]) == (0, "")
