"""The bad days of docs/troubleshooting.md: each is made to happen, then the commands of its recipe
are typed as they stand there. Each ends with a ``verify`` that finds no difference."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.support.authority import Authority
from tests.support.live.operator import Operator
from tests.support.live.server import Proxy, Server
from tests.support.wait_until import wait_until

MakeServer = Callable[..., Server]
pytestmark = pytest.mark.soak

_DISK_MB = 40
_INSERT = "INSERT INTO shop.orders (state, note) VALUES ('open', REPEAT('x', {}))"
_COLLATIONS = "information_schema.collations"
_MANY_ROWS = (
    "INSERT INTO shop.orders (state, note) SELECT 'open', REPEAT('x', 100)"
    f" FROM {_COLLATIONS} a, {_COLLATIONS} b LIMIT 9000"
)
"""a transaction that is large enough for Spark's workers"""
_DISKS = {"lake": "the target", "state": "the working state", "scratch": "Spark's scratch folder"}


@pytest.fixture
def operator(make_server: MakeServer, tmp_path: Path) -> Operator:
    found = Operator(make_server(), tmp_path)
    found.shop()
    return found


@pytest.fixture
def small_disks(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The words before a command for which ``lake``, ``relay``, ``state`` and ``scratch`` are disks
    of 40 MB."""
    names = ("lake", "relay", "state", "scratch")
    for name in names:
        (tmp_path / name).mkdir()
    mounts = " && ".join(f"mount -t tmpfs -o size={_DISK_MB}m tmpfs {name}" for name in names)
    script = f"{mounts} && echo mounted && exec sleep infinity"
    command = ["unshare", "-Urm", "sh", "-c", script]
    holder = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE)
    assert holder.stdout
    if not holder.stdout.readline():
        pytest.skip("no mount namespace here")
    yield ("nsenter", "-t", str(holder.pid), "-U", "-m", "--preserve-credentials")
    holder.kill()
    holder.wait()


@pytest.mark.parametrize("disk", ["lake", "relay", "state", "scratch"])
def test_a_disk_is_full(
    make_server: MakeServer, tmp_path: Path, small_disks: tuple[str, ...], disk: str
) -> None:
    operator = Operator(
        make_server(),
        tmp_path,
        inside=small_disks,
        environment={"SPARK_LOCAL_DIRS": str(tmp_path / "scratch")},
    )
    operator.set("target", 'state_path = "state"')
    operator.shop()
    # Bounded, and only on the small disk: elsewhere it would fill that of the machine.
    operator.types(f"mountpoint -q {disk}")
    filled = f"dd if=/dev/zero of={disk}/filler bs=1M count={_DISK_MB + 1} status=none"
    assert "No space left" in operator.fails(filled)
    for _ in range(5):
        operator.server.query(*[_INSERT.format(3000)] * 20)
    operator.server.query(_MANY_ROWS)
    if disk == "relay":
        assert "No space left" in operator.ends()
    else:
        assert _DISKS[disk] in operator.reads(" is full")
    operator.follows(
        "A disk is full", {"# free space": lambda: operator.types(f"rm {disk}/filler")}
    )


def test_the_source_was_restored_from_a_backup(operator: Operator, tmp_path: Path) -> None:
    server, backup = operator.server, tmp_path / "backup"
    server.kill()
    shutil.copytree(server.data, backup)
    server.start()
    server.query("INSERT INTO shop.orders (state) VALUES ('lost')")
    operator.catches_up()
    operator.stops()
    server.kill()
    shutil.rmtree(server.data)
    backup.rename(server.data)
    server.start()
    operator.starts()
    assert "more GTIDs than the source" in operator.ends()
    server.query("INSERT INTO shop.orders (state) VALUES ('kept'), ('new')")
    operator.follows("The source was restored from a backup")


def test_the_source_has_purged_needed_binary_logs(operator: Operator) -> None:
    operator.stops()
    server = operator.server
    server.query(_INSERT.format(10), "FLUSH BINARY LOGS", _INSERT.format(10))
    server.query(f"PURGE BINARY LOGS TO '{server.query('SHOW BINARY LOGS')[-1][0]}'")
    operator.starts()
    assert "on_purged" in operator.ends()
    operator.follows("The source has purged needed binary logs")


def test_the_address_leads_to_another_server(make_server: MakeServer, tmp_path: Path) -> None:
    from .test_source_switch import replicate

    blue, green = make_server(), make_server()
    replicate(blue, green)
    with Proxy(blue.port) as endpoint:
        operator = Operator(blue, tmp_path)
        operator.set("source", f"port = {endpoint.port}")
        operator.shop()
        green.query(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{blue.executed}', 30)", "STOP REPLICA",
                    "RESET REPLICA ALL")  # fmt: skip
        endpoint.target, operator.server = green.port, green
        blue.kill()
        green.query(_INSERT.format(10))
        operator.catches_up()
        operator.follows("The address leads to another server")


def test_the_password_was_changed(operator: Operator) -> None:
    server = operator.server
    server.query("ALTER USER repl IDENTIFIED BY 'another'")
    server.cut_off("repl")
    seen = operator.reads("Access denied")
    assert str(operator.folder / "password") in seen
    server.query(_INSERT.format(10))
    operator.follows("The password was changed", NEW_PASSWORD="another")
    assert "connected again" in operator.said.read_text()


def test_a_certificate_has_expired(make_server: MakeServer, tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    certificate, key = ours.sign("localhost")
    server = make_server(f"--ssl-ca={ours.file}", f"--ssl-cert={certificate}", f"--ssl-key={key}")
    operator = Operator(server, tmp_path, tls_ca="ours.pem")
    operator.shop()
    ours.sign("localhost", timedelta(seconds=4))
    server.query("ALTER INSTANCE RELOAD TLS")  # MySQL loads none that has expired
    expired = time.monotonic() + 5
    wait_until(lambda: time.monotonic() > expired, each_s=0.5)
    server.cut_off("repl")
    seen = operator.reads("certificate has expired")
    assert "ALTER INSTANCE RELOAD TLS" in seen
    server.query(_INSERT.format(10))

    def renew() -> None:
        ours.sign("localhost")
        server.query("ALTER INSTANCE RELOAD TLS")

    action = "# renew the certificate on the source, and there: ALTER INSTANCE RELOAD TLS"
    operator.follows("A certificate has expired", {action: renew})


def test_a_tables_folder_was_removed(operator: Operator) -> None:
    shutil.rmtree(operator.folder / "lake" / "shop" / "orders")
    operator.server.query(_INSERT.format(10))
    said = operator.ends()
    assert "shop.orders" in said and "spark-repl snapshot" in said
    operator.follows("A table's folder was removed")


def test_another_writer_changed_a_table(make_server: MakeServer, tmp_path: Path) -> None:
    """After an OPTIMIZE and a VACUUM, which do not stop it. delta-rs writes no mapped columns."""
    operator = Operator(make_server(), tmp_path)
    operator.set("target", "column_mapping = false")
    operator.set("target", "deletion_vectors = false")
    operator.shop()
    path = str(operator.folder / "lake" / "shop" / "customer")
    DeltaTable(path).optimize.compact()
    DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    operator.server.query("UPDATE shop.customer SET name = 'Eve' WHERE id = 1")
    operator.catches_up()
    DeltaTable(str(operator.folder / "lake" / "shop" / "orders")).delete("id = 1")
    operator.server.query(_INSERT.format(10))
    said = operator.ends()
    assert "shop.orders" in said and "snapshot" in said
    operator.follows("Another writer changed a table")


def test_a_row_cannot_be_applied(operator: Operator) -> None:
    operator.server.query("ALTER TABLE shop.orders ADD due DATE")
    operator.server.query("SET sql_mode = ''", "UPDATE shop.orders SET due = '0000-00-00'")
    said = operator.ends()
    assert "shop.orders" in said and "spark-repl skip" in said
    (gtid,) = set(re.findall(r"[0-9a-f-]{36}:\d+", said.partition("Error:")[2]))
    correct = "# correct the row on the source"
    operator.follows(
        "A row cannot be applied",
        {correct: lambda: operator.server.query("UPDATE shop.orders SET due = NULL")},
        GTID=gtid,
    )


def test_the_clock_was_wrong(make_server: MakeServer, tmp_path: Path) -> None:
    """It jumps an hour and a half ahead under a running applier, and back again."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("the wrong clock needs a C compiler and Linux")
    library, ahead = tmp_path / "clock.so", tmp_path / "ahead"
    source = Path(__file__).parents[1] / "support" / "clock_ahead.c"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True)
    ahead.write_bytes(struct.pack("q", 0))
    operator = Operator(
        make_server(), tmp_path, environment={"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(ahead)}
    )
    operator.shop()
    for seconds in (5400, 0):
        with ahead.open("r+b") as file:
            file.write(struct.pack("q", seconds))
        for _ in range(5):
            operator.server.query(_INSERT.format(10))
        operator.catches_up()
        print(operator.types("spark-repl status --short --config my.toml"))
        print(operator.types("spark-repl cut list --config my.toml"))
    operator.follows("The clock was wrong", {"# correct the clock": lambda: None})


def test_the_target_was_copied_to_another_path(operator: Operator) -> None:
    operator.server.query(_INSERT.format(10))
    operator.catches_up()
    operator.follows("The target was copied to another path")


def test_a_deploy_of_the_application_was_rolled_back(operator: Operator) -> None:
    operator.server.query(
        "ALTER TABLE shop.orders ADD total DECIMAL(10, 2) NOT NULL DEFAULT 1.5, DROP COLUMN state",
        "INSERT INTO shop.orders (note, total) VALUES ('a', 2), ('b', 3)",
        "RENAME TABLE shop.customer TO shop.client",
        "INSERT INTO shop.client VALUES (3, 'Cid')",
        "CREATE TABLE shop.invoice (id INT PRIMARY KEY)", "INSERT INTO shop.invoice VALUES (1)",
        "DROP TABLE shop.invoice",
        "RENAME TABLE shop.client TO shop.customer",
        "ALTER TABLE shop.orders DROP COLUMN total, ADD state VARCHAR(20) AFTER id",
        "INSERT INTO shop.orders (state) VALUES ('again')",
    )  # fmt: skip
    operator.catches_up()
    operator.follows("A deploy of the application was rolled back")


def test_the_package_was_upgraded_or_downgraded(operator: Operator) -> None:
    """The later version is this one, with a number more for the files of its relay log."""
    operator.stops()
    index = operator.folder / "relay" / "relay.index"
    ours = index.read_text()
    index.write_text(ours.replace("relay log ", "relay log format 2 by 9.8.7 "))
    operator.starts()
    assert "9.8.7" in operator.ends()
    install = "# install the version that the message names, or a later one"
    operator.follows(
        "The package was upgraded or downgraded", {install: lambda: index.write_text(ours)}
    )
