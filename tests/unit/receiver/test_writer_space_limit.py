"""relay.space_limit_bytes, where one transaction is larger."""

from __future__ import annotations

from pathlib import Path

from spark_repl.receiver.purge import purge
from spark_repl.receiver.writer import Limits, RelayWriter
from spark_repl.relay.file_list import file_name
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.dump_stream import receive


def opened(folder: Path) -> RelayWriter:
    return RelayWriter(folder, 4711, Limits(space_limit_bytes=4000))


def test_a_transaction_larger_than_the_space_does_not_stop_the_receiver(tmp_path: Path) -> None:
    """An applier that has everything still stands in the file where the last transaction ends."""
    made, folder, table = LogWriter(tmp_path / "source"), tmp_path / "relay", Table("a")
    made.ddl(table.create)
    for key in range(1000, 1006):
        made.transaction(insert(table, (key, "small")))
    made.transaction(*(insert(table, (key, "x" * 40)) for key in range(200)))
    with opened(folder) as relay:
        receive(relay, [made.path])
        huge = relay.number - 1
        assert (folder / file_name(huge)).stat().st_size > 4000
        assert relay.is_full()
        purge(folder, huge)
        assert not relay.is_full(), "nobody could purge that"
    with opened(folder) as relay:
        assert not relay.is_full()
        made.transaction(insert(table, (999, "behind")))
        receive(relay, [made.path])
        assert relay.is_full(), "the applier moves on, and the large file goes"
    with opened(folder) as relay:
        assert relay.is_full()
        purge(folder, relay.number)
        assert not relay.is_full()
