"""The catalog's entry of a table that several channels feed."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_repl.catalog.registrar import record_registration, table_registration
from spark_repl.control.records.shared_tables import does_register
from tests.support.local_delta import applier, apply_without_stream
from tests.support.memory_catalog import MemoryCatalog
from tests.support.shared import BOTH, CHANNELS, one, writers

ENTRY = "lake.orders"


@pytest.mark.parametrize("us_registers", [True, False])
def test_the_entry_stays_until_the_last_channel_that_registers_drops_the_table(
    tmp_path: Path, us_registers: bool
) -> None:
    logs, target, catalog = writers(tmp_path), tmp_path / "lake", MemoryCatalog()
    registers = {"eu": True, "us": us_registers}

    def apply(channel: str) -> None:
        name = "spark_catalog" if registers[channel] else ""
        with applier(logs[channel].folder, target, channel=channel, **BOTH) as replica:
            apply_without_stream(replica)
            at, config = replica._at, replica.config.override({"catalog.name": name})
            record_registration(config, at.control)
            cut = at.control.last_cut()
            assert cut is not None
            if registers[channel]:
                table_registration(config, at).carry_out(catalog, cut)

    for channel in CHANNELS:
        logs[channel].ddl(one(channel).create)
        apply(channel)
    assert [*catalog.locations] == [ENTRY]
    logs["eu"].ddl("DROP TABLE shop_eu1.orders")
    apply("eu")
    assert [*catalog.locations] == ([ENTRY] if us_registers else [])
    logs["us"].ddl("DROP TABLE shop_us1.orders")
    apply("us")
    assert catalog.locations == {}


@pytest.mark.parametrize("registers", [True, False])
def test_a_start_records_whether_the_channel_registers(tmp_path: Path, registers: bool) -> None:
    logs, target = writers(tmp_path), tmp_path / "lake"
    logs["eu"].ddl(one("eu").create)
    for name in ("" if registers else "spark_catalog", "spark_catalog" if registers else ""):
        catalog = {"name": name}
        with applier(logs["eu"].folder, target, channel="eu", catalog=catalog, **BOTH) as replica:
            assert does_register(replica._at.control) == bool(name)
