"""Each line of a log in JSON is one object."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from spark_repl.cli.log_lines import JsonLines


def line(message, *args, **more):
    return JsonLines().format(logging.getLogger("x").makeRecord(
        "x", logging.INFO, "f", 1, message, args, more.pop("exc_info", None), extra=more
    ))  # fmt: skip


def test_a_line_has_what_was_given():
    said = json.loads(line("applied %d", 3, relay_position="bin.000001:4", is_cut=True))
    assert (said["level"], said["logger"], said["message"]) == ("INFO", "x", "applied 3")
    assert (said["relay_position"], said["is_cut"]) == ("bin.000001:4", True)
    assert said["at"].endswith("+00:00") and "args" not in said and "exception" not in said


def test_no_value_makes_a_line_of_its_own():
    name = 't.a\n{"level": "ERROR"}\x1b[2J\u2028'
    text = line("%s", name, table=name)
    assert len(text.splitlines()) == 1 and "\x1b" not in text
    assert json.loads(text)["message"] == json.loads(text)["table"] == name


def test_a_traceback_is_in_it():
    try:
        raise ValueError("odd")
    except ValueError:
        text = line("it failed", exc_info=sys.exc_info())
    assert len(text.splitlines()) == 1
    assert "ValueError: odd" in json.loads(text)["exception"]


@pytest.mark.parametrize("by_file", [False, True])
def test_an_error_of_a_command_is_a_line(tmp_path: Path, by_file: bool) -> None:
    config = tmp_path / "my.toml"
    config.write_text('[observe]\nlog_format = "json"\n' * by_file)
    words = ["apply", "--config", str(config), "--relay", str(tmp_path / "none")]
    words += [] if by_file else ["--log-format", "json"]
    command = [sys.executable, "-m", "spark_repl", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    said = json.loads(ran.stderr)
    assert (said["level"], said["error"]) == ("ERROR", "LogError")
    assert str(tmp_path / "none") in said["message"]
