"""A second source, of a channel of its own, and how a channel is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_repl.control.records.channels import channels
from spark_repl.errors import OtherChannelError
from tests.support.binlog_writer import LogWriter, Table
from tests.support.local_delta import stopped

U = Table("a", database="u")
US = "99999999-2222-3333-4444-555555555555"


def us_log(folder: Path) -> LogWriter:
    """Another source's log, which creates u.a."""
    made = LogWriter(folder, source=US, server_id=2)
    made.ddl("CREATE DATABASE u", "u")
    made.ddl(U.create, "u")
    return made


def names_of(target: Path) -> list[str]:
    return [one.name for one in channels(str(target))]


def refused(log: LogWriter, target: Path, channel: str, **apply: Any) -> OtherChannelError:
    error = stopped(log.folder, target, channel=channel, **apply)
    assert isinstance(error, OtherChannelError), error
    assert error.hint and "[[tables]]" in error.hint and "[filters]" in error.hint
    return error


def dies_before_a_cut(name: str) -> None:
    """Told of each crash point: nothing but a kill ends like that."""
    if name == "before_cut":
        raise KeyboardInterrupt
