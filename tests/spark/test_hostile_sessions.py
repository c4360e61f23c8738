"""A replica in a Spark session of another program, whose settings are as bad as they get.

One process has every hostile setting of a context at once, with executors of their own, and applies
a log in two of its sessions: as the context has them, and with other hostile settings.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from spark_repl.runtime.java import delta_jars, spark_home
from spark_repl.runtime.spark_release import reads_delta
from tests.spark.lab import assert_applied_once, assert_rows
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
A = Table("a", columns=(("Id", "int"), ("value", "varchar(40)"), ("VALUE2", "varchar(40)")))
OF_CONTEXT = {
    "spark.scheduler.mode": "FAIR",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrationRequired": "true",
    "spark.speculation": "true",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.quantile": "0.1",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "Asia/Kolkata",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.shuffle.partitions": "977",
    "spark.sql.adaptive.enabled": "false",
}
OF_SESSION = {
    "spark.sql.session.timeZone": "America/St_Johns",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": "no.such.Manager",
}
LOG4J = """
status = error
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {folder}/theirs.log
appender.file.layout.type = PatternLayout
"""
SCRIPT = """
import json, logging, sys
from pathlib import Path
from pyspark.sql import SparkSession
import spark_repl.apply.group.stager, spark_repl.runtime.workers
spark_repl.runtime.workers.HERE_LOG_BYTES = spark_repl.apply.group.stager._SHARD_BYTES = 0
spark_repl.runtime.workers.HERE_ROWS = 0
from spark_repl.apply.stream import stream
stream._FIRST_BATCH, stream._WITHOUT_STREAM = 1, 0  # the settings of streams count, too
from spark_repl import Config, Replica, cut

folder, context_settings, settings = Path(sys.argv[1]), *map(json.loads, sys.argv[2:])
warned = []
class Kept(logging.Handler):
    def emit(self, record):
        warned.append(record.getMessage())
logging.getLogger("spark_repl").addHandler(Kept())
builder = SparkSession.builder.master("local-cluster[2,1,1024]")
for key, value in context_settings.items():
    builder = builder.config(key, value)
theirs = builder.getOrCreate()
context = theirs.sparkContext
context.setLocalProperty("spark.scheduler.pool", "theirs")
logs = context._jvm.org.apache.logging.log4j.LogManager

def found(session):
    try:
        session.readStream.format("mysql_relay").load()
    except Exception:
        return "no source"
    return "a source"

def look(session):
    hadoop = context._jsc.hadoopConfiguration().iterator()
    return {
        "settings": dict(session.conf.getAll),
        "context": dict(context.getConf().getAll()),
        "hadoop": sorted(f"{e.getKey()}={e.getValue()}" for e in hadoop),
        "logs": [str(logs.getRootLogger().getLevel()),
                 str(logs.getRootLogger().getAppenders().keySet())],
        "pool": context.getLocalProperty("spark.scheduler.pool"),
        "active": SparkSession.getActiveSession() is theirs or str(SparkSession.getActiveSession()),
        "default": SparkSession.builder.getOrCreate() is theirs,
        "listeners": len(session.streams._jsqm.listListeners()),
        "views": [view.name for view in session.catalog.listTables()],
        "source": found(session),
    }

def changes(before, after):
    return {key: [value, after.get(key)] for key, value in before.items() if after[key] != value}

cases = []
for number, session in enumerate([theirs, theirs.newSession()]):
    if number:
        for pair in settings.items():
            session.conf.set(*pair)
    config = Config().override({
        "relay.path": str(folder / "log"), "target.path": str(folder / f"lake{number}"),
        "apply.group_max_transactions": 6,
    })
    look(session)  # the first look starts Hive, which adds settings
    before = look(session)
    with Replica(session, config) as replica:
        applied = replica.apply().counters.transactions
    after = look(session)
    cases.append({
        "applied": applied,
        "changed": {k: changes(before.pop(k), after.pop(k)) for k in ("settings", "context")},
        "others": changes(before, after),
        "kept": dict(session.conf.getAll),
    })
table = cut(theirs, str(folder / "lake0")).table("t.a")
rows = sorted(map(list, table.collect()))
print(json.dumps({"cases": cases, "warned": warned, "rows": rows}))
"""


def ran(folder: Path, context: Mapping[str, str]) -> dict[str, Any]:
    """Return what the script prints about each of its sessions."""
    (folder / "log4j2.properties").write_text(LOG4J.format(folder=folder))
    settings = {
        **context,
        "spark.jars": ",".join(map(str, delta_jars())),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}"
        f" -Dlog4j2.configurationFile={folder}/log4j2.properties",
    }
    words = [str(folder), json.dumps(settings), json.dumps(OF_SESSION)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words], cwd=folder, capture_output=True, text=True,
        check=False, env={**os.environ, "SPARK_HOME": spark_home(), "PYTHONPATH": str(ROOT),
                          "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    if not reads_delta():
        pytest.skip("no Delta is published for this Spark")
    folder = tmp_path_factory.mktemp("hostile")
    log = LogWriter(folder / "log")
    log.ddl("CREATE DATABASE t")
    log.ddl(A.create)
    for key in range(6):
        log.transaction(insert(A, (key, "x", "X")))
    log.transaction(update(A, ((1, "x", "X"), (1, "y", "Y"))))
    log.transaction(delete(A, (2, "x", "X")))
    return folder, ran(folder, OF_CONTEXT)


WANTED = [(0, "x", "X"), (1, "y", "Y"), (3, "x", "X"), (4, "x", "X"), (5, "x", "X")]
Answer = tuple[Path, dict[str, Any]]


@pytest.mark.parametrize("number", [0, 1], ids=["as the context", "with other settings"])
def test_the_tables_have_the_rows_and_nothing_of_theirs_changes(
    hostile: Answer, number: int
) -> None:
    folder, answer = hostile
    case = answer["cases"][number]
    assert case["applied"] == 10
    assert (case["changed"], case["others"]) == ({"settings": {}, "context": {}}, {})
    assert_rows(None, folder / f"lake{number}", A, WANTED)
    assert_applied_once(folder / f"lake{number}")


@pytest.mark.parametrize("key", OF_CONTEXT)
def test_a_setting_of_the_context_stays(hostile: Answer, key: str) -> None:
    assert hostile[1]["cases"][0]["kept"][key] == OF_CONTEXT[key]


@pytest.mark.parametrize("key", OF_SESSION)
def test_a_setting_of_a_session_stays(hostile: Answer, key: str) -> None:
    assert hostile[1]["cases"][1]["kept"][key] == OF_SESSION[key]


def test_a_cut_is_read_in_a_hostile_session(hostile: Answer) -> None:
    assert hostile[1]["rows"] == [list(row) for row in WANTED]


def test_a_setting_that_only_the_context_can_have_is_named(
    hostile: Answer,
) -> None:
    named = [text for text in hostile[1]["warned"] if "--conf" in text]
    assert len(named) == 1 and "--conf spark.speculation=false" in named[0]


def test_the_log_of_theirs_is_still_written(hostile: Answer) -> None:
    assert (hostile[0] / "theirs.log").stat().st_size > 0
