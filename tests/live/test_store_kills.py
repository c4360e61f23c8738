"""SIGKILL to applier, JVM, receiver, executors and source, over a live load into a bucket whose
store answers late, does work twice, refuses, and drops requests and answers: nothing lost, nothing
doubled, no torn cut, nothing unreadable.

``SPARK_REPL_SEED`` chooses what is killed when and which requests fail, ``SPARK_REPL_KILLS`` how
often, ``SPARK_REPL_SOAK_S`` bounds the time, ``SPARK_REPL_FAULTS`` is the share of requests with a
fault.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.delta.log.log_replay import read_commit
from spark_repl.delta.log.table_log import TableLog
from tests.support.live.cut_check import CutCheck
from tests.support.live.killing import TOTAL, Bank, Killer, Reader
from tests.support.live.receiving import config_for
from tests.support.live.server import Server
from tests.support.live.source_history import SourceHistory
from tests.support.s3_server import BUCKET, s3_server
from tests.support.store_proxy import proxy_process

if TYPE_CHECKING:
    from _pytest.capture import CaptureFixture

pytestmark = pytest.mark.soak

TABLES = ("bank.account", "bank.till", "bank.transfer")


@pytest.mark.parametrize(("kills", "cluster"), [(290, 10)])
def test_killed_at_random_on_a_faulty_store(
    make_server: Callable[..., Server],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: CaptureFixture[str],
    kills: int,
    cluster: int,
) -> None:
    """``cluster``: number of further kills, with executors in JVMs of their own. Every published
    cut is read whole, and compared with the source's own history."""
    seed, began = os.environ.get("SPARK_REPL_SEED", "1"), time.monotonic()
    kills = int(os.environ.get("SPARK_REPL_KILLS", kills))
    faults = os.environ.get("SPARK_REPL_FAULTS", "0.05")
    server = make_server()
    target = {
        "target__path": f"s3://{BUCKET}/lake",
        "target__state_path": str(tmp_path / "state"),
    }
    config = config_for(
        server, tmp_path, relay__segment_size_bytes=200_000, target__compact_files=4, **target
    )
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        layout = Layout.of(config.target)
        upstream = environment["AWS_ENDPOINT_URL"]
        with proxy_process(upstream, "--seed", seed, "--faults", faults) as url:
            killer = Killer(server, config, tmp_path, int(seed), {"AWS_ENDPOINT_URL": url})
            with killer, Reader(config.target.path, tmp_path) as reader:
                with Bank(server, seed=int(seed)) as bank:
                    killer.run(kills)
                    if cluster:
                        killer.use("local-cluster[2,1,1024]")
                        killer.run(cluster)
                killer.catch_up()
        cuts = Control(layout.control).cuts()
        history = SourceHistory(server, TABLES, tmp_path / "source-index")
        check = CutCheck(layout, history, ())
        check.check(cuts)
        figures = {
            "seed": seed,
            "faults": faults,
            **killer.kills,
            "kills": killer.kills.total(),
            "transactions": bank.transactions,
            **reader.figures,
            **check.figures,
            "seconds": round(time.monotonic() - began),
        }
        with capsys.disabled():
            print(f"\n{figures}")
        assert not check.problems, "\n".join(check.problems[:20])
        assert (reader.figures["torn_sums"], reader.figures["gtids_lost"]) == (0, 0)
        for at in cuts[-1].tables.values():
            check_applied_once(layout.table(at.path))
    for table in TABLES:
        assert sorted(history.rows[table].values()) == sorted(
            server.query(f"SELECT * FROM {table}")
        )
    money = sum(row[1] for table in TABLES[:2] for row in history.rows[table].values())
    assert money == TOTAL
    assert reader.figures["cuts_read"] > 2
    assert "SPARK_REPL_SOAK_S" in os.environ or killer.kills.total() == kills + cluster


def check_applied_once(folder: str) -> None:
    """No two commits of the table are at one position, and none goes back."""
    commits = (read_commit(folder, n) or () for n in range(TableLog().version(folder) + 1))
    # The chunks of a copy are counted under a name of their own.
    positions = [
        action["txn"]["version"]
        for actions in commits
        for action in actions
        if "txn" in action and not action["txn"]["appId"].endswith(":copy")
    ]
    assert positions == sorted(positions), folder
    assert not positions or max(Counter(positions).values()) == 1, folder
