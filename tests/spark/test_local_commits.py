"""What the JVM writes on a local disk: a version is one writer's alone, and no process is started
for it."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

from spark_repl.delta import log_store
from spark_repl.delta.delta_log import DeltaLog
from spark_repl.runtime import file_system, java_classes
from tests.support.java_source import classes_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_LINKS = """
package io.delta.storage;
public class StoreWithoutLinks extends SparkReplLogStore {
    public StoreWithoutLinks(org.apache.hadoop.conf.Configuration conf) {
        super(conf);
    }
    void link(java.nio.file.Path name, java.nio.file.Path file) throws java.io.IOException {
        throw new java.nio.file.FileSystemException("Operation not supported");
    }
}
"""
LOST_ANSWER = """
package io.delta.storage;
public class StoreOfLostAnswers extends SparkReplLogStore {
    public StoreOfLostAnswers(org.apache.hadoop.conf.Configuration conf) {
        super(conf);
    }
    void link(java.nio.file.Path name, java.nio.file.Path file) throws java.io.IOException {
        super.link(name, file);
        super.link(name, file);
    }
}
"""
FAILED_LINK = """
package io.delta.storage;
public class StoreOfFailedAnswers extends SparkReplLogStore {
    public StoreOfFailedAnswers(org.apache.hadoop.conf.Configuration conf) {
        super(conf);
    }
    void link(java.nio.file.Path name, java.nio.file.Path file) throws java.io.IOException {
        super.link(name, file);
        throw new java.nio.file.FileSystemException("Input/output error");
    }
}
"""
STORES = ["SparkReplLogStore", "StoreWithoutLinks", "StoreOfLostAnswers", "StoreOfFailedAnswers"]
LINES = ['{"commitInfo":{}}', '{"é":"\\n"}']


@pytest.fixture(scope="module")
def jvm(spark: SparkSession) -> Any:
    found: Any = spark._jvm
    DeltaLog(spark)
    for source in (NO_LINKS, LOST_ANSWER, FAILED_LINK):
        java_classes.define(found, log_store.STORE, *classes_of(found, source).values())
    return found


@pytest.fixture
def conf(spark: SparkSession) -> Any:
    found: Any = spark._jsc.hadoopConfiguration()
    return found


def write(
    jvm: Any, conf: Any, file: Path, lines: Iterable[str] = LINES, *,
    store: str = "SparkReplLogStore", overwrite: bool = False,
) -> None:  # fmt: skip
    path = jvm.org.apache.hadoop.fs.Path(f"file:{file}")
    listed = jvm.java.util.ArrayList()
    for line in lines:
        listed.add(line)
    getattr(jvm.io.delta.storage, store)(conf).write(path, listed.iterator(), overwrite, conf)


@pytest.mark.parametrize("store", STORES)
def test_a_version_is_written_once(jvm: Any, conf: Any, tmp_path: Path, store: str) -> None:
    file = tmp_path / f"{1:020d}.json"
    write(jvm, conf, file, store=store)
    assert file.read_text("utf-8").splitlines() == LINES
    assert stat.S_IMODE(file.stat().st_mode) == 0o644, "as Hadoop's umask has it"
    with pytest.raises(Py4JJavaError) as refused:
        write(jvm, conf, file, ["another"], store=store)
    assert "java.nio.file.FileAlreadyExistsException" in str(refused.value.java_exception)
    assert file.read_text("utf-8").splitlines() == LINES
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_hadoops_umask_is_asked(jvm: Any, tmp_path: Path) -> None:
    conf = jvm.org.apache.hadoop.conf.Configuration()
    conf.set("fs.permissions.umask-mode", "077")
    conf.set("fs.file.impl", file_system.OURS)
    write(jvm, conf, tmp_path / "1.json")
    assert stat.S_IMODE((tmp_path / "1.json").stat().st_mode) == 0o600


def test_what_may_be_overwritten_is(jvm: Any, conf: Any, tmp_path: Path) -> None:
    file = tmp_path / "_last_checkpoint"
    for line in ("one", "two"):
        write(jvm, conf, file, [line], overwrite=True)
        assert file.read_text() == f"{line}\n"


def test_names_of_folders_are_no_addresses(jvm: Any, conf: Any, tmp_path: Path) -> None:
    true, folder = tmp_path / "true", tmp_path / "a b%20c%:d#e?+é"
    true.mkdir()
    folder.symlink_to(true)
    write(jvm, conf, folder / "1.json")
    assert [path.name for path in true.iterdir()] == ["1.json"]
    assert [path.name for path in tmp_path.iterdir() if path != folder] == ["true"]


def test_without_links_no_copy_is_shown(jvm: Any, conf: Any, tmp_path: Path) -> None:
    """Where the system's rename fails, too, as over a folder."""
    (tmp_path / "1.json").symlink_to("nowhere")
    with pytest.raises(Py4JJavaError, match="FileAlreadyExists"):
        write(jvm, conf, tmp_path / "1.json", store="StoreWithoutLinks")
    assert not (tmp_path / "nowhere").exists() and len(list(tmp_path.iterdir())) == 1


def test_a_folder_keeps_its_group_for_what_is_made_in_it(
    jvm: Any, conf: Any, tmp_path: Path
) -> None:
    tmp_path.chmod(0o2775)
    path = jvm.org.apache.hadoop.fs.Path(f"file:{tmp_path}/t/_delta_log")
    assert path.getFileSystem(conf).mkdirs(path)
    for made in (tmp_path / "t", tmp_path / "t/_delta_log"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o2755


def test_without_a_folder_nothing_is_written(jvm: Any, conf: Any, tmp_path: Path) -> None:
    with pytest.raises(Py4JJavaError, match="NoSuchFile"):
        write(jvm, conf, tmp_path / "none" / "1.json")
    assert not list(tmp_path.iterdir())


def test_of_two_at_once_one_writes(jvm: Any, conf: Any, tmp_path: Path) -> None:
    """Hadoop's looks first and renames then, over what came in between."""
    writers, versions = 4, 25
    together = threading.Barrier(writers)

    def writer(number: int) -> list[bool]:
        wrote = []
        for version in range(versions):
            together.wait(30)
            try:
                write(jvm, conf, tmp_path / f"{version}.json", [f"{number}"])
                wrote.append(True)
            except Py4JJavaError:
                wrote.append(False)
        return wrote

    with ThreadPoolExecutor(writers) as pool:
        wrote = list(pool.map(writer, range(writers)))
    for version in range(versions):
        (winner,) = (number for number in range(writers) if wrote[number][version])
        assert (tmp_path / f"{version}.json").read_text() == f"{winner}\n"


def test_no_process_is_started(spark: SparkSession, jvm: Any, tmp_path: Path) -> None:
    """Neither for a commit nor for its checksum."""
    path = str(tmp_path / "t")
    spark.range(1).write.format("delta").save(path)
    before = faults_of_children(jvm)
    spark.range(1).write.format("delta").mode("append").save(path)
    assert (tmp_path / "t" / "_delta_log" / f"{1:020d}.crc").exists()
    assert faults_of_children(jvm) == before


def faults_of_children(jvm: Any) -> int:
    """Page faults of the JVM's processes that have ended, which each of them has had."""
    pid = jvm.java.lang.ProcessHandle.current().pid()
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[8])


@pytest.mark.parametrize("mode", [0o640, 0o600, 0o1777])
def test_a_mode_is_set(jvm: Any, conf: Any, tmp_path: Path, mode: int) -> None:
    hadoop = jvm.org.apache.hadoop.fs
    file = tmp_path / "a"
    file.touch()
    path = hadoop.Path(file.as_uri())
    files = path.getFileSystem(conf)
    assert files.getClass().getName() == file_system.OURS
    text = f"{mode:o}"
    files.setPermission(path, hadoop.permission.FsPermission(text))
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_another_file_system_stays(spark: SparkSession, conf: Any) -> None:
    assert file_system.install(spark.sparkContext)
    conf.set("fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    try:
        assert not file_system.install(spark.sparkContext)
        assert conf.get("fs.file.impl") == "org.apache.hadoop.fs.LocalFileSystem"
    finally:
        conf.set("fs.file.impl", file_system.OURS)
