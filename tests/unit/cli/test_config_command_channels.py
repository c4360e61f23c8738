"""``config explain`` and ``config check`` of a table of channels that row filters tell apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main

RULE = """
[[tables]]
match = "shop.orders"
to = "lake.orders"
channels = ["eu", "us"]
extra_columns = ["channel"]
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Of each channel a file."""
    made = {}
    for number, (channel, text) in enumerate((("eu", "id < 5 AND v = 'x'"), ("us", "id >= 5")), 1):
        made[channel] = tmp_path / f"{channel}.toml"
        made[channel].write_text(
            f'channel = "{channel}"\n[source]\nserver_id = {number}\nhost = "{channel}"\n'
            f'[relay]\npath = "{tmp_path}/{channel}"\n[target]\npath = "{tmp_path}/lake"\n'
            f'{RULE}row_filter = "{text}"\n'
        )
    return made


@pytest.mark.parametrize("name", ["shop.orders", "lake.orders//eu"])
def test_config_explain_names_the_target_and_the_channels_rows(
    files: dict[str, Path], capsys: Any, name: str
) -> None:
    assert main(["config", "explain", name, "--config", str(files["eu"]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["table"], found["target"]) == ("shop.orders", "lake.orders//eu")
    assert found["shown_in"] == "lake.orders, its rows have _channel = 'eu'"
    assert found["row_filter_columns"] == ["id", "v"]
    assert "fed_by" not in found


def test_config_show_prints_the_channels_column(files: dict[str, Path], capsys: Any) -> None:
    assert main(["config", "show", "--config", str(files["eu"])]) == 0
    printed = capsys.readouterr().out
    assert 'tables[1].extra_columns = ["channel"]' in printed and "fed_by" not in printed


def test_what_two_files_have_against_each_other(files: dict[str, Path], capsys: Any) -> None:
    given = [one for file in files.values() for one in ("--config", str(file))]
    assert main(["config", "check", *given]) == 0
    assert "tables[1] lacks disjoint = true" in capsys.readouterr().err
    for file in files.values():
        file.write_text(f"{file.read_text()}disjoint = true\n")
    assert main(["config", "check", *given]) == 0
    assert "disjoint" not in capsys.readouterr().err
    files["us"].write_text(files["us"].read_text().replace("id >= 5", "id < 5 AND v = 'x'"))
    for command in ("config", "check"), ("run",):
        assert main([*command, *given]) == 2
        assert "feed has the same row_filter in both" in capsys.readouterr().err
