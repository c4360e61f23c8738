"""Each line of a log in JSON is one object."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.error_report import report
from spark_repl.cli.log_lines import JsonLines, StandardError, log_as
from spark_repl.errors import SourceError
from spark_repl.runtime.threads import OF_CHANNEL, Pool, under_channel


def line(message, *args, **more):
    return JsonLines().format(logging.getLogger("x").makeRecord(
        "x", logging.INFO, "f", 1, message, args, more.pop("exc_info", None), extra=more
    ))  # fmt: skip


def test_a_log_line_has_its_fields():
    said = json.loads(line("applied %d", 3, relay_position="bin.000001:4", is_cut=True))
    assert (said["level"], said["logger"], said["message"]) == ("INFO", "x", "applied 3")
    assert (said["relay_position"], said["is_cut"]) == ("bin.000001:4", True)
    assert said["at"].endswith("+00:00") and "args" not in said and "exception" not in said


def test_no_value_makes_a_line_of_its_own():
    name = 't.a\n{"level": "ERROR"}\x1b[2J\u2028'
    text = line("%s", name, table=name)
    assert len(text.splitlines()) == 1 and "\x1b" not in text
    assert json.loads(text)["message"] == json.loads(text)["table"] == name


def test_a_log_line_holds_the_traceback():
    try:
        raise ValueError("odd")
    except ValueError:
        text = line("it failed", exc_info=sys.exc_info())
    assert len(text.splitlines()) == 1
    assert "ValueError: odd" in json.loads(text)["exception"]


def test_a_line_goes_to_the_standard_error_of_its_moment(monkeypatch: Any) -> None:
    """A progress bar replaces it after the log was set up."""
    handler, bar = StandardError(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", bar)
    handler.handle(logging.getLogger("x").makeRecord("x", logging.INFO, "f", 1, "a line", (), None))
    assert bar.getvalue() == "a line\n"


@pytest.mark.parametrize("form", ["text", "json"])
def test_each_line_of_several_channels_has_its_name(form: str, capsys: Any) -> None:
    """Also those of threads that are not the channel's own, and an error's."""

    def said(channel: str) -> list[str]:
        with under_channel(channel), Pool(1) as pool:
            pool.submit(logging.getLogger("x").warning, "at %d", 4).result()
            pool.submit(report, SourceError("gone", hint="look")).result()
        return str(capsys.readouterr().err).splitlines()

    logger, handler = logging.getLogger(), logging.StreamHandler(sys.stderr)
    logger.addHandler(handler)
    try:
        log_as(form)
        with_name, without = said("eu"), said("")
    finally:
        logger.removeHandler(handler)
    if form == "json":
        named, plain = ([*map(json.loads, lines)] for lines in (with_name, without))
        assert [one.pop("channel") for one in named] == ["eu", "eu"]
        assert [one["message"] for one in named] == ["at 4", "gone"]
        assert [one.keys() for one in plain] == [one.keys() for one in named]
    else:
        assert with_name[:2] == ["WARNING x: eu: at 4", "Error: eu: gone"]
        assert without[:2] == ["WARNING x: at 4", "Error: gone"]


def test_a_process_beside_a_channel_says_its_name() -> None:
    """Its receiver, which is a command of its own."""
    command = [sys.executable, "-m", "spark_repl", "receive", "--config", "none.toml"]
    for channel, says in (("eu", "Error: eu: "), ("", "Error: can")):
        env = {**os.environ, OF_CHANNEL: channel}
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert ran.returncode == 2 and ran.stderr.startswith(says), ran.stderr


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
