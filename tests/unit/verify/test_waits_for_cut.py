"""A verify that waits: what it says, and that it doesn't where no applier is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl import Config
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.errors import TargetError
from spark_repl.gtid import GtidSet
from spark_repl.observe.reports.applier_status import ApplierStatus
from spark_repl.verify import waits_for_cut
from spark_repl.verify.waits_for_cut import CutWait

LEFT = GtidSet.parse("11111111-1111-1111-1111-111111111111:5-7")


@pytest.fixture
def control(tmp_path: Path) -> Control:
    made = Control(Layout(str(tmp_path)).control)
    made.claim()
    return made


def wait(tmp_path: Path, control: Control, wait_s: float = 0) -> CutWait:
    config = Config().override({"target.path": str(tmp_path)})
    return CutWait(config, Layout(str(tmp_path)), control, wait_s)


def says(tmp_path: Path, control: Control, error: Exception | None) -> None:
    ApplierStatus(Layout(str(tmp_path)).status, Config(), control.epoch).stopped(error)


def test_a_verify_waits_for_nothing_if_nothing_is_missing(tmp_path: Path, control: Control) -> None:
    control.release()
    wait(tmp_path, control).for_cut(GtidSet)
    wait(tmp_path, control).for_source(GtidSet)


def test_the_error_that_has_stopped_the_applier_is_said_at_once(
    tmp_path: Path, control: Control
) -> None:
    """With the way out that it named: somebody else's commit, say."""
    says(tmp_path, control, TargetError("another writer changed the table", hint="RESTORE it"))
    control.release()
    with pytest.raises(TargetError, match=r"stopped by an error, .*: another writer") as caught:
        wait(tmp_path, control, 300).for_cut(lambda: LEFT)
    assert caught.value.hint == "RESTORE it; once it runs, ask again"
    assert caught.value.message.startswith("nothing was compared, or repaired: the applier was")


def test_a_verify_does_not_wait_for_an_applier_that_is_gone(
    tmp_path: Path, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no error: after the time in which one is started again."""
    monkeypatch.setattr(waits_for_cut, "_GONE_S", 0.0)
    says(tmp_path, control, None)
    control.release()
    with pytest.raises(TargetError, match=f"no applier runs.*{LEFT}") as caught:
        wait(tmp_path, control, 300).for_cut(lambda: LEFT)
    assert "ask again beside it; spark-repl status" in str(caught.value.hint)


def test_a_verify_waits_for_a_running_applier(
    tmp_path: Path, control: Control, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """And it is said what for; an error of the owner before is none."""
    monkeypatch.setattr(waits_for_cut, "_LOG_S", 0.0)
    monkeypatch.setattr(waits_for_cut, "_GONE_S", 0.0)
    says(tmp_path, control, TargetError("of before"))
    control.release()
    control.claim()
    left = [LEFT, LEFT, GtidSet()]
    wait(tmp_path, control, 300).for_cut(lambda: left.pop(0))
    assert f"waiting until a cut holds {LEFT}" in caplog.text
    with pytest.raises(TargetError, match=f"before a cut holds all that was read: {LEFT}"):
        wait(tmp_path, control).for_cut(lambda: LEFT)


def test_a_source_is_waited_for_without_an_applier(tmp_path: Path, control: Control) -> None:
    control.release()
    with pytest.raises(TargetError, match="before the source shows"):
        wait(tmp_path, control).for_source(lambda: LEFT)
