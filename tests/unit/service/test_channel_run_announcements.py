"""``run`` says on standard error what it begins and whom it waits for, before that answers."""

from __future__ import annotations

import logging
import signal
import threading

import pytest

from spark_repl.control.records.channels import control_of
from spark_repl.control.table.cut import Cut
from spark_repl.errors import SetupError, SourceError
from spark_repl.runtime.spark_session import build_session
from spark_repl.service.channel_run import ChannelRun
from spark_repl.service.supervisor import wait_for_log
from tests.support.binlog_writer import LogWriter
from tests.support.no_source import no_source


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    return no_source(tmp_path)


def test_a_first_copy_is_planned(config, capsys):
    with pytest.raises(SourceError):
        ChannelRun(config, "none.toml", build_session).run()
    assert capsys.readouterr().err == "asking 127.0.0.1:1 what is to be copied\n"


def test_the_relay_log_is_waited_for(config, capsys):
    class Refused:
        """A receiver that refuses once it was looked at."""

        looks = 0

        @property
        def error(self) -> SourceError | None:
            self.looks += 1
            return SourceError("no") if self.looks > 2 else None

    with pytest.raises(SourceError, match="no"):
        wait_for_log(config, Refused(), threading.Event(), print)  # type: ignore[arg-type]
    assert capsys.readouterr().out == "waiting for 127.0.0.1:1\n"


def test_the_start_of_spark_is_announced(config, tmp_path, capsys, caplog):
    log = LogWriter(tmp_path / "relay")
    for number in range(9):
        log.ddl(f"CREATE DATABASE d{number}")
    control = control_of(config)
    control.claim()
    control.publish(Cut(9, "11111111-2222-3333-4444-555555555555:1-9", "log", {}, {}))
    control.release()
    with pytest.raises(SetupError, match="Java is not installed"):
        ChannelRun(config, "none.toml", build_session).run()
    assert "starting Spark" in capsys.readouterr().err.splitlines()
    caplog.set_level(logging.INFO)
    with pytest.raises(SetupError):
        ChannelRun(
            config.override({"observe.log_format": "json"}), "none.toml", build_session
        ).run()
    assert "starting Spark" not in capsys.readouterr().err
    assert "starting Spark" in caplog.messages
