"""The table of commands: each leads to a function of the room."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from spark_repl.cli.main import _RUN, main


@pytest.mark.parametrize("words", _RUN)
def test_each_command_has_its_function(words: str) -> None:
    module, _, name = _RUN[words].partition(".")
    function = getattr(import_module(f"spark_repl.cli.{module}"), name)
    assert [*inspect.signature(function).parameters] == ["options"]


def test_an_error_of_the_system_names_the_path_and_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its path and what to do, and no traceback."""
    (tmp_path / "taken").touch()
    assert main(["relay", "ls", str(tmp_path / "taken" / "relay")]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"Error: Not a directory\n  file:     {tmp_path}/taken/relay")
    assert "Try: a folder is needed there" in said and "Traceback" not in said


def test_without_arguments_the_help_is_printed(capsys):
    assert main([]) == 0
    assert "From a live server:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [(["statsu"], "status"), (["cut", "hed"], "head"), (["relay", "purg"], "purge")],
)
def test_an_unknown_command_names_the_nearest(arguments, nearest, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert f"there is no '{arguments[-1]}' here: do you mean {nearest}?" in capsys.readouterr().err


def test_a_command_like_no_other_lists_all(capsys):
    with pytest.raises(SystemExit):
        main(["nonsense"])
    assert "there is no 'nonsense' here; there are setup, demo" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "unknown", "nearest"),
    [
        (["run", "--confg", "my.toml"], "--confg", ": do you mean --config?"),
        (["cut", "head", "a.t", "--targt=lake"], "--targt", ": do you mean --target?"),
        (["--vresion"], "--vresion", ": do you mean --version?"),
        (["skip", "--qqqq"], "--qqqq", "; there are -h, --help, --json, --gtid, --target"),
    ],
)
def test_an_unknown_option_names_the_nearest_or_all(arguments, unknown, nearest, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert f"error: there is no option {unknown} here{nearest}" in capsys.readouterr().err


def test_options_may_be_shortened_and_values_begin_with_hyphens(tmp_path, capsys):
    assert main(["init", "--off", "--config", str(tmp_path / "r.toml"), "--user=--odd"]) == 0
    assert 'user = "--odd"' in (tmp_path / "r.toml").read_text()
