"""gh-ost and pt-online-schema-change, statement by statement as they say them to a real server:
their tables become the table, or are left out and the ALTER is done to the table itself."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from spark_repl.delta.store.delta_rs_read import read
from spark_repl.errors import StatementError
from tests.support.live.server import Server
from tests.support.local_delta import cuts, run, stopped

ALTER = (
    "ADD COLUMN c VARCHAR(9) NOT NULL DEFAULT 'new', DROP COLUMN gone, MODIFY n BIGINT,"
    " MODIFY v VARCHAR(60) FIRST, ADD INDEX (n)"
)
LEFT_OUT = {"online_tools": "fold"}
Tool = Callable[[Server, str], None]


@pytest.fixture
def server(shared_server: Server) -> Server:
    shared_server.query(
        "DROP DATABASE IF EXISTS d", "RESET BINARY LOGS AND GTIDS", "CREATE DATABASE d",
        "CREATE TABLE d.t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20), n INT,"
        " gone INT, UNIQUE KEY u (v))",
        "INSERT INTO d.t (v, n, gone) VALUES ('a', 1, 1), ('b', -2, 2), ('c', NULL, 3),"
        " ('d', 4, 4)",
    )  # fmt: skip
    return shared_server


def ghost(server: Server, alter: str) -> None:
    """gh-ost 1.1 with --cut-over=atomic and --ok-to-drop-table."""
    server.query(
        "drop /* gh-ost */ table if exists `d`.`_t_gho`",
        "drop /* gh-ost */ table if exists `d`.`_t_ghc`",
        "create /* gh-ost */ table `d`.`_t_ghc` (id bigint unsigned auto_increment, last_update"
        " timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, hint"
        " varchar(64) charset ascii not null, value varchar(4096) charset ascii not null,"
        " primary key(id), unique key hint_uidx(hint)) auto_increment=256 comment='gh-ost'",
        "create /* gh-ost */ table `d`.`_t_gho` like `d`.`t`",
        f"alter /* gh-ost */ table `d`.`_t_gho` {alter}",
        "insert /* gh-ost */ into `d`.`_t_ghc` (id, hint, value) values (NULLIF(2, 0), 'state',"
        " 'GhostTableMigrated') on duplicate key update last_update=NOW(), value=VALUES(value)",
        "insert /* gh-ost `d`.`t` */ ignore into `d`.`_t_gho` (`id`, `v`, `n`) (select `id`, `v`,"
        " `n` from `d`.`t` force index (`PRIMARY`) where (((`id` >= 1)) and ((`id` <= 2))) lock in"
        " share mode)",
        "UPDATE d.t SET n = n + 100 WHERE id = 1",
        "replace /* gh-ost `d`.`_t_gho` */ into `d`.`_t_gho` (`id`, `v`, `n`) values (1, 'a', 101)",
        "DELETE FROM d.t WHERE id = 2",
        "delete /* gh-ost `d`.`_t_gho` */ from `d`.`_t_gho` where ((`id` = 2))",
        "INSERT INTO d.t (id, v, n, gone) VALUES (9, 'i', 9, 9)",
        "insert /* gh-ost `d`.`t` */ ignore into `d`.`_t_gho` (`id`, `v`, `n`) (select `id`, `v`,"
        " `n` from `d`.`t` force index (`PRIMARY`) where (((`id` > 2)) and ((`id` <= 9))) lock in"
        " share mode)",
        "insert /* gh-ost */ into `d`.`_t_ghc` (id, hint, value) values (NULLIF(1, 0),"
        " 'heartbeat', '2024-01-01') on duplicate key update last_update=NOW(),"
        " value=VALUES(value)",
        "create /* gh-ost */ table `d`.`_t_del` (id int auto_increment primary key)"
        " engine=InnoDB comment='ghost-cut-over-sentry'",
    )
    locker = server.connect()
    with locker.cursor() as cursor:
        cursor.execute("lock /* gh-ost */ tables `d`.`t` write, `d`.`_t_del` write")
        rename = "rename /* gh-ost */ table `d`.`t` to `d`.`_t_del`, `d`.`_t_gho` to `d`.`t`"
        renamer = threading.Thread(target=server.query, args=(rename,))
        renamer.start()
        while not server.query(
            "SELECT 1 FROM information_schema.processlist WHERE info LIKE 'rename%'"
        ):
            pass
        cursor.execute("drop /* gh-ost */ table if exists `d`.`_t_del`")
        cursor.execute("unlock /* gh-ost */ tables")
    renamer.join()
    locker.close()
    server.query(
        "INSERT INTO d.t (v, n) VALUES ('behind', 5000000000)",
        "drop /* gh-ost */ table if exists `d`.`_t_ghc`",
        "drop /* gh-ost */ table if exists `d`.`_t_del`",
    )


def percona(server: Server, alter: str) -> None:
    """pt-online-schema-change 3, with its triggers."""
    _, text = server.query("SHOW CREATE TABLE d.t")[0]
    server.query(
        text.replace("CREATE TABLE `t`", "CREATE TABLE `d`.`_t_new`"),
        f"ALTER TABLE `d`.`_t_new` {alter}",
        "CREATE TRIGGER `d`.`pt_osc_d_t_del` AFTER DELETE ON `d`.`t` FOR EACH ROW BEGIN DECLARE"
        " CONTINUE HANDLER FOR 1146 begin end; DELETE IGNORE FROM `d`.`_t_new` WHERE"
        " `d`.`_t_new`.`id` <=> OLD.`id`; END",
        "CREATE TRIGGER `d`.`pt_osc_d_t_upd` AFTER UPDATE ON `d`.`t` FOR EACH ROW BEGIN DECLARE"
        " CONTINUE HANDLER FOR 1146 begin end; DELETE IGNORE FROM `d`.`_t_new` WHERE !(OLD.`id`"
        " <=> NEW.`id`) AND `d`.`_t_new`.`id` <=> OLD.`id`; REPLACE INTO `d`.`_t_new` (`id`, `v`,"
        " `n`) VALUES (NEW.`id`, NEW.`v`, NEW.`n`); END",
        "CREATE TRIGGER `d`.`pt_osc_d_t_ins` AFTER INSERT ON `d`.`t` FOR EACH ROW BEGIN DECLARE"
        " CONTINUE HANDLER FOR 1146 begin end; REPLACE INTO `d`.`_t_new` (`id`, `v`, `n`) VALUES"
        " (NEW.`id`, NEW.`v`, NEW.`n`);END",
        "INSERT LOW_PRIORITY IGNORE INTO `d`.`_t_new` (`id`, `v`, `n`) SELECT `id`, `v`, `n` FROM"
        " `d`.`t` FORCE INDEX(`PRIMARY`) WHERE ((`id` >= '1')) AND ((`id` <= '2')) LOCK IN SHARE"
        " MODE /*pt-online-schema-change 1 copy nibble*/",
        "UPDATE d.t SET n = n + 100 WHERE id IN (1, 4)",
        "DELETE FROM d.t WHERE id = 2",
        "INSERT INTO d.t (id, v, n, gone) VALUES (9, 'i', 9, 9)",
        "INSERT LOW_PRIORITY IGNORE INTO `d`.`_t_new` (`id`, `v`, `n`) SELECT `id`, `v`, `n` FROM"
        " `d`.`t` FORCE INDEX(`PRIMARY`) WHERE ((`id` >= '3')) LOCK IN SHARE MODE"
        " /*pt-online-schema-change 1 copy nibble*/",
        "ANALYZE TABLE `d`.`_t_new` /* pt-online-schema-change */",
        "RENAME TABLE `d`.`t` TO `d`.`_t_old`, `d`.`_t_new` TO `d`.`t`",
        "DROP TABLE IF EXISTS `d`.`_t_old`",
        *(f"DROP TRIGGER IF EXISTS `d`.`pt_osc_d_t_{one}`" for one in ("del", "upd", "ins")),
        "INSERT INTO d.t (v, n) VALUES ('behind', 5000000000)",
    )


TOOLS = pytest.mark.parametrize("tool", [ghost, percona])


def log_of(server: Server, folder: Path) -> Path:
    folder.mkdir()
    for path in server.data.glob("binlog.0*"):
        shutil.copy(path, folder)
    return folder


def rows(target: Path, path: str, version: int) -> list[tuple[Any, ...]]:
    found = read(str(target / path), version)
    order = sorted(found.column_names)
    return sorted(tuple(row[name] for name in order) for row in found.to_pylist())


def of_server(server: Server) -> list[tuple[Any, ...]]:
    return sorted(server.query("SELECT c, id, n, v FROM d.t"))


@TOOLS
@pytest.mark.parametrize("mapping", [True, False])
def test_a_tools_table_is_in_no_cut_and_its_alter_is_done(
    server: Server, tmp_path: Path, tool: Tool, mapping: bool
) -> None:
    """No cut shows a tool's table; the table is altered where the tool renames its copy."""
    tool(server, ALTER)
    log, target = log_of(server, tmp_path / "log"), tmp_path / "lake"
    options: dict[str, Any] = {"ddl": LEFT_OUT, "keys": {"column_mapping": mapping}}
    assert run(log, target, group_max_transactions=1, **options)
    shown = cuts(target)
    assert {name for one in shown for name in one.tables} == {"d.t"}
    assert {at.path for one in shown for at in one.tables.values()} == {"d/t"}
    last = shown[-1].tables["d.t"]
    assert rows(target, last.path, last.version) == of_server(server)
    assert read(str(target / "d/t"), last.version).column_names == ["v", "id", "n", "c"]
    assert read(str(target / "d/t"), 1).column_names == ["id", "v", "n", "gone"]
    names = sorted(path.name for path in (target / "d").iterdir())
    assert names == ["t"], "there is no folder of a tool's table"


@TOOLS
def test_left_out_of_a_log_without_names(server: Server, tmp_path: Path, tool: Tool) -> None:
    server.query("SET GLOBAL binlog_row_metadata = MINIMAL")
    try:
        tool(server, ALTER)
    finally:
        server.query("SET GLOBAL binlog_row_metadata = FULL")
    log, target = log_of(server, tmp_path / "log"), tmp_path / "lake"
    assert run(log, target, ddl=LEFT_OUT)
    last = cuts(target)[-1].tables
    assert rows(target, last["d.t"].path, last["d.t"].version) == of_server(server)


@TOOLS
def test_left_out_whatever_a_crash_leaves(server: Server, tmp_path: Path, tool: Tool) -> None:
    tool(server, ALTER)
    log = log_of(server, tmp_path / "log")
    for step in range(3, 1000, 17):
        target = tmp_path / f"lake{step}"
        if run(log, target, crash=step, ddl=LEFT_OUT):
            break
        run(log, target, crash=step % 5 + 1, group_max_transactions=1, ddl=LEFT_OUT)
        assert run(log, target, ddl=LEFT_OUT)
        last = cuts(target)[-1].tables
        assert set(last) == {"d.t"}
        assert rows(target, last["d.t"].path, last["d.t"].version) == of_server(server)
    assert step > 20


@TOOLS
def test_the_tools_table_becomes_the_table(server: Server, tmp_path: Path, tool: Tool) -> None:
    tool(server, ALTER)
    log, target = log_of(server, tmp_path / "log"), tmp_path / "lake"
    assert run(log, target, group_max_transactions=1)
    last = cuts(target)[-1].tables
    assert set(last) == {"d.t"} and last["d.t"].path in ("d/%5Ft_gho", "d/%5Ft_new")
    assert rows(target, last["d.t"].path, last["d.t"].version) == of_server(server)


@TOOLS
@pytest.mark.parametrize(
    ("alter", "said"),
    [
        ("MODIFY n SMALLINT", "column n"),
        ("ADD COLUMN c INT DEFAULT (n + 1)", "new column c"),
        ("CHANGE v w VARCHAR(20)", "column v has another name"),
        ("ADD UNIQUE KEY (n)", "UNIQUE index (n)"),
        ("ADD COLUMN c TIMESTAMP DEFAULT CURRENT_TIMESTAMP", "new column c"),
    ],
)
def test_what_a_copy_does_not_say_stops_before_it_is_filled(
    server: Server, tmp_path: Path, tool: Tool, alter: str, said: str
) -> None:
    """With the option taken back it goes on: nothing was left out yet."""
    with suppress(pymysql.err.MySQLError):  # a copy without a column v is not filled
        tool(server, alter)
    log, target = log_of(server, tmp_path / "log"), tmp_path / "lake"
    error = stopped(log, target, ddl=LEFT_OUT)
    assert isinstance(error, StatementError) and said in str(error)
    assert set(cuts(target)[-1].tables) == {"d.t"}
    assert run(log, target)


def test_a_table_that_is_changed_meanwhile(server: Server, tmp_path: Path) -> None:
    """Its copy may have earlier rows of the table: the log does not show it."""
    server.query(
        "CREATE TABLE d._t_gho LIKE d.t", "ALTER TABLE d._t_gho ADD c INT", "TRUNCATE d.t",
        "RENAME TABLE d.t TO d._t_del, d._t_gho TO d.t",
    )  # fmt: skip
    error = stopped(log_of(server, tmp_path / "log"), tmp_path / "lake", ddl=LEFT_OUT)
    assert isinstance(error, StatementError) and "d.t was changed since" in error.message


@pytest.mark.parametrize(
    "statement",
    [
        "RENAME TABLE d._t_gho TO d.other",
        "ALTER TABLE d._t_gho ADD c INT, RENAME TO d.other",
        "TRUNCATE d._t_gho",
        "CREATE TABLE d.other LIKE d._t_ghc",
    ],
)
def test_what_needs_rows_that_were_left_out_stops(
    server: Server, tmp_path: Path, statement: str
) -> None:
    server.query(
        "CREATE TABLE d._t_gho LIKE d.t", "CREATE TABLE d._t_ghc (id INT PRIMARY KEY)",
        "INSERT INTO d._t_gho SELECT * FROM d.t", statement,
    )  # fmt: skip
    error = stopped(log_of(server, tmp_path / "log"), tmp_path / "lake", ddl=LEFT_OUT)
    assert isinstance(error, StatementError) and "rows are left out" in error.message


def test_tables_only_named_as_a_tools_copies_are_applied(server: Server, tmp_path: Path) -> None:
    """They are no copy of a table, or there is no such table."""
    server.query(
        "CREATE TABLE d._t_new (id INT PRIMARY KEY)", "CREATE TABLE d._other_new LIKE d.t",
        "INSERT INTO d._t_new VALUES (1)", "INSERT INTO d._other_new SELECT * FROM d.t",
    )  # fmt: skip
    log, target = log_of(server, tmp_path / "log"), tmp_path / "lake"
    assert run(log, target, ddl=LEFT_OUT)
    assert set(cuts(target)[-1].tables) == {"d.t", "d._t_new", "d._other_new"}
