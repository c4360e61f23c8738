"""Cuts for readers: every table of a target at one committed state of the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..delta.columns import quoted
from ..errors import ConfigError, TargetError
from ..gtid import GtidSet
from ..runtime.object_store import is_remote
from .control import Control
from .layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .cut import Cut


class CutReader:
    """The tables of one cut. Other commits, before or after, are not seen."""

    def __init__(self, spark: SparkSession, layout: Layout, cut: Cut) -> None:
        self._spark, self._layout, self._cut = spark, layout, cut

    @property
    def tables(self) -> Sequence[str]:
        return list(self._cut.tables)

    @property
    def gtid_executed(self) -> str:
        return self._cut.gtid_executed

    def table(self, name: str) -> DataFrame:
        """``db.table`` as it was at the cut. Raises ConfigError when the cut has no such table."""
        version = self._cut.tables.get(name)
        if version is None:
            raise ConfigError(
                f"the cut has no table {name!r}", hint=f"it has: {', '.join(self._cut.tables)}"
            )
        path = self._layout.table(version.path)
        return self._spark.read.format("delta").option("versionAsOf", version.version).load(path)

    def create_views(self, prefix: str = "") -> list[str]:
        """Temporary views ``<prefix><db>_<table>`` of the tables at the cut; returns the names."""
        names = []
        for name in self.tables:
            view = prefix + name.replace(".", "_")
            self.table(name).createOrReplaceTempView(quoted(view))
            names.append(view)
        return names


def published(cuts: Sequence[Cut], target: str) -> Sequence[Cut]:
    """Returns ``cuts``. Raises TargetError when there is none."""
    if not cuts:
        raise TargetError(
            "no cut has been published yet",
            file=target,
            hint="give the folder that apply or run was given as its target",
        )
    return cuts


def find_cut(cuts: Sequence[Cut], at: str, target: str) -> Cut:
    """The newest cut (``latest``), or the first one that holds all of a GTID set.

    Raises TargetError when there is none.
    """
    published(cuts, target)
    if at == "latest":
        return cuts[-1]
    wanted = GtidSet.parse(at)
    for candidate in cuts:
        if wanted.issubset(GtidSet.parse(candidate.gtid_executed)):
            return candidate
    raise TargetError(
        f"no cut holds all of {at}",
        file=target,
        hint=f"the newest cut is at {cuts[-1].gtid_executed}",
    )


def cut(spark: SparkSession, target: str, at: str = "latest") -> CutReader:
    """All tables below ``target`` at one point: the newest, or the first that holds a GTID set."""
    layout = Layout(target)
    if is_remote(layout.target):
        from ..delta import s3a  # and py4j with it, which looking at cuts does without

        s3a.check(spark._jvm)
    return CutReader(spark, layout, find_cut(Control(layout.control).cuts(), at, target))
