"""Joint cuts: the tables of all channels of a target, each channel's at a cut of its own.

Within a channel the tables are one committed state of its source. No order holds between sources:
a joint cut is a vector, a GTID set for each channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..config import Config
from ..errors import ConfigError, TargetError
from .channels import channel_at, channels
from .cut_reader import CutReader, find_cut, make_readable, view_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .channels import Channel
    from .cut import Cut


class JointCut:
    """``cuts``: each channel's. Raises TargetError where two of them show tables of one name."""

    def __init__(self, cuts: Mapping[str, CutReader]) -> None:
        self.cuts = dict(cuts)
        self._of: dict[str, str] = {}
        for channel, reader in self.cuts.items():
            for name in reader.tables:
                other = self._of.setdefault(name, channel)
                if other != channel:
                    raise TargetError(
                        f'the cuts of the channels "{other}" and "{channel}" both show it',
                        table=name,
                        hint="take a cut of one: cut(..., channel=...)",
                    )

    @property
    def tables(self) -> Sequence[str]:
        return list(self._of)

    @property
    def gtid_executed(self) -> dict[str, str]:
        """Each channel's."""
        return {channel: reader.gtid_executed for channel, reader in self.cuts.items()}

    def table(self, name: str) -> DataFrame:
        """``db.table`` as it was at the cut of its channel. Raises ConfigError when no cut has such
        a table, or in quarantine."""
        readers = self.cuts.values()
        if name not in self._of and not any(name in reader.waiting for reader in readers):
            raise ConfigError(
                f"the cuts have no table {name!r}", hint=f"they have: {', '.join(self._of)}"
            )
        of = self._of.get(name)
        reader = self.cuts[of] if of else next(one for one in readers if name in one.waiting)
        return reader.table(name)

    def create_views(self, prefix: str = "") -> list[str]:
        """Temporary views ``<prefix><db>_<table>`` of all tables; returns the names. Raises
        TargetError, before any is made, where two tables would have one view."""
        view_names(self._of)
        return [view for reader in self.cuts.values() for view in reader.create_views(prefix)]

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
