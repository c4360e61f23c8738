"""The merge writer: MERGE through Delta's public API, for runtimes without the classes of `direct`.

Workers fold a group's net changes into one Parquet file per table and shard; the driver checks all
of them against the tables before the first MERGE, so that what can fail by data fails before
anything is committed. One session per table: txnAppId and txnVersion are settings of a session.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from operator import and_
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ..binlog.json.diff import CANNOT_APPLY
from ..binlog.rows.change_bits import CERTAIN, EXISTED, EXISTS
from ..ddl.extra_columns import keeps_deleted, name_of
from ..decode.folding import DUPLICATE_KEY, MISSING_ROW
from ..delta.public_log import bear, told_apart
from ..delta.spark_names import literally, quoted
from ..delta.table_log import ALONE
from ..errors import ConcurrentChangeError, extra_named
from ..runtime.threads import Pool
from .completion import PATCHED, completed, pack
from .direct import Fold, fold_task, refuse_unplaced
from .net_changes import Look, asks
from .writer import by_table
from .written import LiveFile, Violation, WriteTask, Written

if TYPE_CHECKING:
    from ..delta.stamp import Stamp
    from .commit import TablePart
    from .table import Table
    from .table_commits import TableCommits

with extra_named():  # direct does without
    from delta.tables import DeltaTable

_DELETED = name_of("deleted")
_FLAGS, _COUNT, _FIRST = "__flags", "__count", "__first"
_ASKED_AT_ONCE = 4  # tables
_FLOATS, _ARRAY = ('"float"', '"double"'), '"array"'
# A group's net changes fit into memory: hash joins instead of sorting both sides.
_BROADCAST = ("spark.sql.autoBroadcastJoinThreshold", "128m")
# A group's files never change: copying the source before a MERGE protects from nothing. (Where the
# source reads the target, without a key, Delta's plan needs the copy.)
_NO_COPY = ("spark.databricks.delta.merge.materializeSource", "none")


def stage_net(task: WriteTask) -> Written:
    """A worker's part: folds and writes the net changes below the staging folder; no look-up.
    Changes that can't be folded without one are left to the driver."""
    if asks(task.parts):
        return Written(task.table, idempotent=task.idempotent, asks=task)
    return _stage_net(task)


def _stage_net(task: WriteTask, look: Look | None = None) -> Written:
    out = Written(task.table, idempotent=task.idempotent)
    folded = fold_task(task, out, look)
    out.net = len(folded.net.entry)
    refuse_unplaced(Fold(task, folded, out), folded.net.flags & EXISTS != 0)
    if out.violations or not out.net:
        return out
    names = [f"c{i}" for i in range(folded.rows.num_columns)] + [_FLAGS, _COUNT, _FIRST]
    extra = [
        pa.array(folded.net.flags.astype("int32")),
        pa.array(folded.net.count),
        pa.array(folded.at),
    ]
    if folded.missing:
        out.missing = True
        packed = pack(folded.rows, folded.missing, task.key)
        names += packed.column_names
        extra += packed.columns
    rows = pa.Table.from_arrays([*folded.rows.columns, *extra], names=names)
    out.staged.append(_write_staged(task, rows))
    out.inserts_only = bool((folded.net.flags & EXISTED == 0).all())
    return out


def _write_staged(task: WriteTask, rows: pa.Table) -> str:
    os.makedirs(task.staging, exist_ok=True)
    path = os.path.join(task.staging, f"net-{uuid.uuid4().hex}.parquet")
    pq.write_table(rows, path, compression="lz4", use_dictionary=False)
    return path


class MergeWriter:
    """A ``Writer`` with a Spark session per table; ``finish`` asks several tables at a time."""

    def __init__(self, spark: SparkSession, commits: TableCommits) -> None:
        self._spark, self._commits = spark, commits
        self.task: Callable[[WriteTask], Written] = stage_net
        self._sessions: dict[str, SparkSession] = {}
        self._lock = threading.Lock()

    def _session(self, table: Table) -> SparkSession:
        with self._lock:
            if table.path not in self._sessions:
                self._sessions[table.path] = session = self._spark.newSession()
                session.conf.set(*_BROADCAST)
                session.conf.set(*ALONE)
            session = self._sessions[table.path]
        if table.definition.primary_key:  # which ALTER TABLE may give or take
            session.conf.set(*_NO_COPY)
        else:
            session.conf.unset(_NO_COPY[0])
        return session

    def _net(self, table: Table, written: Sequence[Written]) -> DataFrame:
        session = self._session(table)
        paths = [path for part in written for path in part.staged]
        frame = session.read.option("mergeSchema", True).parquet(*map(literally, paths))
        chosen = [F.col(f"c{i}").alias(name) for i, name in enumerate(table.columns.names)]
        net = [F.col(name) for name in (_FLAGS, _COUNT, _FIRST)]
        if not any(part.missing for part in written):
            return frame.select(*chosen, *net)
        target = DeltaTable.forPath(session, table.folder).toDF()
        whole = completed(frame, target, table.definition, idempotent=_lenient(written))
        return whole.select(*chosen, *net, PATCHED)

    def _appends(self, table: Table, written: Sequence[Written]) -> bool:
        """Whether the group only adds keys to a table known complete: no look-up is needed."""
        inserts = all(part.inserts_only for part in written if part.staged)
        return inserts and (table.has_source_rows_alone or not table.definition.primary_key)

    def files(self, table: Table) -> tuple[LiveFile, ...]:
        """No files: tasks look nothing up, Spark does in ``finish`` and ``commit``."""
        return ()

    def prepare(self, tables: Iterable[Table]) -> None:
        """Does nothing: MERGE needs no key index."""

    def finish(self, tables: Mapping[str, Table], written: list[Written]) -> list[Written]:
        """The look-ups, all before the first commit; with 1032 or 1062 of what doesn't fit."""
        per_table = by_table(tables, written)
        changed = [name for name in tables if any(part.changes_table for part in per_table[name])]
        with Pool(_ASKED_AT_ONCE, thread_name_prefix="merge") as pool:
            asked = pool.map(lambda name: self._asked(tables[name], per_table[name]), changed)
            per_table |= zip(changed, asked, strict=True)
        return [part for name in tables for part in per_table[name]]

    def _asked(self, table: Table, written: list[Written]) -> list[Written]:
        staged = [self._staged(table, part) for part in written]
        if any(part.violations for part in staged):
            return staged
        bad = self._misfit(table, staged)
        return [*staged, Written(table.name, violations=bad)]

    def _staged(self, table: Table, part: Written) -> Written:
        """What the workers left is staged now that the table can say which keys it has."""
        task = part.asks
        return part if task is None else _stage_net(task, partial(self._present, table, task))

    def _misfit(self, table: Table, written: Sequence[Written]) -> list[Violation]:
        """The first change that doesn't fit, if there is one: 1032 or 1062, strict mode only."""
        lenient = _lenient(written) and bool(table.definition.primary_key)
        if lenient or self._appends(table, written):
            return []
        net = self._net(table, written)
        target = self._source_rows(table)
        if table.definition.primary_key:
            bad = self._misfits(table, net, target)
            if PATCHED in net.columns:
                bad = bad.unionByName(_unpatched(table, net))
        else:
            have = _counted(target, table).withColumnRenamed("__n", "__have")
            bad = (
                net.where(F.col(_COUNT) < 0)
                .join(have, _same(net, have, table), "left")
                .where(F.coalesce(F.col("__have"), F.lit(0)) < -F.col(_COUNT))
                .select(*_described(net, table), net[_FIRST], F.lit(MISSING_ROW).alias("__number"))
            )
        rows = bad.orderBy(_FIRST).limit(1).collect()
        return [
            Violation(
                row["__number"],
                row[_FIRST],
                table.name,
                ", ".join(f"{name}={row[name]!r}" for name in row.__fields__[:-2]),
            )
            for row in rows
        ]

    def _present(self, table: Table, task: WriteTask, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Which of the rows' keys the table has a row for."""
        numbers = pa.array(np.arange(rows.num_rows))
        named = {f"k{i}": rows.column(at) for i, at in enumerate(task.key)}
        path = _write_staged(task, pa.table({"row": numbers, **named}))
        keys, target = self._session(table).read.parquet(path), self._source_rows(table)
        names = [quoted(table.columns.names[at]) for at in task.key]
        on = [keys[f"k{i}"] == target[name] for i, name in enumerate(names)]
        hits = keys.join(target, on, "left_semi").select("row").collect()
        os.remove(path)
        there = np.zeros(rows.num_rows, bool)
        there[[row["row"] for row in hits]] = True
        return there

    def _source_rows(self, table: Table) -> DataFrame:
        """The table's rows but for those that the source has deleted."""
        rows = DeltaTable.forPath(self._session(table), table.folder).toDF()
        if not keeps_deleted(table.definition):
            return rows
        return rows.where(~F.col(_DELETED))

    def _misfits(self, table: Table, net: DataFrame, target: DataFrame) -> DataFrame:
        keys = [table.columns.names[i] for i in table.definition.primary_key]
        hit = target.select(*[F.col(quoted(k)).alias(f"__k{i}") for i, k in enumerate(keys)])
        hit = hit.withColumn("__hit", F.lit(True))
        on = [net[quoted(k)] == hit[f"__k{i}"] for i, k in enumerate(keys)]
        existed = F.col(_FLAGS).bitwiseAND(F.lit(EXISTED)) != 0
        there = F.col("__hit").isNotNull()
        # Rows that the source has removed by a TRUNCATE give way.
        twice = ~existed & there & F.lit(not table.definition.truncated)
        number = F.when(existed, F.lit(MISSING_ROW)).otherwise(F.lit(DUPLICATE_KEY))
        return (
            net.join(hit, on, "left")
            .where((existed & ~there) | twice)
            .select(*_described(net, table), _FIRST, number.alias("__number"))
        )

    def commit(self, parts: Sequence[TablePart], stamp: Stamp) -> None:
        """One Delta commit: MERGE, or an append where no key has to be looked up. Refused when
        somebody has committed since ``finish``; between this look and MERGE's own nobody can
        tell."""
        ((table, written),) = parts  # it has no shards
        session = self._session(table)
        bear(session, stamp)
        net = self._net(table, written)
        if self._commits.delta.version(table.folder) != table.snapshot.version:
            raise ConcurrentChangeError(
                "somebody has committed since the look-up", table=table.name, file=table.folder
            )
        table.delta.pending = stamp.position
        with told_apart(table.folder, table.name):
            self._change(table, written, net)
        self._commits.merged(table, stamp.position)

    def _change(self, table: Table, written: Sequence[Written], net: DataFrame) -> None:
        if self._appends(table, written):
            rows = net.select(*[F.col(quoted(name)) for name in table.columns.names], _COUNT)
            if not table.definition.primary_key:  # one entry may stand for many equal rows
                rows = rows.withColumn(_COUNT, F.expr(f"explode(sequence(1L, {_COUNT}))"))
            rows = rows.drop(_COUNT)
            rows.write.format("delta").mode("append").save(table.folder)
        elif table.definition.primary_key:
            self._merge(table, net, lenient=_lenient(written))
        else:
            self._merge_bag(table, net)

    def _merge(self, table: Table, net: DataFrame, *, lenient: bool) -> None:
        names = table.columns.names
        keys = [quoted(names[i]) for i in table.definition.primary_key]
        values = _from_source(names)
        stays = f"(s.{_FLAGS} & {EXISTS}) != 0"
        comes = f"{stays} AND (s.{_FLAGS} & {CERTAIN}) != 0" if lenient else stays
        changes = None  # any
        if lenient and keeps_deleted(table.definition):  # what is passed over leaves it as it is
            changes = f"(s.{_FLAGS} & {CERTAIN}) != 0 OR NOT t.{_DELETED}"
        (
            DeltaTable.forPath(self._session(table), table.folder)
            .alias("t")
            .merge(net.alias("s"), reduce(and_, (F.col(f"t.{k}") == F.col(f"s.{k}") for k in keys)))
            .whenMatchedDelete(f"NOT ({stays})")
            .whenMatchedUpdate(changes, values)
            .whenNotMatchedInsert(comes, values)
            .execute()
        )

    def _merge_bag(self, table: Table, net: DataFrame) -> None:
        """Rows without a key: all copies of an image that loses some go, and what is left comes
        back in the same MERGE (a source row may match many, an insert matches none)."""
        target = DeltaTable.forPath(self._session(table), table.folder)
        have = _counted(target.toDF(), table).withColumnRenamed("__n", "__have")
        names = table.columns.names
        columns = [net[quoted(name)] for name in names]
        left = F.coalesce(F.col("__have"), F.lit(0)) + F.col(_COUNT)
        joined = net.join(have, _same(net, have, table), "left")
        after = F.when(F.col(_COUNT) < 0, F.greatest(left, F.lit(0))).otherwise(F.col(_COUNT))
        comes = joined.select(*columns, after.alias("__copies")).where(F.col("__copies") > 0)
        comes = comes.withColumn("__copies", F.expr("explode(sequence(1L, __copies))"))
        goes = net.where(F.col(_COUNT) < 0).select(*columns, F.lit(True).alias("__goes"))
        source = goes.unionByName(comes.drop("__copies").withColumn("__goes", F.lit(False)))
        same = [
            _bitwise(F.col(f"t.{quoted(n)}"), kind).eqNullSafe(
                _bitwise(F.col(f"s.{quoted(n)}"), kind)
            )
            for n, kind in zip(names, table.columns.types, strict=True)
        ]
        (
            target.alias("t")
            .merge(source.alias("s"), reduce(and_, same, F.col("s.__goes")))
            .whenMatchedDelete()
            .whenNotMatchedInsert("NOT s.__goes", _from_source(names))
            .execute()
        )


def _unpatched(table: Table, net: DataFrame) -> DataFrame:
    """Rows whose JSON diffs do not fit the target's documents."""
    chosen = net.where(~F.col(PATCHED))
    return chosen.select(*_described(chosen, table), _FIRST, F.lit(CANNOT_APPLY).alias("__number"))


def _from_source(names: Sequence[str]) -> dict[str, str | Column]:
    """Columns, not text: a name may be ${x}, which Spark's SQL takes for a variable."""
    return {quoted(name): F.col(f"s.{quoted(name)}") for name in names}


def _described(net: DataFrame, table: Table) -> list[Column]:
    chosen = table.definition.primary_key or range(min(4, len(table.columns.names)))
    return [net[quoted(table.columns.names[i])] for i in chosen]


def _counted(target: DataFrame, table: Table) -> DataFrame:
    """Copies of each image: columns ``__h0``... (``_bitwise``) and ``__n``."""
    typed = enumerate(zip(table.columns.names, table.columns.types, strict=True))
    named = [_bitwise(F.col(quoted(n)), kind).alias(f"__h{i}") for i, (n, kind) in typed]
    hidden = [f"__h{i}" for i in range(len(named))]
    return target.select(*named).groupBy(*hidden).agg(F.count(F.lit(1)).alias("__n"))


def _same(net: DataFrame, have: DataFrame, table: Table) -> list[Column]:
    typed = enumerate(zip(table.columns.names, table.columns.types, strict=True))
    return [
        _bitwise(net[quoted(name)], kind).eqNullSafe(have[f"__h{i}"]) for i, (name, kind) in typed
    ]


def _bitwise(column: Column, kind: str) -> Column:
    """What tells a column's values apart bit for bit: Spark takes -0.0 for 0.0, but prints it.
    ``kind``: Delta's type in JSON."""
    return column.cast("string") if kind in _FLOATS or _ARRAY in kind else column


def _lenient(written: Sequence[Written]) -> bool:
    """Whether the group is applied to the table idempotently."""
    return any(part.idempotent for part in written)
