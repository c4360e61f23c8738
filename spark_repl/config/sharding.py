"""Faults of ``[[tables]]`` rules that put many tables into one. Such a rule has ``key_prefix``, or
feeds a table of several channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .renaming import SHARD, letters, whole_of
from .tables import CHANNEL, EXTRA_COLUMNS

if TYPE_CHECKING:
    from .settings import Apply, Ddl, Target
    from .tables import TableRule

_NOT_BESIDE = ("include", "exclude", "mask")
_KEEPING = ("additive_only", "ignore_drop")
_BY_CHANNEL = f'extra_columns = ["{CHANNEL}"]'


def sharding_faults(config: Mapping[str, Any]) -> list[str]:
    """Return the faults of each rule, and of other keys if a rule puts many tables into one."""
    rules: Sequence[TableRule] = config["tables"]
    faults = [
        f"tables[{number}].{fault}"
        for number, rule in enumerate(rules, 1)
        for fault in (_faults(rule, config) if rule.shards_by else _plain(rule, rules))
    ]
    number, rule = next(((n, rule) for n, rule in enumerate(rules, 1) if rule.shards_by), (0, None))
    needed = _needed(config["target"], config["apply"]) if rule else ()
    return faults + [f"tables[{number}].{_asked(rule)} needs {what}" for what in needed if rule]


def _asked(rule: TableRule) -> str:
    """Return the key by which a rule puts many tables into one, as the configuration has it."""
    return "key_prefix" if rule.key_prefix else _BY_CHANNEL


def _needed(target: Target, apply: Apply) -> Iterator[str]:
    if not apply.preserve_commit_order:
        yield "apply.preserve_commit_order = true: the shards have one position"
    if not target.column_mapping:
        yield "target.column_mapping = true: columns come and go shard by shard"
    if target.on_foreign_change != "stop":
        yield 'target.on_foreign_change = "stop"'


def _faults(rule: TableRule, config: Mapping[str, Any]) -> Iterator[str]:
    asked = _asked(rule)
    if not rule.to:
        yield (
            f"{asked} {rule.key_prefix}".rstrip()
            + " needs to: the name of the table that the shards share"
        )
    elif SHARD in f"{rule.to}/" or letters(rule.to).count(""):
        yield f"to {rule.to}: with {asked} it is one name, without %, {SHARD} and / at its end"
    yield from _shared(rule, str(config["channel"]))
    yield from _of_shards(rule) if rule.key_prefix else _of_channel(rule)
    if rule.mode != "mirror":
        yield f'{asked} does not go together with mode = "{rule.mode}"'
    for key in _NOT_BESIDE:
        if getattr(rule, key):
            yield f"{asked} does not go together with {key}"
    if "deleted" in rule.extra_columns:
        yield f'{asked} does not go together with extra_columns = ["deleted"]'
    ddl: Ddl = config["ddl"]
    policy = rule.on_ddl or ddl.policy
    if policy in _KEEPING:
        yield f"{asked} does not go together with policy {policy}"
    partitioned = (entry.partition("(")[0] for entry in config["target"].partition_by)
    if rule.to and rule.to in map(whole_of, map(str.strip, partitioned)):
        yield f"{asked}: {rule.to} is partitioned by it, so target.partition_by can't name it"


def _of_shards(rule: TableRule) -> Iterator[str]:
    """Yield the faults of a rule whose tables ``key_prefix`` identifies."""
    if rule.match and letters(rule.match).count("") != 1:
        yield f"match {rule.match}: with key_prefix it has one %, which tells the shards apart"
    if rule.row_filter:
        yield "key_prefix does not go together with row_filter"
    if CHANNEL in rule.extra_columns:
        yield f"key_prefix does not go together with {_BY_CHANNEL}"
    if rule.key_prefix.lower() in (f"_{extra}" for extra in EXTRA_COLUMNS):
        yield f"key_prefix {rule.key_prefix} is the name of an extra column"


def _of_channel(rule: TableRule) -> Iterator[str]:
    """Yield the faults of a rule whose table several channels feed, separated by row filters."""
    if letters(rule.match).count(""):
        yield f"match {rule.match}: with {_BY_CHANNEL} it is one table's name, without %"
    if not rule.channels:
        yield f"{_BY_CHANNEL} needs channels: those that feed the table"
    if not rule.row_filter:
        yield f"{_BY_CHANNEL} needs row_filter, which tells the channels' rows apart"
    for channel in rule.channels:
        if channel != channel.lower():
            yield f"channels has {channel}: beside row_filter they are in lower case, as tables are"


def _shared(rule: TableRule, channel: str) -> Iterator[str]:
    """Yield the faults of a rule whose table other channels also feed."""
    if not rule.channels:
        return
    if channel not in rule.channels:
        yield f"channels has no {channel}, which is this channel"
    if rule.to != rule.to.lower():
        yield f"to {rule.to}: beside channels it is in lower case, as any of them may have names"
    if "\\" in rule.to:
        yield f"to {rule.to}: beside channels it is a plain name, without \\: _ is a letter there"


def _plain(rule: TableRule, rules: Sequence[TableRule]) -> Iterator[str]:
    """Yield the faults of a rule that gives each table its own name."""
    if rule.channels:
        yield (
            "channels needs key_prefix: what tells the channels' tables apart in one; or row_filter"
            f" and {_BY_CHANNEL}"
        )
    if SHARD in rule.to:
        yield f"to {rule.to}: {SHARD} is what tells shards apart (key_prefix)"
    for number, other in enumerate(rules, 1):
        if rule.to and other.shards_by and rule.to == other.to:
            yield f"to {rule.to} is the table that the shards of tables[{number}] share"
