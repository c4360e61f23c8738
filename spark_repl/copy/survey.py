"""Survey of a source before it is followed: its settings, account and tables.

A survey continues after a finding, so that it reports all findings together. It changes nothing,
and reads no row. A finding that stops a copy or the applier is an error; one that costs time or
surprises the user is a warning.

``init`` and ``config check`` call it. Raises SourceError if the source refuses a query that the
survey needs. Design: docs/design/setting-up.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ..binlog.types.forms import Forms
from ..config.tables import NO_ROWS
from ..errors import NoTableError, SourceError, SparkReplError
from ..receiver.identity import read_identity
from ..rules.column_rules import ColumnRules
from ..rules.renamed_tables import claim
from ..rules.replication_filters import ReplicationFilters
from ..rules.row_filters import check_row_filter
from ..rules.table_mode import check_without_rows
from ..rules.table_rules import TableRules
from ..source.account import addresses
from ..source.connection import DumpConnection
from ..source.grants import EVERYTHING, grant
from ..source.source_check import check_identity, check_source
from ..tables.table_definition import SYSTEM_SCHEMAS
from ..tables.table_name import table_name
from ..write.shared.shard_tables import check_alike
from .planned_tables import PlannedTable, planned_tables
from .privileges import check_privileges
from .source_tables import Query, case_of_names, needs_view, table_definition
from .unmet_rules import unmet_on

if TYPE_CHECKING:
    from ..config import Config, Source
    from ..source.connection import Server
    from ..tables.source_table import SourceTable
    from ..tables.target_table import TargetTable

ERROR, WARNING = "error", "warning"
_NAMED = 10  # tables that a finding names
_EXPIRES_S = 86400
_NOT_ALLOWED = (1227, 1142)
_SYSTEM = ", ".join(f"'{name}'" for name in sorted(SYSTEM_SCHEMAS))
_OLDEST_TESTED = (5, 7)
_LOGS_CASCADES = (9, 6)
# variable -> (best value, consequence of another value, statement that sets the best value)
_BEST = {
    "binlog_row_image": (
        "FULL",
        "the log has parts of rows: tables are copied under a momentary lock, cascades stop",
        "SET PERSIST binlog_row_image = 'FULL'",
    ),
    "binlog_row_metadata": (
        "FULL",
        "the log does not name columns: names and keys come from CREATE TABLE statements",
        "SET PERSIST binlog_row_metadata = 'FULL'",
    ),
    "binlog_row_value_options": (
        "",
        "the log has differences of JSON documents: tables with them are copied under a lock",
        "SET PERSIST binlog_row_value_options = ''",
    ),
    "sync_binlog": (
        "1",
        "a crash of the source's machine may take back what was sent already",
        "SET PERSIST sync_binlog = 1",
    ),
    "innodb_flush_log_at_trx_commit": (
        "1",
        "a crash of the source's machine may lose what its log has, and a replica keeps it",
        "SET PERSIST innodb_flush_log_at_trx_commit = 1",
    ),
}


@dataclass(frozen=True)
class Finding:
    """A finding of a survey. ``level``: ERROR or WARNING; ``hint``: what to do; ``tables``: all
    tables that it concerns."""

    level: str
    what: str
    hint: str = ""
    tables: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = ", ".join(self.tables[:_NAMED])
        more = f" and {len(self.tables) - _NAMED} more" if len(self.tables) > _NAMED else ""
        return self.what + (f": {named}{more}" if named else "")


@dataclass(frozen=True)
class Survey:
    """Result of a survey. ``tables``: the number of tables; ``bytes``: an estimate of their
    size; ``planned``: those that would be copied, if the caller asked for them."""

    version: str
    server_ids: frozenset[int]
    tables: int
    bytes: int
    findings: tuple[Finding, ...]
    planned: tuple[PlannedTable, ...] = ()

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == ERROR]


def survey(config: Config, *, plan: bool = False) -> Survey:
    """Survey the source, and check whether its other hosts answer. Raise SourceError or ConfigError
    if the source itself can't be reached. ``plan``: also return the tables of a first copy."""
    source, *other_addresses = addresses(config.source)
    connection = DumpConnection(source)
    try:
        server = connection.server()
        ids = {server.server_id}
        findings = [*_checked(lambda: check_source(server, source)), *_settings(server)]
        try:
            replicas, own = connection.replicas(), read_identity(config.relay.path)
            ids |= {int(row.get("Server_Id", row.get("Server_id", 0))) for row in replicas}
            findings += _checked(lambda: check_identity(replicas, source.server_id, own))
        except SourceError as error:
            findings.append(_of(error))
        findings += _account(connection.query, connection.account())
        tables, size = _sizes(connection.rows)
        shaped: list[TargetTable] = []
        findings += _tables(connection.rows, config, server, shaped)
        planned = planned_tables(connection.rows, shaped) if plan else ()
        findings += [
            Finding(WARNING, unmet, "correct the name or the order, unless the table comes later")
            for unmet in unmet_on(connection.rows, config)
        ]
    finally:
        connection.close()
    for other in other_addresses:
        findings += _checked(partial(_reach, other))
    return Survey(server.version, frozenset(ids), tables, size, tuple(findings), planned)


def _reach(source: Source) -> None:
    DumpConnection(source).close()


def _of(error: SparkReplError, level: str = ERROR) -> Finding:
    number = f" ({error.number})" if error.number else ""
    named = (error.table,) if error.table else ()
    return Finding(level, f"{error.message}{number}", error.hint or "", named)


def _checked(check: Callable[[], object]) -> Iterator[Finding]:
    try:
        check()
    except SparkReplError as error:
        yield _of(error)


def _settings(server: Server) -> Iterator[Finding]:
    if _version(server) < _OLDEST_TESTED:
        yield Finding(
            WARNING, f"version {server.version}: tested from 5.7 on, recorded logs before"
        )
    for name, (best, means, hint) in _BEST.items():
        value = server.variables.get(name)
        if value is not None and value.upper() != best:
            yield Finding(WARNING, f"{name} = {value}: {means}", hint)
    retention_s = int(server.variables.get("binlog_expire_logs_seconds", 0))
    if 0 < retention_s < _EXPIRES_S:
        yield Finding(
            WARNING,
            f"binlog_expire_logs_seconds = {retention_s}: a log that was not read for so long is"
            " gone, and all tables have to be copied again",
            "SET PERSIST binlog_expire_logs_seconds = 604800",
        )


def _version(server: Server) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", server.version)[:2])


def _account(query: Callable[[str], object], account: str) -> Iterator[Finding]:
    """Yield the privileges that the account lacks and that only copies beside prepared XA branches
    need."""
    try:
        query("XA RECOVER")
    except SourceError as error:
        yield Finding(
            WARNING,
            f"prepared XA branches can't be seen ({error.number}): if the source has XA"
            " transactions, the XA COMMIT of one that was prepared before the copy stops the"
            " applier (1397)",
            grant("XA_RECOVER_ADMIN", [EVERYTHING], account),
        )
    try:
        query("SHOW BINARY LOGS")
    except SourceError as error:
        if error.number in _NOT_ALLOWED:
            yield Finding(
                WARNING,
                "no copy can begin while XA branches are prepared, as the account lacks REPLICATION"
                f" CLIENT ({error.number})",
                grant("REPLICATION CLIENT", [EVERYTHING], account),
            )


def _sizes(query: Query) -> tuple[int, int]:
    ((tables, size),) = query(
        "SELECT COUNT(*), COALESCE(SUM(data_length), 0) FROM information_schema.tables"
        f" WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ({_SYSTEM})"
    )
    return int(tables), int(size)


def _tables(
    query: Query, config: Config, server: Server, shaped: list[TargetTable]
) -> Iterator[Finding]:
    """Yield findings of the tables. Append those that would be replicated to ``shaped``."""
    listed = query(
        "SELECT table_schema, table_name, COALESCE(engine, '') FROM information_schema.tables"
        f" WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ({_SYSTEM}) ORDER BY 1, 2"
    )
    views, keyless, other_tables = list[str](), list[str](), list[str]()
    filters = ReplicationFilters.of(config)
    filters = filters.folded() if case_of_names(query) > 0 else filters
    fit = _rules_fit(query, config, shaped)
    for database, table, engine in listed:
        try:
            definition = table_definition(query, str(database), str(table))
        except NoTableError:
            continue  # dropped since
        except SparkReplError as error:
            yield _of(error.at(table=table_name(str(database), str(table))))
            continue
        yield from _checked(partial(fit, definition))
        if not filters.keeps(filters.rewrites.table(definition.name)):
            continue
        if not definition.primary_key:
            keyless.append(definition.name)
        if engine != "InnoDB":
            other_tables.append(definition.name)
        if needs_view(definition, server.variables):
            views.append(definition.name)
    yield from _checked(lambda: check_alike(shaped))
    yield from _checked(lambda: check_privileges(query, views, filters))
    yield from _named(
        "without a key, rows are found by all their columns, and duplicates one by one", keyless,
        "ALTER TABLE ... ADD PRIMARY KEY, or accept it: changes of large tables are slow",
    )  # fmt: skip
    yield from _named(
        "an engine without transactions: what a failed statement did is not taken back",
        other_tables,
        "ALTER TABLE ... ENGINE = InnoDB",
    )  # fmt: skip
    yield from _cascades(query, config, server)


def _rules_fit(
    query: Query, config: Config, shaped: list[TargetTable]
) -> Callable[[SourceTable], None]:
    """Return a check of one table's rules.

    The check raises SettingError for a table that ``[[tables]]`` does not fit, and SchemaError for
    a table whose name in the target belongs to another. It appends the target's definition of a
    table that fits to ``shaped``.
    """
    filters, named = ReplicationFilters.of(config), TableRules(config.tables)
    if case_of_names(query) > 0:
        filters, named = filters.folded(), named.folded()
    rules = ColumnRules(named)
    target, origins = config.target, dict[str, str]()
    forms = Forms.of_target(target)

    def fit(definition: SourceTable) -> None:
        own = filters.rewrites.definition(forms.apply(definition))
        if filters.keeps(own.name):
            filters.rewrites.check(definition.name)
            claim(origins, own.name, definition.name)
            shaped.append(rules.shaped(own))
            check_row_filter(shaped[-1], rules)
            if named.of_table(own.name).copy == NO_ROWS:
                check_without_rows(shaped[-1])

    return fit


def _cascades(query: Query, config: Config, server: Server) -> Iterator[Finding]:
    """Yield findings for foreign keys that change rows without a trace in the source's log."""
    native = server.variables.get("innodb_native_foreign_keys", "OFF").upper() in ("ON", "1")
    if _version(server) >= _LOGS_CASCADES and not native:
        return
    acting = "('CASCADE', 'SET NULL', 'SET DEFAULT')"
    names = query(
        "SELECT DISTINCT CONCAT(constraint_schema, '.', table_name) FROM"
        " information_schema.referential_constraints"
        f" WHERE (update_rule IN {acting} OR delete_rule IN {acting})"
        f" AND constraint_schema NOT IN ({_SYSTEM}) ORDER BY 1"
    )
    tables = [str(name) for (name,) in names]
    if config.ddl.cascades == "refuse":
        yield from _named(
            'foreign keys change rows that the source does not log; ddl.cascades = "refuse"'
            " stops at such a change", tables, 'ddl.cascades = "emulate"',
        )  # fmt: skip
    else:
        yield from _named(
            "foreign keys change rows that the source does not log: they are emulated", tables,
            "docs/limits.md says where that stops; 9.6 and later log them",
        )  # fmt: skip


def _named(what: str, tables: Iterable[str], hint: str) -> Iterator[Finding]:
    if names := tuple(tables):
        yield Finding(WARNING, what, hint, names)
