"""Metadata values: the values of columns that only the target has (``rules.metadata_columns``),
for logged changes and for rows read from the source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..binlog.rows.change_bits import EXISTED, EXISTS, MOVED
from ..config.renaming import shard_of
from ..errors import SettingError
from ..relay.gtid_column import gtid_column
from ..rules.metadata_columns import AFTER, BEFORE, COPY, DELETE, INSERT, TRUNCATE, UPDATE
from ..tables.table_name import plain_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..binlog.rows.row_images import RowImages
    from ..tables.source_table import SourceTable
    from ..tables.target_table import TargetTable

Longs = npt.NDArray[np.int64]

_WORDS = pa.array([INSERT, UPDATE, DELETE])
_IMAGES = pa.array([INSERT, BEFORE, DELETE, AFTER])
_TOLD = ("gtid", "commit_time", "valid_from_gtid", "valid_from_time")
_BEGINS = {
    "valid_from_gtid": "gtid", "valid_from_time": "commit_time",
    "valid_from_position": "position", "valid_from_order": "order",
}  # fmt: skip
"""columns of mode history -> properties of the transaction that begins or ends the version"""
_ENDS = ("valid_to_gtid", "valid_to_time", "valid_to_position", "current")
"""columns that ``write.rows.scd2_history`` fills when it puts a group's versions in sequence"""
_MOMENT = pa.timestamp("us", "UTC")
_NAMES = ("position", "commit_time", "gno", "uuid", "tag")


@dataclass(frozen=True)
class Commits:
    """GTIDs and commit times of transactions. ``records`` [n]: fields of index records, ascending
    by position.

    ``branch``, ``after``: for an XA branch that is ended by hand, the GTID of its XA PREPARE and
    the GTID of the transaction after which it is ended; "" if they have none. It is then the only
    transaction.
    """

    records: Any
    branch: str | None = None
    after: str | None = None

    @classmethod
    def of(cls, records: Any, branch: str | None = None, after: str | None = None) -> Commits:
        """Return the commits of index records, with only the needed fields."""
        picked = np.empty(len(records), [(name, records.dtype[name]) for name in _NAMES])
        for name in _NAMES:
            picked[name] = records[name]
        return cls(picked, branch, after)

    def at(self, positions: Longs, *, versions: bool = False) -> tuple[pa.Array, pa.Array]:
        """Return (GTIDs, NULL for anonymous ones; commit times) of the transactions at some packed
        positions, [n] each.

        ``versions``: for versions of rows, which readers select by GTID sets. For them a branch
        that is ended by hand has no GTID of its own: it counts as committed if the previous
        transaction does.
        """
        place = pa.array(np.searchsorted(self.records["position"], positions))
        gtids, times = self._columns
        if self.branch is not None:
            name = self.after if versions else self.branch
            return pa.repeat(pa.scalar(name or None, pa.string()), len(place)), times.take(place)
        return gtids.take(place), times.take(place)

    @cached_property
    def _columns(self) -> tuple[pa.Array, pa.Array]:
        """Return the columns of all transactions, built once: a task asks for each batch of each
        table."""
        times = pa.array(np.ascontiguousarray(self.records["commit_time"])).cast(_MOMENT)
        return gtid_column(self.records), times


def metadata_of_changes(
    target: TargetTable,
    images: RowImages,
    entries: Longs,
    positions: Longs,
    commits: Commits | None,
) -> Mapping[str, pa.Array]:
    """Return the metadata columns of the ``target`` for ``entries`` of ``images``; {} if it has
    none.

    ``positions``: the positions of the images' transactions. Raise SettingError without
    ``commits``, which a quarantine does not keep.
    """
    wanted = target.extra_columns
    if not wanted:
        return {}
    values = {
        "shard": pa.repeat(shard_of(target.name), len(entries)),
        "source_table": pa.repeat(plain_name(images.definition.name_on_source), len(entries)),
        "operation": _words(target, images, entries),
        "deleted": pa.array(images.flags[entries] & EXISTS == 0),
    }
    if target.keeps_images:
        values["position"], values["order"] = pa.array(positions), pa.array(images.order(entries))
    if not {*_TOLD}.isdisjoint(wanted):
        if commits is None:
            raise SettingError(
                "extra_columns: the transactions that a quarantine keeps have no GTIDs and times",
                table=target.name,
                hint="copy the table again: spark-repl snapshot --config F --table DB.T",
            )
        values["gtid"], values["commit_time"] = commits.at(positions, versions=target.has_versions)
    return {name: values[_BEGINS.get(name, name)] for name in wanted if name not in _ENDS}


def metadata_of_copy(logged: SourceTable, gtid_executed: str, count: int) -> Mapping[str, pa.Array]:
    """Return the metadata columns of rows that were read from the source, after all of
    ``gtid_executed``."""
    return {
        "shard": pa.repeat(shard_of(logged.name), count),
        "source_table": pa.repeat(plain_name(logged.name_on_source), count),
        "gtid": pa.repeat(pa.scalar(gtid_executed, pa.string()), count),
        "operation": pa.repeat(COPY, count),
        "deleted": pa.array(np.zeros(count, bool)),
        "valid_from_gtid": pa.repeat(pa.scalar(gtid_executed, pa.string()), count),
        "current": pa.array(np.ones(count, bool)),
    }


def metadata_of_deletions(
    logged: SourceTable, gtid_executed: str, count: int
) -> Mapping[str, pa.Array]:
    """Return the metadata columns of rows that the source no longer had at that time."""
    gone = {"operation": pa.repeat(DELETE, count), "deleted": pa.array(np.ones(count, bool))}
    return {**metadata_of_copy(logged, gtid_executed, count), **gone}


def metadata_of_truncate(
    target: TargetTable, gtid: str, committed_us: int, position: int
) -> Mapping[str, pa.Array]:
    """Return the metadata columns [1] of the row that records a TRUNCATE in a changelog.

    ``gtid``: the transaction's, "" if anonymous. ``committed_us``: microseconds since 1970 UTC.
    ``position``: its packed position in the relay log. The transaction consists only of the
    TRUNCATE.
    """
    return {
        "source_table": pa.array([plain_name(target.name_on_source)]),
        "gtid": pa.array([gtid or None], pa.string()),
        "commit_time": pa.array([committed_us], _MOMENT),
        "operation": pa.array([TRUNCATE]),
        "position": pa.array([position]),
        "order": pa.array([0]),
    }


def _words(target: TargetTable, images: RowImages, entries: Longs) -> pa.Array:
    """Return the names of the entries' operations, or of the images themselves."""
    number = _operations(images)
    if not target.logs_changes:
        return _WORDS.take(pa.array(number[entries]))
    return _IMAGES.take(pa.array(np.where(images.flags & MOVED, 3, number)[entries]))


def _operations(images: RowImages) -> npt.NDArray[np.int8]:
    """Return the index of _WORDS for each entry; both halves of an UPDATE count as UPDATE."""
    flags = images.flags
    halves = (flags & MOVED != 0) | np.append(flags[1:] & MOVED != 0, False)
    alone = flags & (EXISTED | EXISTS)
    words = np.where(alone == EXISTS, 0, np.where(alone == EXISTED, 2, 1))
    return np.asarray(np.where(halves, 1, words), np.int8)
