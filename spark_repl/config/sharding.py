"""What ``key_prefix`` of ``[[tables]]``, many tables in one, does not go together with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .renaming import SHARD, letters, whole_of

if TYPE_CHECKING:
    from .settings import Apply, Ddl, Target
    from .tables import TableRule

_EXTRA = ("source_table", "gtid", "commit_time", "operation", "deleted")
_NOT_BESIDE = ("include", "exclude", "mask", "row_filter")
_KEEPING = ("additive_only", "ignore_drop")


def sharding_faults(config: Mapping[str, Any]) -> list[str]:
    """The faults of each rule, and of the other keys where there is one with ``key_prefix``."""
    rules: Sequence[TableRule] = config["tables"]
    faults = [
        f"tables[{number}].{fault}"
        for number, rule in enumerate(rules, 1)
        for fault in (_faults(rule, rules, config) if rule.key_prefix else _plain(rule, rules))
    ]
    number = next((number for number, rule in enumerate(rules, 1) if rule.key_prefix), 0)
    needed = _needed(config["target"], config["apply"]) if number else ()
    return faults + [f"tables[{number}].key_prefix needs {what}" for what in needed]


def _needed(target: Target, apply: Apply) -> Iterator[str]:
    if not apply.preserve_commit_order:
        yield "apply.preserve_commit_order = true: the shards have one position"
    if apply.writer == "merge":
        yield 'apply.writer = "direct"'
    if not target.column_mapping:
        yield "target.column_mapping = true: columns come and go shard by shard"
    if target.on_foreign_change != "stop":
        yield 'target.on_foreign_change = "stop"'


def _faults(
    rule: TableRule, rules: Sequence[TableRule], config: Mapping[str, Any]
) -> Iterator[str]:
    if not rule.to:
        yield f"key_prefix {rule.key_prefix} needs to: the name of the table that the shards share"
    elif SHARD in f"{rule.to}/" or letters(rule.to).count(""):
        yield f"to {rule.to}: with key_prefix it is one name, without %, {SHARD} and / at its end"
    yield from _shared(rule, str(config["channel"]))
    if rule.match and letters(rule.match).count("") != 1:
        yield f"match {rule.match}: with key_prefix it has one %, which tells the shards apart"
    if rule.mode != "mirror":
        yield f'key_prefix does not go together with mode = "{rule.mode}"'
    for key in _NOT_BESIDE:
        if getattr(rule, key):
            yield f"key_prefix does not go together with {key}"
    if "deleted" in rule.extra_columns:
        yield 'key_prefix does not go together with extra_columns = ["deleted"]'
    if rule.key_prefix.lower() in (f"_{extra}" for extra in _EXTRA):
        yield f"key_prefix {rule.key_prefix} is the name of an extra column"
    ddl: Ddl = config["ddl"]
    policy = rule.on_ddl or ddl.policy
    if policy in _KEEPING:
        yield f"key_prefix does not go together with policy {policy}"
    partitioned = (entry.partition("(")[0] for entry in config["target"].partition_by)
    if rule.to and rule.to in map(whole_of, map(str.strip, partitioned)):
        yield f"key_prefix: {rule.to} is partitioned by it, so target.partition_by can't name it"


def _shared(rule: TableRule, channel: str) -> Iterator[str]:
    """The faults of a rule whose table other channels feed, too."""
    if not rule.channels:
        return
    if channel not in rule.channels:
        yield f"channels has no {channel}, which is this channel"
    if rule.to != rule.to.lower():
        yield f"to {rule.to}: beside channels it is in lower case, as any of them may have names"


def _plain(rule: TableRule, rules: Sequence[TableRule]) -> Iterator[str]:
    """The same of a rule that gives each table a name of its own."""
    if rule.channels:
        yield "channels needs key_prefix: what tells the channels' tables apart in one"
    if SHARD in rule.to:
        yield f"to {rule.to}: {SHARD} is what tells shards apart (key_prefix)"
    for number, other in enumerate(rules, 1):
        if rule.to and other.key_prefix and rule.to == other.to:
            yield f"to {rule.to} is the table that the shards of tables[{number}] share"
