"""Bank demo: applies a bank's binary log to Delta tables, and kills the applier twice.

A transfer changes several tables, so one sum must be right at each cut: accounts + tills + pending
transfers = 1,000,000.00. A MySQL 9.7 server with eight clients wrote the log
(tests/fixtures/make_bank.py). The server's final rows are in a folder beside the log.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from ..control.table.control import Control
from ..control.table.layout import Layout
from ..delta.store import storage
from ..delta.store.delta_rs_read import newest_version, read
from ..errors import DemoError
from ..runtime.target_uri import canonical
from .expected import differences, expected_tables

if TYPE_CHECKING:
    from ..control.table.cut import Cut

BANK = Path(__file__).with_name("bank")
TOTAL = Decimal("1000000.00")
_SUMS = {"bank.account": "balance", "bank.till": "balance", "bank.pending": "amount"}
_GROUP_TRANSACTIONS = 56
_CRASH_GROUP = 15
_CUTS_MIN = 50


class Demo:
    """A run of the demo. The applier runs in separate processes, so that SIGKILL can end them."""

    def __init__(
        self, folder: str, log: Path, console: Console, target: str = "", *, mapped: bool = True
    ) -> None:
        """``target``: where the tables are to be, by default in the folder; ``mapped``: whether
        their columns are mapped (``target.column_mapping``)."""
        self.folder, self.log, self.console = Path(folder), log, console
        self.target = canonical(target or str(self.folder / "lake"))
        self.layout = Layout(self.target)
        self.control = Control(self.layout.control)
        self.config = self.folder / "replica.toml"
        self.folder.mkdir(parents=True, exist_ok=True)
        if storage.exists(self.target):
            raise DemoError("the target holds an earlier demo", file=self.target, hint="remove it")
        self.config.write_text(
            f"[relay]\npath = {json.dumps(str(log))}\n[target]\npath = {json.dumps(self.target)}\n"
            f"column_mapping = {json.dumps(mapped)}\n"
            f"[apply]\nworkers = 2\ngroup_max_transactions = {_GROUP_TRANSACTIONS}\n"
        )

    def carry_out(self) -> tuple[Mapping[str, Any], int, int]:
        """Apply the log, kill the applier twice, and check everything. Return the last run's
        result, the number of checked cuts, and the number of compared rows. Raise DemoError."""
        self.say(f"A bank's MySQL log, {self.log}, is applied to Delta tables in {self.target}.")
        self.killed_at_random()
        self.killed_between_tables()
        return self.finished(), self.check_cuts(), self.check_end()

    def start(self, crash: str | None = None) -> subprocess.Popen[str]:
        # A short run ends before C2's code pays for itself.
        environment = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1", **os.environ}
        environment["SPARK_REPL_CRASH"] = crash or ""
        command = [
            sys.executable,
            "-m",
            "spark_repl",
            "apply",
            "--config",
            str(self.config),
            "--json",
        ]
        with (self.folder / "applier.err").open("a") as errors:
            return subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
            )

    def killed_between_tables(self) -> None:
        """Kill the applier after it has committed one table of a group and before it commits the
        others. Raise DemoError."""
        applier = self.start(f"between_tables:{_CRASH_GROUP}")
        if applier.wait() != -signal.SIGKILL:
            raise self._failed("the applier was to be killed between two tables, and was not")
        last = self.control.cuts()[-1]
        newest = {
            name: newest_version(self.layout.table(v.path)) for name, v in last.tables.items()
        }
        wrong, right = self.total(last, newest), self.total(last)
        self.say(f"SIGKILL between two tables of one group, after {len(self.control.cuts())} cuts.")
        self.say(f"  every table's latest version: {wrong:>12,}   [red]wrong[/red], a torn state")
        self.say(f"  the last cut:                 {right:>12,}   [green]right[/green]")
        if wrong == TOTAL or right != TOTAL:
            raise DemoError(f"after the kill: latest versions {wrong}, last cut {right}")

    def killed_at_random(self) -> None:
        before = len(self.control.cuts())
        wanted = before + random.randint(4, 14)
        applier = self.start()
        while len(self.control.cuts()) < wanted:
            if applier.poll() is not None:
                raise self._failed("the applier ended before it could be killed")
            time.sleep(0.05)
        time.sleep(random.random() / 3)
        applier.kill()
        applier.wait()
        self.say(f"SIGKILL at a random moment, after {len(self.control.cuts())} cuts.")

    def finished(self) -> Mapping[str, Any]:
        applier = self.start()
        out, _ = applier.communicate()
        if applier.returncode != 0:
            raise self._failed(f"the applier ended with exit code {applier.returncode}")
        result: Mapping[str, Any] = json.loads(out.splitlines()[-1])
        self.say(
            f"Started again: {result['transactions']} transactions left, of which some tables had"
            f" {result['already_there']} already; none was applied twice."
        )
        return result

    def total(self, cut: Cut, versions: Mapping[str, int] | None = None) -> Decimal:
        total = Decimal(0)
        for name, column in _SUMS.items():
            at = cut.tables[name]
            version = at.version if versions is None else versions[name]
            rows = read(self.layout.table(at.path), version, f"select sum({column}) s from t")
            total += rows["s"][0].as_py() or 0
        return total

    def check_cuts(self) -> int:
        """Check the sum at every cut. Return the number of cuts. Raise DemoError for the first
        wrong sum."""
        checked = 0
        for cut in self.control.cuts():
            # Until the bank's first transaction there are no rows, or not yet all tables.
            if not all(name in cut.tables for name in _SUMS) or (
                not checked and not self.total(cut)
            ):
                continue
            checked += 1
            if (total := self.total(cut)) != TOTAL:
                raise DemoError(f"the sum is {total} at the cut {cut.gtid_executed}")
        if checked < _CUTS_MIN:
            raise DemoError(f"only {checked} cuts, {_CUTS_MIN} were to be checked")
        self.say(f"{checked} cuts over {len(_SUMS)} tables checked: the sum was {TOTAL:,} at each.")
        return checked

    def check_end(self) -> int:
        """Compare the rows with the server's final rows. Return their number. Raise DemoError if
        one differs."""
        last = self.control.cuts()[-1]
        listing = Table("table", "rows", "Delta version", "one row", title="The tables")
        total = 0
        for name, columns, rows in expected_tables(self.log / "expected"):
            at = last.tables[name]
            table = read(self.layout.table(at.path), at.version)
            delta_rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
            if differing := differences(table.column_names, delta_rows, columns, rows):
                raise DemoError(
                    f"{len(differing)} rows differ from the server's, the first: {differing[0]}",
                    table=name,
                )
            total += len(rows)
            example = ", ".join(str(value) for value in rows[0])
            listing.add_row(name, str(len(rows)), str(at.version), example[:60])
        self.console.print(listing)
        self.say(f"{total} rows compared with the server's own end state: all equal.")
        return total

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False)

    def _failed(self, message: str) -> DemoError:
        lines = (self.folder / "applier.err").read_text("utf-8", "replace").splitlines()
        output = "\n".join(lines[-20:])
        return DemoError(f"{message}; it said:\n{output}", file=str(self.folder / "applier.err"))


def run(
    keep: str | None = None, *, log: str | None = None, target: str = "", as_json: bool = False
) -> int:
    """Run the demo in the folder ``keep`` (default: a new temporary folder), with its tables there
    or at ``target``. Raise DemoError."""
    console = Console(stderr=as_json, soft_wrap=True)
    folder = keep or tempfile.mkdtemp(prefix="spark-repl-demo-")
    began = time.perf_counter()
    demo = Demo(os.path.abspath(folder), Path(log) if log else BANK, console, target)
    result, checked, rows = demo.carry_out()
    seconds = time.perf_counter() - began
    demo.say(f"Done in {seconds:.0f} s.\n\nTry next:")
    demo.say(f"  spark-repl status --target {demo.target}")
    demo.say(f"  spark-repl cut list --target {demo.target}")
    demo.say(f"  spark-repl relay dump {demo.log}")
    demo.say("  spark-repl apply --relay YOUR_BINLOG_FOLDER --target A_NEW_FOLDER")
    if as_json:
        report = {"cuts_checked": checked, "rows_compared": rows, "seconds": round(seconds, 1)}
        print(json.dumps({**report, "gtid_executed": result["gtid_executed"]}))
    return 0
