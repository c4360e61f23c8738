"""What `status` says first, from another process' view: while it runs, after an error, after a
crash, before the first start; and the metrics that the applier serves meanwhile."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import urllib.request
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spark_repl.apply.start.replica import Replica
from spark_repl.cli.main import main
from spark_repl.control.table.owner import Owner
from spark_repl.errors import ConfigError
from spark_repl.gtid import GtidSet
from spark_repl.observe.metrics import metrics
from spark_repl.observe.reports import applier_status
from spark_repl.observe.reports.applier_status import WAITING_FOR_WORK, Notice
from spark_repl.observe.reports.worker_status import STAGING
from spark_repl.observe.screen import screen
from spark_repl.observe.status.status import status
from spark_repl.receiver.report import Report
from tests.support.binlog_writer import Table, insert, update
from tests.support.local_delta import HERE, applier, apply_without_stream, at_any_port, run, stopped

A, B = Table("a"), Table("b")
CONF = Path(__file__).parents[2] / "conf"
HOSTILE = 't.a"}\n1\\ \x1b[2J\r{evil="x'


def first(target):
    """The lines that people look at first: heading -> text."""
    found, key = {}, ""
    for line in screen(status(str(target))).partition("\n\n")[0].splitlines():
        key = line[:10].strip(" :") or key
        found[key] = found.get(key, "") + line[10:]
    return found


def test_status_tells_a_running_applier_from_a_stopped_one(log, target):
    # Scenario 163: what it does, while it runs and after.
    log.transaction(insert(A, (1, "x"), (2, "y")))
    log.transaction(insert(B, (1, "x")))
    with applier(log.folder, target) as found:
        assert "starting" in first(target)["running"], "and nothing of the run before"
        found.copying((), 0, 0)  # as run does when it starts, and has it written
        assert first(target)["doing"] == "Reading event from the relay log"
        apply_without_stream(found)
        said = first(target)
        assert said["running"].startswith(f"yes, process {os.getpid()} ")
        assert said["behind"] == "applier 0 s, 0 transactions" and said["wrong"] == "nothing"
        assert said["doing"].startswith("Replica has read all relay log")
    said = first(target)
    assert said["running"].startswith("no: it was stopped") and said["doing"] == "nothing"
    assert said["wrong"] == "nothing" and said["behind"] == "applier not known"
    tables = status(str(target))["tables"]
    assert {name: table["row_changes"] for name, table in tables.items()} == {"t.a": 2, "t.b": 1}


def test_short_prints_the_first_lines_alone(log, target, capsys):
    run(log.folder, target)
    assert main(["status", "--short", "--target", str(target)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["running", "behind", "wrong", "doing"]


def test_it_waits_for_more_only_where_all_is_read(log, target):
    """Also behind a start at which there is nothing new, when no batch comes; and between batches
    of a backlog it has not read all."""
    log.transaction(insert(A, (1, "x")))
    log.transaction(insert(A, (2, "x")))
    with applier(log.folder, target) as found:
        index = found.index
        first_end = int(index.records["end"][-2])
        found.coordinator.apply(index.slice(0, first_end))
        found.copying((), 0, 0)
        assert first(target)["doing"] == "Reading event from the relay log"
        apply_without_stream(found)
    with applier(log.folder, target) as found:
        apply_without_stream(found)
        assert first(target)["doing"].startswith("Replica has read all relay log")


def test_a_folder_that_is_the_table_no_more_is_said(log, target, capsys):
    """Who reads or changes it by its path has not the table."""
    log.transaction(insert(A, (1, "x")))
    run(log.folder, target)
    assert status(str(target))["former"] == [] and "what lies at" not in screen(status(str(target)))
    log.ddl("DROP TABLE t.a")
    log.ddl(A.create)
    run(log.folder, target)
    line = "t.a is at t/a@2: what lies at t/a is what it was before"
    assert line in screen(status(str(target)))
    capsys.readouterr()
    assert main(["cut", "show", "--target", str(target)]) == 0
    assert line in capsys.readouterr().out


def test_how_far_it_is_behind_while_it_works(log, target, monkeypatch):
    monkeypatch.setattr(applier_status, "_EVERY_S", 0.0)
    for number in range(4):
        log.transaction(insert(A, (number, "x")))
    seen = []
    with applier(
        log.folder, target, group_max_transactions=1,
        on_group=lambda *_: seen.append(status(str(target))["lag"]["applier"]["transactions"]),
    ) as found:  # fmt: skip
        apply_without_stream(found)
    assert seen == [6, 5, 4, 3, 2, 1, 0]


def test_an_error_is_said_with_what_to_do(log, target):
    # Scenario 163: number and text of what stopped it.
    log.transaction(update(A, ((7, "never"), (7, "was"))))
    error = stopped(log.folder, target)
    found, said = status(str(target)), first(target)
    assert found["state"] == "failed" and said["running"].startswith("no: an error has stopped it")
    assert found["problems"][0]["hint"] == error.hint and error.hint
    assert said["wrong"].startswith("1") and f"Try: {error.hint}" in said["wrong"]
    assert "was stopped by an error" in said["wrong"] and log.gtid(3) in said["wrong"]
    run(log.folder, target, exec_mode="idempotent")
    assert status(str(target))["problems"] == []


def test_a_crash_is_no_running_applier(log, target):
    """As after kill -9: the owner has not released the target, and its process is gone."""
    code = (
        "import os, sys; from pathlib import Path;"
        "from tests.support.local_delta import applier, apply_without_stream\n"
        "with applier(Path(sys.argv[1]), Path(sys.argv[2])) as found:\n"
        "    apply_without_stream(found); os.kill(os.getpid(), 9)"
    )
    ran = subprocess.run([sys.executable, "-c", code, log.folder, target], check=False)
    assert ran.returncode == -9
    found, said = status(str(target)), first(target)
    assert found["state"] == "crashed" and said["running"].startswith("NO: it has crashed")
    assert "start it again" in said["wrong"] and said["doing"] == "nothing"
    assert "spark_repl_applier_crashed{" + 'channel="default"} 1.0' in metrics(found)
    # On another host that can't be seen, which is said.
    with applier(log.folder, target) as elsewhere:
        owner = replace(Owner.me(elsewhere.config.channel), host="h")
        elsewhere.control.write("owner", detail=json.dumps(asdict(owner)))
        said = first(target)
    assert said["running"].startswith("starting") and "can't be seen from here" in said["wrong"]
    run(log.folder, target, take_over=True)


def test_status_of_an_empty_target_is_an_error(tmp_path, capsys):
    for place in (tmp_path, tmp_path / "none"):
        assert main(["status", "--target", str(place)]) == 1
        assert (
            f"Error: nothing has been applied to this target yet\n  file:     {place}\nTry: "
            in (capsys.readouterr().err)
        )


def test_watch_goes_on_until_ctrl_c(log, target, capsys, monkeypatch):
    from spark_repl.cli import status_command

    run(log.folder, target)
    looks = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(status_command, "time", SimpleNamespace(sleep=sleep))  # not all threads'
    assert main(["status", "--target", str(target), "--watch", "3"]) == 0
    text = capsys.readouterr().out
    assert text.count("running: ") == 2 and looks == [3.0, 3.0] and "\x1b" not in text
    looks.clear()
    assert main(["status", "--target", str(target), "--watch", "--json"]) == 0
    assert [json.loads(line)["state"] for line in capsys.readouterr().out.splitlines()] == [
        "stopped", "stopped",
    ]  # fmt: skip
    looks.clear()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["status", "--target", str(target), "--watch"]) == 0
    assert capsys.readouterr().out.count("\x1b[H") == 2 and looks == [2.0, 2.0]
    for wrong in ("0", "nan", "x"):
        with pytest.raises(SystemExit, match="2"):
            main(["status", "--target", str(target), "--watch", wrong])
    assert main(["status", "--target", str(target), "--watch", "--metrics"]) == 2


def test_metrics_are_served_while_it_runs(log, target):
    # Scenario 168: what is applied is counted.
    log.transaction(insert(A, (1, "x"), (2, "y")))
    made = applier(log.folder, target)
    with made as plain:
        assert plain._endpoint is None, "off by default"
        config = at_any_port(plain.config)
    log.transaction(insert(A, (3, "x")))
    with applier(log.folder, target) as found:
        found.close()
        served = Replica(found.spark, config, parts=found._parts)
        with served:
            apply_without_stream(served)
            address = f"http://127.0.0.1:{served._endpoint.port}/metrics"
            with urllib.request.urlopen(address) as answer:
                text = answer.read().decode()
    sampled = {s.name: s.value for f in text_string_to_metric_families(text) for s in f.samples}
    assert sampled["spark_repl_applier_running"] == 1
    assert sampled["spark_repl_row_changes_total"] == 3
    assert sampled["spark_repl_table_row_changes_total"] == 3
    assert sampled["spark_repl_commit_to_cut_seconds_count"] == 5
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address)


def test_a_taken_port_leaves_the_target_alone(log, target):
    with applier(log.folder, target) as found:
        config = found.config
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = config.override({"observe.listen": f"127.0.0.1:{taken.getsockname()[1]}"})
        epoch = status(str(target))["owner"]["epoch"]
        with (
            pytest.raises(ConfigError, match="already in use"),
            Replica(found.spark, config, parts=found._parts),
        ):
            pass
    assert status(str(target))["owner"]["epoch"] == epoch


def test_a_taken_port_is_only_said_by_default(log, target):
    """Only ``run`` serves a page that is not configured."""
    import socket

    log.transaction(insert(A, (1, "x")))
    with socket.create_server(("127.0.0.1", 0)) as taken, applier(log.folder, target) as found:
        assert found._endpoint is None and not found._notes
        found.close()
        parts = replace(HERE, listen=f"127.0.0.1:{taken.getsockname()[1]}")
        with Replica(found.spark, found.config, serves=True, parts=parts) as served:
            apply_without_stream(served)
            said = status(str(target))
    assert said["problems"][0]["what"].startswith("there is no page: observe.listen")
    assert status(str(target))["problems"] == [], "of a run that is over nothing is said"
    parts = replace(HERE, listen="127.0.0.1:0")
    with Replica(found.spark, found.config, serves=True, parts=parts) as served:
        assert served._endpoint is not None and not served._notes


def test_what_is_said_and_reloaded_while_it_runs(log, target):
    with applier(log.folder, target) as found:
        found.note("reload", Notice("not reloaded", "start again"))
        found.reload(replace(found.config.apply, xa_age_limit_s=7))
        apply_without_stream(found)
        said = applier_status.read_applier_status(found.layout.status)
        assert (said["notes"][0]["what"], said["xa_age_limit_s"]) == ("not reloaded", 7)
        found.note("reload", None)
        apply_without_stream(found)
    assert applier_status.read_applier_status(found.layout.status)["notes"] == []


def test_names_of_the_source_break_out_of_nothing(log, target):
    run(log.folder, target)
    found = status(str(target))
    found["tables"][HOSTILE] = found["tables"].pop("t.a") | {"path": HOSTILE, "row_changes": 1}
    families = list(text_string_to_metric_families(metrics(found)))
    named = {s.labels["table"] for f in families for s in f.samples if "table" in s.labels}
    assert HOSTILE in named and all(f.name.startswith("spark_repl_") for f in families)
    text = screen(found)
    assert all(c == "\n" or c.isprintable() for c in text) and "\\x1b[2J" in text


def test_a_group_is_one_line_with_both_places(log, target, caplog):
    caplog.set_level(logging.INFO)
    log.transaction(insert(A, (1, "x")))
    run(log.folder, target)
    said = [r for r in caplog.records if r.getMessage().startswith("applied ")]
    assert len(said) == 4 and sum(r.transactions for r in said) == 4
    last, end = said[-1], log.spans[-1][2]
    assert last.relay_position == last.source_position == f"bin.000001:{end}"
    assert last.is_cut and last.gtids == log.gtid(3)
    assert last.getMessage().endswith(
        f": relay log bin.000001:{end}, source bin.000001:{end}, shown by a cut"
    )


def test_rules_and_dashboard_name_metrics_that_are_there(log, target, monkeypatch):
    # Scenario 168: what rules and dashboards ask for is there.
    run(log.folder, target)
    found = status(str(target))
    report = {"SERVICE_STATE": "ON", "RELAY_LOG_SPACE": 1}
    found["replication_connection_status"] = [report]
    found["lag"]["receiver"] = found["lag"]["applier"] = {"seconds": 1.0, "transactions": 1}
    found["stream"] = {"batch": 1, "rows": 1, "seconds": 0.1}
    found["tables"]["t.a"]["row_changes"] = 1
    counted = {"differing": 0, "undecided": 0, "rows": 1, "not_compared": {}}
    found["verify"] = {"at": "2026-11-24T14:00:00+00:00", **counted}
    known = {s.name for f in text_string_to_metric_families(metrics(found)) for s in f.samples}
    texts = [(CONF / "prometheus" / "alerts.yml").read_text("utf-8")]
    dashboard = json.loads((CONF / "grafana" / "spark_repl.json").read_text("utf-8"))
    texts += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    texts.append(json.dumps(dashboard["templating"]))
    named = {name for text in texts for name in re.findall(r"spark_repl_\w+", text)}
    assert len(named) > 12 and named - known == set()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_it_has_not_read_what_has_come_since(log, target):
    """The applier has said that it has read all of its log; the receiver has more."""
    log.transaction(insert(A, (1, "x")))
    with applier(log.folder, target) as found:
        apply_without_stream(found)
        executed = str(status(str(target))["gtid_executed"])
        receiver = MagicMock(received=GtidSet.parse(executed), source_file="bin.1", log_id="")
        receiver.configure_mock(source_position=4, number=1, whole=4)
        receiver.total_bytes.return_value = 4
        report = Report(log.folder, "default")
        for more, doing in (("", WAITING_FOR_WORK), (f",{log.gtid(9)}", STAGING)):
            receiver.received = GtidSet.parse(executed + more)
            report.write("ON", receiver)
            seen = status(str(target), str(log.folder))
            (coordinator,) = seen["replication_applier_status_by_coordinator"]
            assert coordinator["PROCESSLIST_STATE"] == doing
            assert f"doing:    {doing}" in screen(seen)
