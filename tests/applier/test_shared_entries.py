"""The catalog's entry of a table that several channels feed."""

from __future__ import annotations

from pathlib import Path

from spark_repl.catalog.registrar import table_registration
from tests.support.local_delta import applier, apply_without_stream
from tests.support.memory_catalog import MemoryCatalog
from tests.support.shared import BOTH, CHANNELS, one, writers


def test_the_entry_stays_until_the_last_channel_drops_the_table(tmp_path: Path) -> None:
    logs, target, catalog = writers(tmp_path), tmp_path / "lake", MemoryCatalog()

    def apply(channel: str) -> None:
        with applier(logs[channel].folder, target, channel=channel, **BOTH) as replica:
            apply_without_stream(replica)
            at = replica._at
            cut = at.control.last_cut()
            assert cut is not None
            table_registration(replica.config, at).carry_out(catalog, cut)

    for channel in CHANNELS:
        logs[channel].ddl(one(channel).create)
        apply(channel)
    for channel in CHANNELS:
        assert [*catalog.locations] == ["lake.orders"]
        logs[channel].ddl(f"DROP TABLE shop_{channel}1.orders")
        apply(channel)
    assert catalog.locations == {}
