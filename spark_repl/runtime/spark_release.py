"""Differences between releases of Spark 4, each with the release that ends it.

spark_repl runs on pyspark 4.0 and newer releases of Spark 4. No other module names a release, or
imports a class that some releases lack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import SetupError, extra_named

__all__ = [
    "ADMITS",
    "ReadAllAvailable",
    "ReadMaxBytes",
    "SupportsTriggerAvailableNow",
    "aws_sdk",
    "checkpoint_manager",
    "delta_package",
    "reads_delta",
    "spark_release",
    "spark_version",
]

_SCALA = "2.13"
_DELTA = {"4.0": "4.4.0", "4.1": "4.4.0", "4.2": "4.4.0"}
"""by release of Spark, the release of Delta that reads tables with it; 4.3 has none yet"""
_AWS_SDK = {"3.4.1": "2.24.9", "3.4.2": "2.29.52", "3.5.0": "2.35.4"}
"""by release of Hadoop, the release of AWS's SDK that it was built with. Spark 4.0 has Hadoop
3.4.1, Spark 4.1 has 3.4.2, Spark 4.2 and 4.3 have 3.5.0. Hadoop 3.4.1 was built with 2.24.6, of
which not all parts are published; 2.24.9 is the next one that has them."""

# ADMITS: whether Spark passes a source the limit of a batch, and whether the stream ends.
if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        SupportsTriggerAvailableNow,
    )

    ADMITS = True
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadMaxBytes,
            SupportsTriggerAvailableNow,
        )

        ADMITS = True
    except ModuleNotFoundError:  # before 4.2
        ADMITS = False

        class ReadAllAvailable:
            """Stand-in: Spark passes no limit."""

        @dataclass
        class ReadMaxBytes:
            """Stand-in: Spark passes no limit."""

            max_bytes: int

        class SupportsTriggerAvailableNow:
            """Stand-in: Spark reads one batch of a source, and then ends the stream."""


def spark_version() -> str:
    """Return the version of the installed pyspark, for example "4.2.1". Some distributions of Spark
    have pyspark without a package's metadata."""
    with extra_named():
        from pyspark import __version__
    return __version__


def spark_release() -> str:
    """Return the release of the installed pyspark, for example "4.2"."""
    return ".".join(spark_version().split(".")[:2])


def delta_package() -> str:
    """Return the Maven coordinates of the Delta jar that fits the installed Spark. Raise SetupError
    if none is known to fit."""
    spark = spark_release()
    if spark not in _DELTA:
        raise SetupError(
            f"no release of Delta is known to read tables with Spark {spark}",
            hint="build_session(delta=False) applies without Delta; delta-rs, DuckDB and Polars"
            f" read the tables, and so does Spark {max(_DELTA)}",
        )
    return f"io.delta:delta-spark_{spark}_{_SCALA}:{_DELTA[spark]}"


def reads_delta() -> bool:
    """Return whether a release of Delta is known to read tables with the installed Spark."""
    return spark_release() in _DELTA


def aws_sdk(hadoop: str) -> str:
    """Return the release of AWS's SDK for a release of Hadoop. Raise SetupError for a release of
    Hadoop that no Spark 4 has."""
    if hadoop not in _AWS_SDK:
        raise SetupError(
            f"the jars of S3A for Hadoop {hadoop} are not known",
            hint=f"give Spark org.apache.hadoop:hadoop-aws:{hadoop} by spark.jars.packages",
        )
    return _AWS_SDK[hadoop]


def checkpoint_manager() -> str:
    """Return the class that writes a stream's checkpoint through the file system. Spark 4.1 moved
    it to a separate package."""
    package = "" if spark_release() == "4.0" else "checkpointing."
    return f"org.apache.spark.sql.execution.streaming.{package}FileSystemBasedCheckpointFileManager"
