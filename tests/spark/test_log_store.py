"""Our log store lists as Delta's own does, and looks at the files that were asked for alone: what
an old log costs is told by counting, not by the clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from spark_repl.delta import log_store
from spark_repl.delta.delta_log import DeltaLog
from spark_repl.delta.log_replay import commit_path, read_commit
from spark_repl.delta.stamp import Stamp
from spark_repl.delta.table_log import NewTable
from spark_repl.runtime import java_classes
from spark_repl.runtime.file_system import OURS, RAW
from tests.spark.test_old_logs import SCHEMA
from tests.support.java_source import classes_of, sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTING = """
package org.apache.hadoop.fs;
public class CountingFileSystem extends RawLocalFileSystem {
    private static int count = 0;
    public static synchronized int asked() {
        int asked = count;
        count = 0;
        return asked;
    }
    public FileStatus getFileStatus(Path path) throws java.io.IOException {
        synchronized (CountingFileSystem.class) {
            count++;
        }
        return super.getFileStatus(path);
    }
}
"""
NAMES = ["_last_checkpoint", *(f"{v:020d}.{kind}" for v in range(40) for kind in ("json", "crc"))]
"""of a log"""


@pytest.fixture(scope="module")
def jvm(spark: SparkSession) -> Any:
    found: Any = spark._jvm
    DeltaLog(spark)
    return found


@pytest.fixture(scope="module")
def counting(jvm: Any) -> str:
    """The name of a local file system that counts statuses."""
    name = "org.apache.hadoop.fs.CountingFileSystem"
    java_classes.define(jvm, RAW, *classes_of(jvm, COUNTING).values())
    return name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in [*NAMES, "odd:name", ".hidden.crc", "é"]:
        (tmp_path / name).write_text(name)
    (tmp_path / "_sidecars").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    return tmp_path


def listed(jvm: Any, store: Any, first: Path, conf: Any) -> list[tuple[str, int, int, bool]]:
    found = store.listFrom(jvm.org.apache.hadoop.fs.Path(first.as_uri()), conf)
    return [
        (str(one.getPath()), one.getLen(), one.getModificationTime(), one.isDirectory())
        for one in _each(found)
    ]


def _each(found: Any) -> Iterator[Any]:
    while found.hasNext():
        yield found.next()


def configuration(jvm: Any, file_system: str) -> Any:
    conf = jvm.org.apache.hadoop.conf.Configuration()
    conf.set("fs.file.impl", file_system)
    conf.set("fs.file.impl.disable.cache", "true")
    return conf


def asked(jvm: Any) -> int:
    """How many statuses were asked for since it was asked last."""
    return int(jvm.org.apache.hadoop.fs.CountingFileSystem.asked())


@contextmanager
def counted(spark: SparkSession, file_system: str) -> Iterator[None]:
    """A context in which Delta goes through it."""
    conf: Any = spark.sparkContext._jsc.hadoopConfiguration()
    before = conf.get("fs.file.impl")
    conf.set("fs.file.impl", file_system)
    conf.set("fs.file.impl.disable.cache", "true")
    try:
        yield
    finally:
        conf.set("fs.file.impl", before)
        conf.unset("fs.file.impl.disable.cache")


def test_the_classes_are_those_of_the_source(jvm: Any) -> None:
    """What a user's machine loads can be read."""
    made = {n: code for text in sources().values() for n, code in classes_of(jvm, text).items()}
    assert made.keys() == {log_store.STORE, log_store.STATUSES, OURS}
    for name, code in made.items():
        again = "make it anew: python -m tests.support.java_source"
        assert java_classes.compiled(name) == code, again


@pytest.mark.parametrize("file_system", ["RawLocalFileSystem", "LocalFileSystem"])
def test_it_lists_what_deltas_own_does(jvm: Any, folder: Path, file_system: str) -> None:
    conf = configuration(jvm, f"org.apache.hadoop.fs.{file_system}")
    storage = jvm.io.delta.storage
    ours, own = storage.SparkReplLogStore(conf), storage.HDFSLogStore(conf)
    for first in ("", ".h", f"{0:020d}.", f"{38:020d}.checkpoint", "_last_checkpoint", "zz", "é"):
        wanted = listed(jvm, own, folder / (first or " "), conf)
        assert listed(jvm, ours, folder / (first or " "), conf) == wanted
    with pytest.raises(Exception, match="FileNotFoundException"):
        listed(jvm, ours, folder / "none" / "x", conf)


def test_only_what_was_asked_for_is_looked_at(jvm: Any, folder: Path, counting: str) -> None:
    conf = configuration(jvm, counting)
    store = jvm.io.delta.storage.SparkReplLogStore(conf)
    assert len(listed(jvm, store, folder / f"{38:020d}.", conf)) == 4 + 4
    assert asked(jvm) == 4 + 5  # and the link that leads nowhere
    statuses = store.listFrom(jvm.org.apache.hadoop.fs.Path((folder / "0").as_uri()), conf)
    assert statuses.next().getPath().getName() == NAMES[2]  # .crc
    (folder / NAMES[1]).unlink()  # since its name was read
    assert statuses.next().getPath().getName() == NAMES[4]
    assert asked(jvm) == 3, "a reader of an old version has no need of what is behind it"


def test_of_an_old_log_few_files_are_looked_at(
    spark: SparkSession, jvm: Any, counting: str, tmp_path: Path
) -> None:
    """By Delta itself, as a start has it open a table."""
    path, age = str(tmp_path / "t"), 400
    delta = DeltaLog(spark)
    delta.create(path, NewTable(json.dumps(SCHEMA), {}), Stamp("app", 1, "{}"))
    text = read_commit(path, 0) or []
    (line,) = (json.dumps(action) for action in text if "commitInfo" in action)
    for version in range(1, age + 1):
        Path(commit_path(path, version)).write_text(line)
        if version == age - 5:
            DeltaTable(path).create_checkpoint()
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    asked(jvm)
    with counted(spark, counting):
        snapshot = delta.snapshot(path)
    assert snapshot is not None and snapshot.version == age
    assert 5 <= asked(jvm) < 50


def test_somebodys_own_choice_stays(spark: SparkSession, jvm: Any) -> None:
    conf = jvm.org.apache.spark.SparkEnv.get().conf()
    key, of_all = log_store.SETTING, "delta.logStore.class"
    assert conf.get(key) == log_store.STORE
    told = [pair._2() for pair in conf.getAll() if pair._1().startswith("spark.")]
    assert log_store.STORE not in told, "executors that start later have no such class"
    for mine in (key, f"spark.{key}", of_all, f"spark.{of_all}"):
        conf.remove(key)
        conf.set(mine, "io.delta.storage.HDFSLogStore")
        try:
            assert not log_store.install(spark)
            assert conf.get(key, "") in ("", "io.delta.storage.HDFSLogStore")
        finally:
            conf.remove(mine)
            assert log_store.install(spark) and log_store.install(spark)


def test_without_a_jvm_of_ours_nothing_is_done() -> None:
    """As with Spark Connect, or where Py4J may not call what it likes."""
    assert not log_store.install(object())  # type: ignore[arg-type]
