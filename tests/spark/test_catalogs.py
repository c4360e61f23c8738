"""Spark with Delta reads the registered tables by name, also after renames, drops and an outage of
the Hive metastore."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_repl.control.records.retention import pins
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.demo.bank_demo import TOTAL
from spark_repl.demo.expected import expected_tables
from spark_repl.gtid import GtidSet
from spark_repl.observe.status.status import status
from tests.support.binlog_writer import LogWriter, Table, insert
from tests.support.catalog_reader import CatalogReader
from tests.support.examples import ALL
from tests.support.hive_metastore import HiveMetastore, hive_metastore
from tests.support.wait_until import wait_until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ITEMS, THINGS, TAKEN, OLD, GONE, LATER = (
    Table(name, database="shop") for name in ("items", "things", "taken", "old", "gone", "later")
)
SWAP = "RENAME TABLE shop.items TO shop.x, shop.old TO shop.items, shop.x TO shop.things"
_WAIT_S = 240
C1 = "-XX:TieredStopAtLevel=1"
"""Java's option for short processes, which end before the code of C2 pays for itself"""
SUM = (
    "SELECT (SELECT sum(balance) FROM bank.account) + (SELECT sum(balance) FROM bank.till)"
    " + (SELECT coalesce(sum(amount), 0) FROM bank.pending) AS total"
)


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[HiveMetastore]:
    with hive_metastore(tmp_path) as process:
        yield process


class Target:
    """A target with a configuration, and the processes that apply a log to it."""

    def __init__(self, folder: Path, log: Path, uri: str) -> None:
        folder.mkdir()
        self.path = str(folder / "lake")
        self._config, self._errors = folder / "replica.toml", folder / "applier.err"
        self._config.write_text(
            f"[relay]\npath = {json.dumps(str(log))}\n[target]\npath = {json.dumps(self.path)}\n"
            f'[apply]\nworkers = 2\n[catalog]\nname = "spark_catalog"\nmetastore = "{uri}"\n'
        )

    @contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Start a command of spark-repl; kill it if it runs at the end."""
        command = [sys.executable, "-m", "spark_repl", *words, "--config", str(self._config)]
        with self._errors.open("a") as errors:
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True,
                env={"JAVA_TOOL_OPTIONS": C1, **os.environ},
            )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def run(self, *words: str) -> str:
        """Return the command's output."""
        with self.started(*words) as process:
            output, _ = process.communicate(timeout=_WAIT_S)
        assert process.returncode == 0, self._errors.read_text()[-3000:]
        return output

    def refused(self, *words: str) -> str:
        """Return the error of a command that fails."""
        with self.started(*words) as process:
            process.communicate(timeout=_WAIT_S)
        assert process.returncode
        return self._errors.read_text().rpartition("Error: ")[2]

    def leave_out_catalog(self) -> None:
        self._config.write_text(self._config.read_text().partition("[catalog]")[0])

    def wait_for(self, log: LogWriter) -> None:
        """Wait until the newest cut has all that the log has."""
        layout = Layout(self.path)
        control = Control(layout.control)

        def has_all() -> bool:
            cut = control.last_cut()
            return cut is not None and wanted.issubset(GtidSet.parse(cut.gtid_executed))

        wanted = GtidSet.parse(f"{log.source}:1-{log.gno - 1}")
        wait_until(Path(layout.status).exists, _WAIT_S)
        wait_until(has_all, _WAIT_S, each_s=0.1)

    @property
    def notes(self) -> str:
        """Return the text of all notices of the status."""
        return " ".join(note["what"] for note in status(self.path)["notes"])


def compare(reader: CatalogReader, target: Target, schema: str, foreign: str = "") -> list[str]:
    """Wait until the catalog has the names of the newest cut. Compare columns, rows and locations
    of the tables, without the ``foreign`` one, and return their names."""
    cut = reader.cut(target.path)
    wait_until(lambda: reader.names(schema) == sorted(cut), _WAIT_S, each_s=0.2)
    tables = reader.tables(schema)
    assert (foreign in cut) == bool(foreign)
    cut.pop(foreign, None)
    other = tables.pop(foreign, None)
    assert tables == cut
    assert other is None or other["rows"] == [["7"]]
    return sorted(cut)


def rows_of(text: str) -> list[str]:
    """Return the rows of printed tables, except those that differ between users or are long."""
    rows = (" ".join(line.split()) for line in text.splitlines() if line.startswith("|"))
    return [row for row in rows if not row.startswith(("|Owner", "|Table Properties"))]


@pytest.fixture
def reader(metastore: HiveMetastore, tmp_path: Path) -> Iterator[CatalogReader]:
    with CatalogReader(metastore.uri, tmp_path / "warehouse") as reader:
        yield reader


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """Four new tables in ``shop``."""
    log = LogWriter(tmp_path / "log")
    log.ddl("CREATE DATABASE shop")
    for table in (ITEMS, TAKEN, OLD, GONE):
        log.ddl(table.create)
    log.transaction(insert(ITEMS, (1, "a"), (2, None)), insert(OLD, (9, "o")))
    return log


def test_spark_with_delta_reads_the_registered_tables_by_name(
    metastore: HiveMetastore, reader: CatalogReader, bank: Path, log: LogWriter, tmp_path: Path
) -> None:
    target = Target(tmp_path / "bank", bank, metastore.uri)
    shop = Target(tmp_path / "shop", log.folder, metastore.uri)
    with target.started("apply") as applier:
        own = f"CREATE TABLE shop.taken (a INT) USING delta LOCATION '{tmp_path}/own'"
        reader.sql("CREATE SCHEMA shop", own, "INSERT INTO shop.taken VALUES (7)")
        assert applier.wait(_WAIT_S) == 0
    with shop.started("apply", "--follow") as applier:
        names = [name for name, _, _ in expected_tables(bank / "expected")]
        assert compare(reader, target, "bank") == names
        assert str(TOTAL) in reader.sql(SUM)[0]
        shown = reader.sql("SHOW TABLES IN bank", "DESCRIBE EXTENDED bank.account")
        printed = rows_of("".join(shown).replace(str(tmp_path), "/data"))
        assert rows_of(ALL["docs/catalogs.md console 1"].text) == printed

        shop.wait_for(log)
        wait_until(lambda: "shop.taken" in shop.notes, _WAIT_S, each_s=0.2)
        names = ["shop.gone", "shop.items", "shop.old"]
        assert compare(reader, shop, "shop", "shop.taken") == names

        log.ddl(SWAP)
        log.ddl("DROP TABLE shop.gone")
        log.transaction(insert(THINGS, (3, "c")))
        shop.wait_for(log)
        assert compare(reader, shop, "shop", "shop.taken") == ["shop.items", "shop.things"]

        metastore.kill()
        log.ddl(LATER.create)
        log.ddl("DROP TABLE shop.things")
        log.transaction(insert(LATER, (1, "x")))
        shop.wait_for(log)
        wait_until(lambda: "catalog could not" in shop.notes, _WAIT_S, each_s=0.2)
        applier.send_signal(signal.SIGTERM)
        assert applier.wait(_WAIT_S) == 0

    metastore.start()
    changes = ["create    shop.later", "drop      shop.things", "foreign   shop.taken"]
    assert shop.run("catalog", "sync", "--dry-run").splitlines() == changes
    assert reader.names("shop") == ["shop.items", "shop.taken", "shop.things"]
    assert shop.run("catalog", "sync").splitlines() == changes
    assert compare(reader, shop, "shop", "shop.taken") == ["shop.items", "shop.later"]
    check_named_cuts(reader, shop)


def check_named_cuts(reader: CatalogReader, shop: Target) -> None:
    """Publish a cut by command, and remove it. A name that belongs to another writer, a cut that
    does not exist, and a configuration without a catalog are refused, and leave nothing."""
    output = shop.run("cut", "publish", "--as", "month_end")
    assert "shop_cut_month_end" in output
    views = ["items", "later", "taken"]
    assert reader.names("shop_cut_month_end") == [f"shop_cut_month_end.{name}" for name in views]
    (rows,) = reader.sql("SELECT id, v FROM shop_cut_month_end.items")
    assert rows_of(rows) == ["|id |v |", "|9 |o |"]
    reader.sql("CREATE SCHEMA shop_cut_theirs")
    assert "another schema or view: shop_cut_theirs" in shop.refused(
        "cut", "publish", "--as", "theirs"
    )
    error = shop.refused("cut", "publish", "--as", "early", "--at", "2001-01-01T00:00:00Z")
    assert "cut" in error and "Try: " in error
    assert [*pins(Control(Layout(shop.path).control))] == ["month_end"]
    shop.run("cut", "unpublish", "--as", "month_end")
    assert reader.names("shop_cut_month_end") == []
    assert pins(Control(Layout(shop.path).control)) == {}
    shop.leave_out_catalog()
    assert "names no catalog" in shop.refused("catalog", "sync")
