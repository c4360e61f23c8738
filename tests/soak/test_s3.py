"""The main job into a bucket: killed between two tables, machine lost; Spark reads through S3A."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_repl.delta.log.table_log import TableLog
from spark_repl.delta.store import storage
from spark_repl.errors import ConcurrentChangeError
from spark_repl.runtime.target_uri import canonical
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.examples import ALL, ROOT
from tests.support.s3_server import BUCKET, s3_server

pytestmark = pytest.mark.soak

TARGET = f"s3://{BUCKET}/lake"
# A JVM has one class path, hence processes of their own.
_EQUAL = """
import sys
from pathlib import Path
from spark_repl import cut
from spark_repl.demo.expected import differences, expected_tables
from spark_repl.runtime.spark_session import build_session
now = cut(build_session(target=sys.argv[1]), sys.argv[1])
for name, columns, rows in expected_tables(Path(sys.argv[2])):
    table = now.table(name)
    assert differences(table.columns, table.collect(), columns, rows)[:5] == [], name
print("equal:", *now.tables)
"""
_OPTIMIZE = """
import sys
from spark_repl.runtime.target_uri import canonical
from spark_repl.runtime.spark_session import build_session
spark = build_session(target=sys.argv[1])
spark.sql(f"OPTIMIZE delta.`{canonical(sys.argv[1])}/t/a`").collect()
"""


def ran(*command: str, crash: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SPARK_REPL_CRASH": crash}
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> object:
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield


def test_killed_without_its_working_state_it_ends_as_the_server(
    server: object, bank: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    config = tmp_path / "replica.toml"
    config.write_text(
        f"[relay]\npath = '{bank}'\n[target]\npath = '{TARGET}'\nstate_path = '{state}'\n"
        "[apply]\ngroup_max_transactions = 1000\n"
    )
    apply = ("-m", "spark_repl", "apply", "--config", str(config))
    assert ran(*apply, crash="between_tables:2").returncode == -9
    assert list(state.iterdir())
    shutil.rmtree(state)
    again = ran(*apply)
    assert again.returncode == 0, again.stderr
    found = ran("-c", _EQUAL, TARGET, str(bank / "expected"))
    assert "equal: bank.account bank.pending bank.till bank.transfer" in found.stdout, found.stderr
    assert not (Path.cwd() / "s3:").exists()


def test_the_documented_example_runs_with_a_bucket(server: object, bank: Path) -> None:
    """With this server's address, and its bucket."""
    text = ALL["docs/object-stores.md bash 1"].text
    for theirs, ours in {
        "http://127.0.0.1:9000": os.environ["AWS_ENDPOINT_URL"],
        "s3://bucket/lake": TARGET,
        "spark-repl apply": f"{sys.executable} -m spark_repl apply",
    }.items():
        assert text.count(theirs) == 1
        text = text.replace(theirs, ours)
    shell = ["bash", "-euo", "pipefail", "-c", text]
    applied = subprocess.run(shell, cwd=ROOT, capture_output=True, text=True, check=False)
    assert applied.returncode == 0, applied.stderr[-3000:]
    found = ran("-c", _EQUAL, TARGET, str(bank / "expected"))
    assert "equal: bank.account bank.pending bank.till bank.transfer" in found.stdout, found.stderr


def test_the_demo_on_s3_ends_with_equal_rows_by_each_engine() -> None:
    """``make demo-s3``, which starts a server of its own."""
    ended = ran("-m", "tests.demo_s3")
    assert ended.returncode == 0, ended.stderr[-3000:]
    for engine in ("Spark", "DuckDB", "Polars"):
        assert f"{engine} reads the last cut" in ended.stdout


def test_a_commit_of_sparks_is_not_written_over(server: object, tmp_path: Path) -> None:
    """Spark commits between our snapshot and our commit, through its own log store."""
    log, table = LogWriter(tmp_path / "log"), Table("a")
    log.ddl("CREATE DATABASE t")
    log.ddl(table.create)
    for key in range(3):
        log.transaction(insert(table, (key, "x")))
    config = tmp_path / "replica.toml"
    config.write_text(
        f"[relay]\npath = '{log.folder}'\n[target]\npath = '{TARGET}'\n"
        f"state_path = '{tmp_path / 'state'}'\n[apply]\ngroup_max_transactions = 1\n"
    )
    applied = ran("-m", "spark_repl", "apply", "--config", str(config))
    assert applied.returncode == 0, applied.stderr
    folder, delta = canonical(f"{TARGET}/t/a"), TableLog()
    before = delta.snapshot(folder)
    assert before is not None
    optimized = ran("-c", _OPTIMIZE, TARGET)
    assert optimized.returncode == 0, optimized.stderr
    with pytest.raises(ConcurrentChangeError):
        delta.set_properties(before, {"a": "b"}, "somebody")
    after = delta.snapshot(folder)
    assert after is not None and after.version == before.version + 1


def test_bench_measures_an_aged_target_in_a_bucket(server: object, tmp_path: Path) -> None:
    """The bench's targets are made there, with commits that the load's come behind, and go."""
    log, table = LogWriter(tmp_path / "log"), Table("a")
    log.ddl(table.create)
    log.transaction(insert(table, (1, "x")))
    file, _, end = log.spans[-1]
    for key in range(2, 5):
        log.transaction(insert(table, (key, "x")))
    below, place = f"s3://{BUCKET}/bench", f"source:{file}:{end}"
    age = ("--age-days", "0.01", "--commits-per-day", "14400", "--rate", "50", "--json")
    bench = ("-m", "spark_repl", "bench", "endurance", "--target", below)
    made = ran(*bench, "--relay", str(log.folder), "--prepared", place, *age)
    assert made.returncode == 0, made.stderr[-3000:]
    found = json.loads(made.stdout.splitlines()[-1])
    assert found["commits_per_table"] == 144
    assert all(found[name]["commit_to_cut_p50_s"] > 0 for name in ("new", "old"))
    assert not storage.exists(canonical(f"{below}/old/t/a/_delta_log"))
