"""Tables of mode ``history`` as they were: after a GTID set, at a time, or at a place of the log.

``history_at`` reads one with Spark. ``create_history_views`` defines SQL for them: a view of the
current rows, and functions of former ones. A function's argument is parsed once per query.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ...config.tables import MODE_COLUMNS
from ...delta.store.spark_names import quoted
from ...errors import ConfigError, TargetError
from ...gtid import GtidSet, format_uuid
from ...rules.metadata_columns import name_of
from ...tables.case_folding import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    Span = tuple[str, int, int]

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
    """Return the rows that were current at some moment, without the columns of mode history.
    ``gtid_executed``: after exactly these transactions. ``time``: after the transactions that the
    source had committed until then (without a zone in UTC). ``position``: after all transactions up
    to the one at that position (``_valid_from_position``).

    Raise ConfigError for an invalid GTID set, and for one that lacks transactions which a copy's
    rows contain, because the earlier state is not known. Raise it also for a GTID set if the table
    has versions of anonymous transactions, which are in no GTID set.
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
    """Return the condition of ``history_at`` as SQL, for a view and for other readers. A copy's
    rows count as existing from the beginning. For a GTID set, changes by anonymous transactions
    count as not yet made. Raise ConfigError."""
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
    """Return SQL for whether a column's GTID is one of ``executed``."""
    cases = []
    for (uuid, tag), intervals in executed.intervals.items():
        head = f"{format_uuid(uuid)}:{tag}:" if tag else f"{format_uuid(uuid)}:"
        number = f"CAST(SUBSTR({column}, {len(head) + 1}) AS BIGINT)"
        spans = " OR ".join(f"{number} BETWEEN {a} AND {b - 1}" for a, b in intervals)
        # CASE: a GTID with a tag has no number there, and is not cast.
        of_head = f"SUBSTR({column}, 1, {len(head)}) = '{head}'"
        plain = f"{of_head} AND SUBSTR({column}, {len(head) + 1}) NOT LIKE '%:%'"
        cases.append(f"CASE WHEN {plain} THEN {spans} ELSE FALSE END")
    return f"({' OR '.join(cases)})"


def check_known(executed: GtidSet, copied: Iterable[str], anonymous: bool) -> None:
    """Raise ConfigError if a table's state after ``executed`` is not known. ``copied``: GTID sets
    of copies whose rows it has; ``anonymous``: whether transactions without a GTID have changed it.
    """
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


_COLUMNS = [*map(name_of, MODE_COLUMNS["history"])]
_READ = "spark_repl_gtid_spans"
_SPANS = "ARRAY<STRUCT<head: STRING, low: BIGINT, high: BIGINT>>"
_VIEWS = ("versions", "current")
_FUNCTIONS = {"at": "gtid_executed STRING", "at_time": "moment TIMESTAMP",
              "at_position": "position BIGINT"}  # fmt: skip
_COPIES = (
    "SELECT collect_set(CASE WHEN _valid_from_position IS NULL THEN _valid_from_gtid END)"
    f" AS _copied, coalesce(bool_or({ANONYMOUS}), FALSE) AS _anonymous FROM {{}}"
)
_NUMBER = "substring_index(`_v`.{0}, ':', -1)"
_AMONG = (
    "exists(`_asked`._spans, s -> s.head = left(`_v`.{0}, length(`_v`.{0}) - length("
    f"{_NUMBER})) AND try_cast({_NUMBER} AS BIGINT) BETWEEN s.low AND s.high)"
)
"""whether a GTID is in one of the spans"""


def has_history(frame: DataFrame) -> bool:
    """Return whether the frame is a table of mode history."""
    return {*_COLUMNS}.issubset(frame.columns)


def create_history_views(
    tables: Mapping[str, DataFrame], all_tables: Iterable[str], prefix: str = ""
) -> list[str]:
    """Create the temporary views and functions of ``tables`` of mode history, by their names
    (db.table): for each ``<prefix><db>_<table>`` with ``_versions``, ``_current``, ``_at``,
    ``_at_time`` and ``_at_position``. Return these names. ``all_tables``: tables whose views must
    not have the same names.

    Raise TargetError, before any is created, if two names would be the same.
    """
    names = {name: prefix + name.replace(".", "_") for name in tables}
    owners = {fold(prefix + name.replace(".", "_")): name for name in all_tables}
    created = list[str]()
    for name, head in names.items():
        for end in (*_VIEWS, *_FUNCTIONS):
            view = f"{head}_{end}"
            other = owners.setdefault(fold(view), name)
            if other != name or view in created:
                raise TargetError(
                    f"the view of {other} would be this table's, too ({view})", table=name,
                    hint="give another prefix; or read the one by history_at",
                )  # fmt: skip
            created.append(view)
    for name, frame in tables.items():
        _create(frame, names[name])
    return created


def _create(frame: DataFrame, head: str) -> None:
    spark = frame.sparkSession
    spark.udf.register(_READ, _spans, _SPANS)
    frame.createOrReplaceTempView(quoted(f"{head}_versions"))
    frame.where("_current").drop(*_COLUMNS).createOrReplaceTempView(quoted(f"{head}_current"))
    own = [column for column in frame.columns if column not in _COLUMNS]
    for end, parameter in _FUNCTIONS.items():
        _define(spark, head, end, parameter, own)


def _define(spark: SparkSession, head: str, end: str, parameter: str, own: Sequence[str]) -> None:
    """Create one function. Its argument's name is not used beside a column of the table, which
    would hide it."""
    versions, name = quoted(f"{head}_versions"), parameter.split()[0]
    if end == "at":
        copies = _COPIES.format(versions)
        argument = f"SELECT {_READ}({name}, _copied, _anonymous) AS _spans FROM ({copies})"
        begun, ended = (_AMONG.format(f"_valid_{end_name}_gtid") for end_name in ("from", "to"))
    else:
        what = end.removeprefix("at_")
        argument = f"SELECT coalesce({name}, raise_error('say a {what}')) AS _then"
        begun, ended = (
            f"`_v`._valid_{end_name}_{what} <= `_asked`._then" for end_name in ("from", "to")
        )
    columns = ", ".join(f"`_v`.{quoted(column)}" for column in own)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY FUNCTION {quoted(f'{head}_{end}')}({parameter})"
        f" RETURNS TABLE RETURN SELECT {columns} FROM {versions} AS `_v` CROSS JOIN ({argument})"
        f" AS `_asked` WHERE (`_v`._valid_from_position IS NULL OR {begun})"
        f" AND (`_v`._valid_to_position IS NULL OR NOT ({ended}))"
    )


def _spans(gtids: str | None, copied: list[str], anonymous: bool) -> list[Span]:
    """Return the spans of a GTID set: the text of GTIDs before the number, and the first and last
    number. Raise ConfigError as ``history_at``."""
    if not gtids:
        raise ConfigError("say a GTID set")
    executed = GtidSet.parse(gtids)
    check_known(executed, copied, anonymous)
    return [
        (f"{format_uuid(uuid)}:{tag}:" if tag else f"{format_uuid(uuid)}:", low, high - 1)
        for (uuid, tag), intervals in executed.intervals.items()
        for low, high in intervals
    ]
