"""The sections of a configuration: their keys, with the rule and the default of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import rules
from .relative_paths import archive_beside, beside, command_beside


def key_field(
    default: Any, rule: rules.Rule, *, done: tuple[Any, ...] | None = None, printed: bool = True
) -> Any:
    """Return a field with its rule. ``done``: the values that this version implements (None: all).
    ``printed``: whether ``repr`` shows the value."""
    return field(default=default, metadata={"rule": rule, "done": done}, repr=printed)


def _path(
    default: str,
    rule: rules.Rule,
    resolve: Callable[[str, str], str] = beside,
    *,
    printed: bool = True,
) -> Any:
    """Return a field for a path, which a file has relative to its own folder. ``resolve`` makes the
    path absolute from the file's path and the value. ``printed``: as for ``key_field``."""
    metadata = {"rule": rule, "done": None, "beside": resolve}
    return field(default=default, metadata=metadata, repr=printed)


@dataclass(frozen=True)
class Source:
    """The MySQL server to follow, for the receiver and for copies of tables."""

    host: str = key_field("127.0.0.1", rules.HOST)
    port: int = key_field(3306, rules.integer(1, 65535))
    socket: str = _path("", rules.ANY)
    user: str = key_field("repl", rules.SOME)
    password: str = key_field("", rules.SECRET, printed=False)
    password_env: str = key_field("", rules.VARIABLE)
    password_file: str = _path("", rules.SECRET)
    password_command: str = _path("", rules.SECRET, command_beside, printed=False)
    server_id: int = key_field(4711, rules.integer(1, 2**32 - 1))
    hosts: tuple[str, ...] = key_field((), rules.hosts)
    tls: str = key_field(
        "",
        rules.choice("", "disabled", "preferred", "required", "verify_ca", "verify_identity"),
    )
    """"": ``source/account`` chooses by ``tls_ca`` and the host"""
    tls_ca: str = _path("", rules.ANY)
    tls_cert: str = _path("", rules.ANY)
    tls_key: str = _path("", rules.ANY)
    auto_position: bool = key_field(True, rules.flag)
    log_file: str = key_field("", rules.ANY)
    log_position: int = key_field(4, rules.integer(4, 2**32 - 1))
    net_timeout_s: int = key_field(60, rules.integer(1, 31536000))
    connect_retry_s: int = key_field(1, rules.integer(1, 86400))
    connect_retry_max_s: int = key_field(60, rules.integer(1, 86400))
    connect_retry_count: int = key_field(100, rules.integer(1))
    semi_sync: bool = key_field(False, rules.flag)
    on_purged: str = key_field("stop", rules.choice("stop", "snapshot"))
    lower_case_table_names: int = key_field(-1, rules.integer(-1, 2))
    system_time_zone: str = key_field("", rules.time_zone)


@dataclass(frozen=True)
class Relay:
    """The folder of binary log files that the applier reads; its sizes are the receiver's."""

    path: str = _path("relay", rules.SOME)
    # End positions in event headers have 32 bits.
    segment_size_bytes: int = key_field(1073741824, rules.integer(4096, 2**32 - 1))
    space_limit_bytes: int = key_field(0, rules.integer(0))
    sync_every_transactions: int = key_field(1, rules.integer(0))
    sync_interval_ms: int = key_field(1000, rules.integer(1, 86400000))
    archive: str = _path("", rules.ANY, archive_beside)
    """"": below a target on an object store, none for a target on a disk; "off": none"""
    archive_after_s: int = key_field(10, rules.integer(0, 86400))
    archive_bytes: int = key_field(8388608, rules.integer(65536, 1073741824))
    archive_before_ack: bool = key_field(False, rules.flag)


@dataclass(frozen=True)
class Target:
    """The Delta tables: where they are, and how MySQL's types and unusual values are stored."""

    path: str = _path("lake", rules.SOME)
    state_path: str = _path("", rules.ANY)
    column_mapping: bool = key_field(True, rules.flag)
    deletion_vectors: bool = key_field(True, rules.flag)
    inline_vector_bytes: int = key_field(0, rules.integer(0, 65536))
    change_data_feed: bool = key_field(False, rules.flag)
    partition_by: tuple[str, ...] = key_field((), rules.partitions)
    zero_dates: str = key_field("error", rules.choice("error", "null", "string"))
    text_errors: str = key_field("error", rules.choice("error", "replace"))
    time_as: str = key_field("string", rules.choice("string", "microseconds"))
    json_as: str = key_field("string", rules.choice("string", "variant"))
    geometry_as: str = key_field("struct", rules.choice("struct", "binary"))
    on_foreign_change: str = key_field(
        "stop", rules.choice("stop", "accept", "copy"), done=("stop", "accept")
    )
    mask_key_env: str = key_field("", rules.VARIABLE)
    mask_key_file: str = _path("", rules.SECRET)
    every_cut_hours: int = key_field(1, rules.integer(1, 876000))
    minute_cut_hours: int = key_field(24, rules.integer(1, 876000))
    cut_retention_hours: int = key_field(168, rules.integer(1, 876000))
    commit_retention_hours: int = key_field(24, rules.integer(1, 876000))
    compact_files: int = key_field(16, rules.integer(0, 100000))
    vacuum_hours: int = key_field(24, rules.integer(0, 876000))

    def partitions(self) -> dict[str, tuple[str, ...]]:
        """Return ``partition_by`` as table -> columns."""
        return dict(filter(None, map(rules.partitioned, self.partition_by)))


@dataclass(frozen=True)
class Apply:
    """How transactions are applied: workers, writer, failures, and the bounds of a group."""

    workers: int = key_field(2, rules.integer(1, 1024))
    writer: str = key_field("direct", rules.writer)
    """"": the best one of the runtime"""
    delay_s: int = key_field(0, rules.integer(0, 2**31 - 1))
    max_latency_ms: int = key_field(0, rules.integer(0, 86400000))
    max_commits_per_hour: int = key_field(0, rules.integer(0, 3600000))
    preserve_commit_order: bool = key_field(True, rules.flag)
    lease_s: int = key_field(30, rules.lease)
    """0: the owner of a target has no lease"""
    transaction_retries: int = key_field(10, rules.integer(0))
    exec_mode: str = key_field("strict", rules.choice("strict", "idempotent"))
    xa_age_limit_s: int = key_field(86400, rules.integer(1))
    on_error: str = key_field("stop", rules.choice("stop", "quarantine"))
    quarantine_max_bytes: int = key_field(268435456, rules.integer(1))
    quarantine_max_transactions: int = key_field(1000000, rules.integer(1))
    group_max_transactions: int = key_field(1000000, rules.integer(1))
    group_max_rows: int = key_field(1000000, rules.integer(1))
    group_max_bytes: int = key_field(268435456, rules.integer(1))
    task_log_bytes: int = key_field(16777216, rules.integer(0, 67108864))
    executor_cache_bytes: int = key_field(8589934592, rules.integer(0))


@dataclass(frozen=True)
class Ddl:
    """The effects of statements that change tables."""

    policy: str | tuple[str, ...] = key_field("apply", rules.policies)
    """of all tables, or "db.table: policy" entries"""
    unknown: str = key_field("copy", rules.choice("copy", "stop"))
    cascades: str = key_field("emulate", rules.choice("emulate", "refuse"))
    without_cascades: tuple[str, ...] = key_field((), rules.tables)
    online_tools: str = key_field("follow", rules.choice("follow", "fold"))


@dataclass(frozen=True)
class Filters:
    """MySQL's replication filter rules, which decide which databases and tables are applied."""

    do_db: tuple[str, ...] = key_field((), rules.databases)
    ignore_db: tuple[str, ...] = key_field((), rules.databases)
    do_table: tuple[str, ...] = key_field((), rules.tables)
    ignore_table: tuple[str, ...] = key_field((), rules.tables)
    wild_do_table: tuple[str, ...] = key_field((), rules.tables)
    wild_ignore_table: tuple[str, ...] = key_field((), rules.tables)
    rewrite_db: tuple[str, ...] = key_field((), rules.rewrites)


@dataclass(frozen=True)
class Catalog:
    """Where the tables are registered under names, and under which."""

    name: str = key_field("", rules.catalog_name)
    """"": nowhere; a managed table's catalog, else "spark_catalog\""""
    metastore: str = key_field("", rules.metastore)
    """"": the session's configuration names the catalog"""
    schema: str = key_field("{database}", rules.template("database", "table", "channel"))
    table: str = key_field("{table}", rules.template("database", "table", "channel"))
    names: tuple[str, ...] = key_field((), rules.entry_names)
    cut_views: bool = key_field(False, rules.flag)
    cut_view_every_s: int = key_field(900, rules.integer(1))
    managed: bool = key_field(False, rules.flag)
    """whether Unity Catalog manages new tables"""
    uri: str = key_field("", rules.catalog_uri)
    token_env: str = key_field("", rules.VARIABLE)
    token_file: str = _path("", rules.SECRET)
    token_command: str = _path("", rules.SECRET, command_beside, printed=False)

    @property
    def registers(self) -> bool:
        """Return whether tables get entries. A managed table has its name from its creation."""
        return bool(self.name) and not self.managed

    def mapping(self) -> dict[str, str]:
        """Return ``names`` as table -> schema.table."""
        pairs = (entry.partition("->") for entry in self.names)
        return {table.strip(): name.strip() for table, _, name in pairs}

    def spark_settings(self) -> dict[str, str]:
        """Return the settings of a session that has the catalog."""
        if not (self.name and self.metastore):
            return {}
        return {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": self.metastore,
            # Hive's default is ten minutes.
            "spark.hadoop.hive.metastore.client.socket.timeout": "60s",
        }


@dataclass(frozen=True)
class Observe:
    """How the applier reports its state: metrics over HTTP, the form of its log, and how often its
    tables are compared with the source's."""

    listen: str = key_field("auto", rules.listen)
    """"auto": ``run`` listens at ``rules.LISTEN`` if that is free, else nowhere; "": nowhere"""
    token_file: str = _path("", rules.ANY)
    rows: bool = key_field(False, rules.flag)
    log_format: str = key_field("text", rules.choice("text", "json"))
    verify_hours: int = key_field(0, rules.integer(0, 876000))
    verify_rows_per_s: int = key_field(50000, rules.integer(0))
