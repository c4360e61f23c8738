"""``jobs/``: each of the long commands is there for spark-submit, with its options and codes."""

from __future__ import annotations

import runpy
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from spark_repl.cli.argument_parser import parser

JOBS = Path(__file__).parents[3] / "jobs"


COMMANDS = {"run": "run", "snapshot": "snapshot", "verify": "verify", "replicate": "apply"}


@pytest.mark.parametrize(("name", "command"), COMMANDS.items())
def test_a_job_is_its_command(
    name: str,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "none.toml"
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(file), "--verbose"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(JOBS / f"{name}.py"), run_name="__main__")
    assert ended.value.code == 2
    assert "can't read the configuration" in (said := capsys.readouterr().err) and str(file) in said
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(file), "--help"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(JOBS / f"{name}.py"), run_name="__main__")
    assert f"usage: spark-repl {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "follows"), [([], True), (["--follow"], True), (["--available-now"], False)]
)
def test_replicate_passes_on_the_options_of_apply(given: list[str], follows: bool) -> None:
    words = ["F", "--from-here", "--until", "after-gaps", "--workers", "3", "--take-over", *given]
    command = runpy.run_path(str(JOBS / "replicate.py"))["command"](words)
    options = parser(defaultdict(str)).parse_args(command)
    assert options.config == "F" and options.from_here and options.take_over
    assert (options.until, options.workers, options.follow) == ("after-gaps", 3, follows)
