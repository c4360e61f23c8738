"""``spark-repl config``: check a configuration, show its values, explain its rules.

``check`` prints all faults at once, and settings by which an engine other than Spark gives wrong
rows or opens no table (docs/delta-features.md lists them all). ``show`` prints where each value is
from. ``explain`` prints which rules decide about a table. None of them shows a password, nor a
command that prints one.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from ..config import Config, Source, load, read_values, toml
from ..config.renaming import shard_of, whole_of
from ..config.side_by_side import side_by_side
from ..config.tables import SHAPING_KEYS, TABLE_KEYS, TableRule, read_tables
from ..control.table.layout import Layout
from ..copy.survey import ERROR, WARNING, Finding, survey
from ..errors import ConfigError, SchemaError, SparkReplError
from ..rules.masking import mask_key
from ..rules.replication_filters import ReplicationFilters
from ..rules.row_filters import check_row_filters, names_of
from ..rules.table_rules import TableRules
from ..runtime.executor_disk import executor_disk
from ..runtime.target_uri import is_remote
from ..source.account import password_of, tls_of
from ..sql.policy import Policies
from ..tables.case_folding import fold
from .configuration import failing
from .output import emit
from .places import PLACES, place_findings

if TYPE_CHECKING:
    from ..config import Config
    from ..rules.rewrites import Rewrites

MASK = "***"
_SECRETS = ("source.password", "source.password_command", "catalog.token_command")
_FLAGS = {
    "relay.path": "relay",
    "target.path": "target",
    "apply.workers": "workers",
}


def flags(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the command line, which take precedence over the file's."""
    given = {key: getattr(options, name, None) for key, name in _FLAGS.items()}
    return {key: value for key, value in given.items() if value is not None}


def check_config(options: argparse.Namespace) -> int:
    """Print every error that can be found without a run.

    If there are several files, they are channels that run on one host. Return 2 for an error of the
    configuration, 1 for an error of the source.
    """
    is_here = options.on in (None, "laptop")
    looked = {file: checked(file, is_here=is_here) for file in dict.fromkeys(options.config)}
    configs = {file: config for file, (config, _) in looked.items() if config is not None}
    findings = [
        replace(finding, what=f"{file}: {finding.what}") if len(looked) > 1 else finding
        for file, (_, of_file) in looked.items()
        for finding in of_file
    ]
    findings += [Finding(ERROR, fault) for fault in side_by_side(configs)]
    if options.on and not any(finding.level == ERROR for finding in findings):
        for file, config in configs.items():
            findings += place_findings(options.on, config, read_values(file))
    wrong_here = any(finding.level == ERROR for finding in findings)
    if options.source:
        findings += [finding for config in configs.values() for finding in surveyed(config)]
    errors, warnings = ([f for f in findings if f.level == level] for level in (ERROR, WARNING))
    tell(findings)
    if options.json:
        emit({"errors": [*map(asdict, errors)], "warnings": [*map(asdict, warnings)]}, True)
    elif not errors:
        print(f"{', '.join(looked)}: no errors, {len(warnings)} warnings")
        clustered = options.on is None or PLACES[options.on].clustered
        for config in configs.values():
            if clustered and is_remote(Layout.of(config.target).target):
                print(executors_read(config))
    return 2 if wrong_here else 1 if errors else 0


def executors_read(config: Config) -> str:
    """Return a line about where the executors of a cluster read the log, for a target on an object
    store."""
    if executor_disk("", config) is None:
        return "on a cluster: all machines mount relay.path and target.state_path under one path"
    return "on a cluster: executors read the bucket, and share no disk with the driver"


def surveyed(config: Config) -> list[Finding]:
    """Return the findings of the source, or a finding that it can't be reached."""
    try:
        return list(survey(config).findings)
    except SparkReplError as error:
        return [Finding(ERROR, error.message, error.hint or "")]


def tell(findings: list[Finding]) -> None:
    """Print the errors, then the warnings, each with its hint, to standard error."""
    for level in (ERROR, WARNING):
        for finding in findings:
            if finding.level == level:
                print(f"{level.capitalize()}: {finding}", file=sys.stderr)
                if finding.hint:
                    print(f"  Try: {finding.hint}", file=sys.stderr)


def checked(file: str, *, is_here: bool = True) -> tuple[Config | None, list[Finding]]:
    """Return the file's configuration (None if the file is unreadable), and its errors.
    ``is_here``: whether it is for this machine, so that its folders, files and secrets must exist
    here."""
    values: Mapping[str, Any] = {}
    try:
        values = read_values(file)
        config = Config.from_mapping(values, file=file)
    except ConfigError as error:
        findings = [Finding(ERROR, f) for f in error.faults or (str(error),)]
        rules = read_tables(values.get("tables", ()), [])  # those without a fault
        more = _failing(lambda: check_row_filters(rules))
        return None, [*findings, *more]
    secrets = (lambda: password_of(config.source), lambda: mask_key(config.target))
    findings = _failing(
        config.check_supported,
        *(secrets if is_here else ()),
        lambda: check_row_filters(config.tables),
        lambda: Layout.of(config.target),
    )
    if is_here:
        findings += [*_files(config.source), *folder_findings(config)]
    findings += [*_unwise(config, values, file), *_undeclared(config)]
    findings += [*engine_findings(config), *_catalog(config)]
    return config, findings


def _failing(*tests: Callable[[], object]) -> list[Finding]:
    """Return the faults of the tests that fail."""
    return [
        Finding(ERROR, fault, error.hint or "")
        for error in failing(*tests)
        for fault in error.faults or (str(error),)
    ]


def folder_findings(config: Config) -> Iterator[Finding]:
    """Yield the folders that can't be written on this machine, which has to be the one that runs
    the applier."""
    target = config.target
    for key, path in (("target.path", target.path), ("target.state_path", target.state_path)):
        if not path or "://" in path:
            continue
        folder = os.path.abspath(path)
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            yield Finding(ERROR, f'{key} = "{path}": {folder} is no folder', "give another path")
        elif why := _unwritable(folder):
            yield Finding(
                ERROR, f'{key} = "{path}": {folder} can\'t be written by this account: {why}',
                "change its mode or owner, or how it is mounted, or give another path",
            )  # fmt: skip


def _unwritable(folder: str) -> str:
    """Return why no folder can be created in a folder, "" if it can.

    Only a try shows it for root, for /proc, and for read-only mounts: modes do not.
    """
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".spark_repl-", dir=folder))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _files(source: Source) -> Iterator[Finding]:
    for key in ("tls_ca", "tls_cert", "tls_key"):
        path = getattr(source, key)
        if path and not os.access(path, os.R_OK):
            yield Finding(ERROR, f'source.{key} = "{path}" can\'t be read')


_DELTA_SESSION = (
    "sessions that read the tables by name need spark.sql.extensions ="
    " io.delta.sql.DeltaSparkSessionExtension and spark.sql.catalog.spark_catalog ="
    " org.apache.spark.sql.delta.catalog.DeltaCatalog"
)


def _catalog(config: Config) -> Iterator[Finding]:
    """Yield a warning if the configuration does not say which catalog the session has."""
    catalog = config.catalog
    if catalog.managed:
        yield Finding(
            WARNING,
            "catalog.managed has never been tested against Databricks",
            "try it with a copy of your tables first (docs/catalogs.md#managed-tables)",
        )
    elif catalog.name and not catalog.metastore:
        yield Finding(
            WARNING,
            f'catalog.name = "{catalog.name}" without catalog.metastore: Spark\'s own configuration'
            " has to name the catalog, otherwise it is in memory, and no other session sees it",
            "set catalog.metastore, or spark.sql.catalogImplementation = hive for Spark;"
            f" {_DELTA_SESSION}",
        )
    if catalog.metastore and not catalog.name:
        yield Finding(
            WARNING, "catalog.metastore has no effect without catalog.name",
            'set catalog.name = "spark_catalog"',
        )  # fmt: skip


def _undeclared(config: Config) -> Iterator[Finding]:
    """Return a warning for each rule that a new table would need disjoint for: only the target
    says whether the channel's filter is on record."""
    for number, rule in enumerate(config.tables, 1):
        if rule.channels and rule.row_filter and not rule.disjoint:
            yield Finding(
                WARNING,
                f"tables[{number}] lacks disjoint = true: {rule.to} is refused, unless the channel"
                " feeds it already",
                "if no row can pass the filters of two channels, add disjoint = true to the rule",
            )


def _unwise(config: Config, values: Mapping[str, Any], file: str) -> Iterator[Finding]:
    source = config.source
    holding = [("the password", source.password_file)]
    if source.password:
        holding.append(("the configuration, with a password in it,", file))
    if source.tls_key:
        holding.append(("source.tls_key", source.tls_key))
    for what, path in holding:
        if path and os.path.exists(path) and os.stat(path).st_mode & 0o077:
            yield Finding(WARNING, f"{what} can be read by other accounts", f"chmod 600 {path}")
    if "source" in values and "server_id" not in values["source"]:
        yield Finding(
            WARNING, f"source.server_id is the default, {source.server_id}",
            "give a number of its own: no other server's, and no other replica's",
        )  # fmt: skip
    if (
        tls_of(source) in ("preferred", "disabled")
        and tls_of(Source(host=source.host)) != ("preferred")
        and not source.socket
    ):
        yield Finding(
            WARNING, f'source.tls = "{source.tls}": rows, and what the password is proved by, may'
            " cross the network in the clear", 'source.tls = "required", or verify_identity',
        )  # fmt: skip


def show_config(options: argparse.Namespace) -> int:
    """Print every key with its effective value and its origin. Raise ConfigError."""
    values = read_values(options.config) if options.config else {}
    given = flags(options)
    config = Config.from_mapping(values, file=options.config).override(given)
    rows = {name: _shown(config, name, origin) for name, origin in _origins(values, given)}
    if options.json:
        keys = {name: {"value": value, "from": origin} for name, (value, origin) in rows.items()}
        emit({"keys": keys}, True)
        return 0
    lines = {f"{name} = {toml(value)}": origin for name, (value, origin) in rows.items()}
    width = min(max(map(len, lines)), 48)
    for line, origin in lines.items():
        print(f"{line:{width}}  # {origin}")
    return 0


def explain_config(options: argparse.Namespace) -> int:
    """Print which rules decide about a table's rows and statements, and what ``[[tables]]``
    changes.

    Raise ConfigError for a name that is not a table's name.
    """
    if not all(options.table.partition(".")):
        raise ConfigError(f"{options.table!r} is no table", hint="give DATABASE.TABLE")
    config = load(options.config)
    config.check_supported()
    folds = config.source.lower_case_table_names > 0
    filters, rules, table = (
        ReplicationFilters.of(config),
        TableRules(config.tables),
        options.table,
    )
    if folds:
        filters, rules, table = filters.folded(), rules.folded(), fold(table)
    table = _on_source(table, filters.rewrites)
    written = _named(table, filters)
    table = filters.rewrites.table(table)
    rule = rules.of_table(table)
    shown = {
        **written,
        **_sharing(table, rules),
        "applied": filters.keeps(table),
        "rule": filters.rule(table),
        **_decided(table, rules, config, Policies.of(config.ddl.policy, folds=folds)),
        "tables": rule.match or "no rule of [[tables]] fits it",
    }
    if (shape := rules.shaping(table)) is not rule:
        shown["columns_and_rows_by"] = shape.match
    given = {key: getattr(rule, key) for key in TABLE_KEYS if key != "match"}
    given |= {name: getattr(shape, name) for name in (*SHAPING_KEYS, "mask_keys")}
    shown |= {key: value for key, value in given.items() if value != getattr(TableRule(), key)}
    if shape.row_filter:
        check_row_filters(config.tables)
        shown["row_filter_columns"] = names_of(shape.row_filter)
    emit(shown, options.json)
    return 0


def _on_source(name: str, rewrites: Rewrites) -> str:
    """Return the source's name of a shard that is named as in the target. Raise ConfigError unless
    exactly one table has it."""
    if not rewrites.routes.is_shard(name):
        return name
    names = rewrites.sources(name)
    if len(names) != 1:
        raise ConfigError(
            f"{name} is the target's name of {' or '.join(names) or 'no table of the source'}",
            hint="give the name as the source has it",
        )
    return names[0]


def _sharing(table: str, rules: TableRules) -> dict[str, str]:
    """Return which Delta table a shard is in, and what identifies its rows there. For the name of
    the Delta table, return the rule of its shards."""
    for number, rule in enumerate(rules.rules, 1):
        if rule.shards_by and rule.to == whole_of(table):
            shard = shard_of(table).replace("'", "''")
            if not shard:
                return {"shards": f"of {rule.match}, tables[{number}]"}
            return {"shown_in": f"{rule.to}, its rows have {rule.shards_by} = '{shard}'"}
    return {}


def _decided(table: str, rules: TableRules, config: Config, policies: Policies) -> dict[str, str]:
    """Return what a rule of ``[[tables]]`` and another key can both decide, and which one did."""
    rule, (pattern, policy) = rules.of_table(table), policies.deciding(table)
    own = f"tables[{rules.rules.index(rule) + 1}]" if rule.match else ""
    listed = f"ddl.policy has {pattern}" if pattern else "no entry of ddl.policy fits it"
    elsewhere = "ddl.policy" if isinstance(config.ddl.policy, str) else listed
    return {
        "policy": rule.on_ddl or str(policy),
        "policy_from": f"{own}.on_ddl" if rule.on_ddl else elsewhere,
        "on_error": rule.on_error or config.apply.on_error,
        "on_error_from": f"{own}.on_error" if rule.on_error else "apply.on_error",
    }


def _named(table: str, filters: ReplicationFilters) -> dict[str, str]:
    """Return the table's names on the source, for filters and ``[[tables]]``, and in the target, or
    why it has none there."""
    names, rewrites = {"table": table}, filters.rewrites
    asked, own = rewrites.rewritten(table), rewrites.table(table)
    if asked != table:
        names["rewritten"] = asked
    try:
        rewrites.check(table)
    except SchemaError as error:
        return {**names, "refused": error.message}
    return names if own == asked else {**names, "target": own}


def _origins(values: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, "flag --x", "file" or "default") of every key."""
    for top in fields(Config):
        section = getattr(Config(), top.name)
        if top.name == "file":
            continue
        if top.name == "tables":
            yield from _origins_of_rules(values.get("tables", ()))
            continue
        within = values.get(top.name, {}) if is_dataclass(section) else values
        for key in fields(section) if is_dataclass(section) else (top,):
            name = f"{top.name}.{key.name}" if is_dataclass(section) else top.name
            if name in given:
                yield name, f"flag --{_FLAGS[name]}"
            else:
                yield name, "file" if key.name in within else "default"


def _origins_of_rules(rules: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for number, given in enumerate(rules, 1):
        for key in TABLE_KEYS:
            yield f"tables[{number}].{key}", "file" if key in given else "default"


def _shown(config: Config, name: str, origin: str) -> tuple[Any, str]:
    """Return a key's effective value, masked if it is secret, and its origin."""
    section, _, key = name.rpartition(".")
    if section.startswith("tables["):
        value = getattr(config.tables[int(section[7:-1]) - 1], key)
        return (dict(value) if key == "mask" else value), origin
    value = getattr(getattr(config, section) if section else config, key)
    source = config.source
    if name == "source.password" and source.password_env:
        there = source.password_env in os.environ
        what = "" if there else ", which is not set"
        return MASK if there else "", f"environment {source.password_env}{what}"
    if name == "source.password" and source.password_file:
        return MASK, f"file {source.password_file}"
    if name == "source.password" and source.password_command:
        return MASK, "what source.password_command prints"
    if name in _SECRETS:
        return MASK if value else "", origin
    if name == "source.tls" and not value:
        return tls_of(source), f"{origin}, by source.tls_ca and source.host"
    if name == "target.state_path" and not value:
        return Layout.of(config.target).state, f"{origin}, by target.path"
    return value, origin


_PLAIN = re.compile(r"[!-$&-~]*")
"""what every engine opens in a path: ASCII without a percent sign or space"""


def engine_findings(config: Config) -> Iterator[Finding]:
    """Yield a warning for each combination of settings with which an engine reads wrong values."""
    target = config.target
    sharded = [rule.match for rule in config.tables if rule.shards_by]
    if target.column_mapping and (target.partition_by or sharded):
        tables = ", ".join([*target.partitions(), *sharded])
        yield Finding(
            WARNING,
            "DuckDB's delta_scan 1.5 gives NULL for the partition columns of tables with"
            f" target.column_mapping, which is on: {tables}",
            "set target.column_mapping = false before the tables are made, or read them in DuckDB"
            " through deltalake",
        )
    if not is_remote(target.path) and not _PLAIN.fullmatch(target.path):
        yield Finding(
            WARNING,
            f'target.path = "{target.path}": Polars, and beyond ASCII DuckDB as well, open no table'
            " in such a folder",
            "set target.path to a folder of ASCII letters without spaces and percent signs",
        )
