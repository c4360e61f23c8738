"""Names of tables: noted by one channel of a target at most, whatever comes at the same moment."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from spark_repl.config import Config
from spark_repl.control.records.channels import channel_at, channels, control_of, layout_of, opened
from spark_repl.control.records.claimed_names import ClaimedNames
from spark_repl.control.records.copies import Copy
from spark_repl.control.records.durability_barrier import DurabilityBarrier
from spark_repl.control.records.name_registry import (
    KIND,
    OtherChannels,
    channels_beside,
    noted_names,
)
from spark_repl.control.records.pruning import PruneBy
from spark_repl.control.records.retention import Retention
from spark_repl.control.records.table_paths import announce, given_paths
from spark_repl.control.table import control as control_module
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import ControlLog, WriteRows
from spark_repl.control.table.control_snapshot import ControlSnapshot
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.copy.copy_plan import plan_again
from spark_repl.errors import (
    ConfigError,
    FencedError,
    FormatError,
    OtherChannelError,
    TakenFirstError,
    TargetError,
)
from spark_repl.gtid import GtidSet
from tests.support.before_append import Before


def config(target: Path, channel: str, **more: Any) -> Config:
    return Config().override({"target.path": str(target), "channel": channel, **more})


def begun(
    target: Path, channel: str, write_rows: WriteRows = ControlLog.commit
) -> tuple[Control, ClaimedNames]:
    """A channel whose owner this process is; ``write_rows`` writes to its own control table."""
    place = opened(config(target, channel))
    control = Control(place.layout.control, channel, write_rows=write_rows)
    control.claim()
    return control, ClaimedNames(control, str(target))


def make(control: Control, names: ClaimedNames, name: str) -> None:
    check = names.before_creating([name])
    announce(control, name, name.replace(".", "/"), 1, "x:1", check)


def test_the_first_makes_what_another_takes_at_that_moment(tmp_path: Path) -> None:
    append = Before()
    first, names = begun(tmp_path, "eu", append)
    _, others = begun(tmp_path, "us")
    append.then = lambda: others.claim(["t.a"])
    with pytest.raises(OtherChannelError, match=r'"us" has t\.a of .*: "eu" can not'):
        make(first, names, "t.a")
    assert not first.rows("table") and noted_names(first) == {"t.a": "us"}
    make(first, names, "t.b")


def test_the_first_renames_to_what_another_takes_at_that_moment(tmp_path: Path) -> None:
    append = Before()
    first, names = begun(tmp_path, "eu", append)
    _, others = begun(tmp_path, "us")
    append.then = lambda: others.claim(["t.a"])
    with pytest.raises(OtherChannelError):
        names.claim(["t.a", "t.b"])
    assert noted_names(first) == {"t.a": "us"}


def test_no_channel_begins_beside_a_first_one_that_is_being_moved(tmp_path: Path) -> None:
    first, _ = begun(tmp_path, "eu")
    first.release()
    _, others = begun(tmp_path, "us")
    first.moving_to = "s3a://bucket/lake"
    first.claim()
    with pytest.raises(FencedError, match="being moved to"):
        others.claim(["t.a"])
    with pytest.raises(FencedError, match="being moved to"):
        opened(config(tmp_path, "asia"))
    assert opened(config(tmp_path, "us")).control.exists()
    first.release()
    others.claim(["t.a"])
    assert opened(config(tmp_path, "asia")).name == "asia"


def test_another_takes_what_the_first_has_held_back(tmp_path: Path) -> None:
    """Nothing of what is held back lands, and the target is given back all the same."""
    append = Before()
    first, names = begun(tmp_path, "eu", append)
    _, others = begun(tmp_path, "us")
    names.claim(["t.b", "t.c"], later=True)
    names.claim(["t.a"], later=True)
    assert noted_names(first) == {}
    append.then = lambda: others.claim(["t.a"])
    for _ in range(2):
        with pytest.raises(OtherChannelError, match=r'"us" has t\.a of'):
            first.publish(Cut(8, f"{GtidSet()}", "log", {}, {}))
    first.release()
    assert noted_names(first) == {"t.a": "us"} and not first.cuts()
    owner = first.owner()
    assert owner is not None and owner[1].released


def test_a_name_that_is_another_ones_is_not_held_back(tmp_path: Path) -> None:
    first, names = begun(tmp_path, "eu")
    begun(tmp_path, "us")[1].claim(["t.a"])
    with pytest.raises(OtherChannelError):
        names.claim(["t.b", "t.A"], later=True)
    names.claim(["t.b"], later=True)
    first.write_pending()
    assert noted_names(first) == {"t.a": "us", "t.b": "eu"}


@pytest.mark.parametrize("way", ["makes", "renames"])
def test_another_takes_what_the_first_makes_at_that_moment(tmp_path: Path, way: str) -> None:
    first, names = begun(tmp_path, "eu")
    _, others = begun(tmp_path, "us")
    append = others._shared._write_rows = Before()
    makes = (
        (lambda: make(first, names, "t.a")) if way == "makes" else (lambda: names.claim(["t.a"]))
    )
    append.then = makes
    with pytest.raises(OtherChannelError, match=r'"eu" has t\.a of .*: "us" can not'):
        others.claim(["t.a", "t.b"])
    others.claim(["t.b"])
    assert noted_names(first) == {"t.b": "us"} | ({"t.a": "eu"} if way == "renames" else {})


def test_two_beside_it_take_one_name_at_that_moment(tmp_path: Path) -> None:
    first, _ = begun(tmp_path, "eu")
    _, names = begun(tmp_path, "us")
    _, others = begun(tmp_path, "asia")
    append = others._shared._write_rows = Before()
    append.then = lambda: names.claim(["t.a"])
    with pytest.raises(OtherChannelError, match='"us" has'):
        others.claim(["t.a"])
    assert noted_names(first) == {"t.a": "us"}


def test_of_many_claims_at_once_one_channel_gets_each_name(tmp_path: Path) -> None:
    """Each name becomes one channel's, and each that asked for it hears whose."""
    started = {channel: begun(tmp_path, channel) for channel in ("eu", "us", "asia")}
    wanted = [f"t.n{number}" for number in range(6)]
    got: dict[str, list[str]] = {name: [] for name in wanted}
    refused: list[str] = []
    together = threading.Barrier(len(started))

    def take(channel: str) -> None:
        control, names = started[channel]
        for name in wanted:
            together.wait()
            try:
                make(control, names, name)
            except OtherChannelError:
                refused.append(channel)
            else:
                got[name].append(channel)

    threads = [threading.Thread(target=take, args=[channel]) for channel in started]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(channels) for channels in got.values()] == [1] * len(wanted), got
    assert len(refused) == 2 * len(wanted)


def test_a_killed_one_keeps_what_it_noted(tmp_path: Path) -> None:
    """Between its note and its table; also under another spelling, and from copies."""
    first, names = begun(tmp_path, "eu")
    us, others = begun(tmp_path, "us")
    others.claim(["t.a"])
    us.release()
    with pytest.raises(OtherChannelError):
        make(first, names, "T.A")
    us, others = begun(tmp_path, "us")
    make(us, others, "t.a")
    (row,) = first.rows(KIND)
    assert json.loads(row["detail"])["names"] == ["t.a"]
    others.load()
    assert first.rows(KIND) == [row]


def test_a_note_that_was_lost_is_written_again(tmp_path: Path) -> None:
    """The other's control table may have reached the disk, the note not."""
    first, names = begun(tmp_path, "eu")
    us, others = begun(tmp_path, "us")
    announce(us, "t.a", "t/a", 1, "x:1")
    others.load()
    assert noted_names(first) == {"t.a": "us"}
    announce(first, "u.b", "u/b", 1, "x:1")
    announce(us, "u.b", "u/b", 1, "x:1")
    with pytest.raises(OtherChannelError, match=r'"eu" has u\.b'):
        others.load()
    names.load()
    others.claim(["t.c"])
    announce(first, "t.c", "t/c", 1, "x:1")  # by a version that did not ask
    with pytest.raises(OtherChannelError, match=r'"us" has t\.c'):
        names.load()


@pytest.mark.parametrize("copies", ["eu", "us"])
def test_a_copy_is_refused_if_another_channel_has_its_tables(tmp_path: Path, copies: str) -> None:
    """A copy whose tables another channel has is not begun; one that is notes its own."""
    started = {channel: begun(tmp_path, channel) for channel in ("eu", "us")}
    control, _ = started[copies]
    (other,) = started.keys() - {copies}
    control.publish(Cut(5, "", "log", {}, {}))
    started[other][1].claim(["t.a"])

    def plan(config: Config, control: Control, only: tuple[str, ...], behind: Any) -> Copy:
        return Copy(GtidSet(), dict.fromkeys(only, ()), dict.fromkeys(only, "x/y"), behind=behind)

    of = config(tmp_path, copies, **{"relay.path": str(tmp_path / "relay")})
    with pytest.raises(OtherChannelError, match=rf'"{other}" has t\.a'):
        plan_again(of, control, ("t.a", "t.b"), asks=plan)
    assert not control.rows("copy")
    plan_again(of, control, ("t.b",), asks=plan)
    with pytest.raises(OtherChannelError, match=rf'"{copies}" has t\.b'):
        started[other][1].claim(["t.b"])


def test_a_copy_begins_as_another_takes_its_table(tmp_path: Path) -> None:
    append = Before()
    first, _ = begun(tmp_path, "eu", append)
    _, others = begun(tmp_path, "us")
    first.publish(Cut(5, "", "log", {}, {}))

    def plan(config: Config, control: Control, only: tuple[str, ...], behind: Any) -> Copy:
        return Copy(GtidSet(), {"t.a": ()}, {"t.a": "t/a"}, behind=behind)

    append.then = lambda: others.claim(["t.a"])
    of = config(tmp_path, "eu", **{"relay.path": str(tmp_path / "relay")})
    with pytest.raises(OtherChannelError, match=r'"us" has t\.a'):
        plan_again(of, first, ("t.a",), asks=plan)
    assert not first.rows("copy")


def test_each_channel_has_its_own_places(tmp_path: Path) -> None:
    eu, us = (
        config(tmp_path, name, **{"target.state_path": str(tmp_path / "state")})
        for name in ("eu", "us")
    )
    first, _ = begun(tmp_path, "eu")
    home = tmp_path / "_repl" / "channels" / "us"
    assert layout_of(eu).control == str(tmp_path / "_repl" / "control")
    layout = layout_of(us)
    assert [layout.control, layout.xa, layout.quarantine] == [
        str(home / name) for name in ("control", "xa", "quarantine")
    ]
    assert layout.state == str(tmp_path / "state" / "channels" / "us")
    assert layout_of(config(tmp_path, "us")).state == str(home)
    assert layout.table("t/a") == layout_of(eu).table("t/a")
    assert control_of(us).owner() is None and channels_beside(first) == []
    assert [one.name for one in channels(str(tmp_path))] == ["eu"]


def test_readers_must_name_one_of_several_channels(tmp_path: Path) -> None:
    begun(tmp_path, "eu")
    assert channel_at(str(tmp_path)).name == "eu"
    begun(tmp_path, "us")[1].claim(["t.a"])
    with pytest.raises(ConfigError, match="several channels: eu, us") as error:
        channel_at(str(tmp_path))
    assert error.value.hint == "name one: --channel NAME"
    assert channel_at(str(tmp_path), "us").layout == layout_of(config(tmp_path, "us"))
    with pytest.raises(ConfigError, match=r"no table of a channel 'uss': 'us'\?"):
        channel_at(str(tmp_path), "uss")
    with pytest.raises(TargetError, match="nothing has been applied"):
        channel_at(str(tmp_path / "other"), "us")


def test_of_two_channels_at_an_empty_target_one_starts_again(tmp_path: Path) -> None:
    """The second channel stops with an error, and is the second channel of the target after a
    restart."""
    place = opened(config(tmp_path, "us"))
    eu, _ = begun(tmp_path, "eu")
    for take_over in (False, True):
        with pytest.raises(TargetError, match='belongs to the channel "eu", not "us"') as error:
            place.control.claim(take_over=take_over)
        assert error.value.hint and error.value.hint.startswith("start it again: it goes beside")
    eu.check_owner()
    begun(tmp_path, "us")


class Overtaken(Control):
    """Another channel claims the empty target right before it does."""

    first: Control

    def write(self, kind: str, **values: Any) -> None:
        if kind == "owner" and not self.first.epoch:
            self.first.claim()
        super().write(kind, **values)


def test_both_claim_an_empty_target_in_one_moment(tmp_path: Path) -> None:
    eu, us = (opened(config(tmp_path, name)).control for name in ("eu", "us"))
    late = Overtaken(us.path, "us")
    late.first = eu
    with pytest.raises(TakenFirstError, match='belongs to the channel "eu", not "us"'):
        late.claim()
    eu.check_owner()
    same = Overtaken(str(tmp_path / "other"), "us")
    same.first = Control(same.path, "us")
    with pytest.raises(FencedError):
        same.claim()


def test_the_first_ones_control_table_is_gone(tmp_path: Path) -> None:
    begun(tmp_path, "eu")
    us, others = begun(tmp_path, "us")
    others.claim(["t.a"])
    (tmp_path / "_repl" / "control").rename(tmp_path / "away")
    with pytest.raises(TargetError, match='"us" came beside another one, which is gone'):
        make(us, others, "t.b")
    with pytest.raises(TargetError, match='"us" came beside another one, which is gone'):
        opened(config(tmp_path, "us"))


def test_a_version_that_knows_one_channel_refuses_the_target(tmp_path: Path) -> None:
    """It would not look whose a name is."""
    first, names = begun(tmp_path, "eu")
    names.claim(["t.a"])

    def read_as_before() -> ControlSnapshot:
        log = first._open()
        rows = first._rows_of(log).filter(pc.field("kind") == KIND)
        return ControlSnapshot.of(log.version, rows, 1, first.path)

    read_as_before()
    begun(tmp_path, "us")[1].claim(["t.b"])
    with pytest.raises(FormatError):
        read_as_before()


def test_each_channel_is_fenced_by_itself(tmp_path: Path) -> None:
    begun(tmp_path, "eu")
    begun(tmp_path, "us")
    with pytest.raises(FencedError):
        begun(tmp_path, "us")


def test_a_name_that_the_first_gave_up_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table was removed, and the announcement forgotten: it is anybody's, also by RENAME."""
    first, names = begun(tmp_path, "eu")
    make(first, names, "t.a")
    names.load()
    first.publish(Cut(5, "", "log", {}, {}))
    monkeypatch.setattr(control_module, "_PRUNE_EVERY", 0)
    assert first.prune(
        PruneBy(Retention(0, 0, 0)),
        DurabilityBarrier(first, Layout(str(tmp_path))),
        lambda: ["t/a"],
    )
    begun(tmp_path, "us")[1].claim(["t.a"])
    with pytest.raises(OtherChannelError, match=r'"us" has t\.a'):
        names.claim(["t.a"])


def test_a_channel_that_has_no_table_yet(tmp_path: Path) -> None:
    """Its first transaction may be the one to skip: it is found by its name, and no reader that
    names none is troubled."""
    begun(tmp_path, "eu")
    begun(tmp_path, "us")
    assert channel_at(str(tmp_path)).name == "eu"
    found = channel_at(str(tmp_path), "us")
    assert (found.name, found.layout) == ("us", layout_of(config(tmp_path, "us")))


def drop(control: Control, path: str) -> None:
    """The table is gone, and the row that announced it."""
    control.publish(Cut(5, "", "log", {}, {}))
    barrier = DurabilityBarrier(control, Layout(control.path))
    assert control.prune(PruneBy(Retention(0, 0, 0)), barrier, lambda: [path], due=True)


def test_a_start_gives_up_names_that_the_channel_has_no_more(tmp_path: Path) -> None:
    """A job makes and drops a table of another name again and again."""
    first, names = begun(tmp_path, "eu")
    us, others = begun(tmp_path, "us")
    for number in range(9):
        make(us, others, f"t.n{number}")
    others.claim(["t.begun"])
    drop(us, "t/n3")
    others.load()
    assert set(noted_names(first)) == {f"t.n{number}" for number in range(9) if number != 3}
    make(first, names, "t.n3")
    drop(us, "t/n4")
    others.load()
    assert "t.n4" in noted_names(first), "once an epoch: a table may be about to be made"
    us.release()
    us, others = begun(tmp_path, "us")
    others.load()
    assert "t.n4" not in noted_names(first)
    make(us, others, "t.n4")
    assert noted_names(first)["t.n4"] == "us"


def test_a_path_does_not_go_with_a_name(tmp_path: Path) -> None:
    """An applier of the channel that had the table may have chosen its folder for removal."""
    first, _ = begun(tmp_path, "eu")
    us, others = begun(tmp_path, "us")
    make(us, others, "t.a")
    drop(us, "t/a")
    others.load()
    asia, names = begun(tmp_path, "asia")
    names.before_creating(["t.a"])
    for number, control in enumerate((asia, first)):
        beside = OtherChannels(control, str(tmp_path))
        given = given_paths(control, beside.given)
        assert Layout(str(tmp_path)).fresh_path("t", "a", given) == "t/a@2"
        announce(us, f"t.{number}", f"t/{number}", 1, "x:1")
        assert f"t/{number}" in given, "what was announced since counts"


def test_the_first_gives_up_names_of_renamed_tables(tmp_path: Path) -> None:
    first, names = begun(tmp_path, "eu")
    names.claim(["t.a"])
    first.release()
    _, names = begun(tmp_path, "eu")
    names.load()
    assert noted_names(first) == {}
    begun(tmp_path, "us")[1].claim(["t.a"])


def test_a_sleeper_frees_no_name_of_its_successor(tmp_path: Path) -> None:
    """It has seen that the channel lacks the table, and writes that after the table was made."""
    first, _ = begun(tmp_path, "eu")
    us, others = begun(tmp_path, "us")
    others.claim(["t.a", "t.b"])
    successor = Control(us.path, "us")
    append = others._shared._write_rows = Before()

    def take_over() -> None:
        successor.claim(take_over=True)
        announce(successor, "t.a", "t/a", 1, "x:1")
        ClaimedNames(successor, str(tmp_path)).load()

    append.then = take_over
    with pytest.raises(FencedError):
        others.load()
    assert noted_names(first) == {"t.a": "us"}
    with pytest.raises(OtherChannelError):
        make(first, ClaimedNames(first, str(tmp_path)), "t.a")
    detail = {"channel": "us", "names": [], "epoch": us.epoch, "freed": ["t.a"]}
    others._shared.write_beside(KIND, lambda: True, detail=json.dumps(detail))
    assert noted_names(first) == {"t.a": "us"}, "its row comes after the successor's note"


def formats_of(control: Control) -> set[int]:
    """The numbers of the formats of all rows but the owner's and the cuts'."""
    rows = control._rows_of(control._open()).to_pylist()
    details = [row["detail"] for row in rows if row["kind"] not in ("owner", "cut", "cut_table")]
    return {json.loads(detail)["format"] for detail in details}


def test_notes_of_names_are_folded_into_few_rows(tmp_path: Path) -> None:
    """And say the same, in the order in which the channels came, to earlier versions, too."""
    first, names = begun(tmp_path, "eu")
    _, others = begun(tmp_path, "us")
    begun(tmp_path, "asia")[1].claim(["t.x"])
    for number in range(20):
        others.claim([f"t.N{number}"])
    names.claim(["t.r"])
    first.publish(Cut(5, "", "log", {}, {}))
    before, order = noted_names(first), channels_beside(first)
    numbers = formats_of(first)
    drop(first, "t/none")
    assert noted_names(first) == before and channels_beside(first) == order == ["asia", "us"]
    assert len(first.rows(KIND)) < 10
    assert formats_of(first) == numbers | {4} == {1, 2, 4}
    said = [json.loads(row["detail"]) for row in first.rows(KIND)]
    assert {name for one in said for name in one["names"]} >= {"t.N3", "t.r"}
    others.claim(["t.N3", "t.new"])
    assert len(noted_names(first)) == len(before) + 1
