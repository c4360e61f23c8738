"""A log is looked at while its files are purged: at whatever step one goes, nothing is missed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_repl.errors import LogError
from spark_repl.receiver.purge import purge
from spark_repl.receiver.writer import RelayWriter
from spark_repl.relay.log import open_log, read_while_purged
from tests.support.binlog_writer import LogWriter, insert
from tests.support.dump_stream import receive
from tests.support.relay_reader import T, ask, reader_of


class Steps:
    """Calls ``do`` once, before the n-th call that asks the file system for something."""

    CALLS = frozenset({"open", "stat", "scandir", "listdir", "read", "mmap", "fstat", "replace"})

    def __init__(self, at: int, do: Callable[[], object]) -> None:
        self.at, self.do, self.count = at, do, 0

    def __call__(self, frame: Any, event: str, arg: Any) -> None:
        if event != "c_call" or getattr(arg, "__name__", "") not in self.CALLS:
            return
        self.count += 1
        if self.count == self.at:
            sys.setprofile(None)
            self.do()
            sys.setprofile(self)

    def run(self, work: Callable[[], Any]) -> Any:
        sys.setprofile(self)
        try:
            return work()
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize(
    "warm",
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["with an index", "from nothing"],
)
def test_purge_at_each_step_of_a_look(relay: Path, tmp_path: Path, warm: bool) -> None:
    """Scenario 103: a file that goes between the look at the list and the file is no error."""
    whole, kept = tmp_path / "whole", tmp_path / "kept"
    shutil.copytree(relay, whole)
    reader_of(whole, kept)._index()
    last = open_log(str(whole)).files[-1].number
    place = reader_of(whole, tmp_path)
    end = ask(place, place.initialOffset())
    step = 0
    while True:
        step += 1
        folder = tmp_path / f"step{step}"
        shutil.copytree(whole, folder / "relay")
        if warm:
            shutil.copytree(kept / "index", folder / "index")
        reader = reader_of(folder / "relay", folder)
        steps = Steps(step, lambda folder=folder: purge(folder / "relay", last))  # type: ignore[misc]
        assert steps.run(lambda reader=reader: ask(reader, end)) == end
        shutil.rmtree(folder)
        if steps.count < step:
            break
    assert step > 20


def test_purges_one_after_the_other_under_a_look(relay: Path, tmp_path: Path) -> None:
    """However many come: each look begins with fewer files."""
    files = [file.number for file in open_log(str(relay)).files]
    looks = iter(files[1:])

    def see(log: Any) -> list[int]:
        if (number := next(looks, None)) is not None:
            purge(relay, number)
        return [log.head(file.number).length for file in log.files]

    log, heads = read_while_purged(str(relay), see)
    assert [file.number for file in log.files] == files[-1:]
    assert len(heads) == 1


def test_a_file_that_nobody_purged_is_named(relay: Path, tmp_path: Path) -> None:
    log = open_log(str(relay))

    def see(found: Any) -> None:
        (relay / log.files[2].name).unlink(missing_ok=True)
        found.size(log.files[2].number)

    with pytest.raises(LogError, match=r"relay.000003 is listed in relay.index but missing"):
        read_while_purged(str(relay), see)


def test_a_list_that_a_server_purges_meanwhile(source: LogWriter, tmp_path: Path) -> None:
    """mysqld's own PURGE BINARY LOGS: the list is replaced, then the files go."""
    for key in range(30, 33):
        source.rotate()
        source.transaction(insert(T, (key, "x")))
    names = sorted(path.name for path in source.folder.iterdir())
    index = source.folder / "bin.index"
    whole = tmp_path / "whole"
    index.write_text("".join(f"./{name}\n" for name in names))
    shutil.copytree(source.folder, whole)
    step = 0
    for listed in (True, False):
        while True:
            step += 1
            folder = tmp_path / f"step{step}"
            shutil.copytree(whole, folder)
            if not listed:
                (folder / index.name).unlink()

            def purged(folder: Path = folder, listed: bool = listed) -> None:
                if listed:
                    (folder / "new").write_text("".join(f"./{name}\n" for name in names[2:]))
                    (folder / "new").replace(folder / index.name)
                for name in names[:2]:
                    (folder / name).unlink()

            steps = Steps(step, purged)
            log = steps.run(lambda folder=folder: open_log(str(folder)))
            assert [file.name for file in log.files] in (names, names[2:])
            if steps.count < step:
                break
        assert step > 8
        step = 0
        for folder in tmp_path.glob("step*"):
            shutil.rmtree(folder)


def test_purge_beside_what_was_removed_by_hand(relay: Path, tmp_path: Path) -> None:
    whole, step = tmp_path / "whole", 0
    shutil.copytree(relay, whole)
    files = open_log(str(relay)).files
    while True:
        step += 1
        shutil.rmtree(relay)
        shutil.copytree(whole, relay)
        steps = Steps(step, lambda: (relay / files[0].name).unlink(missing_ok=True))
        steps.run(lambda: purge(relay, files[-1].number))
        assert [file.name for file in open_log(str(relay)).files] == [files[-1].name]
        if steps.count < step:
            break


def test_a_file_that_is_gone_and_still_listed(tmp_path: Path) -> None:
    """It was not purged, so reading the list again would not help."""
    source = LogWriter(tmp_path / "log")
    source.transaction(insert(T, (1, "x")))
    looks = list[int]()

    def see(log: Any) -> int:
        looks.append(1)
        if len(looks) < 3:
            raise FileNotFoundError(2, "No such file or directory", str(source.path))
        return 7

    with RelayWriter(tmp_path / "relay", 9) as writer:
        receive(writer, [source.path])
    with pytest.raises(LogError, match="went away while it was read") as caught:
        read_while_purged(str(tmp_path / "relay"), see)
    assert looks == [1] and caught.value.file == str(source.path)
