"""Joint cuts: the tables of all channels of a target, each channel's at a cut of its own.

Within a channel the tables are one committed state of its source. No order holds between sources:
a joint cut is a vector, a GTID set for each channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from ...config import Config
from ...delta.spark_names import quoted
from ...errors import ConfigError, TargetError
from ..records.channels import channel_at, channels
from .cut_reader import CutReader, find_cut, make_readable, view_names
from .history_views import create_history_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..records.channels import Channel
    from ..table.cut import Cut


class JointCut:
    """``cuts``: each channel's. Raises TargetError where two of them show tables of one name that
    not all of them feed."""

    def __init__(self, cuts: Mapping[str, CutReader]) -> None:
        self.cuts = dict(cuts)
        self._of: dict[str, list[str]] = {}
        for channel, reader in self.cuts.items():
            for name in reader.tables:
                others = self._of.setdefault(name, [])
                if others and not (reader.is_shared(name) and self.cuts[others[0]].is_shared(name)):
                    raise TargetError(
                        f'the cuts of the channels "{others[0]}" and "{channel}" both show it',
                        table=name,
                        hint="take a cut of one: cut(..., channel=...)",
                    )
                others.append(channel)

    @property
    def tables(self) -> Sequence[str]:
        return list(self._of)

    @property
    def gtid_executed(self) -> dict[str, str]:
        """Each channel's."""
        return {channel: reader.gtid_executed for channel, reader in self.cuts.items()}

    def table(self, name: str) -> DataFrame:
        """``db.table`` as it was at the cut of its channel; where several feed it the rows of each
        as they were at its own, with all columns that one of these versions has. Raises ConfigError
        when no cut has such a table, or in quarantine."""
        readers = self.cuts.values()
        if name not in self._of and not any(name in reader.waiting for reader in readers):
            raise ConfigError(
                f"the cuts have no table {name!r}", hint=f"they have: {', '.join(self._of)}"
            )
        of = self._of.get(name, [])
        chosen = [self.cuts[one] for one in of] or [one for one in readers if name in one.waiting]
        frames = [reader.table(name) for reader in (chosen if of else chosen[:1])]
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)

    def create_views(self, prefix: str = "") -> list[str]:
        """Temporary views ``<prefix><db>_<table>`` of all tables; returns the names. Raises
        TargetError, before any is made, where two tables would have one view."""
        views = view_names(self._of, prefix)
        for name, view in views.items():
            self.table(name).createOrReplaceTempView(quoted(view))
        return [*views.values()]

    def create_history_views(self, prefix: str = "") -> list[str]:
        """The views and functions of all tables of mode history, as ``CutReader`` makes them."""
        readers = self.cuts.values()
        histories = {name: f for reader in readers for name, f in reader.histories.items()}
        return create_history_views(histories, self._of, prefix)

    def manifest(self) -> dict[str, Any]:
        """Each channel's, as ``cut export`` writes it."""
        return {channel: reader.manifest() for channel, reader in self.cuts.items()}


def joint_cut(
    spark: SparkSession, target: str, at: str = "latest", *, quarantined: bool = False
) -> JointCut:
    """The tables of all channels below ``target``: of each channel the newest cut, or what ``at``
    says of each: a time, or a name by which every channel has a cut pinned. Raises TargetError and
    ConfigError as ``cut`` does: also where one channel alone has no such cut."""
    make_readable(spark, target)
    of_target = channels(target) or [channel_at(target)]
    cuts = [_cut_of(one, at) for one in of_target]
    return JointCut(
        {
            one.name or Config.channel: CutReader(spark, one.layout, cut, quarantined=quarantined)
            for one, cut in zip(of_target, cuts, strict=True)
        }
    )


def _cut_of(one: Channel, at: str) -> Cut:
    """Raises what ``find_cut`` does, with the channel's name."""
    if one.control.last_cut() is None:
        raise TargetError(
            f'the channel "{one.name}" has published no cut yet', file=one.control.path,
            hint="cut(..., channel=...) reads the others' until it has",
        )  # fmt: skip
    try:
        return find_cut(one.control, at)
    except (ConfigError, TargetError) as error:
        error.message = f'the channel "{one.name}": {error.message}'
        raise
