"""MySQL's own replica beside this applier on the same log, one after the other in one run.

    python -m tests.bench.mysql_replica MYSQL LOG [--prepared FILE:POS] [--workers 2,4,8] ...

MYSQL is an unpacked server's folder, LOG a folder of its binary logs. The replica takes the files
as its relay log, so that nothing is received; its durability is relaxed (no fsync, no doublewrite),
it keeps a binary log of its own, as replicas do (``--mysqld=--skip-log-bin``: it doesn't), and of
the worker counts the best one counts. What lies before ``--prepared`` is applied untimed on both
sides. Ours is ``spark-repl bench apply``: third run in
one session, from starting the stream to the last cut. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

from spark_repl.bench.recorded import Recording, bench_apply
from spark_repl.relay.index import build_index
from spark_repl.relay.log import open_log
from spark_repl.schedule.until import Until
from tests.support.live.server import Server

_RELAXED = (
    "--skip-replica-start", "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=OFF", "--innodb-buffer-pool-size=2G", "--innodb-redo-log-capacity=2G",
    "--relay-log=relay", "--relay-log-index=relay.index", "--relay-log-recovery=OFF",
    "--relay-log-purge=OFF", "--replica-preserve-commit-order=ON",
)  # fmt: skip
_WAIT_S = 10  # then it is looked whether the replica still applies


class ReplicaServer:
    """A throw-away server whose relay log is the recorded log."""

    def __init__(self, mysql: Path, log: Path, folder: Path, options: list[str]) -> None:
        self.mysql, self.log, self.folder = mysql, log, folder
        self.options = (*_RELAXED, *options)
        self.server = Server(mysql, folder / "loaded", 99_001, *self.options)
        self.executed = str(build_index(open_log(str(log)), str(folder)).gtids())

    def load(self, prepared: str) -> None:
        """Applies what isn't timed, and stops in order, so that the folder may be copied."""
        self.server.initialise()
        names = []
        for file in open_log(str(self.log)).files:
            names.append(f"./relay.{len(names) + 1:06d}")
            shutil.copyfile(self.log / file.name, self.server.data / names[-1])
        (self.server.data / "relay.index").write_text("\n".join(names) + "\n")
        self.server.start().query(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'nowhere', SOURCE_USER = 'nobody',"
            " RELAY_LOG_FILE = 'relay.000001', RELAY_LOG_POS = 4"
        )
        if prepared:
            file, _, offset = prepared.rpartition(":")
            relay = f"relay.{int(file.rpartition('.')[2]):06d}"
            self.server.query(
                "SET GLOBAL replica_parallel_workers = 0",
                f"START REPLICA SQL_THREAD UNTIL RELAY_LOG_FILE = '{relay}',"
                f" RELAY_LOG_POS = {offset}",
            )
            while self._applying(self.server):
                time.sleep(0.1)
            self._check(self.server)
        self.server.query("SHUTDOWN")
        while (self.server.data / "pid").exists():
            time.sleep(0.05)
        self.server.kill()

    def seconds(self, workers: int) -> float:
        """One timed apply of the rest, by so many workers, on a copy of what is loaded."""
        data = self.folder / f"workers{workers}"
        shutil.copytree(self.server.data, data)
        server = Server(
            self.mysql, data, 99_001, *self.options, f"--replica-parallel-workers={workers}"
        )
        try:
            server.start()
            began = time.perf_counter()
            server.query("START REPLICA SQL_THREAD")
            wait = f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{self.executed}', {_WAIT_S})"
            while server.query(wait)[0][0] and self._applying(server):
                pass
            seconds = time.perf_counter() - began
            self._check(server)
            return seconds
        finally:
            server.kill()
            shutil.rmtree(data)

    @staticmethod
    def _check(server: Server) -> None:
        ((error,),) = server.query(
            "SELECT LAST_ERROR_MESSAGE FROM performance_schema.replication_applier_status_by_worker"
            " ORDER BY LAST_ERROR_NUMBER DESC LIMIT 1"
        )
        assert not error, error

    @staticmethod
    def _applying(server: Server) -> bool:
        ((state,),) = server.query(
            "SELECT SERVICE_STATE FROM performance_schema.replication_applier_status"
        )
        return bool(state == "ON")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mysql", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("--prepared", default="", metavar="FILE:POS")
    parser.add_argument("--workers", default="2,4,8", help="the replica's, tried in turn")
    parser.add_argument("--mysqld", action="append", default=[], help="an option of the server")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spark-repl-bench-") as folder:
        replica = ReplicaServer(options.mysql, options.log, Path(folder), options.mysqld)
        replica.load(options.prepared)
        mysql = {}
        for workers in map(int, options.workers.split(",")):
            mysql[workers] = round(replica.seconds(workers), 2)
            print(json.dumps({"mysql_workers": workers, "seconds": mysql[workers]}), flush=True)
    prepared = Until.parse(f"source:{options.prepared}") if options.prepared else None
    recording = Recording(str(options.log), {"writer": "direct"}, prepared)
    ours = bench_apply(recording, options.runs)
    best = min(mysql.values())
    found = {
        "rows": ours["rows"],
        "mysql_seconds": mysql,
        "mysql_rows_per_s": round(ours["rows"] / best),
        "seconds": ours["seconds"],
        "rows_per_s": ours["rows_per_s"],
        "times": round(best / ours["seconds"], 1),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
