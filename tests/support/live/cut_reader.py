"""A reader that takes cuts in a loop, as a process of its own, without Spark.

``python -m tests.support.live.cut_reader TARGET TOTAL STOP``: until the file STOP is there, the
newest cut is read; the bank's sum must be TOTAL, its GTID set hold the one before. Prints figures
as JSON. If a cut can't be read, a newer one must have come: a VACUUM may have removed its files by
then.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut
from spark_repl.control.table.layout import Layout
from spark_repl.delta.store.delta_rs_read import read
from spark_repl.gtid import GtidSet

SUMS = {"bank.account": "balance", "bank.till": "balance"}


def total(layout: Layout, cut: Cut) -> int:
    found = 0
    for name, column in SUMS.items():
        at = cut.tables[name]
        rows = read(layout.table(at.path), at.version, f"select sum({column}) s from t")
        found += rows["s"][0].as_py() or 0
    return found


def main(target: str, want: int, stop: Path) -> None:
    layout = Layout(target)
    control = Control(layout.control)
    executed, taken, torn, shrunk, overtaken, last = GtidSet(), 0, 0, 0, 0, None
    while not stop.exists():
        cuts = control.cuts()
        cut = cuts[-1] if cuts else None
        if cut is None or cut == last or not SUMS.keys() <= cut.tables.keys():
            time.sleep(0.3)  # each look reads the control table
            continue
        last, taken = cut, taken + 1
        try:
            torn += total(layout, cut) != want
        except Exception:
            if control.cuts()[-1] == cut:
                raise
            overtaken += 1
        now = GtidSet.parse(cut.gtid_executed)
        shrunk += not executed.issubset(now)
        executed = now
    found = {"cuts_read": taken, "torn_sums": torn, "gtids_lost": shrunk, "overtaken": overtaken}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
