"""A first copy while it runs: it has a page, ``status`` shows its progress, and Ctrl-C prints the
next step. ``wait`` for transactions that neither the source nor the target knows."""

from __future__ import annotations

import os
import signal
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from spark_repl.cli.main import main
from spark_repl.errors import TargetError
from spark_repl.observe.screen import screen
from spark_repl.observe.status.status import status
from tests.support.live.receiving import config_for
from tests.support.live.server import Server, free_port

from .test_run import Run

_MOST_S, _AT_ONCE_S = 240.0, 30.0


@pytest.mark.slow
def test_a_first_copy_is_shown_in_status_and_can_be_stopped(
    make_server: Callable[..., Server], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another client's lock makes the copy wait at its second table."""
    server, port = make_server(), free_port()
    server.query("CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY)")
    server.query("INSERT INTO t.a VALUES (1), (2)", "CREATE TABLE t.bag (v INT)")
    server.query("INSERT INTO t.bag VALUES (1)")
    config = config_for(server, tmp_path, observe__listen=f"127.0.0.1:{port}")
    holder = server.connect()
    with holder.cursor() as cursor:
        cursor.execute("LOCK TABLES t.bag WRITE")
    run = Run(config, tmp_path)
    until, doing = time.monotonic() + _MOST_S, ""
    while time.monotonic() < until and not doing.startswith("copying the tables: "):
        run.check()
        time.sleep(0.2)  # each look reads the status
        with suppress(TargetError):  # before the target is claimed
            doing = (status(config.target.path)["run"] or {}).get("doing", "")
    assert doing.startswith("copying the tables: 2 of about "), doing
    assert f"doing:    {doing}" in screen(status(config.target.path))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
        assert "copying the tables: 2 of about " in answer.read().decode()
    os.killpg(run.process.pid, signal.SIGINT)
    holder.close()
    _, err = run.process.communicate(timeout=_MOST_S)
    said = err.decode()
    assert run.process.returncode == 0 and "Traceback" not in said, said[-3000:]
    assert "the first copy is stopped: the next start goes on with it" in said
    assert f"the page: http://127.0.0.1:{port}/" in said
    again = Run(config, tmp_path)
    again.wait_for(server.executed)
    file, nobody = str(again.file), "99999999-2222-3333-4444-555555555555:1"
    began = time.monotonic()
    assert main(["wait", "--config", file, "--gtid", nobody]) == 1
    assert time.monotonic() - began < _AT_ONCE_S
    assert "neither the source nor the target has a transaction of" in capsys.readouterr().err
    assert main(["wait", "--config", file, "--gtid", server.executed]) == 0
    again.stop()
