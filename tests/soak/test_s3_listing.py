"""A log in a bucket is listed from where it was asked for: what an old one costs is told by
counting requests, not by the clock. Real Spark, real S3A."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.s3_server import BUCKET, s3_server

pytestmark = pytest.mark.soak

# A JVM has one class path, hence processes of their own.
_OPEN = """
import json, sys
from deltalake import DeltaTable
from spark_repl.delta.delta_log import DeltaLog
from spark_repl.delta.log_replay import commit_path, read_commit
from spark_repl.delta.stamp import Stamp
from spark_repl.delta.storage import open_output, options
from spark_repl.delta.table_log import NewTable
from spark_repl.runtime.object_store import canonical
from spark_repl.runtime.session import build_session
from tests.support.s3_server import requested
spark = build_session(target=sys.argv[1])
spark._jsc.hadoopConfiguration().set("fs.s3a.paging.maximum", "20")
delta = DeltaLog(spark)
def put(path, content):
    with open_output(path) as file:
        file.write(content.encode())
def opened(age):
    path = canonical(f"{sys.argv[1]}/aged_{age}")
    schema = {"type": "struct", "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    delta.create(path, NewTable(json.dumps(schema), {}), Stamp("app", 1, "{}"))
    (line,) = [json.dumps(one) for one in read_commit(path, 0) if "commitInfo" in one]
    for version in range(1, age + 1):
        put(commit_path(path, version), line)
        if version == age - 5:
            DeltaTable(path, storage_options=options(path)).create_checkpoint()
    # A name in a folder of the log is none of the log's.
    put(commit_path(path, age).replace("_delta_log", "_delta_log/_staged_commits"), line)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    with requested() as asked:
        assert delta.snapshot(path).version == age
    print(*asked, sep="\\n", file=sys.stderr)
    return len(asked)
opened(10)
print(opened(60), opened(600))
"""
_VACUUM = """
import sys
from spark_repl.delta.delta_log import DeltaLog
from spark_repl.delta.storage import names, open_output
from spark_repl.runtime.object_store import canonical
from spark_repl.runtime.session import build_session
spark = build_session(target=sys.argv[1])
DeltaLog(spark)
path = canonical(f"{sys.argv[1]}/vacuumed")
for _ in range(3):
    spark.range(3).write.format("delta").mode("overwrite").save(path)
with open_output(f"{path}/orphan.parquet") as file:
    file.write(b"x")
logged, data = sorted(names(f"{path}/_delta_log")), names(path)
spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
assert set(logged) <= set(names(f"{path}/_delta_log")), names(f"{path}/_delta_log")
left = names(path)
assert "orphan.parquet" in data and "orphan.parquet" not in left and len(left) < len(data) - 1
print(spark.read.format("delta").load(path).count())
"""


_COMPILE = """
import sys
from spark_repl.delta.log_store import S3_STORE
from spark_repl.runtime import java_classes
from spark_repl.runtime.session import build_session
from tests.support.java_source import classes_of, sources
spark = build_session(target=sys.argv[1])
(text,) = sources(s3=True).values()
print({name: java_classes.compiled(name) for name in [S3_STORE]} == classes_of(spark._jvm, text))
"""


def ran(script: str) -> list[str]:
    """The words of its last line."""
    command = [sys.executable, "-c", script, f"s3://{BUCKET}/lake"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout.splitlines()[-1].split()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield


def test_an_old_log_is_opened_by_as_many_requests_as_a_new_one(server: None) -> None:
    """A page of a listing has 20 names here, and the old log 600 commits."""
    new, old = map(int, ran(_OPEN))
    assert 0 < old <= new


def test_vacuum_finds_the_tables_files_and_none_of_its_log(server: None) -> None:
    """As it does with Delta's own log store."""
    assert ran(_VACUUM) == ["3"]


def test_the_class_is_that_of_the_source() -> None:
    assert ran(_COMPILE) == ["True"]
