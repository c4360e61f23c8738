"""Who owns a target: its channel, its process, what it decides by hand, the folders it inherits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from spark_repl.binlog.events.xid import Xid
from spark_repl.control.records.operator_decisions import decide, makes_rows_differ
from spark_repl.control.table import control as control_cleanup
from spark_repl.control.table import control as module
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import ControlLog
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.control.table.owner import Owner, succeed
from spark_repl.errors import FencedError, TargetError

BRANCH = {**Xid(1, b"x", b"").to_json(), "position": 7, "user": "u", "host": "h"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "control")


def claimed(path: str, channel: str = "", *, take_over: bool = False) -> Control:
    control = Control(path, channel)
    control.claim(take_over=take_over)
    return control


def living(control: Control, **other: object) -> None:
    """The owner is another process, which may be alive."""
    known = {**asdict(Owner.me(control.channel)), "host": "elsewhere", **other}
    control.write("owner", detail=json.dumps(known))


def test_an_owner_that_may_be_alive_is_not_overrun(path: str) -> None:
    living(claimed(path))
    with pytest.raises(FencedError, match=r"owns this target: .* on host elsewhere"):
        claimed(path)
    second = claimed(path, take_over=True)
    assert (second.took_over, second.epoch) == (True, 2)


def test_an_owner_that_is_dead_is_followed(path: str) -> None:
    first = claimed(path)
    living(first, released=True)
    second = claimed(path)
    assert (second.took_over, second.epoch) == (False, 2)
    with pytest.raises(FencedError):
        first.check_owner()
    second.check_owner()


def test_only_a_process_of_this_host_can_be_known_to_be_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    me = Owner.me("c")
    assert (me.channel, me.pid, me.is_dead) == ("c", os.getpid(), False)
    assert replace(me, pid=ended.pid).is_dead
    assert replace(me, started=me.started - 1).is_dead, "the pid is another process's now"
    assert not replace(me, pid=ended.pid, host="elsewhere").is_dead
    assert replace(me, host="elsewhere", released=True).is_dead


@pytest.mark.parametrize("other", [{"boot_id": "another"}, {"pid_namespace": 1}])
def test_equal_host_names_do_not_show_that_a_process_is_dead(other: dict[str, Any]) -> None:
    """A pod or container of one name on another machine, or in another PID namespace of this
    one."""
    gone = replace(Owner.me("c", lease_s=30), started=1)
    assert gone.is_dead and not gone.has_lease_elsewhere
    elsewhere = replace(gone, **other)
    assert elsewhere.host == gone.host and not elsewhere.is_here
    assert not elsewhere.is_dead and elsewhere.has_lease_elsewhere


def test_an_owner_of_an_earlier_version_is_compared_by_its_host(path: str) -> None:
    control = claimed(path)
    recorded = asdict(replace(Owner.me("c"), pid=1 << 30))
    del recorded["boot_id"], recorded["pid_namespace"]
    control.write("owner", detail=json.dumps(recorded))
    _, owner = control.owner() or (0, Owner.me(""))
    assert (owner.boot_id, owner.pid_namespace) == ("", 0)
    assert owner.is_here and owner.is_dead
    assert claimed(path).epoch == 2


class Sick(Control):
    """Storage fails once it is ``sick``."""

    sick, lands = False, False

    def write(self, kind: str, **values: Any) -> None:
        if self.lands or not self.sick:
            super().write(kind, **values)
        if self.sick:
            raise OSError(5, "Input/output error")


def test_what_could_not_be_given_back_is_claimed_again_by_its_process_alone(path: str) -> None:
    first = Sick(path)
    first.claim()
    with pytest.raises(FencedError):
        claimed(path)
    first.sick = True
    with pytest.raises(OSError):
        first.release()
    looked = f"from spark_repl.control.table.control import Control; Control({path!r}).claim()"
    other = subprocess.run([sys.executable, "-c", looked], capture_output=True, text=True)
    assert "another applier owns this target" in other.stderr, "it can't know"
    second = claimed(path)
    assert second.epoch == 2 and not second.took_over
    first.sick = False
    with pytest.raises(FencedError):
        first.check_owner()


def test_a_claim_whose_answer_was_lost_is_nobodys(path: str) -> None:
    first = Sick(path)
    first.sick = first.lands = True
    with pytest.raises(OSError):
        first.claim()
    assert claimed(path).epoch == 2


def test_a_target_is_one_channels(path: str) -> None:
    claimed(path, "one").release()
    with pytest.raises(TargetError, match='the channel "one", not "two"'):
        claimed(path, "two")
    unnamed = claimed(path)
    assert unnamed.channel == "one"
    unnamed.release()
    assert claimed(path, "one").channel == "one"


def test_a_target_of_before_takes_the_first_name(path: str) -> None:
    claimed(path).release()
    claimed(path, "one").release()
    with pytest.raises(TargetError):
        claimed(path, "two")


def test_an_error_says_who_took_the_target_over(path: str) -> None:
    first = claimed(path)
    error = first.named(FencedError("another applier has committed"))
    assert error.message == "another applier has committed", "it is still this one's"
    claimed(path, take_over=True)
    for _ in range(2):
        error = first.named(error)
        assert error.message.count(f"pid {os.getpid()} on host") == 1
    assert first.named(TargetError("the table is gone")).message == "the table is gone"


def test_one_that_never_claimed_releases_nothing(path: str) -> None:
    claimed(path)
    Control(path).release()
    assert len(Control(path).rows("owner")) == 1


def test_what_is_decided_by_hand_is_checked_as_the_owner(path: str) -> None:
    control, epochs = Control(path), list[int]()
    decide(control, "skip", {"a": 1}, lambda: epochs.append(control.epoch), gtid_executed="")
    assert epochs == [1]
    (row,) = control.rows("skip")
    assert json.loads(row["detail"]).keys() == {"a", "user", "host"}
    owner = control.owner()
    assert owner is not None and owner[1].released

    def refuse() -> None:
        raise TargetError("it is in a table already")

    with pytest.raises(TargetError, match="in a table"):
        decide(control, "skip", {}, refuse)
    assert len(control.rows("skip")) == 1
    living(claimed(path))
    with pytest.raises(FencedError):
        decide(Control(path), "skip", {})


@pytest.mark.parametrize(
    ("kind", "detail", "differ"),
    [
        ("skip", {}, True),
        ("xa", {**BRANCH, "action": "COMMIT"}, True),
        ("xa", {**BRANCH, "action": "ROLLBACK"}, False),
    ],
)
def test_decisions_that_make_rows_differ(
    path: str, kind: str, detail: object, differ: bool
) -> None:
    control = claimed(path)
    assert not makes_rows_differ(control)
    control.write(kind, detail=json.dumps(detail))
    assert makes_rows_differ(control) == differ


def test_nothing_was_applied_to_any_other_folder(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="nothing has been applied"):
        Control.existing(str(tmp_path))
    claimed(Layout(str(tmp_path)).control)
    assert Control.existing(str(tmp_path)).rows("owner")


def test_checkpoints_come_every_so_many_commits(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_cleanup, "_CHECKPOINT_EVERY", 3)
    control = claimed(path)  # versions 0 and 1
    for position in range(2, 8):
        control.publish(Cut(position, "", "log", {}, {}))
    found = sorted(path.name for path in Path(path, "_delta_log").glob("*.checkpoint.parquet"))
    assert found == [f"{version:020d}.checkpoint.parquet" for version in (3, 6)]
    assert [cut.position for cut in Control(path).cuts()] == [*range(2, 8)]


def test_cuts_stand_in_the_order_of_the_log(path: str) -> None:
    control = claimed(path)
    for position, counted in ((7, 1), (5, 2), (7, 3)):
        control.publish(Cut(position, "", "log", {}, {}, counts={"by_hand": counted}))
    assert [(cut.position, dict(cut.counts or {})["by_hand"]) for cut in control.cuts()] == [
        (5, 2), (7, 1), (7, 3),
    ]  # fmt: skip


# Folders named by epochs.


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("inherit", [True, False])
def test_a_folder_is_handed_on(tmp_path: Path, inherit: bool) -> None:
    for name in ("2", "3", "9", "group-1"):
        (tmp_path / name / f"of {name}").mkdir(parents=True)
    succeed(str(tmp_path / "5"), inherit=inherit)
    assert names(tmp_path) == ["5", "9"], "what lies behind ours is a successor's"
    assert names(tmp_path / "5") == (["of 3"] if inherit else [])
    succeed(str(tmp_path / "5"), inherit=True)
    assert names(tmp_path) == ["5", "9"]


def test_the_first_owner_inherits_no_folder(tmp_path: Path) -> None:
    succeed(str(tmp_path / "state" / "1"), inherit=True)
    assert names(tmp_path / "state") == ["1"]


class Reading(Control):
    """``read``: the versions whose rows were read."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.read = list[int]()

    def _rows_of(self, log: ControlLog) -> Any:
        self.read.append(log.version)
        return super()._rows_of(log)


def test_rows_of_all_kinds_are_read_at_once(path: str) -> None:
    """Behind them only what somebody writes (test_newer_rows.py)."""
    writer, control = claimed(path), Reading(path)
    read = control.read
    for _ in range(2):
        assert (len(control.rows("owner")), len(control.rows("skip"))) == (1, 0)
    assert len(read) == 1
    writer.write("skip")
    assert (len(control.rows("owner")), len(control.rows("skip"))) == (1, 1)
    assert len(read) == 1


def test_a_bucket_that_can_not_be_written_is_refused_first(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(asked: str) -> None:
        raise TargetError(f"{asked}: no such bucket")

    monkeypatch.setattr(module.storage, "check_bucket", refuse)
    with pytest.raises(TargetError, match="no such bucket"):
        claimed(path)
    assert not Path(path).exists()
