"""Which logs an empty target takes: those that begin where the source's history does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_repl.control.records.log_identity import check_beginning
from spark_repl.errors import HistoryError
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.relay.source_places import SourcePlaces
from tests.support.binlog_writer import SOURCE, LogWriter

if TYPE_CHECKING:
    from spark_repl.relay.source_places import SourcePlace

NOWHERE = ("", 0)


def check(folder: Path, begin: tuple[str, int] = NOWHERE) -> SourcePlace | None:
    """The place where the log begins, which is no fault."""
    relay = open_log(str(folder))
    index = build_index(relay, str(folder.parent / "index"))
    first = SourcePlaces().first(relay, index)
    check_beginning(relay, index, first, begin)
    return first


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "log")


@pytest.mark.parametrize("anonymous", [False, True])
def test_an_empty_target_takes_a_log_of_the_whole_history(log: LogWriter, anonymous: bool) -> None:
    log.anonymous = anonymous
    log.ddl("CREATE DATABASE t")
    log.rotate()
    log.ddl("CREATE DATABASE u")
    assert check(log.folder)


def test_a_log_whose_earlier_files_were_purged_is_refused(log: LogWriter) -> None:
    log.ddl("CREATE DATABASE t")
    log.rotate()
    log.ddl("CREATE DATABASE u")
    log.path.with_name("bin.000001").unlink()
    with pytest.raises(HistoryError, match=f"it lacks {SOURCE}:1 ") as raised:
        check(log.folder)
    assert "--from-here" in str(raised.value.hint)


def test_the_first_file_says_nothing_of_what_was_before(tmp_path: Path) -> None:
    """A replica's relay log begins so when the replica was made from a backup."""
    log = LogWriter(tmp_path / "log")
    log.gno = 57
    log.ddl("CREATE DATABASE t")
    with pytest.raises(HistoryError, match=f"it lacks {SOURCE}:1-56 "):
        check(log.folder)


def test_anonymous_transactions_of_a_later_file_are_refused(log: LogWriter) -> None:
    log.anonymous = True
    log.ddl("CREATE DATABASE t")
    log.rotate()
    log.ddl("CREATE DATABASE u")
    log.path.with_name("bin.000001").unlink()
    with pytest.raises(HistoryError, match=r"it lacks what is before bin\.000002:4 of the source"):
        check(log.folder)
    assert check(log.folder, ("bin.000002", 4)), "the configuration has it begin there"
