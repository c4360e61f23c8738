"""Lines about a first copy where there is no terminal for a bar."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.observe.progress import CopyProgress

ROWS_AT = {1.0: 100, 29.0: 6_000, 45.0: 7_000, 50.0: 10_000}
"""second of the copy -> rows that are committed by then"""


def copied(config: Config) -> None:
    now, lines = 0.0, 0

    def wait(seconds: float) -> bool:
        """Let the seconds pass. The copy ends after the third line."""
        nonlocal now, lines
        until = now + seconds
        for moment, rows in ROWS_AT.items():
            if now < moment <= until:
                now = moment
                progress.update(rows, 20_000)
        now, lines = until, lines + 1
        return lines > 3

    with CopyProgress(config, clock=lambda: now) as progress:
        progress.print_lines(wait)


def test_a_copy_prints_a_line_every_30_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    copied(Config())
    assert capsys.readouterr().err.splitlines() == [
        "copying: 6,000 of about 20,000 rows, 207 rows/s",
        "copying: 10,000 of about 20,000 rows, 200 rows/s",
        "copying: 10,000 of about 20,000 rows, 200 rows/s",
    ]


def test_lines_name_their_channel(capsys: pytest.CaptureFixture[str]) -> None:
    copied(Config().override({"channel": "eu"}))
    assert capsys.readouterr().err.startswith("eu: copying: 6,000 of about")


def test_a_log_in_json_has_the_lines_as_messages(capsys: Any, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    copied(Config().override({"observe.log_format": "json"}))
    assert len(caplog.messages) == 3 and caplog.messages[0].startswith("copying: 6,000 of about")
    assert not capsys.readouterr().err
