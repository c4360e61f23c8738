"""What channels of one table have on record of their rows: each compares with the others' there."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.config import Config
from spark_repl.control.records.channels import channels, opened
from spark_repl.control.records.claimed_names import ClaimedNames
from spark_repl.control.records.shared_tables import SharedTable, shared_tables
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_log import ControlLog, WriteRows
from spark_repl.errors import SettingError
from spark_repl.rules.channel_rows import ChannelRows
from tests.support.before_append import Before

KEY = (("id", ""),)
CHANNELS = ("eu", "us", "cn")


def table(
    channel: str, text: str, key: tuple[tuple[str, str], ...] = KEY, *, disjoint: bool = True
) -> SharedTable:
    rows = ((channel, ChannelRows(text, key)),)
    return SharedTable("lake.orders", CHANNELS, "_channel", rows=rows, disjoint=disjoint)


def begun(target: Path, channel: str, write_rows: WriteRows = ControlLog.commit) -> ClaimedNames:
    place = opened(Config().override({"target.path": str(target), "channel": channel}))
    control = Control(place.layout.control, channel, write_rows=write_rows)
    control.claim()
    return ClaimedNames(control, str(target), [table(channel, "id = 0")])


def share(names: ClaimedNames, wanted: SharedTable) -> SharedTable:
    return names.share(wanted, lambda: "lake/orders")


def on_record(target: Path) -> dict[str, str]:
    """The row filters, by channel."""
    (one,) = shared_tables(channels(str(target))[0].control).values()
    return {channel: rows.row_filter for channel, rows in one.rows}


@pytest.mark.parametrize("stands", [False, True])
@pytest.mark.parametrize("text", ["id = 2", "id = 1"])
def test_of_two_that_come_at_one_moment_the_second_compares(
    tmp_path: Path, text: str, stands: bool
) -> None:
    append = Before()
    eu, us = begun(tmp_path, "eu", append), begun(tmp_path, "us")
    cn = {"cn": "id = 9"} if stands else {}
    if stands:
        share(begun(tmp_path, "cn"), table("cn", "id = 9"))
    append.then = lambda: print(share(us, table("us", text)))
    if text == "id = 2":
        share(eu, table("eu", "id = 1"))
        assert on_record(tmp_path) == {**cn, "us": text, "eu": "id = 1"}
        assert share(us, table("us", text)) == share(eu, table("eu", "id = 1"))
    else:
        with pytest.raises(SettingError, match="row_filter id = 1 of eu, and id = 1 of us, which"):
            share(eu, table("eu", "id = 1"))
        assert on_record(tmp_path) == {**cn, "us": text}


def test_rows_are_on_record_once_the_key_is_known(tmp_path: Path) -> None:
    eu, us = begun(tmp_path, "eu"), begun(tmp_path, "us")
    share(eu, table("eu", "id = 1", ()))
    assert on_record(tmp_path) == {}
    share(eu, table("eu", "id = 1"))
    for _ in range(2):
        with pytest.raises(SettingError, match="the two channels have the same filter"):
            share(us, table("us", "id = 1", ()))
    share(us, table("us", "id > 3", ()))
    assert on_record(tmp_path) == {"eu": "id = 1"}
    rows = channels(str(tmp_path))[0].control.rows("shared_table")
    assert len(rows) == 2
    share(us, table("us", "id > 3"))
    share(us, table("us", "id > 3", ()))
    assert on_record(tmp_path) == {"eu": "id = 1", "us": "id > 3"}


def test_a_recorded_filter_and_key_may_not_change(tmp_path: Path) -> None:
    eu = begun(tmp_path, "eu")
    share(eu, table("eu", "id = 1"))
    for text, key, said in (
        ("id = 2", KEY, "row_filter is id = 2, and this channel has id = 1 on record"),
        ("id = 2", (), "row_filter is id = 2"),
        (
            "id = 1",
            (*KEY, ("v", "")),
            "the key is id, v, and this channel has id on record",
        ),
    ):
        with pytest.raises(SettingError, match=said):
            share(eu, table("eu", text, key))
    assert on_record(tmp_path) == {"eu": "id = 1"}


def test_a_new_channel_has_to_declare_that_its_rows_are_disjoint(tmp_path: Path) -> None:
    eu, us = begun(tmp_path, "eu"), begun(tmp_path, "us")
    with pytest.raises(SettingError, match="nothing says that row_filter id = 1 of eu") as caught:
        share(eu, table("eu", "id = 1", disjoint=False))
    assert "disjoint = true" in str(caught.value.hint)
    share(eu, table("eu", "id = 1"))
    with pytest.raises(SettingError, match="nothing says that row_filter id = 2 of us"):
        share(us, table("us", "id = 2", disjoint=False))
    share(eu, table("eu", "id = 1", disjoint=False))


def test_rows_that_a_proof_has_recorded_stay_as_they_are(tmp_path: Path) -> None:
    """They need no declaration, and keep what older versions read in them."""
    eu, us = begun(tmp_path, "eu"), begun(tmp_path, "us")
    share(eu, table("eu", "id = 1", (("id", "whole number"),)))
    share(eu, table("eu", "id = 1", disjoint=False))
    share(us, table("us", "id = 2"))
    (recorded,) = shared_tables(channels(str(tmp_path))[0].control).values()
    assert dict(recorded.rows)["eu"].key == (("id", "whole number"),)


def test_a_row_from_before_row_filters_told_rows_apart() -> None:
    detail = '{"name": "lake.orders", "channels": ["eu", "us"], "column": "shop", "path": "p/1"}'
    read = SharedTable.from_row(detail)
    assert read == SharedTable("lake.orders", ("eu", "us"), "shop", "p/1")
    assert SharedTable.from_row(read.row) == read
