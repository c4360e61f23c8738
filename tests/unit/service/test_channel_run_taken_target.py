"""Who comes to a target that another one has is told before a receiver, a copy or Java starts."""

from __future__ import annotations

import signal

import pytest

from spark_repl.cli.main import main
from spark_repl.control.records.channels import control_of
from spark_repl.errors import FencedError, SourceError
from spark_repl.runtime.spark_session import build_session
from spark_repl.service.channel_run import ChannelRun
from spark_repl.service.snapshot_run import snapshot
from tests.support.binlog_writer import LogWriter
from tests.support.no_source import no_source


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    LogWriter(tmp_path / "relay").ddl("CREATE DATABASE t")
    return no_source(tmp_path)


def by_hand(config, *more):
    return main(["apply", "--relay", config.relay.path, "--target", config.target.path, *more])


def test_run_and_snapshot_are_refused_before_they_write(config, tmp_path):
    control_of(config).claim()
    before = sorted(tmp_path.rglob("*"))
    for begin in (
        lambda: ChannelRun(config, "none.toml", build_session).run(),
        lambda: snapshot(config),
    ):
        with pytest.raises(FencedError, match="another applier owns this target: pid"):
            begin()
    assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(SourceError):  # nobody is asked who has it
        snapshot(config, take_over=True)


def test_apply_is_refused_before_java_starts(config, capsys):
    control = control_of(config)
    control.claim()
    assert by_hand(config) == 1
    assert "another applier owns this target: pid" in capsys.readouterr().err
    assert by_hand(config, "--take-over") == 2
    assert "Java is not installed" in capsys.readouterr().err
    control.release()
    assert by_hand(config) == 2
    assert "Java is not installed" in capsys.readouterr().err
