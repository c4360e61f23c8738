"""The plan of a copy: what the copy reads, recorded before its first row is read.

``plan_copy`` plans a first copy, ``plan_again`` a new copy of some tables. ``target_shapes``
returns the source's tables as the target stores them, and reports all faults of the rules together.

XA branches may be prepared when a copy begins. A copy reads none of their rows, and the log after
the beginning of the copy has only the XA COMMIT. So the log has to begin before the oldest XA
PREPARE. The source's binary logs show where that is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..catalog.managed import managed_tables
from ..config.renaming import SHARD, is_shared, whole_of
from ..config.tables import NO_ROWS
from ..control.records import name_case, recorded_filters, system_time_zone
from ..control.records.channels import control_of
from ..control.records.claimed_names import ClaimedNames
from ..control.records.copies import Copy, last_copy, record_copy, standing
from ..control.records.name_registry import OtherChannels
from ..control.records.shared_tables import shared_rules
from ..control.records.table_paths import (
    check_free,
    current_paths,
    given_paths,
    used_paths,
    whole_name,
)
from ..control.table.control import Control
from ..control.table.layout import Layout
from ..delta.log.log_state import newest_version
from ..errors import (
    ALL_SHARDS,
    ConcurrentChangeError,
    ConfigError,
    NoTableError,
    SettingError,
    SourceError,
    TargetError,
)
from ..gtid import GtidSet
from ..receiver.purge import deciding
from ..rules.column_rules import ColumnRules
from ..rules.replication_filters import ReplicationFilters
from ..rules.row_filters import check_row_filter
from ..rules.table_mode import MIRROR, check_without_rows
from ..rules.table_rules import TableRules
from ..source.connection import DumpConnection
from ..source.grants import EVERYTHING, grant
from ..source.source_check import check_source
from ..tables.case_folding import check_columns, fold
from ..write.shared.shard_tables import check_alike
from ..write.tables.new_tables import assigned_path
from ..write.tables.target_options import TargetOptions
from .copy_chunk import patiently
from .privileges import check_privileges
from .source_tables import ListedTable, chunk_ends, list_tables, needs_view, refuse_diffs
from .unmet_rules import unmet_on

if TYPE_CHECKING:
    from ..config import Config
    from ..control.table.cut import Cut
    from ..control.table.given_paths import GivenPaths
    from ..delta.log.committer import TableCatalog
    from ..rules.table_rules import TableRules
    from ..source.connection import DumpConnection
    from ..tables.source_table import SourceTable
    from ..tables.target_table import TargetTable

logger = logging.getLogger(__name__)

Asks = Callable[["Config", Control, tuple[str, ...], "Cut | None"], Copy]


# Few: the user should see a wrong host or port soon.
_PLAN_RETRIES, _PATH_TRIES = 3, 10


def plan_copy(config: Config, only: tuple[str, ...] = (), *, again: bool = False) -> Copy:
    """Record the source's position before any row is read, and return the plan.

    Return the existing plan if there is one, unless its copy ended with tables that statements had
    changed. ``again``: the copy replaces the target's tables, because the log has a gap.

    Raise TargetError if the target already has tables, SourceError if the source can't be followed,
    NoTableError if the source lacks one of ``only``.
    """
    control = control_of(config)
    before = last_copy(control)
    if before is not None and not (again or _is_useless(control)):
        return before
    written = control.exists() and (control.cut_count() or control.rows("table"))
    if before is None and not again and written:
        raise TargetError(
            "the target has tables already: a first copy goes into an empty one",
            file=config.target.path,
            hint="begin again, all tables: spark-repl reset --all --config F; or one of them:"
            " spark-repl snapshot --config F --table DB.TABLE, once a cut shows it",
        )
    copy = _patient_plan(config, control, only)  # first: a source that refuses costs no claim
    control.claim()
    try:
        _record(config, control, in_shared(config, control, copy))
    finally:
        control.release()
    return copy


def _is_useless(control: Control) -> bool:
    """Return whether statements have changed tables of a first copy that no cut shows yet."""
    copy = standing(control).copy
    return copy is not None and copy.behind is None and bool(copy.unfinished)


def _patient_plan(config: Config, control: Control, only: tuple[str, ...]) -> Copy:
    """Return the plan of a first copy; plan again if a statement removes a table meanwhile."""
    attempts = 0
    while True:
        try:
            return patiently(
                config.source,
                lambda: _plan(config, control, only, None),
                retries=_PLAN_RETRIES,
                reconnect=False,
            )
        except NoTableError as error:
            attempts += 1
            if only or attempts > _PLAN_RETRIES:
                raise
            logger.warning("%s: the copy is planned again", error)


def _record(config: Config, control: Control, copy: Copy) -> None:
    """Record the plan, whose paths are free in the version of the control table that it follows.

    Raise TargetError for tables that another channel of the target has. Raise ConcurrentChangeError
    if another table has claimed one of the paths: the caller chooses again.
    """
    own = [(name, path) for name, path in copy.paths.items() if not is_shared(path)]
    names = {*copy.paths, *(whole_name(*pair) for pair in own)}
    check = _names(config, control).before_creating(names)
    for name in sorted(copy.paths.keys() & current_paths(control).keys()):
        rule = TableRules(config.tables).shaping(name)
        if name in copy.without_rows:
            logger.warning('%s begins again without rows (copy = "none" of its rule)', name)
        elif rule.mode != MIRROR or "deleted" in rule.extra_columns:
            logger.warning(
                "%s keeps rows that the source has deleted: its new copy lacks them", name
            )

    other_channels = OtherChannels(control, config.target.path)

    def checks() -> None:
        check()
        given = given_paths(control, other_channels.given)
        check_free(control, [path for _, path in own], given)

    recorded_filters.record(control, ReplicationFilters.of(config))
    name_case.record(control, copy.lower_case_table_names)
    system_time_zone.record_time_zone(control, copy.system_time_zone)
    record_copy(control, copy, checks)


def _given(config: Config, control: Control) -> GivenPaths:
    return given_paths(control, OtherChannels(control, config.target.path).given)


def _in_free_paths(copy: Copy, layout: Layout, given: GivenPaths) -> Copy:
    """Return the copy with another path for each table whose path was claimed since it was
    planned."""
    paths = dict[str, str]()
    for name, path in copy.paths.items():
        paths[name] = path
        if path in given and not is_shared(path):
            paths[name] = layout.free_path(path, given)
            given.add(paths[name])
    return replace(copy, paths=paths)


def _names(config: Config, control: Control) -> ClaimedNames:
    return ClaimedNames(control, config.target.path, shared_rules(config.tables))


def in_shared(config: Config, control: Control, copy: Copy) -> Copy:
    """Return the copy with the folders of shards whose tables other channels also feed. The caller
    owns the target. Raise OtherChannelError or SettingError."""
    layout, names = Layout(config.target.path), _names(config, control)
    used, paths, since = {*used_paths(control)}, dict(copy.paths), dict[str, int]()
    for shared_rule in shared_rules(config.tables):
        shards = [n for n in paths if SHARD in n and fold(whole_of(n)) == fold(shared_rule.name)]
        if not shards:
            continue
        whole = names.share(shared_rule, partial(whole_of, paths[shards[0]])).path
        since[whole] = max(newest_version(layout.table(whole)), 0)
        for shard in shards:
            paths[shard] = layout.shard_path(whole, used, shared=True)
            used.add(paths[shard])
    return replace(copy, paths=paths, since=since)


def _check_kept(only: tuple[str, ...], filters: ReplicationFilters) -> None:
    """Raise ConfigError for a table that the filters leave out."""
    for name in only:
        if not filters.keeps(name):
            raise ConfigError(
                f"the filters leave the table out: {filters.rule(name)}",
                table=name, hint="change [filters], or copy other tables",
            )  # fmt: skip


def _plan(config: Config, control: Control, only: tuple[str, ...], cut: Cut | None) -> Copy:
    layout = Layout(config.target.path)
    connection = DumpConnection(config.source)
    try:
        server = connection.server()
        check_source(server, config.source)
        connection.replicas()  # the privilege that following needs
        start = server.executed
        if cut is not None:
            start, executed = GtidSet.parse(cut.gtid_executed), GtidSet()
        else:
            start = before_branches(connection, start)
            executed = connection.server().executed
        lower_case = int(server.variables[name_case.KEY])
        only = tuple(map(fold, only)) if lower_case else only
        filters = ReplicationFilters.of(config)
        own = filters.folded() if lower_case else filters
        _check_kept(only, own)
        for unmet in unmet_on(connection.rows, config):
            logger.warning("%s", unmet)
        tables = list_tables(connection.rows, only, filters)
        rules = TableRules(config.tables).folded() if lower_case else TableRules(config.tables)
        names = [table.definition.name for table in tables]
        if cut is not None:
            refuse_shards(names, rules)
        shapes = target_shapes(config, [table.definition for table in tables], rules)
        check_alike(shape for shape in shapes if rules.of_table(shape.name).shards_by)
        _names(config, control).check(names)
        if config.target.json_as == "variant":
            refuse_diffs(tables, server.variables)
        empty = tuple(name for name in names if rules.of_table(name).copy == NO_ROWS)
        views = _views(tables, rules, server.variables, empty)
        viewed = [t.definition for t in tables if t.definition.name in views]
        check_privileges(connection.rows, [table.name_on_source for table in viewed], own)
        bounds = {
            name: () if name in (*views, *empty) else chunk_ends(connection.rows, table, shape)
            for name, table, shape in zip(names, tables, shapes, strict=True)
        }
    except NoTableError as error:
        raise error.as_of(connection.server().executed) from None
    finally:
        connection.close()
    paths = paths_of(tables, rules, layout, _given(config, control), managed_tables(config))
    return Copy(
        start, bounds, paths, views, executed, behind=cut,
        exact=dict.fromkeys(empty, start), without_rows=empty,
        digests={table.definition.name: table.digest for table in tables},
        lower_case_table_names=lower_case,
        system_time_zone=server.variables.get(system_time_zone.KEY, ""),
    )  # fmt: skip


def paths_of(
    tables: Iterable[ListedTable],
    rules: TableRules,
    layout: Layout,
    used: GivenPaths,
    managed: TableCatalog | None = None,
) -> dict[str, str]:
    """Return the path to which each table is copied; all shards of one table share a folder. Add
    these paths to ``used``, the paths that are already in use. ``managed``: the catalog that
    assigns the folders, None if none does."""
    wholes, paths = dict[str, str](), dict[str, str]()

    def fresh_path(database: str, table: str) -> str:
        if managed is not None:
            return assigned_path(managed, layout, f"{database}.{table}")
        return layout.fresh_path(database, table, used)

    for definition in (table.definition for table in tables):
        shard, name = bool(rules.of_table(definition.name).shards_by), whole_of(definition.name)
        if not shard:
            paths[definition.name] = fresh_path(definition.database, definition.table)
            continue
        if name not in wholes:
            wholes[name] = fresh_path(definition.database, whole_of(definition.table))
        paths[definition.name] = layout.shard_path(wholes[name], used)
        used.add(paths[definition.name])
    return paths


def refuse_shards(names: Iterable[str], rules: TableRules) -> None:
    """Raise ConfigError for tables that share a Delta table with others, because a copy of single
    tables replaces a whole folder."""
    wholes = {rule.to for rule in rules.rules if rule.shards_by}
    shards = [name for name in names if rules.of_table(name).shards_by or name in wholes]
    if shards:
        raise ConfigError(
            f"a shard of {whole_of(shards[0])} is not copied by itself (key_prefix, or channels, of"
            " [[tables]])",
            table=", ".join(sorted(shards)),
            hint=f"{ALL_SHARDS}; or leave the shard out by [filters] before you do",
        )


def _views(
    tables: Iterable[ListedTable],
    rules: TableRules,
    variables: Mapping[str, str],
    empty: Collection[str],
) -> tuple[str, ...]:
    """Return the tables that are read as of one moment. The ``empty`` tables are not among them:
    their rows are not read."""
    definitions = (table.definition for table in tables)
    names = {view.name: view for view in definitions if view.name not in empty}
    return tuple(
        name
        for name, definition in names.items()
        if needs_view(definition, variables) or rules.shaping(name).mode != MIRROR
    )


def _requested_copy(
    config: Config, control: Control, names: tuple[tuple[str, ...], tuple[str, ...]],
    cut: Cut, asks: Asks,
) -> Copy:  # fmt: skip
    """Return the copy of the requested tables, and of the tables of an earlier copy that the source
    still has. Raise NoTableError."""
    only, before = names
    while True:
        try:
            return asks(config, control, (*only, *before), cut)
        except NoTableError as error:
            if error.table not in before:
                raise
            logger.warning("%s: it is not copied again", error)
            before = tuple(name for name in before if name != error.table)


def plan_again(
    config: Config,
    control: Control,
    only: tuple[str, ...],
    request_name: str = "",
    *,
    waits: bool = False,
    asks: Asks = _plan,
) -> Copy:
    """Plan and record a new copy of some tables, which starts at the newest cut.

    The caller owns the target. ``request_name``: the request for which the copy is made, if there
    is one. With ``waits`` no cut shows the tables until they are copied. ``asks`` queries the
    source. If another copy is not shown by a cut yet, it is planned again together with this one,
    because the target may need both before its next cut.

    Raise TargetError while no cut shows the first copy, NoTableError if the source has no such
    table, SourceError if no table of that name waits any more.
    """
    standing_copy = standing(control)
    if standing_copy.cut is None:
        raise TargetError(
            "no cut shows the first copy yet", file=config.target.path,
            hint="let it end: spark-repl run --config F; or begin again: spark-repl reset --all"
            " --config F",
        )  # fmt: skip
    before = (
        [name for name in standing_copy.copy.bounds if name not in only]
        if standing_copy.copy
        else []
    )
    copy = replace(
        _requested_copy(config, control, (only, tuple(before)), standing_copy.cut, asks),
        asked=request_name,
    )
    with deciding(Path(config.relay.path)):
        # The log after an older cut may have been purged while the source was queried.
        if (newest := standing(control).cut) is not None:
            copy = replace(copy, start=GtidSet.parse(newest.gtid_executed), behind=newest)
            if waits and (gone := set(only) - set(newest.waiting)):
                raise SourceError(f"{', '.join(sorted(gone))} waits for no copy any more")
        return _placed(config, control, copy)


def _placed(config: Config, control: Control, copy: Copy) -> Copy:
    """Record the plan, and return it with its final paths: statements of the log create tables
    meanwhile. Raise as ``_record``."""
    layout = Layout(config.target.path)
    for left in reversed(range(_PATH_TRIES)):
        if not config.catalog.managed:  # no other table has a path that the catalog has assigned
            copy = _in_free_paths(copy, layout, _given(config, control))
        with suppress(*[ConcurrentChangeError] if left else ()):
            _record(config, control, copy)
            break
    return copy


def target_shapes(
    config: Config, tables: Iterable[SourceTable], rules: TableRules
) -> list[TargetTable]:
    """Return the source's tables in the form in which the target stores them. Raise SettingError
    for a single table that does not fit its ``[[tables]]``, ConfigError with all errors for
    several."""
    columns, forms = ColumnRules(rules), TargetOptions.of(config).forms
    shapes: list[TargetTable] = []
    faults = list[SettingError]()
    for table in tables:
        try:
            shapes.append(columns.shaped(forms.apply(table)))
            check_row_filter(shapes[-1], columns)
            check_columns(shapes[-1])
            if rules.of_table(table.name).copy == NO_ROWS:
                check_without_rows(shapes[-1])
        except SettingError as error:
            faults.append(error.at(table=table.name))
    if len(faults) == 1:
        raise faults[0]
    if faults:
        texts = tuple(f"{fault.table}: {fault.message}" for fault in faults)
        refused = ConfigError("; ".join(texts), hint=faults[0].hint)
        refused.faults = texts
        raise refused
    return shapes


_NOT_ALLOWED = (1227, 1401)
_PAGE = 50_000


def before_branches(connection: DumpConnection, executed: GtidSet) -> GtidSet:
    """Return the GTID set before the oldest XA branch that is currently prepared; ``executed`` if
    there is none.

    Log a warning and return ``executed`` if the account may not list branches. Raise SourceError if
    the source has purged the file in which a branch was prepared.
    """
    try:
        branches = connection.query("XA RECOVER CONVERT XID")
    except SourceError as error:
        if error.number not in _NOT_ALLOWED:
            raise
        logger.warning(
            "the account can't list XA branches: if any is prepared now, its XA COMMIT will stop"
            " the applier (1397); %s",
            grant("XA_RECOVER_ADMIN", [EVERYTHING], connection.account()),
        )
        return executed
    wanted = {_xid(row) for row in branches}
    if not wanted:
        return executed
    logger.warning("%d XA branches are prepared: the log is read from before them", len(wanted))
    files = [str(row["Log_name"]) for row in connection.query("SHOW BINARY LOGS")]
    # Back from the newest file, until the XA PREPARE of every branch is found.
    for name in reversed(files):
        before = _prepared_in(connection, name, wanted)
        if not wanted:
            return before
    raise SourceError(
        f"the source has purged the log in which XA branches were prepared: {', '.join(wanted)}",
        hint="end them (XA COMMIT or XA ROLLBACK; XA RECOVER shows them), then copy again",
    )


def _xid(row: dict[str, Any]) -> str:
    """Return the XID of a row of XA RECOVER in the form that the log writes."""
    data, length = str(row["data"]).removeprefix("0x").lower(), 2 * int(row["gtrid_length"])
    return f"X'{data[:length]}',X'{data[length:]}',{row['formatID']}"


def _prepared_in(connection: DumpConnection, name: str, wanted: set[str]) -> GtidSet:
    """Remove the XIDs that this file prepares from ``wanted``; return the GTID set before the
    file."""
    before, position = GtidSet(), 4
    while True:
        rows = connection.query(f"SHOW BINLOG EVENTS IN '{name}' FROM {position} LIMIT {_PAGE}")
        for row in rows:
            if row["Event_type"] == "Previous_gtids":
                before = GtidSet.parse(str(row["Info"]))
            elif row["Event_type"] == "XA_prepare":
                wanted.discard(str(row["Info"]).removeprefix("XA PREPARE "))
        if len(rows) < _PAGE or (not wanted and before):
            return before
        position = int(rows[-1]["End_log_pos"])
