"""Prometheus' own tool takes the alert rules and the metrics: ``promtool``, of the package
``prometheus``; skipped without it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from spark_repl.observe.metrics import metrics
from spark_repl.observe.status.status import status
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.local_delta import run

RULES = Path(__file__).parents[2] / "conf" / "prometheus" / "alerts.yml"


def promtool(*words: str, said: str = "") -> str:
    """What it prints; fails where it refuses, or warns."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("promtool is not installed: Debian has it in its package prometheus")
    ran = subprocess.run([tool, *words], input=said, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout + ran.stderr
    return ran.stdout


def test_promtool_accepts_the_alert_rules(tmp_path: Path) -> None:
    words = ["check", "rules", "--lint=all", "--lint-fatal"]
    assert f"SUCCESS: {RULES.read_text('utf-8').count('- alert:')} rules" in promtool(
        *words, str(RULES)
    )
    (tmp_path / "odd.yml").write_text(RULES.read_text("utf-8").replace("> 300", "> > 300"))
    with pytest.raises(AssertionError, match="parse error"):
        promtool(*words, str(tmp_path / "odd.yml"))


def test_it_finds_no_fault_in_the_metrics(tmp_path: Path) -> None:
    log, target = LogWriter(tmp_path / "log"), tmp_path / "lake"
    log.ddl("CREATE DATABASE t")
    log.ddl(Table("a").create)
    log.transaction(insert(Table("a"), (1, "x")))
    run(log.folder, target)
    promtool("check", "metrics", said=metrics(status(str(target))))
    with pytest.raises(AssertionError, match="counter"):
        promtool("check", "metrics", said="# HELP odd x\n# TYPE odd counter\nodd 1\n")
