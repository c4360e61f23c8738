"""Foreign keys that the storage engine looks after, unlogged: at every cut the tables are those of
the server, through random keys and rows, and cut off anywhere."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_repl.control.table.layout import Layout
from spark_repl.delta.store.delta_rs_read import read
from tests.support.live.cascade_load import CascadeLoad, State
from tests.support.live.server import Server, copy_of
from tests.support.local_delta import cuts, run

_COLLATIONS = ("utf8mb4_0900_ai_ci", "utf8mb4_bin", "utf8mb4_general_ci", "latin1_swedish_ci")


@pytest.fixture(scope="module")
def native(template: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that logs nothing of what a foreign key does."""
    data = tmp_path_factory.mktemp("native") / "data"
    server = copy_of(template, data, 131, "--innodb-native-foreign-keys=ON").start()
    yield server
    server.stop()


def loaded(server: Server, folder: Path, seed: int, transactions: int) -> CascadeLoad:
    load = CascadeLoad(server, seed, _COLLATIONS[seed % len(_COLLATIONS)])
    try:
        load.run(transactions)
    finally:
        load.close()
    folder.mkdir()
    for path in server.data.glob("binlog.0*"):
        shutil.copy(path, folder)
    return load


def assert_equal(target: Path, load: CascadeLoad) -> int:
    """Every cut shows what the server had there. Returns how many there were."""
    shown = 0
    for cut in cuts(target):
        number = int(cut.gtid_executed.rsplit(":")[-1].rsplit("-")[-1])
        if number not in load.states:
            continue
        shown += 1
        want: State = load.states[number]
        for name, at in cut.tables.items():
            found = read(Layout(str(target)).table(at.path), at.version).to_pylist()
            got = sorted((tuple(row.values()) for row in found), key=str)
            assert got == want[name], (name, cut.gtid_executed, load.keys)
    return shown


def follow(server: Server, folder: Path, seed: int, transactions: int) -> None:
    load = loaded(server, folder / "log", seed, transactions)
    most = random.Random(seed).choice((1, 3, 10, 1000))
    target = folder / "lake"
    assert run(folder / "log", target, group_max_transactions=most)
    assert assert_equal(target, load)


@pytest.mark.parametrize("seed", range(4))
def test_random_cascades_end_as_on_the_server(native: Server, tmp_path: Path, seed: int) -> None:
    follow(native, tmp_path, seed, 60)


@pytest.fixture(scope="module")
def recorded(native: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[CascadeLoad, Path]:
    folder = tmp_path_factory.mktemp("recorded") / "log"
    return loaded(native, folder, 3, 60), folder


@pytest.mark.parametrize("crash", range(25, 205, 36))
def test_cascades_of_a_server_are_whole_after_a_crash_at_any_step(
    recorded: tuple[CascadeLoad, Path], tmp_path: Path, crash: int
) -> None:
    load, log = recorded
    run(log, tmp_path, crash=crash, group_max_transactions=8)
    run(log, tmp_path, crash=crash // 3, group_max_transactions=3)
    assert run(log, tmp_path, group_max_transactions=5)
    assert assert_equal(tmp_path, load)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 150))
def test_many_random_cascades_end_as_on_the_server(
    native: Server, tmp_path: Path, seed: int
) -> None:
    follow(native, tmp_path, seed, 200)
