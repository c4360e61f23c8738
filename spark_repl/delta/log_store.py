"""Log store: how Delta lists a table's log on a local disk, or a mounted one.

Its own asks for the status of every file of the folder, 20 us each, at each start and for each
reader; ours (``java/``, two small classes that Janino has compiled) for that of the files that were
asked for. Writing is Delta's own. Without it all is as right, and slower on an old target.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

FOLDER = Path(__file__).with_name("java")
PACKAGE = "io.delta.storage"
STORE, STATUSES = f"{PACKAGE}.SparkReplLogStore", f"{PACKAGE}.SparkReplStatuses"
_BESIDE = f"{PACKAGE}.HDFSLogStore"
"""Delta's class in whose package and class loader ours are: whoever finds it finds them"""
_OF_ALL, _OF_FILES = "spark.delta.logStore.class", "spark.delta.logStore.file.impl"


def install(spark: SparkSession) -> bool:
    """Has Delta open logs of local disks by our log store from now on, in all sessions of this JVM;
    not where somebody has chosen one. Returns whether it does."""
    try:
        return _installed(spark._jvm)
    except (Py4JError, AttributeError, TypeError, OSError) as error:
        # No JVM of ours to ask, another Java, or another make of Delta.
        log.info("logs are listed by Delta's own log store: %s", error)
        return False


def _installed(jvm: Any) -> bool:
    conf = jvm.org.apache.spark.SparkEnv.get().conf()
    if conf.contains(_OF_ALL) or conf.contains(_OF_FILES):
        return bool(conf.get(_OF_FILES, "") == STORE)
    if not is_defined(jvm, STORE):
        define(jvm, _BESIDE, {name: compiled(name) for name in (STATUSES, STORE)})
    if is_defined(jvm, STORE):
        conf.set(_OF_FILES, STORE)
    return bool(conf.contains(_OF_FILES))


def compiled(name: str) -> bytes:
    """A class of ours, as Java loads it. Raises OSError."""
    return (FOLDER / f"{name.rpartition('.')[2]}.class").read_bytes()


def is_defined(jvm: Any, name: str) -> bool:
    """Whether there is such a class beside Delta's."""
    try:
        loader = _class(jvm, _BESIDE).getClassLoader()
        return jvm.java.lang.Class.forName(name, True, loader) is not None
    except Py4JError:
        return False


def define(jvm: Any, beside: str, classes: Mapping[str, bytes]) -> None:
    """Makes classes in the package and the class loader of the one ``beside`` them, each behind
    those that it extends. Raises Py4JError."""
    handles = jvm.java.lang.invoke.MethodHandles
    lookup = handles.privateLookupIn(_class(jvm, beside), handles.lookup())
    for code in classes.values():
        lookup.defineClass(code)


def _class(jvm: Any, name: str) -> Any:
    """Spark's and Delta's jars may be known to the thread's class loader alone."""
    return jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
