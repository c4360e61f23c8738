"""Another writer of the tables: OPTIMIZE and VACUUM RETAIN 0 HOURS by turns, in a process and with
a Spark session of its own.

``python -m tests.support.live.foreigner TARGET SEED FILE STOP``: until the file STOP is there. FILE
gets a JSON line for each command that is done: the table's folder, its versions before and after.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)

from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.delta.store.delta_rs_read import newest_version
from spark_repl.runtime.spark_session import build_session

from .table_files import make_old

_PAUSE_S = 5.0
LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
"""VACUUM lists a table's folder in so many tasks, 10,000 by default: minutes of a core"""
_TURNED_AWAY = (  # what Delta says of a commit in between; none is another one's subclass
    ConcurrentAppendException, ConcurrentDeleteDeleteException, ConcurrentDeleteReadException,
    ConcurrentTransactionException, ConcurrentWriteException, DeltaConcurrentModificationException,
    MetadataChangedException, ProtocolChangedException,
)  # fmt: skip
OPTIMIZE, VACUUM = "OPTIMIZE delta.`{}`", "VACUUM delta.`{}` RETAIN 0 HOURS"


def main(target: str, seed: int, done: Path, stop: Path) -> None:
    layout, dice = Layout(target), random.Random(seed)
    control = Control(layout.control)
    spark = build_session("foreigner", master="local[1]")
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    spark.conf.set(LISTING, "2")
    while not stop.exists():
        time.sleep(dice.uniform(0, _PAUSE_S))  # it comes at any moment
        cuts = control.cuts()
        if not cuts:
            continue
        folder = layout.table(dice.choice(sorted(at.path for at in cuts[-1].tables.values())))
        command = dice.choice([OPTIMIZE, VACUUM])
        if command == VACUUM:
            make_old(folder)
        before = newest_version(folder)
        said = command.split()[0]
        try:
            spark.sql(command.format(folder))
        except _TURNED_AWAY:
            said += " turned away"
        line = {"did": said, "folder": folder, "before": before, "after": newest_version(folder)}
        with done.open("a") as out:
            out.write(json.dumps(line) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
