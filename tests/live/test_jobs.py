"""``jobs/snapshot.py`` under spark-submit, and ``jobs/run.py`` behind it, on a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_repl.config import Config
from tests.support.live.receiving import Command, config_for, processes, toml
from tests.support.live.server import Server

from .test_run import Run, check_tables

JOBS = Path(__file__).parents[2] / "jobs"


class Job(Run):
    """A job with its configuration, behind the words that start it."""

    def __init__(self, config: Config, file: Path, *words: str) -> None:
        self.config, command = config, [*words, str(file), "--json"]
        own = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(JOBS.parent)}
        self.process = Command(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **own}
        )
        processes.append(self.process)


@pytest.mark.slow
def test_the_jobs_copy_and_follow_a_server(
    make_server: Callable[..., Server], tmp_path: Path
) -> None:
    server, file = make_server(), tmp_path / "replica.toml"
    server.query("CREATE DATABASE t", "CREATE TABLE t.a (id INT PRIMARY KEY, v VARCHAR(9))")
    server.query("INSERT INTO t.a VALUES (1, 'x'), (2, 'y')")
    config = config_for(server, tmp_path, observe__listen="")
    file.write_text(toml(config))
    submit = [f"{sys.prefix}/bin/spark-submit", "--master", "local[2]"]
    copy = Job(config, file, *submit, str(JOBS / "snapshot.py"))
    out, err = copy.process.communicate(timeout=480)
    assert copy.process.returncode == 0, (out + err).decode()[-3000:]
    said = json.loads(out.splitlines()[-1])
    assert (said["tables"], said["rows"]) == (1, 2) and said["bytes"] > 0
    run = Job(config, file, sys.executable, str(JOBS / "run.py"))
    server.query("UPDATE t.a SET v = 'z' WHERE id = 2", "INSERT INTO t.a VALUES (3, NULL)")
    run.wait_for(server.executed)
    assert run.stop()["transactions"] == 2
    check_tables(config, server, ["t.a"])
