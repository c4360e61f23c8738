"""SIGKILL to applier, JVM, receiver, executors and source under a live load. Meanwhile another
writer runs OPTIMIZE and VACUUM, files are compacted, the relay log is purged and tables are copied
again. No row is lost or doubled, no cut is torn, and no file is missing that a cut needs.

``make soak`` kills 300 times; the short form runs with all tests. ``SPARK_REPL_SEED`` chooses what
is killed when, ``SPARK_REPL_KILLS`` how often, ``SPARK_REPL_SOAK_S`` bounds the time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from tests.spark.lab import assert_applied_once
from tests.support.live.beside import Beside
from tests.support.live.cut_check import CutCheck
from tests.support.live.killing import TOTAL, Bank, Killer, Reader
from tests.support.live.receiving import config_for
from tests.support.live.server import Server
from tests.support.live.source_history import SourceHistory

if TYPE_CHECKING:
    from _pytest.capture import CaptureFixture

TABLES = ("bank.account", "bank.till", "bank.transfer")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kills", "cluster"), [(2, 0), pytest.param(290, 10, marks=pytest.mark.soak)]
)
def test_kills_at_random_leave_each_promised_cut_readable(
    make_server: Callable[..., Server],
    tmp_path: Path,
    capsys: CaptureFixture[str],
    kills: int,
    cluster: int,
) -> None:
    """``cluster``: number of further kills, with executors in JVMs of their own.

    Promised is every cut that was ever published: its GTID set is the source's log up to some
    place, and all its tables, read whole, have the rows that the source had there. Exempt are files
    that the VACUUM RETAIN 0 HOURS was free to take: those that are in the table at the cut's
    version, but not in each version that VACUUM may have looked at (from the table's version when
    it began to that when it ended). All other files of such a table must be there; the newest cut,
    and whatever is younger than a table's last VACUUM, is exempt of nothing.
    """
    seed, began = int(os.environ.get("SPARK_REPL_SEED", "1")), time.monotonic()
    kills = int(os.environ.get("SPARK_REPL_KILLS", kills))
    server = make_server()
    config = config_for(
        server, tmp_path, relay__segment_size_bytes=200_000, target__compact_files=4
    )
    layout = Layout(config.target.path)
    killer = Killer(server, config, tmp_path, seed)
    with killer, Reader(config.target.path, tmp_path) as reader:
        with Bank(server, seed=seed) as bank:
            with Beside(server, config, tmp_path, TABLES, seed) as beside:
                killer.run(kills)
                if cluster:
                    killer.use("local-cluster[2,1,1024]")
                    killer.run(cluster)
            time.sleep(1)  # the newest cut has transactions from behind the last VACUUM
        killer.catch_up()
    cuts = Control(layout.control).cuts()
    history = SourceHistory(server, TABLES, tmp_path / "source-index")
    found = CutCheck(layout, history, beside.vacuums)
    found.check(cuts)
    figures = {
        "seed": seed,
        **killer.kills,
        "kills": killer.kills.total(),
        "transactions": bank.transactions,
        **beside.figures,
        "copies shown": sum("@" in at.path for at in cuts[-1].tables.values()),
        "compactions": compactions(layout),
        **reader.figures,
        **found.figures,
        "seconds": round(time.monotonic() - began),
    }
    with capsys.disabled():
        print(f"\n{figures}")
    assert not found.problems, "\n".join(found.problems[:20])
    assert (reader.figures["torn_sums"], reader.figures["gtids_lost"]) == (0, 0)
    assert_applied_once(Path(config.target.path))
    for table in TABLES:  # the replay is right, by the server's own word
        assert sorted(history.rows[table].values()) == sorted(
            server.query(f"SELECT * FROM {table}")
        )
    made = {f"bank.{name}" for (name,) in server.query("SHOW TABLES FROM bank")}
    assert made == {*cuts[-1].tables}
    money = sum(row[1] for table in TABLES[:2] for row in history.rows[table].values())
    assert money == TOTAL
    assert reader.figures["cuts_read"] > 2
    assert "SPARK_REPL_SOAK_S" in os.environ or killer.kills.total() == kills + cluster


def compactions(layout: Layout) -> int:
    """Versions that are rewrites of the applier's own: automatic ones, as they say."""
    logs = Path(layout.target).glob("bank/*/_delta_log/*.json")
    said = [path.read_text().partition("\n")[0] for path in logs]
    return sum('"OPTIMIZE"' in line and '"auto":true' in line for line in said)
