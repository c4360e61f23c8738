"""A first copy beside a relay log from before: what can't follow the copy is cleared."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from spark_repl.config import Config
from spark_repl.control.records.channels import control_of
from spark_repl.control.records.copies import Copy, record_copy
from spark_repl.errors import LogError, SourceError
from spark_repl.gtid import GtidSet
from spark_repl.receiver.writer import RelayWriter
from spark_repl.relay.log import open_log
from spark_repl.relay.published_end import read_end
from spark_repl.service.channel_run import ChannelRun
from spark_repl.service.older_log import clear_older, clear_state_of_removed, clear_unusable
from spark_repl.service.snapshot_run import snapshot
from tests.support.binlog_writer import SOURCE, LogWriter
from tests.support.dump_stream import receive
from tests.support.no_source import no_source


def gtids(numbers: str, source: str = SOURCE) -> GtidSet:
    return GtidSet.parse(f"{source}:{numbers}" if numbers else "")


def config_of(folder: Path) -> Config:
    return Config.from_mapping(
        {"relay": {"path": f"{folder}/relay"}, "target": {"path": f"{folder}/lake"}}
    )


def fill(writer: RelayWriter, folder: Path) -> None:
    """The log begins after 1-3 and holds 4-6."""
    source = LogWriter(folder / "source")
    source.gno = 4
    for name in "abc":
        source.ddl(f"CREATE DATABASE {name}")
    writer.renew(gtids("1-3"))
    receive(writer, [source.path])


def source_of(executed: str, purged: str = "", source: str = SOURCE) -> Callable[..., Any]:
    return lambda _: (gtids(executed, source), gtids(purged, source))


@pytest.mark.parametrize(
    ("start", "executed", "purged", "stays"),
    [
        ("1-9", "1-9", "1-3", True),
        ("1-9", "1-9", "", True),
        ("1-9", "1-9", "1-7", False),  # the source has no more what the log needs next
        ("1-2", "1-9", "", False),  # an XA branch that was prepared before the log
        ("1-5", "1-9", "1-8", True),  # what the copy needs is purged: no other log would help
    ],
)
def test_a_relay_log_that_can_not_follow_the_copy_is_cleared(
    tmp_path: Path, start: str, executed: str, purged: str, stays: bool
) -> None:
    config, relay = config_of(tmp_path), tmp_path / "relay"
    with RelayWriter(relay, 9) as writer:
        fill(writer, tmp_path)
    clear_unusable(config, Copy(gtids(start), {}, {}), ask=source_of(executed, purged))
    assert (read_end(relay) is not None) == stays
    if stays:
        assert open_log(str(relay)).previous_gtids() == gtids("1-3")


@pytest.mark.parametrize(
    ("source", "executed"), [("99999999-9999-9999-9999-999999999999", "1-50"), (SOURCE, "1-5")]
)
def test_the_log_of_another_source_stays(tmp_path: Path, source: str, executed: str) -> None:
    """``relay.path`` is another target's folder by mistake, or the source was RESET."""
    config = config_of(tmp_path)
    with RelayWriter(tmp_path / "relay", 9) as writer:
        fill(writer, tmp_path)
    copy = Copy(gtids(executed, source), {}, {})
    with pytest.raises(LogError, match="not of this source, which has not executed") as raised:
        clear_unusable(config, copy, ask=source_of(executed, "", source))
    assert "a relay.path of its own" in str(raised.value.hint)
    assert open_log(str(tmp_path / "relay")).previous_gtids() == gtids("1-3")


def test_a_log_that_a_receiver_writes_stays(tmp_path: Path) -> None:
    config, copy, ask = config_of(tmp_path), Copy(gtids("1-2"), {}, {}), source_of("1-9")
    with RelayWriter(tmp_path / "relay", 9) as writer:
        fill(writer, tmp_path)
        with pytest.raises(LogError, match="another receiver writes this relay log"):
            clear_unusable(config, copy, ask=ask)
        assert open_log(str(tmp_path / "relay")).previous_gtids() == gtids("1-3")
    clear_unusable(config, copy, ask=ask)
    assert read_end(tmp_path / "relay") is None


@pytest.mark.parametrize("begins", ["1-3", "1-9"])
def test_a_log_whose_list_was_removed_is_put_right_first(tmp_path: Path, begins: str) -> None:
    """A run was killed while it cleared it."""
    config, relay = config_of(tmp_path), tmp_path / "relay"
    with RelayWriter(relay, 9) as writer:
        fill(writer, tmp_path)
    (relay / "relay.index").unlink()
    clear_unusable(config, Copy(gtids(begins), {}, {}), ask=source_of("1-9", "1-7"))
    assert (read_end(relay) is not None) == (begins == "1-3")


@pytest.mark.parametrize("is_done", [False, True])
def test_a_copy_that_stands_clears_it_whoever_made_it(tmp_path: Path, is_done: bool) -> None:
    config, relay = config_of(tmp_path), tmp_path / "relay"
    with RelayWriter(relay, 9) as writer:
        fill(writer, tmp_path)
    control, start = control_of(config), gtids("1-9")
    control.claim()
    until = start if is_done else None
    record_copy(control, Copy(start, {"t.a": ()}, {"t.a": "t/a"}, until=until))
    clear_older(config, ask=source_of("1-9", "1-7"))
    assert read_end(relay) is None


def test_run_and_snapshot_ask_the_source_beside_an_older_log(tmp_path: Path) -> None:
    """Before a receiver goes on with that log: the copy is done, and no cut shows it yet."""
    config = no_source(tmp_path)
    with RelayWriter(Path(config.relay.path), 9) as writer:
        fill(writer, tmp_path)
    control, start = control_of(config), gtids("1-9")
    control.claim()
    record_copy(control, Copy(start, {"t.a": ()}, {"t.a": "t/a"}, until=start))
    control.release()

    def unwanted(*_: object) -> NoReturn:
        raise AssertionError

    for begin in (
        ChannelRun(config, "none.toml", unwanted, start=unwanted).run,
        lambda: snapshot(config),
    ):
        with pytest.raises(SourceError):
            begin()


def test_nothing_is_cleared_where_no_receiver_has_written(tmp_path: Path) -> None:
    clear_unusable(Config().override({"relay.path": f"{tmp_path}/none"}), Copy(gtids(""), {}, {}))


def test_working_state_of_a_target_that_was_removed(tmp_path: Path) -> None:
    paths = {"path": f"{tmp_path}/lake", "state_path": f"{tmp_path}/state"}
    config = Config.from_mapping({"target": paths})
    note = tmp_path / "state/durable/t/a"
    note.parent.mkdir(parents=True)
    note.write_text("500")
    control_of(config).claim()
    clear_state_of_removed(config)
    assert note.exists()
    shutil.rmtree(tmp_path / "lake")
    clear_state_of_removed(config)
    assert not note.exists()
