"""SIGKILL to applier, JVM, receiver, executors and source, over a live load: nothing lost, nothing
doubled, no torn cut. ``make soak`` kills 200 times; the short form runs with all tests."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_repl.sink.layout import Layout
from spark_repl.sink.reader import newest_version, read
from tests.spark.lab import assert_applied_once

from .killing import TOTAL, Bank, Killer, Reader
from .receiving import config_for
from .server import Server

if TYPE_CHECKING:
    from _pytest.capture import CaptureFixture

TABLES = ("account", "till", "transfer")


@pytest.mark.parametrize(
    ("kills", "cluster"), [(3, 0), pytest.param(190, 10, marks=pytest.mark.soak)]
)
def test_killed_at_random(
    make_server: Callable[..., Server],
    tmp_path: Path,
    capsys: CaptureFixture[str],
    kills: int,
    cluster: int,
) -> None:
    """``cluster``: so many kills more with executors that are JVMs of their own."""
    seed = int(os.environ.get("SPARK_REPL_SEED", "1"))
    server, began = make_server(), time.monotonic()
    config = config_for(server, tmp_path, relay__segment_size_bytes=500_000)
    layout = Layout(config.target.path)
    killer = Killer(server, config, tmp_path, seed)
    with killer, Reader(config.target.path, tmp_path) as reader:
        with Bank(server, seed=seed) as bank:
            killer.run(kills)
            if cluster:
                killer.use("local-cluster[2,1,1024]")
                killer.run(cluster)
        killer.settle()
    lost = doubled = 0
    for table in TABLES:
        have = [tuple(row.values()) for row in read(layout.table(f"bank/{table}")).to_pylist()]
        want = server.query(f"SELECT * FROM bank.{table}")
        lost += len(set(want) - set(have))
        doubled += len(have) - len(set(have)) + len(set(have) - set(want))
    assert_applied_once(Path(config.target.path))
    money = sum(
        int(str(read(layout.table(f"bank/{t}"), None, "select sum(balance) s from t")["s"][0]))
        for t in ("account", "till")
    )
    figures = {
        "seed": seed,
        **killer.kills,
        "kills": killer.kills.total(),
        "transactions": bank.transactions,
        "cuts_published": killer.published(),
        **reader.figures,
        "versions": sum(newest_version(layout.table(f"bank/{t}")) for t in TABLES),
        "lost": lost,
        "doubled": doubled,
        "seconds": round(time.monotonic() - began),
    }
    with capsys.disabled():
        print(f"\n{figures}")
    assert (lost, doubled, figures["torn"], figures["gtids_lost"]) == (0, 0, 0, 0)
    assert money == TOTAL
    assert reader.figures["cuts_read"] > 2
    assert "SPARK_REPL_SOAK_S" in os.environ or killer.kills.total() == kills + cluster
