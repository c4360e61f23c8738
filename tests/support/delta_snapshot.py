"""A table's newest snapshot as Spark's Delta reads it: the oracle for what we write."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

_VECTOR = "deletionVector.pathOrInlineDv"
File = tuple[str, str | None]
"""path, and the place of the deletion vector"""


class DeltaSnapshot:
    """The newest version of the table at ``folder``, read by Delta from the files alone."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark, self._jvm = spark, _jvm(spark)
        package = self._jvm.org.apache.spark.sql.delta.DeltaLog
        package.clearCache()
        none = self._jvm.scala.Option.empty
        log = package.forTable(spark._jsparkSession, folder)
        self._java = log.update(False, none(), none())

    @property
    def version(self) -> int:
        return int(self._java.version())

    def live(self) -> set[File]:
        """Return the live files."""
        return self._files(self._java.allFiles())

    def removed(self) -> set[File]:
        """Return the removed files that are still retained."""
        return self._files(self._java.tombstones())

    def segment(self) -> tuple[int, int]:
        """Return the version of the checkpoint that was read, and how many commits follow it."""
        segment = self._java.logSegment()
        return int(segment.checkpointProvider().version()), int(segment.deltas().size())

    def has_valid_checksum(self) -> bool:
        """Return whether the version has a checksum with which Delta's state agrees."""
        utils = self._jvm.org.apache.spark.api.python.PythonUtils
        nothing = utils.toScalaMap(self._jvm.java.util.HashMap())
        return bool(self._java.checksumOpt().isDefined() and self._java.validateChecksum(nothing))

    def _files(self, files: Any) -> set[File]:
        frame = DataFrame(files.toDF(), self._spark)
        return {(row.path, row.v) for row in frame.selectExpr("path", f"{_VECTOR} as v").collect()}


def forget(spark: SparkSession) -> None:
    """Have Delta read each log again: files of some were changed behind its back."""
    _jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm
