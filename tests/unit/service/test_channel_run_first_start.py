"""Whether ``run`` begins with a first copy: only where the target has nothing yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.control.records.copies import Copy, record_copy
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.errors import SourceError
from spark_repl.gtid import GtidSet
from spark_repl.position import RelayPosition
from spark_repl.receiver.identity import read_identity
from spark_repl.relay.published_end import End, EndWriter
from spark_repl.runtime.spark_session import build_session
from spark_repl.service.channel_run import ChannelRun, is_new
from tests.support.binlog_writer import LogWriter
from tests.support.no_source import no_source
from tests.support.s3_server import BUCKET, s3_server

_SET = GtidSet.parse("11111111-2222-3333-4444-555555555555:1-9")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    paths = {"relay": {"path": f"{tmp_path}/relay"}, "target": {"path": f"{tmp_path}/lake"}}
    return Config.from_mapping(paths)


@pytest.fixture
def control(config: Config) -> Control:
    control = Control(Layout.of(config.target).control, config.channel)
    control.claim()
    return control


def test_an_absent_target_is_new(config: Config) -> None:
    assert is_new(config)


def test_the_relay_log_is_older_than_the_target(config: Config) -> None:
    """The target was removed, or target.path is another one now."""
    LogWriter(Path(config.relay.path)).ddl("CREATE DATABASE t")
    EndWriter(Path(config.relay.path)).publish(End("ab" * 16, RelayPosition(1, 200), 1))
    assert is_new(config)


def test_a_first_copy_is_not_finished(config: Config, control: Control) -> None:
    record_copy(control, Copy(_SET, {"t.a": ()}, {"t.a": "t/a"}))
    assert is_new(config)


def test_a_new_copy_of_a_table_was_given_up(config: Config, control: Control) -> None:
    """It has neither a cut that it began behind, nor an end; the tables are there all the same."""
    control.publish(Cut(9, str(_SET), "log", {}, {}))
    record_copy(control, Copy(GtidSet(), {"t.a": ()}, {}, error="the source has no table t.a"))
    assert not is_new(config)


def test_a_run_creates_the_uuid_that_each_receiver_of_the_target_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        uuids = set[str]()
        for machine in ("lost", "new"):
            folder = tmp_path / machine
            config = no_source(folder).override({"target.path": f"s3://{BUCKET}/lake"})
            with pytest.raises(SourceError):
                ChannelRun(config, "none.toml", build_session).run()
            uuids.add(read_identity(config.relay.path))
    assert len(uuids) == 1 and "" not in uuids
