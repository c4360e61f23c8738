"""``init`` and ``config check --source`` on a real server: each grant taken away by itself,
settings, tables that need attention; and a server's names that may not break out of anything."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from spark_repl.cli.main import main
from spark_repl.config import load
from spark_repl.copy.survey import ERROR, WARNING, Survey, survey
from tests.support.examples import ALL
from tests.support.live.receiving import Running, config_for, processes, wait_for
from tests.support.live.server import PLANTED, Server

from .conftest import showing

PASSWORD = PLANTED
GRANTS = ("REPLICATION SLAVE", "REPLICATION CLIENT", "SELECT", "LOCK TABLES", "XA_RECOVER_ADMIN")


def as_root(server: Server, *statements: str) -> None:
    connection = pymysql.connect(unix_socket=str(server.socket), user="root")
    with connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture(scope="module")
def account(shared_server: Server) -> Server:
    as_root(
        shared_server,
        f"CREATE USER least IDENTIFIED BY '{PASSWORD}'",
        f"GRANT {', '.join(GRANTS)} ON *.* TO least",
        "CREATE DATABASE s",
        "CREATE TABLE s.good (id INT PRIMARY KEY, v VARCHAR(9))",
        "CREATE TABLE s.keyless (v INT)",
        "CREATE TABLE s.other (id INT PRIMARY KEY) ENGINE = MyISAM",
        "CREATE TABLE s.parent (id INT PRIMARY KEY)",
        "CREATE TABLE s.child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES s.parent (id)"
        " ON DELETE CASCADE)",
    )
    return shared_server


def look(server: Server, folder: Path, **values: Any) -> Survey:
    given = {"user": "least", "password": PASSWORD, **values}
    return survey(config_for(server, folder, **given))


def said(found: Survey, level: str) -> str:
    return "\n".join(f"{f} [{f.hint}]" for f in found.findings if f.level == level)


def test_the_documented_grants_are_enough(account: Server, tmp_path: Path) -> None:
    found = look(account, tmp_path)
    assert said(found, ERROR) == ""
    assert found.version.startswith(account.query("SELECT VERSION()")[0][0])
    warned = said(found, WARNING)
    for table, part in (("s.keyless", "without a key"), ("s.other", "engine")):
        assert any(table in line and part in line for line in warned.splitlines()), warned
    assert "s.good" not in warned and found.tables >= 5


@pytest.fixture
def without(account: Server, request: pytest.FixtureRequest) -> Iterator[Server]:
    as_root(account, f"REVOKE {request.param} ON *.* FROM least")
    yield account
    as_root(account, f"GRANT {request.param} ON *.* TO least")


@pytest.mark.parametrize(
    ("without", "level", "part", "hint"),
    [
        ("REPLICATION SLAVE", ERROR, "REPLICATION SLAVE", "GRANT REPLICATION SLAVE"),
        ("SELECT", ERROR, "may not read all tables", "GRANT SELECT ON *.*"),
        ("LOCK TABLES", ERROR, "may not lock the table", "GRANT LOCK TABLES"),
        ("XA_RECOVER_ADMIN", WARNING, "prepared XA branches can't be seen", "XA_RECOVER_ADMIN"),
        ("REPLICATION CLIENT", WARNING, "REPLICATION CLIENT", "GRANT REPLICATION CLIENT"),
    ],
    indirect=["without"],
)
def test_each_grant_that_is_missing_is_named(
    without: Server, tmp_path: Path, level: str, part: str, hint: str
) -> None:
    found = look(without, tmp_path)
    assert part in said(found, level) and hint in said(found, level)
    other = {ERROR, WARNING} - {level}
    assert not any(part in str(f) for f in found.findings if f.level in other)


def test_each_wrong_setting_of_the_server_is_named(account: Server, tmp_path: Path) -> None:
    account.query("SET GLOBAL sync_binlog = 0", "SET GLOBAL binlog_row_image = MINIMAL",
                  "SET GLOBAL binlog_expire_logs_seconds = 60", "SELECT 1")  # fmt: skip
    try:
        found = look(account, tmp_path)
        wrong = look(account, tmp_path, server_id=account.server_id)
    finally:
        account.query("SET GLOBAL sync_binlog = 1", "SET GLOBAL binlog_row_image = 'FULL'",
                      "SET GLOBAL binlog_expire_logs_seconds = 2592000", "SELECT 1")  # fmt: skip
    for name in ("sync_binlog = 0", "binlog_row_image = MINIMAL", "binlog_expire_logs_seconds"):
        assert name in said(found, WARNING)
    assert "which is ours too" in said(wrong, ERROR)


def test_cascades_that_are_not_logged(account: Server, tmp_path: Path) -> None:
    native = account.query("SHOW VARIABLES LIKE 'innodb_native_foreign_keys'")
    named = "s.child" in said(look(account, tmp_path), WARNING)
    assert named == (not native or native[0][1] == "ON")


def test_init_writes_a_file_that_run_accepts(
    account: Server, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", PASSWORD)
    file = tmp_path / "r.toml"
    words = ["init", "--config", str(file), "--host", "127.0.0.1", "--port", str(account.port)]
    words += ["--user", "least", "--password-env", "PLANTED", "--relay", str(tmp_path / "relay")]
    assert main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    fields = json.loads(out.splitlines()[-1])
    config = load(file)
    assert fields["errors"] == 0 and fields["server_id"] == config.source.server_id > 99_999
    assert "s.keyless" in err and "s.keyless" in file.read_text()
    assert PASSWORD not in out + err + file.read_text()
    assert main(["config", "check", "--source", "--config", str(file)]) == 0
    monkeypatch.setenv("PLANTED", f"{PASSWORD}-wrong")
    assert main(["config", "check", "--source", "--config", str(file)]) == 1
    out, err = capsys.readouterr()
    assert "Access denied" in err and PASSWORD not in out + err
    assert main([*words, "--force"]) == 1 and PASSWORD not in capsys.readouterr().err
    assert load(file) == config
    monkeypatch.setenv("PLANTED", PASSWORD)
    assert main([*words, "--force", "--target", "/proc/lake"]) == 1
    assert "/proc can't be written by this account" in capsys.readouterr().err


def test_init_shows_what_run_will_copy(
    account: Server, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal it asks which databases; with ``--plan`` it writes nothing."""
    monkeypatch.setenv("PLANTED", PASSWORD)
    account.query("CREATE DATABASE other", "CREATE TABLE other.a (id INT PRIMARY KEY, j JSON)")
    file = tmp_path / "r.toml"
    words = ["init", "--config", str(file), "--host", "127.0.0.1", "--port", str(account.port)]
    words += ["--user", "least", "--password-env", "PLANTED"]
    assert main([*words, "--plan"]) == 0 and not file.exists()
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["other", "1", "0", "less", "than", "1", "MB"] in lines
    assert ["json", "string", "1"] in lines
    assert main([*words, "--plan", "--json", "--database", "other"]) == 0
    plan = json.loads(capsys.readouterr().out.splitlines()[-1])["plan"]
    assert plan["other.a"]["types"] == {"int": "integer", "json": "string"} and len(plan) == 1
    monkeypatch.setattr("sys.stdin", Terminal(["laptop", "relay", "lake", "spark", "other"]))
    assert main(words) == 0 and [*load(file).filters.do_db] == ["other"]
    assert "expected time of the copy: 10 s" in capsys.readouterr().out
    account.query("DROP DATABASE other")


class Terminal(io.StringIO):
    """Standard input with these lines."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("".join(f"{line}\n" for line in lines))

    def isatty(self) -> bool:
        return True


def test_a_server_id_that_another_replica_has(
    account: Server, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has it is told by its UUID: a look beside a receiver that is this channel's own finds
    nothing, and one without a relay log makes none. A number that was not given is none's fault."""
    monkeypatch.setenv("PLANTED", PASSWORD)
    words = ["init", "--host", "127.0.0.1", "--port", str(account.port), "--user", "least"]
    words += ["--password-env", "PLANTED", "--config"]
    other = tmp_path / "other"
    with Running(config_for(account, tmp_path)) as running:
        running.wait_for(account.executed)
        assert said(look(account, tmp_path), ERROR) == ""
        assert "another replica of this source has our server_id 4711" in said(
            look(account, other), ERROR
        )
        assert not other.exists()
        folder = tmp_path / "elsewhere"  # beside the relay log it were this channel's own
        folder.mkdir()
        assert main([*words, str(folder / "a.toml"), "--server-id", "4711"]) == 1
        assert "another replica of this source has our server_id" in capsys.readouterr().err
        assert main([*words, str(folder / "b.toml")]) == 0


def test_an_account_that_sees_the_wanted_tables_alone(account: Server, tmp_path: Path) -> None:
    """Filters keep them; without the filters the account is refused."""
    as_root(
        account, f"CREATE USER part IDENTIFIED BY '{PASSWORD}'",
        "GRANT REPLICATION SLAVE ON *.* TO part", "GRANT SELECT ON s.* TO part",
    )  # fmt: skip
    config = config_for(account, tmp_path, user="part")
    wanted = config.override({"filters.do_db": ["s"]})
    found = [one for one in survey(config).errors if "may not read all tables" in one.what]
    assert [one.hint for one in found] == ["GRANT SELECT ON *.* TO 'part'@'%'"]
    assert not [one for one in survey(wanted).errors if "may not read" in one.what]
    hints = [one.hint for one in survey(wanted).findings if "GRANT " in one.hint]
    assert hints and all("TO 'part'@'%'" in hint for hint in hints)
    for hint in hints:
        statement = "GRANT " + hint.partition("GRANT ")[2].partition(", where")[0]
        as_root(account, statement)
    assert not [one for one in survey(wanted).findings if "GRANT " in one.hint]


def test_the_least_account_follows(account: Server, tmp_path: Path) -> None:
    """That of docs/security.md."""
    text = ALL["docs/security.md sql 1"].text.replace("'...'", f"'{PASSWORD}'")
    as_root(account, "DROP USER repl", *text.replace("repl", "few").split(";")[:-1])
    config = config_for(account, tmp_path, user="few")
    with Running(config) as running:
        running.wait_for(account.executed)
    (error,) = survey(config).errors  # s.keyless
    assert error.tables == ("s.keyless",) and "may not lock" in error.what


def test_a_password_is_in_no_arguments_and_no_output(account: Server, tmp_path: Path) -> None:
    file = tmp_path / "receive.toml"
    file.write_text(
        f'[source]\nport = {account.port}\nuser = "planted"\npassword_env = "PLANTED"\n'
        f'[relay]\npath = "{tmp_path}/relay"\n[target]\npath = "{tmp_path}/lake"\n'
    )
    command = [sys.executable, "-m", "spark_repl", "receive", "--verbose", "--config", str(file)]
    with open(tmp_path / "out.log", "wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, "PLANTED": PASSWORD}
        )
        processes.append(process)
        wait_for(load(file), account.executed)
        assert PASSWORD.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.terminate()
        assert process.wait(180) == 0
    assert showing(tmp_path) == []
    (tmp_path / "seen").write_text(f"x{PASSWORD}")
    assert showing(tmp_path) == [str(tmp_path / "seen")]
    with open(tmp_path / "seen", "wb") as large:
        large.truncate(3 << 20)
        large.seek(0, os.SEEK_END)
        large.write(PASSWORD.encode())
    assert showing(tmp_path) == [str(tmp_path / "seen")]
    (tmp_path / "seen").unlink()
