"""Shards: tables of the source that are in one Delta table, each with files of its own there."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ...config.renaming import whole_of
from ...errors import (
    ALL_SHARDS,
    BEGIN_AGAIN,
    OTHER_TARGET,
    SettingError,
    StatementError,
    TargetError,
)
from ...sql.policy import Policy

if TYPE_CHECKING:
    from ...control.cut import TableVersion
    from ...tables.table_definition import TableDefinition
    from ..tables.table import Table

_COPY = f"a shard is not copied by itself: leave it out by [filters], or {BEGIN_AGAIN}"


def beside(name: str, tables: Iterable[Table]) -> list[Table]:
    """Those of the ``tables`` that are in the Delta table which the shard ``name`` is to be in."""
    whole = whole_of(name)
    return [one for one in tables if one.is_shard and whole_of(one.name) == whole]


def others_of(shard: Table, tables: Iterable[Table]) -> list[Table]:
    """Those of the ``tables`` that are other shards in its Delta table."""
    others = [one for one in beside(shard.name, tables) if one.folder == shard.folder]
    # Behind a crash its CREATE may come again, which finds it there a second time.
    return [one for one in others if one.path != shard.path]


def check_policy(shaped: TableDefinition, policy: Policy) -> None:
    """Raises SettingError where what the source drops of a shard would stay."""
    if policy in (Policy.IGNORE_DROP, Policy.ADDITIVE_ONLY):
        raise SettingError(
            f"policy {policy}: the table is in {whole_of(shaped.name)} with others (key_prefix, or"
            " channels, of [[tables]]), which keeps nothing that the source drops",
            table=shaped.name, hint="give it the policy apply or stop (on_ddl of [[tables]])",
        )  # fmt: skip


def check_renamed_shard(before: str, after: str, shards: Iterable[bool]) -> None:
    """Raises SettingError where a table comes into a Delta table of ``shards``, or leaves it, by
    its new name, which its rows don't have."""
    if before != after and any(shards):
        raise SettingError(
            f"{before} would be called {after}: what tells rows of many tables in one apart"
            " (key_prefix, or channels, of [[tables]]) does not follow RENAME",
            table=before,
            hint="leave the statement out (spark-repl skip --config F --gtid GTID), and the table"
            ' by [filters]; an online schema-change tool needs ddl.online_tools = "fold" before it'
            f" begins; or {ALL_SHARDS}",
        )


def check_put_back(table: Table, at_cut: TableVersion | None) -> None:
    """Raises TargetError where a table that other channels feed, too, has not what the cut shows of
    this one's: its newest versions are gone, and others have come in their place."""
    if at_cut is not None and table.position < at_cut.position:
        raise TargetError(
            "the table has less of this channel than its newest cut shows: an older state of its"
            " folder was put back",
            table=table.name,
            file=table.folder,
            hint=f"put a later one back, or {OTHER_TARGET}",
        )


def check_ended(ended: Collection[str], tables: Iterable[Table]) -> None:
    """Raises SettingError where the filters leave out a shard whose rows would stay."""
    gone = [one.name for one in tables if one.is_shard and one.name in ended]
    if gone:
        raise SettingError(
            f"the filters leave out shards whose rows {whole_of(gone[0])} has",
            table=", ".join(sorted(gone)),
            hint=f"take the change of [filters] back, or {BEGIN_AGAIN}",
        )


def not_copied(name: str, reason: str) -> StatementError:
    """The error of what only a new copy of a shard would mend."""
    return StatementError(reason, table=name, hint=_COPY)
