"""``run`` and ``verify`` with a server of Spark Connect, beside a MySQL server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.connect_server import connect_server
from tests.support.live.receiving import config_for
from tests.support.live.server import Load, Server
from tests.support.wait_until import wait_until

from .test_run import Run, check_tables


@pytest.mark.slow
def test_run_follows_the_source_and_verify_finds_no_difference(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = make_server()
    config = config_for(server, tmp_path)
    with connect_server(tmp_path) as address:
        options = ["--master", address]
        with Load(server, 2, seed=1) as load:
            wait_until(lambda: load.transactions > 20)
            run = Run(config, tmp_path, options=options)
            copied = load.transactions
            wait_until(lambda: bool(run.executed()), 240)
            wait_until(lambda: load.transactions > copied + 50)
        run.wait_for(server.executed)
        verify = subprocess.run(
            [sys.executable, "-m", "spark_repl", "verify", "--config", str(run.file), "--json",
             *options],
            capture_output=True, text=True, timeout=480, check=False,
        )  # fmt: skip
        assert verify.returncode == 0, verify.stderr[-3000:]
        fields = json.loads(verify.stdout)
        assert (fields["differing"], fields["tables"]) == (0, 2) and fields["rows"] > 0
        run.stop()
    check_tables(config, server, ["t.a", "t.b"])
