"""The configuration: frozen dataclasses read from TOML, every rule checked once.

The keys and their defaults are those of docs/configuration.md. All faults of a file are reported
together in one ConfigError; an unknown key is a fault that names the nearest known one.

Relative paths in a file start at the folder of the file.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from . import rules
from .faults import combination_faults
from .tables import TABLE_KEYS, TableRule, of_channel, read_tables


def _key(
    default: Any, rule: rules.Rule, *, done: tuple[Any, ...] | None = None, **more: Any
) -> Any:
    """Return a field with its rule; ``done`` lists the values this version implements (None:
    all)."""
    return field(default=default, metadata={"rule": rule, "done": done}, **more)


NO_FOLDER = re.compile(r"(s3[an]?|file|gc?s|hdfs|abfss?|wasbs?|az|azure|dbfs):", re.IGNORECASE)
"""prefixes of object store paths, which must not be read as folders of that name"""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_relative(path: str) -> bool:
    """Return whether a path is relative: not empty, not absolute, and not on an object store."""
    return bool(path) and not (os.path.isabs(path) or NO_FOLDER.match(path) or _URI.match(path))


def beside(file: str, path: str) -> str:
    """Return the absolute form of a file's path. Return a path that is not relative unchanged."""
    if not is_relative(path):
        return path
    return os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(file)), path))


def command_beside(file: str, command: str) -> str:
    """Return a command whose program, if it is a relative path, is relative to the file. A program
    without a slash is looked up in PATH, and arguments are unchanged."""
    try:
        program, *arguments = shlex.split(command)
    except ValueError:  # empty, or an open quote: an attempt to run it reports that
        return command
    if "/" not in program or not is_relative(program):
        return command
    return shlex.join([beside(file, program), *arguments])


def written_beside(file: str, path: str) -> str:
    """Return a path of the working folder in the form for the file: relative if it is below the
    file's folder, else absolute."""
    if not is_relative(path):
        return path
    whole = os.path.abspath(path)
    inner = os.path.relpath(whole, os.path.dirname(os.path.abspath(file)))
    return whole if inner.split(os.sep)[0] == os.pardir else inner


def _path(
    default: str, rule: rules.Rule, resolve: Callable[[str, str], str] = beside, **more: Any
) -> Any:
    """Return a field for a path, which a file has relative to its own folder. ``resolve`` makes the
    path absolute from the file's path and the value."""
    return field(default=default, metadata={"rule": rule, "done": None, "beside": resolve}, **more)


@dataclass(frozen=True)
class Source:
    """The MySQL server to follow, for the receiver and for copies of tables."""

    host: str = _key("127.0.0.1", rules.HOST)
    port: int = _key(3306, rules.integer(1, 65535))
    socket: str = _path("", rules.ANY)
    user: str = _key("repl", rules.SOME)
    password: str = _key("", rules.SECRET, repr=False)
    password_env: str = _key("", rules.VARIABLE)
    password_file: str = _path("", rules.SECRET)
    password_command: str = _path("", rules.SECRET, command_beside, repr=False)
    server_id: int = _key(4711, rules.integer(1, 2**32 - 1))
    hosts: tuple[str, ...] = _key((), rules.hosts)
    tls: str = _key(
        "",
        rules.choice("", "disabled", "preferred", "required", "verify_ca", "verify_identity"),
    )
    """"": ``source/account`` chooses by ``tls_ca`` and the host"""
    tls_ca: str = _path("", rules.ANY)
    tls_cert: str = _path("", rules.ANY)
    tls_key: str = _path("", rules.ANY)
    auto_position: bool = _key(True, rules.flag)
    log_file: str = _key("", rules.ANY)
    log_position: int = _key(4, rules.integer(4, 2**32 - 1))
    net_timeout_s: int = _key(60, rules.integer(1, 31536000))
    connect_retry_s: int = _key(1, rules.integer(1, 86400))
    connect_retry_max_s: int = _key(60, rules.integer(1, 86400))
    connect_retry_count: int = _key(100, rules.integer(1))
    semi_sync: bool = _key(False, rules.flag)
    on_purged: str = _key("stop", rules.choice("stop", "snapshot"))
    lower_case_table_names: int = _key(-1, rules.integer(-1, 2))
    system_time_zone: str = _key("", rules.time_zone)


@dataclass(frozen=True)
class Relay:
    """The folder of binary log files that the applier reads; its sizes are the receiver's."""

    path: str = _path("relay", rules.SOME)
    # End positions in event headers have 32 bits.
    segment_size_bytes: int = _key(1073741824, rules.integer(4096, 2**32 - 1))
    space_limit_bytes: int = _key(0, rules.integer(0))
    sync_every_transactions: int = _key(1, rules.integer(0))
    sync_interval_ms: int = _key(1000, rules.integer(1, 86400000))


@dataclass(frozen=True)
class Target:
    """The Delta tables: where they are, and how MySQL's types and odd values become columns."""

    path: str = _path("lake", rules.SOME)
    state_path: str = _path("", rules.ANY)
    column_mapping: bool = _key(True, rules.flag)
    deletion_vectors: bool = _key(True, rules.flag)
    change_data_feed: bool = _key(False, rules.flag)
    partition_by: tuple[str, ...] = _key((), rules.partitions)
    zero_dates: str = _key("error", rules.choice("error", "null", "string"))
    text_errors: str = _key("error", rules.choice("error", "replace"))
    time_as: str = _key("string", rules.choice("string", "microseconds"))
    json_as: str = _key("string", rules.choice("string", "variant"))
    geometry_as: str = _key("struct", rules.choice("struct", "binary"))
    on_foreign_change: str = _key(
        "stop", rules.choice("stop", "accept", "copy"), done=("stop", "accept")
    )
    mask_key_env: str = _key("", rules.VARIABLE)
    mask_key_file: str = _path("", rules.SECRET)
    every_cut_hours: int = _key(1, rules.integer(1, 876000))
    minute_cut_hours: int = _key(24, rules.integer(1, 876000))
    cut_retention_hours: int = _key(168, rules.integer(1, 876000))
    commit_retention_hours: int = _key(24, rules.integer(1, 876000))
    compact_files: int = _key(16, rules.integer(0, 100000))
    vacuum_hours: int = _key(24, rules.integer(0, 876000))

    def partitions(self) -> dict[str, tuple[str, ...]]:
        """Return ``partition_by`` as table -> columns."""
        return dict(filter(None, map(rules.partitioned, self.partition_by)))


@dataclass(frozen=True)
class Apply:
    """How transactions are applied: workers, writer, failures, and the bounds of a group."""

    workers: int = _key(2, rules.integer(1, 1024))
    writer: str = _key("direct", rules.writer)
    """"": the best one of the runtime"""
    delay_s: int = _key(0, rules.integer(0, 2**31 - 1))
    max_latency_ms: int = _key(0, rules.integer(0, 86400000))
    max_commits_per_hour: int = _key(0, rules.integer(0, 3600000))
    preserve_commit_order: bool = _key(True, rules.flag)
    transaction_retries: int = _key(10, rules.integer(0))
    exec_mode: str = _key("strict", rules.choice("strict", "idempotent"))
    xa_age_limit_s: int = _key(86400, rules.integer(1))
    on_error: str = _key("stop", rules.choice("stop", "quarantine"))
    quarantine_max_bytes: int = _key(268435456, rules.integer(1))
    quarantine_max_transactions: int = _key(1000000, rules.integer(1))
    group_max_transactions: int = _key(100000, rules.integer(1))
    group_max_rows: int = _key(1000000, rules.integer(1))
    group_max_bytes: int = _key(268435456, rules.integer(1))


@dataclass(frozen=True)
class Ddl:
    """The effects of statements that change tables."""

    policy: str | tuple[str, ...] = _key("apply", rules.policies)
    """of all tables, or "db.table: policy" entries"""
    unknown: str = _key("copy", rules.choice("copy", "stop"))
    cascades: str = _key("emulate", rules.choice("emulate", "refuse"))
    without_cascades: tuple[str, ...] = _key((), rules.tables)
    online_tools: str = _key("follow", rules.choice("follow", "fold"))


@dataclass(frozen=True)
class Filters:
    """MySQL's replication filter rules: which databases and tables are applied."""

    do_db: tuple[str, ...] = _key((), rules.databases)
    ignore_db: tuple[str, ...] = _key((), rules.databases)
    do_table: tuple[str, ...] = _key((), rules.tables)
    ignore_table: tuple[str, ...] = _key((), rules.tables)
    wild_do_table: tuple[str, ...] = _key((), rules.tables)
    wild_ignore_table: tuple[str, ...] = _key((), rules.tables)
    rewrite_db: tuple[str, ...] = _key((), rules.rewrites)


@dataclass(frozen=True)
class Observe:
    """How the applier reports on itself: metrics over HTTP, the form of its log, and how often its
    tables are compared with the source's."""

    listen: str = _key("auto", rules.listen)
    """"auto": ``run`` listens at ``rules.LISTEN`` if that is free, else nowhere; "": nowhere"""
    token_file: str = _path("", rules.ANY)
    log_format: str = _key("text", rules.choice("text", "json"))
    verify_hours: int = _key(0, rules.integer(0, 876000))
    verify_rows_per_s: int = _key(50000, rules.integer(0))


@dataclass(frozen=True)
class Config:
    """The settings of a replica. ``Config()`` has every default."""

    channel: str = _key("default", rules.CHANNEL)
    source: Source = field(default_factory=Source)
    relay: Relay = field(default_factory=Relay)
    target: Target = field(default_factory=Target)
    apply: Apply = field(default_factory=Apply)
    ddl: Ddl = field(default_factory=Ddl)
    filters: Filters = field(default_factory=Filters)
    tables: tuple[TableRule, ...] = ()
    """the first one that matches a table applies"""
    observe: Observe = field(default_factory=Observe)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], *, file: str | None = None) -> Config:
        """Return the configuration of a file's values, whose relative paths start at the folder of
        ``file``. Raise one ConfigError that lists every fault."""
        faults: list[str] = []
        top: dict[str, Any] = {}
        for name, value in values.items():
            if name in _SECTIONS:
                top[name] = _section(name, value, faults)
            elif name == "tables":
                top[name] = read_tables(value, faults)
            elif name in _TOP:
                _take(top, _TOP[name], name, value, faults)
            else:
                faults.append(_unknown(name))
        sections = {name: top.get(name, section()) for name, section in _SECTIONS.items()}
        channel = top.get("channel", cls.channel)
        top["tables"] = of_channel(top.get("tables", ()), channel)
        given = {"tables": top["tables"], "channel": channel}
        faults += combination_faults({**sections, **given})
        if faults:
            raise faulty("is not a valid configuration", faults, file)
        return cls(**top) if file is None else cls(**top).beside(file)

    def beside(self, file: str) -> Config:
        """Return a copy whose relative paths, also those by default, start at the file's folder."""
        sections = {}
        for name in _SECTIONS:
            section = getattr(self, name)
            sections[name] = replace(section, **{
                key.name: key.metadata["beside"](file, getattr(section, key.name))
                for key in fields(section)
                if "beside" in key.metadata
            })  # fmt: skip
        return replace(self, **sections)

    def to_mapping(self) -> dict[str, Any]:
        """Return the values that ``from_mapping`` reads, including the password."""
        rules = [{key: getattr(rule, key) for key in TABLE_KEYS} for rule in self.tables]
        return {**asdict(self), "tables": rules}

    def override(self, values: Mapping[str, Any]) -> Config:
        """Return a copy with some keys replaced (``{"apply.workers": 4}``), checked as a file's
        are. Raise ConfigError with every fault."""
        merged = self.to_mapping()
        for name, value in values.items():
            section, _, key = name.rpartition(".")
            (merged.setdefault(section, {}) if section else merged)[key] = value
        return Config.from_mapping(merged)

    def names(self) -> tuple[str, ...]:
        """Return the dotted names of all keys."""
        return tuple(_KEYS)

    def check_supported(self) -> None:
        """Raise ConfigError, naming every key whose value this version does not support yet."""
        faults = []
        asked = list[tuple[str, Any, tuple[Any, ...]]]()
        for name, item in _KEYS.items():
            value = value_of(self, name)
            done = item.metadata["done"]
            if done is not None and value not in done:
                asked.append((name, value, done))
        for name, value, done in asked:
            shown = "" if ".password" in name else f" = {toml(value)}"
            allowed = " or ".join(toml(choice) for choice in done)
            faults.append(f"{name}{shown} is not supported by this version yet, only {allowed}")
        if faults:
            raise faulty("asks for what this version does not do", faults, None)


_SECTIONS: dict[str, type] = {
    "source": Source,
    "relay": Relay,
    "target": Target,
    "apply": Apply,
    "ddl": Ddl,
    "filters": Filters,
    "observe": Observe,
}
_TOP: dict[str, Field[Any]] = {f.name: f for f in fields(Config) if f.metadata}
# Every key by its dotted name.
_KEYS: dict[str, Field[Any]] = _TOP | {
    f"{name}.{f.name}": f for name, section in _SECTIONS.items() for f in fields(section)
}


def value_of(config: Config, name: str) -> Any:
    """Return the value of a key by its dotted name."""
    section, _, key = name.rpartition(".")
    return getattr(getattr(config, section) if section else config, key)


def load(path: str | Path) -> Config:
    """Return the configuration of a TOML file; its relative paths start at the file's folder. Raise
    ConfigError for a file that cannot be read and for every fault."""
    return Config.from_mapping(read_values(path), file=str(path))


def read_values(path: str | Path) -> dict[str, Any]:
    """Return the values of a TOML file, unchecked. Raise ConfigError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(
            f"can't read the configuration: {error.strerror}", file=str(path)
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration is not TOML: {error}", file=str(path)) from error


def _section(name: str, values: Any, faults: list[str]) -> Any:
    section = _SECTIONS[name]
    if not isinstance(values, Mapping):
        faults.append(f"{name} must be a table: write its keys under [{name}]")
        return section()
    taken: dict[str, Any] = {}
    for key, value in values.items():
        declared = _KEYS.get(f"{name}.{key}")
        if declared is None:
            faults.append(_unknown(key, name))
        else:
            _take(taken, declared, f"{name}.{key}", value, faults)
    return section(**taken)


def _take(
    into: dict[str, Any], declared: Field[Any], name: str, value: Any, faults: list[str]
) -> None:
    fault = declared.metadata["rule"](value)
    if fault is None:
        into[declared.name] = tuple(value) if isinstance(value, list) else value
        return
    faults.append(f"{name} {fault}")
    assert declared.default is not MISSING
    into[declared.name] = declared.default


def _unknown(key: str, section: str = "") -> str:
    """Return a fault that names the nearest key: in the same section, else the same name in another
    section, else any key of the section."""
    name = f"{section}.{key}" if section else key
    here = [k for k in _KEYS if k.rpartition(".")[0] == section]
    here += [] if section else [*_SECTIONS, "tables"]
    elsewhere = {k.rpartition(".")[2]: k for k in _KEYS}
    near = (
        difflib.get_close_matches(name, here, 1, 0.75)
        or [elsewhere[k] for k in difflib.get_close_matches(key, [*elsewhere], 1, 0.8)]
        or difflib.get_close_matches(name, here, 1, 0.0)
    )
    return f"unknown key {name}; the nearest is {near[0]}"


def toml(value: Any) -> str:
    """Return a value in TOML's form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml(k)} = {toml(v)}" for k, v in value.items()) + "}"
    # JSON and TOML have the same escapes, except that TOML requires one for DEL.
    return (
        json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        if isinstance(value, str)
        else str(value)
    )


def faulty(what: str, faults: list[str], file: str | None = None) -> ConfigError:
    """Return one error that lists all faults. ``what`` follows the word configuration in the
    message."""
    if len(faults) == 1:
        error = ConfigError(faults[0], file=file)
    else:
        listed = "".join(f"\n  - {fault}" for fault in faults)
        error = ConfigError(f"{len(faults)} faults; this {what}{listed}", file=file)
    error.faults = tuple(faults)
    return error
