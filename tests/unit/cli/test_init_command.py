"""``init``: the file that it writes, and when it writes none."""

from __future__ import annotations

import argparse
import os
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli import init_command
from spark_repl.cli.argument_parser import parser
from spark_repl.cli.init_command import ask, survey_with_server_id, text_of, write
from spark_repl.cli.main import _RUN, main
from spark_repl.config import Config, load
from spark_repl.copy.survey import ERROR, WARNING, Finding, Survey
from spark_repl.errors import ConfigError
from tests.support.examples import ALL

ODD = 'a"b\\c\nd\x7f é'
LOOKED = Survey(
    "9.7.0\n[source]", frozenset({7}), 3, 5_000_000_000,
    (
        Finding(ERROR, "log_bin = OFF", "start it"),
        Finding(WARNING, "no key", "", ("t.a\nchannel=1",)),
    ),
)  # fmt: skip


def options(*words: str) -> argparse.Namespace:
    return parser(_RUN).parse_args(["init", *words])


def test_init_writes_the_given_values(tmp_path: Path) -> None:
    file = tmp_path / "r.toml"
    words = ["--host", "db1", "--port", "3307", "--password-file", ODD, "--target", ODD]
    words += ["--server-id", "77", "--tls", "verify_ca", "--workers", "4", "--channel", "eu"]
    assert main(["init", "--offline", "--config", str(file), *words]) == 0
    config = load(file)
    assert (config.source.host, config.source.port, config.channel) == ("db1", 3307, "eu")
    odd = os.path.abspath(ODD)  # words of the command line start at the working folder
    assert (config.source.password_file, config.target.path) == (odd, odd)
    assert (config.source.server_id, config.source.tls) == (77, "verify_ca")
    assert file.stat().st_mode & 0o777 == 0o600
    assert config.source.password_env == ""


def test_paths_of_the_command_line_start_at_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has paths relative to its own folder, or absolute ones. Defaults are beside the
    file."""
    (tmp_path / "conf").mkdir()
    words = ["init", "--offline", "--target", "conf/lake", "--tls-ca", "ca.pem"]
    words += ["--password-command", "./secret ./x"]
    monkeypatch.chdir(tmp_path)
    assert main([*words, "--config", "conf/r.toml"]) == 0
    written = tomllib.loads((tmp_path / "conf" / "r.toml").read_text())
    assert (written["target"]["path"], written["relay"]["path"]) == ("lake", "relay")
    monkeypatch.chdir("/")
    config = load(tmp_path / "conf" / "r.toml")
    assert config.target.path == str(tmp_path / "conf" / "lake")
    assert config.relay.path == str(tmp_path / "conf" / "relay")
    assert config.source.tls_ca == str(tmp_path / "ca.pem")
    assert config.source.password_command == f"{tmp_path}/secret ./x"


def test_names_of_the_source_stay_in_comments() -> None:
    text = text_of({"source.host": "db1"}, LOOKED)
    assert tomllib.loads(text) == tomllib.loads(text_of({"source.host": "db1"}, None))
    for part in ("# ERROR: log_bin = OFF\n#   start it\n", "5.0 GB", "t.a\\u000achannel=1"):
        assert part in text


@pytest.mark.parametrize(
    ("size", "said"),
    [(0, "less than 1 MB"), (16_384, "less than 1 MB"), (49_500_000, "about 50 MB"),
     (999_499_999, "about 999 MB"), (1_200_000_000, "about 1.2 GB")],
)  # fmt: skip
def test_a_small_source_has_a_size_too(size: int, said: str) -> None:
    assert f", with 3 tables, {said}.\n" in text_of({}, replace(LOOKED, bytes=size))


def test_init_keeps_an_existing_file(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "r.toml"
    file.write_text("mine")
    words = ["init", "--offline", "--config", str(file)]
    assert main(words) == 2 and "--force" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert main([*words, "--force"]) == 0 and load(file).source.password_env
    assert os.listdir(tmp_path) == ["r.toml"]


def test_init_keeps_a_file_written_meanwhile(tmp_path: Path) -> None:
    file = tmp_path / "r.toml"
    file.write_text("theirs")
    with pytest.raises(ConfigError, match="a file already"):
        write(str(file), "mine", force=False)
    assert file.read_text() == "theirs" and os.listdir(tmp_path) == ["r.toml"]
    with pytest.raises(ConfigError, match="can't write"):
        write(str(tmp_path / "none" / "r.toml"), "mine", force=False)


def test_without_a_terminal_the_host_has_to_be_given(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--host is missing"):
        ask(options(), None, pytest.fail)
    assert ask(options("--socket", "/s"), None, pytest.fail).values["source.socket"] == "/s"


def test_a_terminal_is_asked_for_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(init_command.PASSWORD_VARIABLE, raising=False)
    asked = []

    def answer(question: str, usual: Any) -> str:
        asked.append(question)
        return "3310" if usual == 3306 else str(usual)

    answers = ask(options("--host", "db1", "--relay", "r"), answer, lambda _: "typed")
    assert asked == [
        init_command._WHERE,
        "Its port",
        "The account there",
        "Where the Delta tables go, from the file's folder",
        init_command._READERS,
    ]
    assert answers.values["source.port"] == 3310 and answers.password == "typed"
    assert "typed" not in text_of(answers.values, None)
    asked.clear()
    ask(options("--socket", "s", "--password-env", "P"), answer, pytest.fail)
    assert "Its port" not in asked


def test_readers_and_databases_are_keys_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "r.toml"
    words = ["--reader", "polars", "--reader", "spark", "--database", "shop", "--database", "crm"]
    assert main(["init", "--offline", "--config", str(file), *words]) == 0
    config = load(file)
    assert (config.target.column_mapping, config.target.deletion_vectors) == (False, True)
    assert [*config.filters.do_db] == ["shop", "crm"]


def test_a_plan_needs_the_source(capsys: Any) -> None:
    assert main(["init", "--offline", "--plan"]) == 2
    assert "leave out --offline" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--port", "0"), ("--tls", "no"), ("--host", "a@b")])
def test_values_keep_the_rules_of_the_file(words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        ask(options("--offline", *words), None, pytest.fail)


def test_init_chooses_a_free_server_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init_command, "_SERVER_IDS", range(7, 9))
    assert {survey_with_server_id(Config(), {}, lambda _: LOOKED)[1] for _ in range(20)} == {8}
    assert survey_with_server_id(Config(), {"source.server_id": 7}, lambda _: LOOKED)[1] == 7


def test_init_writes_no_file_without_a_source(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(init_command.PASSWORD_VARIABLE, "planted")
    file = tmp_path / "r.toml"
    assert main(["init", "--config", str(file), "--socket", str(tmp_path / "none")]) == 1
    assert "can't connect" in capsys.readouterr().err and not os.listdir(tmp_path)
    assert Config().source.password == ""


def test_init_ends_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARK_REPL_PASSWORD", raising=False)
    assert main(["init", "--offline", "--config", "my.toml", "--user", "repl"]) == 0
    assert capsys.readouterr().err == ALL["docs/getting-started.md text 1"].text


def test_the_next_commands_read_the_password_if_its_variable_is_not_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file = tmp_path / "my conf.toml"
    words = ["init", "--offline", "--config", str(file), "--user", "repl", "--force"]
    run = f"  spark-repl run --config '{file}'\n"
    monkeypatch.delenv("SPARK_REPL_PASSWORD", raising=False)
    assert main(words) == 0
    read = "read -rs SPARK_REPL_PASSWORD && export SPARK_REPL_PASSWORD"
    assert capsys.readouterr().err == f"now:\n  {read}  # type the password of repl\n{run}"
    monkeypatch.setenv("SPARK_REPL_PASSWORD", "x")
    assert main(words) == 0
    assert capsys.readouterr().err == f"now:\n{run}"
    assert main([*words, "--password-file", "f"]) == 0
    assert capsys.readouterr().err == f"now:\n{run}"
