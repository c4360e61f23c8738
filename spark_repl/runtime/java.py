"""Java, jars for readers, and the archive of loaded classes that makes later starts quick."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb

from ..errors import JvmEndedError, SetupError
from ..user_cache import cache_folder
from .spark_release import aws_sdk, delta_package, spark_version

_VERSIONS = ("17", "21")
_ASK_S = 5.0
_SPARK = re.compile(r"(py4j|pyspark)\b")
_ENDING_S = (0.0, 0.05, 0.2, 0.75)
"""pauses in seconds before each check whether a JVM has ended, after a lost connection"""


def check_java() -> str:
    """Return the version of the Java that Spark uses. Raise SetupError unless it is 17 or 21."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    hint = "install OpenJDK 17 or 21 and put java on the PATH (or set JAVA_HOME)"
    if not java or not os.path.exists(java):
        raise SetupError("Java is not installed", hint=hint)
    release = _release(java) or _asked(java)
    if release.split(".")[0] not in _VERSIONS:
        raise SetupError(f"Java {release or '(unknown)'} found, Spark 4 needs 17 or 21", hint=hint)
    return release


def _release(java: str) -> str:
    """Return the version from the file beside the runtime: a start of Java costs 0.3 s."""
    try:
        text = Path(os.path.realpath(java)).parents[1].joinpath("release").read_text("utf-8")
    except OSError:
        return ""
    match = re.search(r'^JAVA_VERSION="([\d.]+)', text, re.MULTILINE)
    return match.group(1) if match else ""


def _asked(java: str) -> str:
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "([\d.]+)', output)
    return match.group(1) if match else ""


def jvm_end(error: BaseException) -> JvmEndedError | None:
    """Return the error for a connection that was lost because Spark's JVM has ended, otherwise
    None.

    Return None if the JVM listens, or if ``error`` is not an error of a connection. A JVM that is
    being killed may close the connection some time before its port. The function waits for this,
    unless Java answered, or the connection was not Spark's.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    # Without an answer, Py4J reports that a name "does not exist in the JVM".
    if gateway is None or not isinstance(error, ConnectionError | Py4JError):
        return None
    at = gateway.gateway_parameters.address, gateway.gateway_parameters.port
    lost = not isinstance(error, Py4JJavaError) and _is_of_spark(error)
    for pause in _ENDING_S if lost else (0.0,):
        time.sleep(pause)
        if _refuses(at):
            return JvmEndedError(
                "Spark's JVM has ended",
                hint="start again: what was not committed is applied then; was it killed, or short"
                " of memory? A service manager should signal this process alone (systemd:"
                " KillMode=mixed)",
            )
    return None


def _is_of_spark(error: BaseException) -> bool:
    """Return whether Py4J or pyspark raised it: another connection may be of an object store."""
    from py4j.protocol import Py4JError

    modules = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
    return isinstance(error, Py4JError) or any(_SPARK.match(name) for name in modules)


def _refuses(at: tuple[str, int]) -> bool:
    """Return whether nothing listens at the address."""
    try:
        socket.create_connection(at, _ASK_S).close()
    except ConnectionError:
        return True
    except OSError:  # it is slow, or the network is
        return False
    return False


def jar_folder() -> Path:
    """Return the folder of this Delta version's jars."""
    return cache_folder() / "jars" / delta_package().replace(":", "_")


def delta_jars() -> list[str]:
    """Return Delta's jars, without jars that Spark already has. Ivy fetches jars that are not in
    the cache."""
    return fetched_jars(jar_folder(), [delta_package()])


def s3_jars() -> list[str]:
    """Return the jars of S3A for Spark's version of Hadoop, 19 MB, without jars that Spark already
    has.

    Ivy fetches them in the same way. S3A depends on a bundle of all of AWS, 600 MB, which is
    replaced by the four parts of its release that S3A uses.
    """
    hadoop = next((_pyspark() / "jars").glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]
    package = f"org.apache.hadoop:hadoop-aws:{hadoop}"
    parts = ("s3", "s3-transfer-manager", "sts", "url-connection-client")
    packages = [package, *(f"software.amazon.awssdk:{name}:{aws_sdk(hadoop)}" for name in parts)]
    folder = cache_folder() / "jars" / package.replace(":", "_")
    return fetched_jars(folder, packages, without="software.amazon.awssdk:bundle")


def fetched_jars(folder: Path, packages: list[str], *, without: str = "") -> list[str]:
    """Return the jars of packages and of what they depend on, without jars that Spark has.

    If the folder is not complete, Ivy fetches the jars into it. ``without``: packages to leave out,
    as ``spark.jars.excludes``.
    """
    if not (folder / "complete").exists():
        _fetch(folder, packages, without)
    shipped = {_artifact(jar.name) for jar in (_pyspark() / "jars").iterdir()}
    jars = sorted(folder.glob("*.jar"))
    return [str(jar) for jar in jars if _artifact(jar.name.split("_", 1)[1]) not in shipped]


def _pyspark() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _artifact(name: str) -> str:
    return re.sub(r"-\d[^_]*\.jar$", "", name)


def spark_home() -> str:
    """Return Spark's folder for a local JVM: ``$SPARK_HOME``, or pyspark's without its zipped
    Python.

    Spark puts that zip first on the path of its Python processes, and a zip has no bytecode: each
    process would compile pyspark again, 0.6 s of processor time. Without the zip they import the
    installed pyspark, which is equal. If the workers' Python is of another environment, it may lack
    pyspark, and the zip stays.
    """
    if "SPARK_HOME" in os.environ:
        return os.environ["SPARK_HOME"]
    own = _pyspark()
    workers = shutil.which(os.environ.get("PYSPARK_PYTHON") or sys.executable)
    if workers is None or _environment(workers) != _environment(sys.executable):
        return str(own)
    home = cache_folder().absolute() / f"spark-{spark_version()}-{_place()}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name in ("bin", "jars", "conf"):
            if (own / name).exists() and not (home / name).exists():
                with suppress(FileExistsError):  # another process's, just now
                    (home / name).symlink_to(own / name)
    except OSError:  # a cache that can't be written
        return str(own)
    return str(home)


def _environment(python: str) -> str:
    """Return the real folder of an interpreter. The interpreter's own link is not followed: the
    links of all environments may lead to one file."""
    return os.path.realpath(os.path.dirname(python))


def _place() -> str:
    """Return 8 hex digits that identify pyspark's installation, also after a reinstallation."""
    jars = _pyspark() / "jars"
    return f"{zlib.crc32(f'{jars} {jars.stat().st_mtime_ns}'.encode()):08x}"


def archive() -> Path:
    """Return the path of the class archive (class data sharing) for this Java and Spark's jars.

    The archive may not exist. Loading Spark's 20,000 classes is most of a start. With the archive,
    a stream's first batch comes after 9 s instead of 13.5 s, for 15 instead of 26 s of processor
    time (with only C1).
    """
    versions = f"java-{check_java()}-pyspark-{spark_version()}"
    # Java accepts an archive only for the class path and the files of its creation.
    home = zlib.crc32(spark_home().encode())
    return cache_folder() / f"{versions}-{_place()}-{home:08x}.jsa"


def _fetch(folder: Path, packages: list[str], without: str) -> None:
    check_java()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        script = (
            "from pyspark.sql import SparkSession;"
            "SparkSession.builder.master('local[1]').config('spark.ui.enabled','false')"
            f".config('spark.jars.packages',{','.join(packages)!r})"
            f".config('spark.jars.excludes',{without!r})"
            f".config('spark.jars.ivy',{work + '/ivy'!r}).getOrCreate().stop()"
        )
        process = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False
        )
        jars = list(Path(work, "ivy", "jars").glob("*.jar"))
        main = packages[0].split(":")[1]
        if process.returncode or not any(main in jar.name for jar in jars):
            raise SetupError(
                f"could not fetch {packages[0]}: " + "\n".join(process.stderr.splitlines()[-8:]),
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
