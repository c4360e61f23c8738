"""SQL of tables of mode history: a view of the rows that are current, and functions of those that
were. A function's argument is read once a query, as ``history_at`` reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..config.tables import MODE_COLUMNS
from ..delta.spark_names import quoted
from ..errors import ConfigError, TargetError
from ..gtid import GtidSet, format_uuid
from ..rules.metadata_columns import name_of
from ..sql.folded_name import fold
from .history_reader import ANONYMOUS, check_known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    Span = tuple[str, int, int]

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
    """Whether it is a table of mode history."""
    return {*_COLUMNS}.issubset(frame.columns)


def create_history_views(
    tables: Mapping[str, DataFrame], all_tables: Iterable[str], prefix: str = ""
) -> list[str]:
    """Makes the temporary views and functions of ``tables`` of mode history, by their names
    (db.table): of each ``<prefix><db>_<table>`` with ``_versions``, ``_current``, ``_at``,
    ``_at_time`` and ``_at_position``; returns these names. ``all_tables``: of whose views none may
    be one of them.

    Raises TargetError, before any is made, where two would have one name."""
    names = {name: prefix + name.replace(".", "_") for name in tables}
    taken = {fold(prefix + name.replace(".", "_")): name for name in all_tables}
    made = list[str]()
    for name, head in names.items():
        for end in (*_VIEWS, *_FUNCTIONS):
            one = f"{head}_{end}"
            other = taken.setdefault(fold(one), name)
            if other != name or one in made:
                raise TargetError(
                    f"the view of {other} would be this table's, too ({one})", table=name,
                    hint="give another prefix; or read the one by history_at",
                )  # fmt: skip
            made.append(one)
    for name, frame in tables.items():
        _create(frame, names[name])
    return made


def _create(frame: DataFrame, head: str) -> None:
    spark = frame.sparkSession
    spark.udf.register(_READ, _spans, _SPANS)
    frame.createOrReplaceTempView(quoted(f"{head}_versions"))
    frame.where("_current").drop(*_COLUMNS).createOrReplaceTempView(quoted(f"{head}_current"))
    own = [column for column in frame.columns if column not in _COLUMNS]
    for end, parameter in _FUNCTIONS.items():
        _define(spark, head, end, parameter, own)


def _define(spark: SparkSession, head: str, end: str, parameter: str, own: Sequence[str]) -> None:
    """A function's argument is named beside no column of the table, which would hide it."""
    versions, name = quoted(f"{head}_versions"), parameter.split()[0]
    if end == "at":
        copies = _COPIES.format(versions)
        asked = f"SELECT {_READ}({name}, _copied, _anonymous) AS _spans FROM ({copies})"
        begun, ended = (_AMONG.format(f"_valid_{way}_gtid") for way in ("from", "to"))
    else:
        what = end.removeprefix("at_")
        asked = f"SELECT coalesce({name}, raise_error('say a {what}')) AS _then"
        begun, ended = (f"`_v`._valid_{way}_{what} <= `_asked`._then" for way in ("from", "to"))
    columns = ", ".join(f"`_v`.{quoted(column)}" for column in own)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY FUNCTION {quoted(f'{head}_{end}')}({parameter})"
        f" RETURNS TABLE RETURN SELECT {columns} FROM {versions} AS `_v` CROSS JOIN ({asked})"
        f" AS `_asked` WHERE (`_v`._valid_from_position IS NULL OR {begun})"
        f" AND (`_v`._valid_to_position IS NULL OR NOT ({ended}))"
    )


def _spans(gtids: str | None, copied: list[str], anonymous: bool) -> list[Span]:
    """The spans of a GTID set: what a GTID begins with up to its number, and the numbers. Raises
    ConfigError as ``history_at`` does."""
    if not gtids:
        raise ConfigError("say a GTID set")
    executed = GtidSet.parse(gtids)
    check_known(executed, copied, anonymous)
    return [
        (f"{format_uuid(uuid)}:{tag}:" if tag else f"{format_uuid(uuid)}:", low, high - 1)
        for (uuid, tag), intervals in executed.intervals.items()
        for low, high in intervals
    ]
