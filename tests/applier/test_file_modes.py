"""Who may read what an applier and a receiver leave: tables and cuts by the account's umask, all
else by the account alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_repl.control.table.owner import succeed
from spark_repl.receiver.report import Report
from spark_repl.receiver.writer import Limits, RelayWriter
from tests.applier.test_xa import ONE, A
from tests.support.binlog_writer import LogWriter, insert
from tests.support.dump_stream import receive
from tests.support.local_delta import run

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """The account hides nothing by itself."""
    before = os.umask(0)
    yield
    os.umask(before)


def seen_by_others(folder: Path) -> set[str]:
    """Files below a folder, other than empty ones, that another account may read or write, as it
    may enter all folders above them."""
    seen = set()
    for entry in folder.iterdir():
        mode = entry.stat().st_mode & 0o077
        if entry.is_dir() and mode:
            seen |= {f"{entry.name}/{name}" for name in seen_by_others(entry)}
        elif mode and entry.stat().st_size:
            seen.add(entry.name)
    return seen


def test_other_users_can_read_only_tables_and_cuts(log: LogWriter, target: Path) -> None:
    log.transaction(insert(A, (1, "x")))
    log.xa_prepare(ONE, insert(A, (10, "one")))
    assert run(log.folder, target)
    kept = {entry.name for entry in (target / "_repl").iterdir()}
    assert {"control", "index", "keys", "status.json", "xa"} <= kept
    assert any((target / "_repl" / "keys").rglob("*.npy")), "the key index is there"
    seen = seen_by_others(target)
    assert any(name.startswith("t/a/") for name in seen)
    assert any(name.startswith("_repl/control/") for name in seen)
    state = {name for name in seen if name.startswith("_repl/")}
    assert {name for name in state if not name.startswith("_repl/control/")} == set()


def test_the_services_group_reads_tables_and_cuts_alone(log: LogWriter, target: Path) -> None:
    """Under the UMask of the systemd unit; other accounts read nothing."""
    unit = (ROOT / "conf" / "systemd" / "spark-repl.service").read_text("utf-8")
    (mask,) = re.findall(r"^UMask=(\d+)$", unit, re.MULTILINE)
    os.umask(int(mask, 8))
    log.transaction(insert(A, (1, "x")))
    target.mkdir()
    assert run(log.folder, target)
    seen = seen_by_others(target)
    assert any(name.startswith("t/a/") for name in seen)
    assert any(name.startswith("_repl/control/") for name in seen)
    assert {name for name in seen if name.startswith("_repl/")} == {
        name for name in seen if name.startswith("_repl/control/")
    }
    modes = [path.stat().st_mode for path in (target, *target.rglob("*"))]
    assert not any(mode & 0o027 for mode in modes), "others nothing, and the group writes nothing"


def test_an_owners_folders_are_the_accounts_own(tmp_path: Path) -> None:
    """Of staged rows, and of the stream's checkpoint."""
    folder = tmp_path / "staging" / "1"
    succeed(str(folder), inherit=False)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_relay_log_is_the_accounts_own(log: LogWriter, tmp_path: Path) -> None:
    for folder in (tmp_path / "made", tmp_path / "there"):
        if folder.name == "there":
            folder.mkdir()  # with a mode that somebody chose
        with RelayWriter(folder, 4711, Limits(1 << 30, 0)) as writer:
            receive(writer, [log.path])
            Report(folder, "default").write("OFF", writer)
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert len(list(folder.glob("relay.0*"))) >= 1
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o777
