"""Hadoop's local file system: files' modes are set by system calls.

Without libhadoop, which no pip brings, Hadoop starts a process (``chmod``) for each file that it
makes, 5 to 10 ms each: one for each commit's checksum and two for each batch of a stream.
"""

from __future__ import annotations

import logging
from typing import Any

from pyspark import SparkContext

from . import java_classes

log = logging.getLogger(__name__)

RAW = "org.apache.hadoop.fs.RawLocalFileSystem"
OURS = "org.apache.hadoop.fs.SparkReplFileSystem"
_SETTING = "fs.file.impl"


def install(context: SparkContext) -> bool:
    """Has the session's JVM open local files by our file system from now on, where it was to do so
    by Hadoop's raw one; not where somebody has chosen another, nor where there are executors: they
    are told the setting, and have no class of ours. Returns whether it does."""
    try:
        if not context._jsc.sc().isLocal():
            return False
        return _installed(context._jvm, context._jsc.hadoopConfiguration())
    except java_classes.UNAVAILABLE as error:
        log.info("local files go through Hadoop's own file system: %s", error)
        return False


def _installed(jvm: Any, conf: Any) -> bool:
    if conf.get(_SETTING) == RAW and java_classes.ensure(jvm, RAW, OURS):
        # Hadoop keeps one for all; closed it is forgotten, and whoever holds it goes on.
        jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), conf).close()
        conf.set(_SETTING, OURS)
    return bool(conf.get(_SETTING) == OURS)
