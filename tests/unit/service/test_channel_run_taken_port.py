"""``run`` names a taken port of ``observe.listen`` before it asks the source for anything."""

from __future__ import annotations

import signal
import socket

import pytest

from spark_repl import Config
from spark_repl.errors import ConfigError
from spark_repl.runtime.spark_session import build_session
from spark_repl.service.channel_run import ChannelRun


def test_a_port_in_use_is_named_before_the_first_copy(tmp_path, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        values = {
            "source": {"port": 1},
            "relay": {"path": str(tmp_path / "relay")},
            "target": {"path": str(tmp_path / "lake")},
            "observe": {"listen": f"127.0.0.1:{taken.getsockname()[1]}"},
        }
        with pytest.raises(ConfigError, match="already in use"):
            ChannelRun(Config.from_mapping(values), "none.toml", build_session).run()
    assert list(tmp_path.iterdir()) == []
