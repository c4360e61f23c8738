"""The throw-away servers themselves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.support.live.server import Server


def test_a_killed_server_starts_again_though_its_pid_is_taken(
    make_server: Callable[..., Server],
) -> None:
    server = make_server()
    server.query("CREATE DATABASE t")
    server.kill()
    Path(f"{server.socket}.lock").write_text(f"{os.getppid()}\n")
    server.socket.touch()
    assert server.start().query("SHOW DATABASES LIKE 't'") == (("t",),)
