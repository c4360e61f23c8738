"""S3A, Hadoop's file system inside Spark: has the store refuse a version that is there already.

Delta's log store for S3 looks for the version and then writes it, which is atomic within one JVM
alone: an applier that slept between the two would write over the version of the one that took over.
S3 itself can refuse (``If-None-Match: *``), and Hadoop asks it to for files that are made with the
option ``fs.option.create.conditional.overwrite``, which Delta doesn't give. So it is set where
Hadoop keeps the options of every file that must not be there yet: no other way in is left open
without a class of our own in Java.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError

from ..errors import SetupError


def write_once(jvm: Any) -> None:
    """Has this JVM, from now on, replace no object that it was told not to. Raises SetupError."""
    flag = check(jvm).impl.write.WriteObjectFlags.ConditionalOverwrite
    fresh = jvm.org.apache.hadoop.fs.s3a.impl.CreateFileBuilder.OPTIONS_CREATE_FILE_NO_OVERWRITE
    fresh.writeObjectFlags().add(flag)
    if not fresh.isConditionalOverwrite():
        raise SetupError(
            "this version of Hadoop's S3A does not write conditionally", hint="use Spark 4.2"
        )


def check(jvm: Any) -> Any:
    """S3A's package. Raises SetupError where it is not on Spark's class path."""
    package = jvm.org.apache.hadoop.fs.s3a
    try:
        package.impl.CreateFileBuilder.OPTIONS_CREATE_FILE_NO_OVERWRITE.isConditionalOverwrite()
    except (Py4JError, TypeError) as error:
        raise SetupError(
            "Spark can't reach S3: Hadoop's S3A, 3.5 or newer, is not on its class path",
            hint="make the session with build_session(target=...), or give spark-submit the jars"
            " that spark-repl setup --s3 has fetched",
        ) from error
    return package
