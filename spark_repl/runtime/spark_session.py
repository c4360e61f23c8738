"""The Spark session with the settings that the applier needs.

The settings belong to a session of this module. If another program (a notebook) has a SparkContext
already, the session is a new one of that context.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from py4j.java_gateway import JavaPackage
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from ..errors import SetupError
from .java import archive, check_java, delta_jars, s3_jars, spark_home
from .retry import first_line
from .spark_jobs import CONNECT, CONNECT_SETTINGS
from .spark_release import checkpoint_manager
from .store_clients import spark_settings
from .target_uri import on_s3

if TYPE_CHECKING:
    from .starting_session import Session

logger = logging.getLogger(__name__)

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # A second attempt of a task that still runs would write its files twice for nothing.
    "spark.speculation": "false",
    # Large pages for buffers of workers (malloc's and Arrow's): the first touch of a 4 KB page
    # costs a virtual machine 10 us, in all a fifth of the processor time of a load of inserts.
    "spark.executorEnv.GLIBC_TUNABLES": ":".join(
        filter(None, (os.environ.get("GLIBC_TUNABLES"), "glibc.malloc.hugetlb=1"))
    ),
    "spark.executorEnv.MIMALLOC_ALLOW_LARGE_OS_PAGES": "1",
    "spark.sql.streaming.checkpointFileManagerClass": checkpoint_manager(),
}

# Hadoop's local file system forks shell commands without libhadoop; the raw one doesn't.
_RAW_FILES = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}

# Settings that only a context can have -> (value, consequence of another value).
_OF_CONTEXT = {
    "spark.speculation": ("false", "Spark may run a task twice at once, and write its files twice"),
}

# Only readers need them. The applier calls no class of Delta's.
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # With Delta's default of 50 partitions a snapshot of a table costs 5-13 s on two cores.
    "spark.databricks.delta.snapshotPartitions": "1",
}

_CONNECT_TRIES = 3
"""repetitions of the first question to a server of Spark Connect, in 2 s; pyspark's own take ten
minutes"""

_END_S = 10.0
"""wait for the end of a JVM without work, in seconds"""

_first: SparkSession | None = None
"""the session of the SparkContext that this module created"""
_own: SparkSession | None = None
"""our session of a SparkContext that existed before"""

# Workers are forked from it. Executors on other hosts may not have it installed.
_DAEMON = "spark_repl.service.worker_daemon"

_INCUBATOR = b"WARNING: Using incubator modules: jdk.incubator.vector\n"

_AT_REST = "-XX:G1PeriodicGCInterval=600000 -XX:-G1PeriodicGCInvokesConcurrent"
"""After ten minutes without a garbage collection, make one and return the freed memory."""
# C2 compiles ten times later: no row passes through the JVM, and compiling took more processor
# time there than all else in the first minute. What stays hot is compiled all the same.
_LATE_C2 = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)


def build_session(
    name: str = "spark_repl",
    *,
    master: str | None = None,
    settings: Mapping[str, str] = {},
    java_options: str = "",
    target: str = "",
    delta: bool = True,
) -> SparkSession:
    """Return a session with the applier's settings, and with Delta; ``settings`` override them.

    ``delta``: whether the session can read Delta tables. The jars are fetched if they are not in
    the cache yet. Hadoop's S3A jars are fetched also if ``target``, where the tables are, is on S3.
    The applier writes tables without Spark and needs neither.

    If the process already has a SparkContext that this function did not create, the session is a
    new one in that context: it has its own SQL settings, temporary views and data sources, but the
    context's master, jars and log level. Under spark-submit, master and jars are kept.
    ``java_options`` are for the driver's JVM. A ``master`` sc://HOST:PORT is a server of Spark
    Connect. Raise SetupError or ConfigError.
    """
    global _first
    if master and master.startswith(CONNECT):
        return _connected(master, {**_SETTINGS, **CONNECT_SETTINGS, **settings})
    remote = delta and bool(target) and on_s3(target)
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    read = {**(_DELTA if delta else {}), **(spark_settings() if remote else {})}
    merged = {**_SETTINGS, **read, **settings}
    context = SparkContext._active_spark_context
    if context is not None and not (_first and _first.sparkContext is context):
        return _beside(context, merged)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit
        merged = {**_raw_files(_submitted_master()), **merged}
    else:
        master = master or "local[*]"
        merged = {**_raw_files(master), **merged}
        jars = (delta_jars() if delta else []) + (s3_jars() if remote else [])
        merged = {"spark.master": master, **_own_jvm(master, java_options, jars), **merged}
        _launch({"spark.app.name": name, **merged})
    builder = SparkSession.builder.appName(name)
    for key, value in merged.items():
        builder = builder.config(key, value)
    with same_interrupt_handler():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    _end_quietly(session.sparkContext)
    _first = session
    return session


def end_of(master: str) -> Callable[[SparkSession], None] | None:
    """Return the function that ends a session with this master while nothing needs it. Return None
    if its JVM has started this process (spark-submit), or if its executors are other processes,
    which may not come back at once. Raise SetupError if Java is missing or is not 17 or 21."""
    if not master.startswith("local[") or "PYSPARK_GATEWAY_PORT" in os.environ:
        return None
    check_java()
    return end_session


def end_session(session: SparkSession) -> None:
    """End a session of ``build_session``, and the JVM that it has launched. The next
    ``build_session`` launches another one. Other sessions of this process also end."""
    global _first
    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if _first is not session or process is None:
        return
    server: Any = session.sparkContext._accumulatorServer
    for step in (session.stop, server.shutdown, gateway.shutdown, process.stdin.close):
        with suppress(Py4JError, OSError):  # the JVM may have ended, or the step before did it
            step()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:  # pyspark forgets none of it if the JVM has ended
        _first = SparkContext._gateway = SparkContext._jvm = None
        SparkContext._active_spark_context = SparkSession._instantiatedSession = None


@contextmanager
def same_interrupt_handler() -> Iterator[None]:
    """Restore the handler of SIGINT, which a new SparkContext replaces if the main thread creates
    it. On another thread nothing is replaced, but the main thread may meanwhile set its own
    handler."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is not threading.main_thread():
        return
    if before not in (None, signal.default_int_handler, signal.getsignal(signal.SIGINT)):
        signal.signal(signal.SIGINT, before)


def own_session(spark: Session) -> Session:
    """Return a session with the applier's settings: ``spark`` if this module created it, otherwise
    a new session in the same context. Another program's session is not changed."""
    if not isinstance(spark, SparkSession) or spark is _own:
        return spark
    context = spark.sparkContext
    if _first is not None and _first.sparkContext is context:
        return spark
    return _beside(context, _SETTINGS)


def check_store(spark: SparkSession) -> None:
    """Raise SetupError if a session can't read tables on S3, because Hadoop's S3A is not on its
    class path. For a session on Spark Connect this can't be checked."""
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is not None and isinstance(jvm.org.apache.hadoop.fs.s3a.S3AFileSystem, JavaPackage):
        raise SetupError(
            "Spark can't reach S3: Hadoop's S3A is not on its class path",
            hint="make the session with build_session(target=...), or give spark-submit the jars"
            " that spark-repl setup --s3 has fetched",
        )


def java_session(spark: SparkSession) -> tuple[Any, Any] | None:
    """Return Java's packages, and the session's object in Java; None for a session on Spark
    Connect, which has neither."""
    session: Any = getattr(spark, "_jsparkSession", None)
    return None if session is None else (spark._jvm, session)


def jvm_process(spark: SparkSession) -> int:
    """Return the process id of the driver's JVM."""
    jvm: Any = spark.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def _connected(server: str, settings: Mapping[str, str]) -> SparkSession:
    """Return a session of our own on a server of Spark Connect, with the settings that it accepts.
    Raise SetupError if pyspark lacks the client's packages, or the server does not answer."""
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy

        session: Any = SparkSession.builder.remote(server).create()
        session.client.set_retry_policies([DefaultPolicy(max_retries=_CONNECT_TRIES)])
        session.conf.get("spark.sql.session.timeZone")
        session.client.set_retry_policies([DefaultPolicy()])
    except ImportError as error:
        raise SetupError(
            f"Spark Connect needs more packages: {first_line(error)}",
            hint="pip install 'pyspark[connect]'",
        ) from error
    except PySparkException as error:
        details = re.search(r'details = "([^"]+)"', str(error))
        raise SetupError(
            f"no Spark Connect server answers at {server}:"
            f" {details[1] if details else first_line(error)}",
            hint="start the server, or give its address: --master sc://HOST:15002",
        ) from error
    for name, value in settings.items():
        with suppress(PySparkException):  # only the server's start can set it
            session.conf.set(name, value)
    return cast("SparkSession", session)


def _beside(context: SparkContext, settings: Mapping[str, str]) -> SparkSession:
    """Return our session of another's context, with the settings that a session can have. Warn of
    a setting that only the context can have, if it matters."""
    global _own
    if _own is None or _own.sparkContext is not context:
        _own = SparkSession(context).newSession()
        for key, (wanted, consequence) in _OF_CONTEXT.items():
            if (value := context.getConf().get(key, wanted)) != wanted:
                logger.warning("%s = %s: %s. Start Spark with --conf %s=%s", key, value,
                               consequence, key, wanted)  # fmt: skip
    for key, value in settings.items():
        with suppress(AnalysisException):  # only a context can have the setting
            _own.conf.set(key, value)
    return _own


def _submitted_master() -> str:
    """Return the master that spark-submit was given."""
    SparkContext._ensure_initialized()
    return SparkConf().get("spark.master", "") or ""


def _raw_files(master: str) -> Mapping[str, str]:
    """Return the settings of local files for a master. Spark's client of YARN asks a file system
    for its scheme, and the raw one has none."""
    return {} if master == "yarn" else _RAW_FILES


def _end_quietly(context: SparkContext) -> None:
    """Keep pyspark's accumulator thread from printing a traceback if the JVM ends first."""
    server: Any = context._accumulatorServer

    def handle_error(*request: Any) -> None:
        if not isinstance(sys.exception(), EOFError):
            type(server).handle_error(server, *request)

    server.handle_error = handle_error


def _launch(settings: Mapping[str, str]) -> None:
    """Start the JVM in its own process session, so that signals to our process group don't reach
    it.

    After SIGTERM or Ctrl-C this process finishes the current group first. The JVM ends with this
    process, by the end of its input.
    """
    if SparkContext._gateway is None:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        pipe, write_end = os.pipe()
        threading.Thread(target=_pass_on, args=(pipe,), name="stderr-of-java", daemon=True).start()
        try:
            start = {"start_new_session": True, "stderr": write_end}
            gateway = launch_gateway(conf, start)  # type: ignore[no-untyped-call]
        finally:
            os.close(write_end)
        SparkContext._ensure_initialized(gateway=gateway)


def _pass_on(pipe: int) -> None:
    """Copy the JVM's standard error to this process's, without a warning of each start.

    Java warns of a module that Spark uses, and no option suppresses that.
    """
    with open(pipe, "rb") as stderr:
        for line in stderr:
            if line != _INCUBATOR:
                with suppress(OSError, ValueError):  # standard error is closed
                    os.write(2, line)


def _own_jvm(master: str, java_options: str, jars: Sequence[str]) -> dict[str, str]:
    """Return settings of a JVM: memory, jars, logging, the class archive if it exists."""
    settings = {"spark.driver.memory": "1536m"}
    if master.startswith("local"):  # YARN hands the zipped Python on
        os.environ["SPARK_HOME"] = spark_home()
        settings["spark.python.daemon.module"] = _DAEMON
    log4j2 = Path(__file__).with_name("log4j2.properties")
    options = [f"-Dlog4j2.configurationFile={log4j2}", _LATE_C2, _AT_REST, java_options]
    if master.startswith("local["):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
        if archive().exists() and not java_options:
            # If the archive does not fit, Java starts without it, and without a message.
            options.append(f"-XX:SharedArchiveFile={archive()} -Xlog:cds=off -Xlog:cds+dynamic=off")
    if jars:  # not on Java's own class path, which the class archive was made for
        settings["spark.jars"] = ",".join(jars)
    if master.startswith("local-cluster"):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    settings["spark.driver.extraJavaOptions"] = " ".join(options).strip()
    return settings
