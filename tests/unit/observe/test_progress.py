"""Lines about a first copy where there is no terminal for a bar."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from spark_repl.config import Config
from spark_repl.observe.progress import CopyProgress

ROWS_AT = {1.0: 100, 29.0: 2_000, 31.0: 6_200, 45.0: 7_000, 61.5: 12_300}
"""rows committed by a second of the copy"""


def copied(config: Config) -> None:
    now = 0.0
    with CopyProgress(config, clock=lambda: now) as progress:
        for now, rows in ROWS_AT.items():  # noqa: B007
            progress.update(rows, 20_000)


def test_a_copy_prints_a_line_every_30_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    copied(Config())
    assert capsys.readouterr().err.splitlines() == [
        "copying: 6,200 of about 20,000 rows, 200 rows/s",
        "copying: 12,300 of about 20,000 rows, 200 rows/s",
    ]


def test_lines_name_their_channel(capsys: pytest.CaptureFixture[str]) -> None:
    copied(Config().override({"channel": "eu"}))
    assert capsys.readouterr().err.startswith("eu: copying: 6,200 of about")


def test_a_log_in_json_has_the_lines_as_messages(capsys: Any, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    copied(Config().override({"observe.log_format": "json"}))
    assert len(caplog.messages) == 2 and caplog.messages[0].startswith("copying: 6,200 of about")
    assert not capsys.readouterr().err
