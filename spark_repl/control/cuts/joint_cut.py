"""JointCut: the tables of all channels of a target, each channel's at a cut of its own.

Within a channel the tables are one committed state of its source. Sources have no common order: a
joint cut is a vector, one GTID set for each channel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from ...config import Config
from ...delta.store.spark_names import quoted
from ...errors import ConfigError, TargetError
from ..records.channels import channel_at, channels
from .cut_reader import CutReader, find_cut, make_readable, view_names
from .history_views import create_history_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..records.channels import Channel
    from ..table.cut import Cut


class JointCut:
    """A cut of each channel (``cuts``). Raise TargetError if two of them show tables of the same
    name that not all of them feed."""

    def __init__(self, cuts: Mapping[str, CutReader]) -> None:
        self.cuts = dict(cuts)
        self._of: dict[str, list[str]] = {}
        for channel, reader in self.cuts.items():
            for name in reader.tables:
                channels_of = self._of.setdefault(name, [])
                if channels_of and not (
                    reader.is_shared(name) and self.cuts[channels_of[0]].is_shared(name)
                ):
                    raise TargetError(
                        f'the cuts of the channels "{channels_of[0]}" and "{channel}" both show it',
                        table=name,
                        hint="take a cut of one: cut(..., channel=...)",
                    )
                channels_of.append(channel)

    @property
    def tables(self) -> Sequence[str]:
        return list(self._of)

    @property
    def gtid_executed(self) -> dict[str, str]:
        """Return the GTID set of each channel."""
        return {channel: reader.gtid_executed for channel, reader in self.cuts.items()}

    def table(self, name: str) -> DataFrame:
        """Return ``db.table`` as it was at the cut of its channel. If several channels feed it,
        return the rows of each channel as of that channel's cut, with all columns of these
        versions. Raise ConfigError if no cut has the table, or one has it in quarantine."""
        readers = self.cuts.values()
        if name not in self._of and not any(name in reader.waiting for reader in readers):
            raise ConfigError(
                f"the cuts have no table {name!r}", hint=f"they have: {', '.join(self._of)}"
            )
        of = self._of.get(name, [])
        chosen = [self.cuts[channel] for channel in of] or [
            reader for reader in readers if name in reader.waiting
        ]
        frames = [reader.table(name) for reader in (chosen if of else chosen[:1])]
        return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), frames)

    def create_views(self, prefix: str = "") -> list[str]:
        """Create temporary views ``<prefix><db>_<table>`` of all tables, and return their names.
        Raise TargetError, before any is created, if two tables would have one view."""
        views = view_names(self._of, prefix)
        for name, view in views.items():
            self.table(name).createOrReplaceTempView(quoted(view))
        return [*views.values()]

    def create_history_views(self, prefix: str = "") -> list[str]:
        """Create the views and functions of all tables of mode history, as ``CutReader`` does."""
        readers = self.cuts.values()
        histories = {name: f for reader in readers for name, f in reader.histories.items()}
        return create_history_views(histories, self._of, prefix)

    def manifest(self) -> dict[str, Any]:
        """Return the manifest of each channel, as ``cut export`` writes it."""
        return {channel: reader.manifest() for channel, reader in self.cuts.items()}


def joint_cut(
    spark: SparkSession, target: str, at: str = "latest", *, quarantined: bool = False
) -> JointCut:
    """Return the tables of all channels below ``target``. Each is as of its channel's newest cut,
    or of the cut that ``at`` selects: a time, or a name under which every channel has a pinned cut.
    Raise TargetError and ConfigError as ``cut``, also if only one channel has no such cut."""
    make_readable(spark, target)
    of_target = channels(target) or [channel_at(target)]
    cuts = [_cut_of(channel, at) for channel in of_target]
    return JointCut(
        {
            channel.name or Config.channel: CutReader(
                spark, channel.layout, cut, quarantined=quarantined
            )
            for channel, cut in zip(of_target, cuts, strict=True)
        }
    )


def _cut_of(channel: Channel, at: str) -> Cut:
    """Return a channel's cut. Raise as ``find_cut``, with the channel's name."""
    if channel.control.last_cut() is None:
        raise TargetError(
            f'the channel "{channel.name}" has published no cut yet', file=channel.control.path,
            hint="cut(..., channel=...) reads the others' until it has",
        )  # fmt: skip
    try:
        return find_cut(channel.control, at)
    except (ConfigError, TargetError) as error:
        error.message = f'the channel "{channel.name}": {error.message}'
        raise
