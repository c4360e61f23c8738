"""Our log store lists as Delta's own does, and asks for the files that were asked for alone: what
an old log costs is told by counting, not by the clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_repl.delta import log_store
from spark_repl.delta.delta_log import DeltaLog
from spark_repl.runtime import java_classes
from spark_repl.runtime.file_system import OURS, RAW
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


@pytest.mark.parametrize("age", [10, 400])
def test_a_log_is_opened_alike_at_any_age(
    spark: SparkSession, jvm: Any, counting: str, tmp_path: Path, age: int
) -> None:
    path = str(tmp_path / "t")
    spark.range(1).write.format("delta").save(path)
    logged = tmp_path / "t" / "_delta_log"
    own = (logged / f"{0:020d}.json").read_text().splitlines()
    (info,) = (line for line in own if "commitInfo" in line)
    for version in range(1, age + 1):
        (logged / f"{version:020d}.json").write_text(info)
    jvm.io.delta.tables.DeltaTable.forPath(spark._jsparkSession, path)
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, path)
    none = jvm.scala.Option.empty()
    log.checkpoint(log.update(False, none, none), none)
    (logged / f"{age + 1:020d}.json").write_text(info)
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    session = spark.newSession()
    session.conf.set("fs.file.impl", counting)
    session.conf.set("fs.file.impl.disable.cache", "true")
    asked(jvm)
    snapshot = DeltaLog(session).snapshot(path)
    assert snapshot is not None and snapshot.version == age + 1
    assert asked(jvm) < 40


def test_somebodys_own_choice_stays(jvm: Any) -> None:
    conf = jvm.org.apache.spark.SparkEnv.get().conf()
    key = "spark.delta.logStore.file.impl"
    assert conf.get(key) == log_store.STORE
    for mine in (key, "spark.delta.logStore.class"):
        conf.remove(key)
        conf.set(mine, "io.delta.storage.HDFSLogStore")
        try:
            assert not log_store.install(jvm)
            assert conf.get(key, "") in ("", "io.delta.storage.HDFSLogStore")
        finally:
            conf.remove(mine)
            assert log_store.install(jvm) and log_store.install(jvm)
