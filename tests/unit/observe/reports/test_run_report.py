"""`status` shows a run that has no applier: one that begins, that an error stopped, that is
restarted, that was killed. It shows none of these after a later applier has started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.cli.main import main
from spark_repl.config import Config
from spark_repl.control.records.channels import control_of, layout_of, opened
from spark_repl.control.table.owner import Owner
from spark_repl.errors import ConfigError, FencedError, SourceError, SourceLostError
from spark_repl.observe.reports.run_report import report_of
from spark_repl.observe.screen import screen
from spark_repl.observe.status.problems import problems
from spark_repl.observe.status.status import status
from spark_repl.observe.web.page import page
from spark_repl.runtime.spark_session import build_session
from spark_repl.service.channel_run import ChannelRun
from tests.support.no_source import no_source
from tests.unit.service.test_channel_runs import Runs, runs

__all__ = ["runs"]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return no_source(tmp_path)


def look(config: Config) -> dict[str, Any]:
    return status(config.target.path, at=opened(config))


def test_status_while_a_run_starts(config: Config) -> None:
    control = control_of(config)
    control.claim()
    control.release()
    assert look(config)["state"] == "stopped"
    report_of(config).begins("starting Spark")
    seen = look(config)
    assert seen["state"] == "starting" and seen["problems"] == []
    said = screen(seen)
    assert f"running:  starting, process {os.getpid()} on " in said
    assert "doing:    starting Spark\n" in said
    assert "starting Spark" in page(seen, [], live=False)
    report_of(config).ended()
    assert look(config)["state"] == "stopped" and not os.path.exists(layout_of(config).run)


def test_status_while_a_run_copies(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy owns the target: how far it is counts until there is an applier."""
    control = control_of(config)
    control.claim()
    assert look(config)["run"] == {}
    report, now = report_of(config), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    report.copies(1000, 5000)
    now[0] += 0.9
    report.copies(1001, 5000)
    assert "doing:    copying the tables: 1,000 of about 5,000 rows\n" in screen(look(config))
    report.copies(5000, 5000)
    assert look(config)["run"]["doing"] == "copying the tables: 5,000 of about 5,000 rows"
    report.ended()
    assert look(config)["run"] == {}
    control.release()


def test_while_it_waits_for_the_lease_of_an_owner_elsewhere(config: Config) -> None:
    control = control_of(config)
    control.claim()
    owner = replace(Owner.me(config.channel, "its claim", 4), host="elsewhere")
    control.write("owner", detail=json.dumps(asdict(owner)))
    said = list[str]()

    class Waiting(ChannelRun):
        def _begins(self, what: str) -> None:
            super()._begins(what)
            said.append(look(config)["run"]["doing"])
            self.stop()

    assert Waiting(config, "none.toml", build_session).run() is None
    assert len(said) == 1 and said[0].startswith("another applier owns this target: pid")
    assert look(config)["run"] == {}


def test_an_error_before_there_is_an_applier(
    config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SourceLostError):
        ChannelRun(config, "none.toml", build_session).run()
    seen = look(config)
    (problem,) = seen["problems"]
    assert seen["state"] == "failed"
    assert problem["what"].startswith("run has failed at 20")
    assert "can't connect to 127.0.0.1:1" in problem["what"]
    assert "source.port" in problem["hint"] and "again" not in problem["what"]
    receiver = {"SERVICE_STATE": "OFF", "LAST_ERROR_MESSAGE": seen["run"]["error"]}
    assert len(problems({**seen, "replication_connection_status": [receiver]})) == 1, "said once"
    receiver["LAST_ERROR_MESSAGE"] = "another one"
    assert len(problems({**seen, "replication_connection_status": [receiver]})) == 2
    file = tmp_path / "my.toml"
    file.write_text(
        f'relay.path = "{config.relay.path}"\ntarget.path = "{config.target.path}"\n', "utf-8"
    )
    assert main(["status", "--config", str(file)]) == 0, "though it has applied nothing yet"
    said = capsys.readouterr().out
    assert "running:  no: an error has stopped it" in said and "can't connect to" in said


def test_who_was_turned_away_leaves_the_others_report_alone(config: Config) -> None:
    control_of(config).claim()
    with pytest.raises(FencedError):
        ChannelRun(config, "none.toml", build_session).run()
    assert not os.path.exists(layout_of(config).run)


def test_a_killed_run_is_reported_as_crashed(config: Config) -> None:
    given = {"relay": {"path": config.relay.path}, "target": {"path": config.target.path}}
    code = (
        "import os; from spark_repl.config import Config;"
        "from spark_repl.observe.reports.run_report import report_of;"
        f"report_of(Config.from_mapping({given})).begins('starting Spark'); print(os.getpid())"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    seen = look(config)
    assert seen["state"] == "crashed"
    assert f"process {run.stdout.strip()} is gone" in seen["problems"][0]["what"]
    assert "doing:    nothing\n" in screen(seen)


def test_an_applier_that_came_later_counts(config: Config) -> None:
    report_of(config).failed(SourceError("refused"))
    assert look(config)["state"] == "failed"
    path = Path(layout_of(config).run)
    path.write_text(path.read_text("utf-8").replace('"at": "20', '"at": "19'), "utf-8")
    control = control_of(config)
    control.claim()
    assert look(config)["state"] == "starting" and look(config)["run"] == {}
    control.release()


def test_status_names_when_a_channel_starts_again(runs: Any) -> None:
    found: Runs = runs(eu=[SourceError("refused", hint="ask it"), None], us=[None])
    found.until(lambda: bool(found.errors))
    seen = look(found.read("eu.toml"))
    (problem,) = seen["problems"]
    assert seen["state"] == "failed" and problem["hint"] == "ask it"
    again = seen["run"]["again_at"]
    assert problem["what"] == (
        f"run has failed at {seen['run']['at']}: refused; begins again at {again}, or at SIGHUP"
        " (attempt 1)"
    )
    assert again > seen["run"]["at"]
    assert "doing:    waiting to be begun again\n" in screen(seen)


def test_status_counts_a_channels_attempts(runs: Any) -> None:
    found: Runs = runs(
        again_s=0.01, eu=[SourceError("refused")] * 3 + [ConfigError("x")], us=[None]
    )
    found.until(lambda: len(found.errors) == 4)
    (problem,) = look(found.read("eu.toml"))["problems"]
    assert problem["what"].endswith(": x; begins again at SIGHUP (attempt 4)")
