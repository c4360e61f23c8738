"""A first copy beside a relay log from before: what can't follow the copy is cleared."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.control.channels import control_of
from spark_repl.control.copies import Copy
from spark_repl.gtid import GtidSet
from spark_repl.receiver.writer import RelayWriter
from spark_repl.relay.log import open_log
from spark_repl.relay.published import read_end
from spark_repl.service.older_log import clear_state_of_removed, clear_unusable
from tests.support.binlog_writer import SOURCE, LogWriter
from tests.support.dump_stream import receive


def gtids(numbers: str, source: str = SOURCE) -> GtidSet:
    return GtidSet.parse(f"{source}:{numbers}" if numbers else "")


@pytest.mark.parametrize(
    ("start", "executed", "purged", "stays"),
    [
        ("1-9", "1-9", "1-3", True),
        ("1-9", "1-9", "", True),
        ("1-9", "1-9", "1-7", False),  # the source has no more what the log needs next
        ("1-5", "1-5", "", False),  # the source was RESET, or is another one
        ("1-2", "1-9", "", False),  # an XA branch that was prepared before the log
    ],
)
def test_older_log(tmp_path: Path, start: str, executed: str, purged: str, stays: bool) -> None:
    """The log begins after 1-3 and holds 4-6."""
    relay = tmp_path / "relay"
    source = LogWriter(tmp_path / "source")
    source.gno = 4
    for name in "abc":
        source.ddl(f"CREATE DATABASE {name}")
    with RelayWriter(relay, 9) as writer:
        writer.renew(gtids("1-3"))
        receive(writer, [source.path])
    paths = {"relay": {"path": str(relay)}, "target": {"path": f"{tmp_path}/lake"}}
    config = Config.from_mapping(paths)
    clear_unusable(
        config, Copy(gtids(start), {}, {}), ask=lambda _: (gtids(executed), gtids(purged))
    )
    assert (read_end(relay) is not None) == stays
    if stays:
        assert open_log(str(relay)).previous_gtids() == gtids("1-3")


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
