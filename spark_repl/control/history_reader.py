"""A table of mode history as it was: behind a GTID set, at a moment, or at a place of the log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..config.tables import MODE_COLUMNS
from ..errors import ConfigError
from ..gtid import GtidSet, format_uuid
from ..rules.metadata_columns import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

_FROM, _TO = "_valid_from_", "_valid_to_"
ANONYMOUS = " OR ".join(f"({e}position IS NOT NULL AND {e}gtid IS NULL)" for e in (_FROM, _TO))
"""SQL: whether a version was begun or ended by a transaction that has no GTID"""
_ONE = "say one of gtid_executed, time, position"


def history_at(
    table: DataFrame,
    *,
    gtid_executed: str = "",
    time: datetime | None = None,
    position: int | None = None,
) -> DataFrame:
    """The rows that were current then, without the columns of mode history. ``gtid_executed``:
    behind all of its transactions and no other; ``time``: behind those that the source had
    committed until then (without a zone in UTC); ``position``: behind those up to the one that
    begins there (``_valid_from_position``).

    Raises ConfigError for what is no GTID set, for one that lacks transactions which a copy's rows
    have (what was before is not known), and for one asked of a table that has versions of anonymous
    transactions, which no GTID set tells.
    """
    wanted = history_condition(gtid_executed=gtid_executed, time=time, position=position)
    if gtid_executed:
        copied = table.where(f"{_FROM}position IS NULL").select(f"{_FROM}gtid").distinct().collect()
        anonymous = not table.where(ANONYMOUS).isEmpty()
        check_known(GtidSet.parse(gtid_executed), [gtids for (gtids,) in copied], anonymous)
    return table.where(wanted).drop(*map(name_of, MODE_COLUMNS["history"]))


def history_condition(
    *, gtid_executed: str = "", time: datetime | None = None, position: int | None = None
) -> str:
    """What ``history_at`` asks of the rows, as SQL: for a view, and for other readers. A copy's
    rows are taken to be there from the beginning, and what anonymous transactions did as not done
    yet where a GTID set is asked for. Raises ConfigError."""
    if sum((bool(gtid_executed), time is not None, position is not None)) != 1:
        raise ConfigError(f"history_condition: {_ONE}")
    if gtid_executed:
        executed = GtidSet.parse(gtid_executed)
        begun, ended = (_among(f"{end}gtid", executed) for end in (_FROM, _TO))
    elif time is not None:
        moment = time if time.tzinfo else time.replace(tzinfo=UTC)
        literal = f"TIMESTAMP '{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"
        begun, ended = (f"{end}time <= {literal}" for end in (_FROM, _TO))
    else:
        begun, ended = (f"{end}position <= {position:d}" for end in (_FROM, _TO))
    return f"({_FROM}position IS NULL OR {begun}) AND ({_TO}position IS NULL OR NOT ({ended}))"


def _among(column: str, executed: GtidSet) -> str:
    """Whether a column's GTID is one of ``executed``."""
    asked = []
    for (uuid, tag), intervals in executed.intervals.items():
        head = f"{format_uuid(uuid)}:{tag}:" if tag else f"{format_uuid(uuid)}:"
        number = f"CAST(SUBSTR({column}, {len(head) + 1}) AS BIGINT)"
        spans = " OR ".join(f"{number} BETWEEN {a} AND {b - 1}" for a, b in intervals)
        # CASE: what has a tag, and no number there, is not cast.
        of_head = f"SUBSTR({column}, 1, {len(head)}) = '{head}'"
        plain = f"{of_head} AND SUBSTR({column}, {len(head) + 1}) NOT LIKE '%:%'"
        asked.append(f"CASE WHEN {plain} THEN {spans} ELSE FALSE END")
    return f"({' OR '.join(asked)})"


def check_known(executed: GtidSet, copied: Iterable[str], anonymous: bool) -> None:
    """Raises ConfigError where what a table was behind ``executed`` is not known: ``copied``: GTID
    sets of copies that it has rows of; ``anonymous``: whether transactions without a GTID have
    changed it."""
    for gtids in copied:
        if not GtidSet.parse(gtids).issubset(executed):
            raise ConfigError(
                f"the table was copied behind {gtids}, and what its rows were before is not known",
                hint="ask for a GTID set that has these transactions",
            )
    if anonymous:
        raise ConfigError(
            "the table has versions of anonymous transactions, which no GTID set tells",
            hint="ask by position or time: the source had no GTIDs (gtid_mode) then",
        )
