"""The live demo's prompt and options: which rows a statement shows, and what is refused at once."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from spark_repl.cli.main import main
from spark_repl.config import Source, load
from spark_repl.demo import live_demo, own_server
from spark_repl.errors import DemoError


@pytest.mark.parametrize(
    ("statement", "wanted"),
    [
        ("INSERT INTO customer (name) VALUES ('a')", ("customer", "id BETWEEN 7 AND 8")),
        ("replace into `shop`.`customer` values (1)", ("shop.customer", "id BETWEEN 7 AND 8")),
        ("UPDATE product SET a = 1 WHERE `id` = 3 LIMIT 2", ("product", '"id" = 3')),
        ("DELETE FROM orders WHERE id < 3 ORDER BY id", ("orders", "id < 3")),
        ("ALTER TABLE customer ADD COLUMN a INT", ("customer", "")),
        ("CREATE TABLE IF NOT EXISTS t.x (a INT)", ("t.x", "")),
        ("TRUNCATE orders", ("orders", "")),
        ("SELECT 1", None),
        ("COMMIT", None),
    ],
)  # fmt: skip
def test_a_statement_shows_its_rows(statement, wanted):
    assert live_demo._changed_rows(statement, 2, 7) == wanted


def test_an_insert_without_a_generated_key_shows_the_first_rows():
    assert live_demo._changed_rows("INSERT INTO t VALUES ('a')", 1, 0) == ("t", "")


def test_the_configuration_of_run_is_valid(tmp_path):
    file = tmp_path / "replica.toml"
    source = Source(host="h", user="u", password_env="P", tls="required")
    file.write_text(live_demo._toml(source, 'a"b', "127.0.0.1:8470"))
    config = load(str(file))
    assert config.source.host == "h" and config.source.password_env == "P"
    assert config.filters.do_db == ('a"b',) and config.observe.rows
    assert config.observe.token_file == str(tmp_path / "token")


def test_a_machine_without_a_server_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(own_server.VARIABLE, str(tmp_path))
    demo = live_demo.LiveDemo(live_demo.LiveOptions(), tmp_path, live_demo._Signals())
    with pytest.raises(DemoError, match="there is no MySQL server") as caught:
        demo.carry_out()
    assert "--host HOST --user USER --database NAME" in str(caught.value.hint)


def test_a_folder_stays_while_run_still_ends(tmp_path, monkeypatch):
    """``run`` holds the lock of a demo that was killed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"{live_demo._FOLDER}x"
    folder.mkdir()
    lock = live_demo._lock(folder)
    demo = live_demo.LiveDemo(live_demo.LiveOptions(), folder, live_demo._Signals(), lock)
    run = demo._started([sys.executable, "-c", "input()"], subprocess.PIPE)
    os.close(lock)
    live_demo._remove_abandoned()
    assert (folder / live_demo._LOCK).exists()
    run.communicate()
    live_demo._remove_abandoned()
    assert not folder.exists()


def test_a_long_path_of_the_socket_is_named(tmp_path):
    with pytest.raises(DemoError, match="too long for a Unix socket"):
        own_server.OwnServer(tmp_path / "mysqld", tmp_path / ("x" * 100))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--live", "--host", "h"], "--database spark_repl_demo"),
        (["--live", "--database", "d"], "no server is named"),
        (["--live", "--target", "d"], "--target is not for demo --live"),
        (["--user", "u"], "--user needs --live"),
    ],
)
def test_options_that_do_not_fit_are_named(options, text, capsys):
    assert main(["demo", *options]) == 2
    assert text in capsys.readouterr().err
