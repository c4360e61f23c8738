"""The Spark session: Java and the Delta jars are there, and the settings that the applier needs.

``python -m spark_repl.session`` fetches the jars once; every later start is offline.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from pyspark.sql import SparkSession

from .errors import SetupError

SCALA = "2.13"
_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # With Delta's default of 50 partitions each checkpoint costs 5-13 s on two cores.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "2",
    # A second attempt of a task that still runs would write its files twice for nothing.
    "spark.speculation": "false",
    # Hadoop's local file system forks shell commands without libhadoop; the raw one doesn't.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}


def delta_package() -> str:
    """Maven coordinates of the Delta jar that fits the installed pyspark and delta-spark."""
    spark = ".".join(version("pyspark").split(".")[:2])
    return f"io.delta:delta-spark_{spark}_{SCALA}:{version('delta-spark')}"


def jar_folder() -> Path:
    """``$SPARK_REPL_CACHE`` or the user's cache folder, with a folder for each Delta version."""
    root = os.environ.get("SPARK_REPL_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "spark_repl"
    )
    return Path(root) / "jars" / delta_package().replace(":", "_")


def check_java() -> str:
    """The major version of the Java that Spark will use. Raises SetupError unless 17 or 21."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    hint = "install OpenJDK 17 or 21 and put java on the PATH (or set JAVA_HOME)"
    if not java or not os.path.exists(java):
        raise SetupError("Java is not installed", hint=hint)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    major = found.group(1) if found else "unknown"
    if major not in ("17", "21"):
        raise SetupError(f"Java {major} found, Spark 4.2 needs 17 or 21", hint=hint)
    return major


def delta_jars() -> list[str]:
    """The jars of Delta, fetched by Ivy when they are not in the cache yet."""
    folder = jar_folder()
    if not (folder / "complete").exists():
        _fetch(folder)
    return sorted(str(jar) for jar in folder.glob("*.jar"))


def _fetch(folder: Path) -> None:
    check_java()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        script = (
            "from pyspark.sql import SparkSession;"
            "SparkSession.builder.master('local[1]').config('spark.ui.enabled','false')"
            f".config('spark.jars.packages',{delta_package()!r})"
            f".config('spark.jars.ivy',{work + '/ivy'!r}).getOrCreate().stop()"
        )
        ran = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False
        )
        jars = list(Path(work, "ivy", "jars").glob("*.jar"))
        if ran.returncode or not any("delta-spark" in jar.name for jar in jars):
            raise SetupError(
                f"could not fetch {delta_package()}: " + "\n".join(ran.stderr.splitlines()[-8:]),
                hint="check the network; a half-filled local Maven repository (~/.m2) also breaks"
                " Ivy's resolution: move it away and try again",
            )
        ready = Path(work, "ready")
        ready.mkdir()
        for jar in jars:
            # Ivy names its copies org_name-version.jar.
            shutil.copy(jar, ready / jar.name)
        (ready / "complete").touch()
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(ready, folder)


def build_session(
    name: str = "spark_repl", *, master: str | None = None, settings: Mapping[str, str] = {}
) -> SparkSession:
    """A session with Delta and the applier's settings; ``settings`` win over ours.

    Under spark-submit the running session's master and jars are kept. Raises SetupError.
    """
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not started by spark-submit
        builder = builder.master(master or "local[*]").config("spark.driver.memory", "2g")
        builder = builder.config("spark.jars", ",".join(delta_jars()))
        logging = Path(__file__).with_name("log4j2.properties")
        builder = builder.config(
            "spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={logging}"
        )
        if (master or "").startswith("local"):
            builder = builder.config("spark.driver.host", "127.0.0.1")
            builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        if (master or "").startswith("local-cluster"):
            import pyspark

            os.environ.setdefault("SPARK_HOME", os.path.dirname(pyspark.__file__))
    for key, value in {**_SETTINGS, **settings}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


if __name__ == "__main__":
    print(f"Java {check_java()}, {len(delta_jars())} Delta jars in {jar_folder()}")
