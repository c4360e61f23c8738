"""Faults of configuration keys that contradict each other, and of ``to`` in ``[[tables]]``. A
``to`` is faulty if its form is, or if two rules would give one name twice.

``sharding_faults`` checks ``[[tables]]`` rules that put many tables into one. Such a rule has
``key_prefix``, or feeds a table of several channels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .renaming import (
    SHARD,
    halves,
    has_bare_sign,
    letters,
    unusable,
    unusable_database,
    whole_of,
)
from .rules import is_local
from .tables import CHANNEL, EXTRA_COLUMNS, NO_ROWS
from .wildcards import covers

if TYPE_CHECKING:
    from .sections import Apply, Catalog, Ddl, Filters, Source, Target
    from .tables import TableRule


_LOCAL_URI = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?(/|$)")
_CATALOG_CONNECTION = ("uri", "token_env", "token_file", "token_command")


def combination_faults(config: Mapping[str, Any]) -> list[str]:
    """Return the errors of keys that contradict each other."""
    target, apply = config["target"], config["apply"]
    faults = _connecting(config["source"])
    faults += _contradicting(config["filters"])
    faults += _rewritten(config["filters"], config["source"])
    asks_case = config["source"].lower_case_table_names == -1
    faults += renaming_faults(config["tables"], asks_case=asks_case)
    hourly, latency = apply.max_commits_per_hour, apply.max_latency_ms
    if 0 < hourly * latency < 3600000:
        faults.append(
            f"apply.max_latency_ms = {latency} needs apply.max_commits_per_hour of"
            f" {-(-3600000 // latency)} at least"
        )
    faults += _masking(target, config["tables"])
    faults += _keeping(config["ddl"], config["tables"])
    faults += _versioned(apply, config["tables"])
    faults += sharding_faults(config)
    faults += _quarantined(apply, config["tables"])
    faults += _without_rows(config["tables"])
    faults += _cataloged(config["catalog"], target, config["tables"])
    observe = config["observe"]
    if observe.listen and not is_local(observe.listen) and not observe.token_file:
        faults.append("observe.listen on an address that is not local needs observe.token_file")
    if observe.rows and not observe.token_file:
        faults.append("observe.rows needs observe.token_file: each account here reaches a port")
    return faults


def _cataloged(catalog: Catalog, target: Target, tables: Sequence[TableRule]) -> list[str]:
    """Return the contradictions of ``[catalog]``."""
    given = [f"catalog.{key}" for key in _CATALOG_CONNECTION if getattr(catalog, key)]
    if not catalog.managed:
        faults = [f"{key} needs catalog.managed = true" for key in given]
        if catalog.name not in ("", "spark_catalog"):
            faults.append(
                f'catalog.name = "{catalog.name}" is not supported by this version without'
                ' catalog.managed = true, only "spark_catalog"'
            )
        return faults
    faults = [
        f"catalog.managed needs catalog.{k}" for k in ("name", "uri") if not getattr(catalog, k)
    ]
    tokens = [key for key in given if "token" in key]
    if len(tokens) > 1:
        faults.append(f"only one of {', '.join(tokens)} may be given")
    if tokens and catalog.uri.startswith("http://") and not _LOCAL_URI.match(catalog.uri):
        faults.append("catalog.uri without TLS would show the token: give https://")
    without = ("metastore", "cut_views")
    faults += [
        f"catalog.managed does not go with catalog.{k}" for k in without if getattr(catalog, k)
    ]
    if not target.deletion_vectors:
        faults.append("catalog.managed needs target.deletion_vectors: the catalog requires them")
    faults += (
        f"tables[{number}]: catalog.managed does not go with channels: a table has one writer there"
        for number, rule in enumerate(tables, 1)
        if rule.channels
    )
    return faults


def _contradicting(filters: Filters) -> list[str]:
    """Return the filter rules that another rule makes unreachable."""
    faults = []
    if filters.do_db and filters.ignore_db:
        faults.append("filters.ignore_db is never asked where filters.do_db is given")
    for do, ignore in (("do_table", "ignore_table"), ("wild_do_table", "wild_ignore_table")):
        for entry in sorted({*getattr(filters, do)} & {*getattr(filters, ignore)}):
            faults.append(f"filters.{ignore} is never asked about {entry}: filters.{do} has it")
    seen = set[str]()
    for entry in filters.rewrite_db:
        old, _, new = (part.strip() for part in entry.partition("->"))
        if old in seen:
            faults.append(f"filters.rewrite_db is never asked about {entry}: {old} has another")
        if old == new:
            faults.append(f"filters.rewrite_db has {entry}, which changes nothing")
        seen.add(old)
    return faults


def _rewritten(filters: Filters, source: Source) -> list[str]:
    """Return the faults of names with upper case, as long as source.lower_case_table_names is not
    set."""
    if source.lower_case_table_names != -1:
        return []
    return [
        f"filters.rewrite_db has {entry}: an upper-case letter needs source.lower_case_table_names"
        for entry in filters.rewrite_db
        if entry != entry.lower()
    ]


def _versioned(apply: Apply, tables: Sequence[TableRule]) -> list[str]:
    """Return the settings that history tables need for exact versions of rows."""
    needed = {
        'apply.exec_mode = "strict"': apply.exec_mode == "strict",
    }
    return [
        f'tables[{number}].mode = "history" needs {what}'
        for number, rule in enumerate(tables, 1)
        if rule.mode == "history"
        for what, given in needed.items()
        if not given
    ]


def _without_rows(tables: Sequence[TableRule]) -> list[str]:
    """Return the faults of rules whose tables a copy can't leave empty."""
    faults = []
    for number, rule in enumerate(tables, 1):
        if rule.copy != NO_ROWS:
            continue
        if rule.mode == "history":
            faults.append(
                f'tables[{number}].copy = "none" does not go together with mode = "history": the'
                " versions of rows from before the copy have no beginning"
            )
        if rule.shards_by:
            faults.append(
                f'tables[{number}].copy = "none" does not go together with key_prefix and channels:'
                " many tables are one Delta table there"
            )
    return faults


def _masking(target: Target, tables: Sequence[TableRule]) -> list[str]:
    """Return the faults of masks without the secret key that they need."""
    if target.mask_key_env and target.mask_key_file:
        return ["only one of target.mask_key_env, target.mask_key_file may be given"]
    if target.mask_key_env or target.mask_key_file:
        return []
    return [
        f"tables[{number}].mask: sha256 needs a secret key, target.mask_key_env or mask_key_file"
        for number, rule in enumerate(tables, 1)
        if any(mask == "sha256" for _, mask in rule.mask)
    ]


def _keeping(ddl: Ddl, tables: Sequence[TableRule]) -> list[str]:
    """Return the faults of rules that reshape rows or columns under policy additive_only."""
    return [
        f"tables[{number}] has {keys[0]}, which does not go together with policy additive_only"
        for number, rule in enumerate(tables, 1)
        if (rule.on_ddl or ddl.policy) == "additive_only" and (keys := rule.reshaping)
    ]


def _quarantined(apply: Apply, tables: Sequence[TableRule]) -> list[str]:
    """Return the faults of rules that conflict with a quarantine: in the rules that set one, and in
    any rule, as a quarantine keeps whole transactions as the log has them."""
    asking = ["apply.on_error"] if apply.on_error == "quarantine" else []
    faults = []
    for number, rule in enumerate(tables, 1):
        if rule.on_error == "quarantine":
            asking.append(f"tables[{number}].on_error")
        if rule.added_columns and (rule.on_error or apply.on_error) == "quarantine":
            key = asking[-1] if rule.on_error else asking[0]
            added = _adding(rule)
            faults.append(
                f'tables[{number}].{added}: {key} = "quarantine" would keep no GTIDs and'
                " times of what it replays"
            )
    if asking:
        faults += (
            f'tables[{number}] withholds {rule.withheld}: {asking[0]} = "quarantine" would keep'
            " them in the log's own bytes, in which a transaction is whole"
            for number, rule in enumerate(tables, 1)
            if rule.withheld
        )
    return faults


def _adding(rule: TableRule) -> str:
    """Return the key that adds columns whose values a quarantine does not keep."""
    if rule.extra_columns:
        return "extra_columns"
    return "key_prefix" if rule.key_prefix else "mode"


def _connecting(source: Source) -> list[str]:
    ways = ("password", "password_env", "password_file", "password_command")
    given = [f"source.{way}" for way in ways if getattr(source, way)]
    faults = [f"only one of {', '.join(given)} may be given"] if len(given) > 1 else []
    if source.hosts and not source.auto_position:
        faults.append("source.hosts needs source.auto_position: only GTIDs are the same everywhere")
    if bool(source.tls_cert) != bool(source.tls_key):
        faults.append("source.tls_cert and source.tls_key belong together")
    if source.tls_ca and source.tls in ("disabled", "preferred", "required"):
        faults.append(
            f'source.tls = "{source.tls}" checks no certificate, so source.tls_ca has no use; leave'
            ' source.tls out, or give "verify_ca" or "verify_identity"'
        )
    return faults


def renaming_faults(rules: Sequence[TableRule], *, asks_case: bool) -> list[str]:
    """Return the errors of each rule, alone and in comparison with earlier rules. ``asks_case``:
    source.lower_case_table_names is not set."""
    faults, named = list[str](), dict[int, str]()
    for number, rule in enumerate(rules, 1):
        if not rule.to or not rule.match:
            continue
        own = [*_faults(rule)]
        if asks_case and rule.to != rule.to.lower():
            own.append("to: an upper-case letter needs source.lower_case_table_names")
        faults += [f"tables[{number}].{fault}" for fault in own]
        if own:
            continue
        earlier = next((n for n, other in named.items() if _gives_all(other, rule.named)), None)
        if earlier is not None:
            faults.append(
                f"tables[{number}].to {rule.to} would give names that tables[{earlier}].to has"
                " given: put the rule of the fewer tables first, or join databases by"
                " filters.rewrite_db"
            )
        named[number] = rule.named
    return faults


def _faults(rule: TableRule) -> Iterator[str]:
    if letters(rule.match) == letters(rule.named):
        yield f"to {rule.to} changes nothing"
    if has_bare_sign(rule.match):
        yield (
            f"match {rule.match}: with to, the wildcard _ has no place in {rule.to} to be carried"
            r" over to: write \_ for the character, or %"
        )
    for key, pattern in (("match", rule.match), ("to", rule.named)):
        if any(_signs(part) > 1 for part in halves(pattern)):
            yield f"{key} {pattern}: with to, more than one % in a part of the name is ambiguous"
    had, has = _signs(rule.match), _signs(rule.named)
    if had < has:
        yield f"to {rule.to} has a % that stands for nothing in match {rule.match}"
    if had > has:
        yield (
            f"to {rule.to} gives all tables of match {rule.match} one name, as a % is not in it:"
            " tables that share one need a key_prefix"
        )
    if reason := _unusable(rule.named):
        yield f"to {rule.to}: {reason}"


def _unusable(to: str) -> str:
    """Return why no table can have a name that ``to`` gives, if that does not depend on a ``%``."""
    database, table = halves(to)
    if not _signs(to):
        return unusable(("".join(letters(database)), whole_of("".join(letters(table)))))
    return "" if _signs(database) else unusable_database("".join(letters(database)))


def _gives_all(earlier: str, later: str) -> bool:
    """Return whether each name that ``later`` gives is one that ``earlier`` gives."""
    pairs = zip(halves(earlier), halves(later), strict=True)
    return all(covers(_escaped(one), _escaped(other)) for one, other in pairs)


def _escaped(part: str) -> str:
    """Return the part as a pattern whose ``_`` are plain letters."""
    return "".join(f"\\{sign}" if sign else "%" for sign in letters(part))


def _signs(pattern: str) -> int:
    return letters(pattern).count("")


_NOT_BESIDE = ("include", "exclude", "mask")
_KEEPING = ("additive_only", "ignore_drop")
_BY_CHANNEL = f'extra_columns = ["{CHANNEL}"]'


def sharding_faults(config: Mapping[str, Any]) -> list[str]:
    """Return the errors of each rule that puts many tables into one, and of other keys that
    contradict it."""
    rules: Sequence[TableRule] = config["tables"]
    faults = [
        f"tables[{number}].{fault}"
        for number, rule in enumerate(rules, 1)
        for fault in (_sharded(rule, config) if rule.shards_by else _plain(rule, rules))
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


def _sharded(rule: TableRule, config: Mapping[str, Any]) -> Iterator[str]:
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
