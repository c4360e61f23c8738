"""Log store: how Delta lists a table's log on a local disk, or a mounted one, and adds to it.

Its own asks for the status of every file of the folder, 20 us each, at each start and for each
reader; ours for that of the files that were asked for. Its own looks whether a version is there
before it renames its file to it, with four processes in between, and so overwrites what another
process has written meanwhile; ours gives the name by a hard link, which one writer alone can.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..runtime import java_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

PACKAGE = "io.delta.storage"
STORE, STATUSES = f"{PACKAGE}.SparkReplLogStore", f"{PACKAGE}.SparkReplStatuses"
_BESIDE = f"{PACKAGE}.HDFSLogStore"
"""Delta's class in whose package and class loader ours are: whoever finds it finds them"""
SETTING = "delta.logStore.file.impl"
"""which Delta takes with ``spark.`` before it, too: but that goes to executors that start later,
where VACUUM lists folders and our class is not"""
_OTHERS = ("spark.delta.logStore.class", "delta.logStore.class", f"spark.{SETTING}")


def install(spark: SparkSession) -> bool:
    """Has Delta open logs of local disks by our log store from now on, in all sessions of this JVM;
    not where somebody has chosen one. Returns whether it does."""
    try:
        return _installed(spark._jvm)
    except java_classes.UNAVAILABLE as error:
        log.info("logs of local disks go through Delta's own log store: %s", error)
        return False


def _installed(jvm: Any) -> bool:
    conf = jvm.org.apache.spark.SparkEnv.get().conf()
    if any(map(conf.contains, _OTHERS)) or conf.get(SETTING, STORE) != STORE:
        return False
    if java_classes.ensure(jvm, _BESIDE, STATUSES, STORE):
        conf.set(SETTING, STORE)
    return bool(conf.contains(SETTING))
