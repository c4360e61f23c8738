"""Log stores: how Delta lists a table's log, and on a local disk, or a mounted one, adds to it.

Its own for local disks asks for the status of every file of the folder, 20 us each, at each start
and for each reader; ours for that of the files that were asked for. Its own looks whether a version
is there before it renames its file to it, with four processes in between, and so overwrites what
another process has written meanwhile; ours gives the name by a hard link, which one writer alone
can. Its own for S3 lists the whole log, a request for each thousand objects; ours asks for what
comes behind a name.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaPackage

from ..runtime import java_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

PACKAGE = "io.delta.storage"
STORE, STATUSES = f"{PACKAGE}.SparkReplLogStore", f"{PACKAGE}.SparkReplStatuses"
S3_STORE = f"{PACKAGE}.SparkReplS3LogStore"
SETTING, S3_SETTING = "delta.logStore.file.impl", "delta.logStore.s3a.impl"
"""which Delta takes with ``spark.`` before them, too: but that goes to executors that start later,
where VACUUM lists folders and our classes are not"""
_CLASSES = {SETTING: (STATUSES, STORE), S3_SETTING: (S3_STORE,)}
_BESIDE = {SETTING: f"{PACKAGE}.HDFSLogStore", S3_SETTING: f"{PACKAGE}.S3SingleDriverLogStore"}
"""Delta's class in whose package and class loader ours are: whoever finds it finds them"""
_OF_ALL = ("spark.delta.logStore.class", "delta.logStore.class")


def install(spark: SparkSession) -> bool:
    """Has Delta open logs of local disks and of S3 by our log stores from now on, in all sessions
    of this JVM, those of S3 where it can reach it; not where somebody has chosen one. Returns
    whether it does for all."""
    try:
        jvm: Any = spark._jvm
        has_s3 = not isinstance(jvm.org.apache.hadoop.fs.s3a.S3AFileSystem, JavaPackage)
        settings = [SETTING, S3_SETTING] if has_s3 else [SETTING]
        installed = [_installed(jvm, setting) for setting in settings]
        return all(installed)
    except java_classes.UNAVAILABLE as error:
        log.info("logs go through Delta's own log store: %s", error)
        return False


def _installed(jvm: Any, setting: str) -> bool:
    conf, classes = jvm.org.apache.spark.SparkEnv.get().conf(), _CLASSES[setting]
    store, others = classes[-1], (*_OF_ALL, f"spark.{setting}")
    if any(map(conf.contains, others)) or conf.get(setting, store) != store:
        return False
    if java_classes.ensure(jvm, _BESIDE[setting], *classes):
        conf.set(setting, store)
    return bool(conf.contains(setting))
