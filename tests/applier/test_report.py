"""``report``, and the page that the applier serves: whole, of this target, and with no markup that
a source could bring."""

from __future__ import annotations

import http.client
import json
import re
import stat
import time
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from spark_repl import Config
from spark_repl.apply.start.replica import Replica
from spark_repl.cli.main import main
from spark_repl.config import load
from spark_repl.control.records.channels import channel_at, opened
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.observe.reports import progress_history
from spark_repl.observe.reports.progress_history import COLUMNS
from spark_repl.observe.status import status
from spark_repl.observe.status.table_figures import FigureReader
from spark_repl.observe.web import endpoint, table_rows
from spark_repl.observe.web.lag_history import lag_history
from spark_repl.observe.web.page import page as whole
from spark_repl.observe.web.table_rows import TableRows
from tests.support.binlog_writer import LogWriter, Table, delete, insert, update
from tests.support.local_delta import (
    HERE,
    applier,
    apply_without_stream,
    at_any_port,
    cuts,
    run,
    stopped,
    without_spark,
)

A = Table("a")
HOSTILE = "</td><script>alert(1)</script><b a='\"😀"
_VOID = {"meta", "link", "input"}
OWN_SCRIPTS = 2
"""uPlot and the page's own script, which a report contains"""


class Parsed(HTMLParser):
    """Fails where an element is closed that isn't open. ``tags``: all that were met; ``text``:
    what is shown."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.tags, self.text, self.attributes = list[str](), set[str](), "", set[str]()
        self.pre, self.scripts = "", 0
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.scripts += tag == "script"
        self.attributes.update(name for name, _ in attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.pre += data if "pre" in self.open else ""
        self.text += "" if {"style", "script", "pre"} & set(self.open) else data + "\n"


def plots(text: str) -> dict[str, Any]:
    """What the script draws, by the titles of the plots."""
    found = re.findall(r'<figure class="plot" data-name="([^"]*)" data-plot="([^"]*)"', text)
    return {title: json.loads(unescape(data)) for title, data in found}


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    made = LogWriter(tmp_path / "log")
    made.ddl("CREATE DATABASE t")
    made.ddl(A.create)
    for key in range(5):
        made.transaction(insert(A, (key, "x")))
    return made


def written(target: Path, out: Path) -> tuple[str, Parsed]:
    assert main(["report", "--target", str(target), "--out", str(out), "--json"]) == 0
    text = out.read_text("utf-8")
    return text, Parsed(text)


def test_a_report_says_what_status_says(
    log: LogWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(progress_history, "EVERY_S", 1e6)  # no sample on a slow machine either
    target, out = tmp_path / "lake", tmp_path / "report.html"
    run(log.folder, target, group_max_transactions=1)
    text, page = written(target, out)
    assert json.loads(capsys.readouterr().out) == {"out": str(out), "bytes": len(text.encode())}
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.glob("report*")] == ["report.html"]
    executed = cuts(target)[-1].gtid_executed
    for said in ("no: it was stopped", "nothing", executed, "t.a", "t/a", "End-to-end latency",
                 "From commit to cut", "CREATE DATABASE t"):  # fmt: skip
        assert said in page.text, said
    assert set(plots(text)) == {"End-to-end latency", "Latency of the kept cuts",
                                "Rate of the kept cuts"}  # fmt: skip
    assert "data-live" not in text.partition("<script>")[0], "a file is not asked for again"


def test_a_statement_is_a_mark_on_the_time_line(log: LogWriter, tmp_path: Path) -> None:
    log.ddl("CREATE TABLE t.b (a INT PRIMARY KEY)")
    log.transaction(insert(A, (9, "x")))
    run(log.folder, tmp_path / "lake", group_max_transactions=1)
    text, page = written(tmp_path / "lake", tmp_path / "report.html")
    drawn = plots(text)["End-to-end latency"]
    (at,) = (at for at, said in drawn["marks"] if "CREATE TABLE t.b" in said)
    assert drawn["x"][0] < at < drawn["x"][-1]
    assert "Newest cuts of those that are drawn" in page.text


def test_the_slowest_table_comes_first(log: LogWriter, tmp_path: Path) -> None:
    target, other = tmp_path / "lake", Table("b")
    log.ddl(other.create)
    log.transaction(insert(other, (1, "x")))
    run(log.folder, target)
    found = status.status(str(target))
    assert all(0 < table["write_seconds"] < 60 for table in found["tables"].values())
    found["statements"]["last"] = []
    for slow, fast in (("t.a", "t.b"), ("t.b", "t.a")):
        found["tables"][slow]["write_seconds"] = 9000.5
        found["tables"][fast]["write_seconds"] = 1.0
        shown = Parsed(whole(found, [], live=False)).text
        assert shown.index(f"{slow}\n") < shown.index(f"{fast}\n")


def test_waves_and_groups_are_drawn_over_time(log: LogWriter, tmp_path: Path) -> None:
    run(log.folder, tmp_path / "lake")
    found = status.status(str(tmp_path / "lake"))
    now = time.time()
    found["past"] = {"columns": COLUMNS, "samples": [
        [now - 20, 0.0, 0, 5.0, 50.0, 40.0, 2.5], [now - 10, 0.0, 0, 5.0, 50.0, 50.0, 3.5],
    ]}  # fmt: skip
    drawn = plots(whole(found, [], live=False))
    assert drawn["Parallelism of the source"]["y"] == [[2.5, 3.5]]
    assert drawn["Transactions in a commit"]["y"] == [[40.0, 50.0]]


def test_nothing_is_asked_of_the_network(log: LogWriter, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    run(log.folder, target)
    text, page = written(target, tmp_path / "report.html")
    assert page.scripts == OWN_SCRIPTS
    assert page.tags.isdisjoint({"link", "img", "iframe", "object", "form"})
    assert page.attributes.isdisjoint({"src", "href", "onclick", "onload", "style"})
    assert "url(" not in text and "@import" not in text and "http:" not in text
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none';") and "connect-src" not in policy
    for kind in ("style", "script"):
        (allowed,) = re.findall(rf"{kind}-src ([^;]*)", policy)
        used = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)
        digests = (b64encode(sha256(part.encode()).digest()).decode() for part in used)
        assert allowed == " ".join(f"'sha256-{digest}'" for digest in digests)


def test_a_sources_names_are_text(log: LogWriter, tmp_path: Path) -> None:
    hostile = Table(HOSTILE)
    log.ddl(hostile.create.replace(f"t.{HOSTILE}", f"t.`{HOSTILE}`"))
    log.transaction(insert(hostile, (1, "x")))
    run(log.folder, tmp_path / "lake")
    _, page = written(tmp_path / "lake", tmp_path / "report.html")
    assert f"t.{HOSTILE}" in page.text
    assert page.scripts == OWN_SCRIPTS
    assert HOSTILE in " ".join(json.loads(page.pre)["tables"])
    log.ddl(f"ALTER TABLE t.`{HOSTILE}` ENGINE = '{'<script>'}'")
    log.ddl("ALTER TABLE t.a '<script>alert(2)</script>'")
    assert "<script>" in str(stopped(log.folder, tmp_path / "lake"))
    _, page = written(tmp_path / "lake", tmp_path / "report.html")
    assert page.scripts == OWN_SCRIPTS
    assert "Stopped by an error" in page.text and "<script>" in page.text


def test_what_can_not_be_written_is_named(
    log: LogWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, out = tmp_path / "lake", tmp_path / "none" / "report.html"
    assert main(["report", "--target", str(target), "--out", str(out)]) == 1
    assert "nothing has been applied" in capsys.readouterr().err
    run(log.folder, target)
    assert main(["report", "--target", str(target), "--out", str(out)]) == 2
    assert "can't write the report: No such file" in capsys.readouterr().err


def test_commands_on_the_page_name_the_configuration(
    log: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.transaction(update(A, ((77, "never"), (77, "was"))))
    stopped(log.folder, tmp_path / "lake")
    file, token, out = tmp_path / "my.toml", tmp_path / "token", tmp_path / "page.html"
    token.write_text("a-token-of-24-characters")
    file.write_text(
        f"[relay]\npath = {json.dumps(str(log.folder))}\n[target]\npath = 'lake'\n"
        "[observe]\nrows = true\ntoken_file = 'token'\n"
    )
    config = load(file)
    found = endpoint.endpoint_snapshots(config, config.relay.path, opened(config))
    command = f"spark-repl snapshot --config {file} --table t.a"
    assert command in Parsed(found["/"].text()).text
    assert main(["report", "--config", str(file), "--out", str(out)]) == 0
    assert command in Parsed(out.read_text("utf-8")).text
    monkeypatch.setattr(table_rows.sys, "executable", "/bin/false")
    assert found["/rows"].of is not None
    answer = json.loads(found["/rows"].of({"table": "t.a"}))
    assert answer["hint"] == f"spark-repl cut head --config {file} t.a -n 1"


def test_the_past_is_that_of_the_cuts(log: LogWriter, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    run(log.folder, target, group_max_transactions=1)
    control, kept = Control(Layout(str(target)).control), cuts(target)
    found = lag_history(control)
    assert [one.at for one in found] == sorted(cut.at for cut in kept if cut.at)
    assert all(one.late_s is not None for one in found)
    assert all(one.transactions_per_s > 0 for one in found[1:])
    few = lag_history(control, most=3)
    assert len(few) == 3 and few[-1] == replaced_rate(found[-1], few[-1])


def replaced_rate(moment: Any, other: Any) -> Any:
    """The moment with another's rate: that is since the moment before, which is another one."""
    return replace(moment, transactions_per_s=other.transactions_per_s)


def test_the_applier_serves_the_report(log: LogWriter, tmp_path: Path) -> None:
    with applier(log.folder, tmp_path / "lake") as plain:
        config = at_any_port(plain.config)
    with without_spark(), Replica(MagicMock(), config, parts=HERE) as found:
        apply_without_stream(found)
        found.opened.status._written = 0.0  # or it may wait for half a second
        found.opened.status.copies(["t.a"], 5, 20)
        served = found._endpoint
        assert served is not None
        paths = ("/", "/status.json", "/metrics", "/x")
        answers = {path: asked(served.port, path) for path in paths}
    assert {path: code for path, (code, _, _) in answers.items()} == {
        "/": 200, "/status.json": 200, "/metrics": 200, "/x": 404,
    }  # fmt: skip
    page = Parsed(answers["/"][2])
    assert page.pre == "" and "Copy of t.a" in page.text
    assert 'aria-label="Copy of t.a: 5 of about 20 rows"' in answers["/"][2]
    assert ' max="20" value="5">' in answers["/"][2]
    assert status.status(str(tmp_path / "lake"))["copy"] == {}, "none is under way any more"
    assert answers["/"][1] == "text/html; charset=utf-8"
    assert "t.a" in page.text and "data-live" in answers["/"][2]
    assert json.loads(answers["/status.json"][2])["state"] == "running"
    assert "spark_repl_applier_running" in answers["/metrics"][2]


def test_however_many_ask_there_is_one_look_a_second(
    log: LogWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "lake"
    run(log.folder, target)
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    config = Config().override({"target.path": str(target)})
    found = endpoint.endpoint_snapshots(config, str(log.folder), opened(config))
    before = found["/status.json"].text()
    Path(Layout(str(target)).status).unlink()
    assert all(look.text() for look in found.values())
    assert found["/status.json"].text() == before, "no other look"
    clock[0] += 1.1
    said = found["/status.json"].text()
    assert json.loads(said)["state"] == "stopped" and said != before


def asked(port: int, path: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers["Content-Type"], text


def test_figures_of_tables_follow_their_logs(log: LogWriter, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    run(log.folder, target)
    reader = FigureReader(channel_at(str(target)))
    first = reader.figures()["t.a"]
    files = list((target / "t" / "a").glob("*.parquet"))
    assert first.rows == 5 and first.size_bytes == sum(path.stat().st_size for path in files)
    assert first.changed_at is not None and first.statement_at is not None
    assert first.statement_at <= first.changed_at
    log.transaction(insert(A, (9, "x")))
    log.transaction(delete(A, (0, "x")))
    log.transaction(delete(A, (1, "x")))
    run(log.folder, target)
    second = reader.figures()["t.a"]
    assert second.rows == 4, "deleted rows do not count"
    assert second.changed_at is not None and second.changed_at > first.changed_at
    assert second.statement_at == first.statement_at
    log.ddl("ALTER TABLE t.a ADD COLUMN more INT")
    run(log.folder, target)
    third = reader.figures()["t.a"]
    assert third.statement_at is not None and third.statement_at > first.statement_at
    assert third.changed_at == second.changed_at, "a statement without rows changes none"


@pytest.mark.slow
def test_rows_for_the_page_are_those_of_the_cut(log: LogWriter, tmp_path: Path) -> None:
    hostile = Table(HOSTILE)
    log.ddl(hostile.create.replace(f"t.{HOSTILE}", f"t.`{HOSTILE}`"))
    log.transaction(insert(hostile, (1, HOSTILE)))
    run(log.folder, tmp_path / "lake", group_max_transactions=1)
    tables = TableRows(str(tmp_path / "lake"), "", "")
    answer = json.loads(tables.read(f"t.{HOSTILE}", "latest"))
    assert answer["rows"] == [["1", HOSTILE]] and answer["columns"][0]["number"]
    assert answer["gtid_executed"] == cuts(tmp_path / "lake")[-1].gtid_executed
    early = json.loads(tables.read("t.a", str(cuts(tmp_path / "lake")[3].at)))
    assert 0 < len(early["rows"]) < 5
    assert "has no table" in json.loads(tables.read("t.none", "latest"))["error"]
