"""``jobs/``: each of the long commands is there for spark-submit, with its options and codes."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

JOBS = Path(__file__).parents[3] / "jobs"


@pytest.mark.parametrize("name", ["run", "snapshot", "verify"])
def test_a_job_is_its_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
    assert f"usage: spark-repl {name}" in capsys.readouterr().out
