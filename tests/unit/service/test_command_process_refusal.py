"""The error by which a receiver's process ends is the supervisor's, whatever it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.config import load
from spark_repl.errors import (
    ConfigError,
    LogError,
    PurgedError,
    SourceError,
    SparkReplError,
    StaleCopyError,
)
from spark_repl.receiver.writer import RelayWriter
from spark_repl.service.command_process import read_refusal, write_refusal
from spark_repl.service.supervisor import Supervisor

_MOST_S = 60.0


@pytest.mark.parametrize("kind", [ConfigError, LogError, PurgedError, SourceError, StaleCopyError])
def test_an_error_keeps_its_type_and_fields(tmp_path: Path, kind: type[SparkReplError]) -> None:
    error = kind("it is wrong", file="f", position=7, table="t.a", hint="do that", number=9)
    path = str(tmp_path / "refusal.json")
    assert read_refusal(path) is None
    write_refusal(path, error)
    read = read_refusal(path)
    assert type(read) is kind and str(read) == str(error) and read.hint == "do that"


def refused(file: Path) -> SparkReplError:
    """What a supervisor has of a receiver that refuses."""
    with Supervisor(load(file), str(file)) as receiver:
        receiver._companion.join(_MOST_S)
        assert receiver.error is not None
        return receiver.error


def test_a_second_receiver_of_a_relay_log(tmp_path: Path) -> None:
    """The other one's report is not taken for this one's."""
    file, folder = tmp_path / "r.toml", tmp_path / "relay"
    file.write_text('[source]\nport = 1\n[relay]\npath = "relay"\n')
    with RelayWriter(folder, 9):
        error = refused(file)
    assert type(error) is LogError
    assert error.message == "another receiver writes this relay log"
    assert (error.file, error.hint) == (
        str(folder), "stop it, or give this one a relay.path of its own",
    )  # fmt: skip


def test_a_configuration_that_became_faulty_ends_the_supervisor(tmp_path: Path) -> None:
    file = tmp_path / "r.toml"
    file.write_text("[source]\nport = 1\n")
    config = load(file)
    file.write_text("[source]\nport = 0\n")
    with Supervisor(config, str(file)) as receiver:
        receiver._companion.join(_MOST_S)
    assert type(receiver.error) is ConfigError and "source.port" in str(receiver.error)
