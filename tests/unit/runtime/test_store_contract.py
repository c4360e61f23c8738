"""The contract of ``runtime.store`` on each kind of store: local disk, memory, and emulators."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_repl.delta.store import storage
from spark_repl.errors import TargetError
from spark_repl.runtime.retry import temporary
from spark_repl.runtime.store import Tag
from spark_repl.runtime.store_requests import request_counts
from spark_repl.runtime.target_uri import is_remote
from tests.support.s3_server import kind_of, requested
from tests.support.store_proxy import (
    DROPPED_ANSWER,
    DROPPED_REQUEST,
    Fault,
    first_answer_to,
    store_proxy,
)
from tests.support.stores import SERVERS, StoreServer

WRITERS = 8
FOLDERS = ("", "f", "f/g", "a=1", "é ü")
NAMES = (
    "a", "b.json", "00000000000000000010.json", "00000000000000000009.json", "%41", "x=1+2&3",
    "blank blank", "ü#?", "~t:", "a@2", ".hidden", "_last", "it's",
)  # fmt: skip
CONTENTS = (b"", b"1", b"\x00\xff" * 700, bytes(range(256)) * 40)


@pytest.fixture(scope="module", params=SERVERS)
def server(request, tmp_path_factory) -> Iterator[StoreServer]:
    served = SERVERS[request.param](tmp_path_factory.mktemp(request.param))
    with served as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


def fresh(server: StoreServer) -> str:
    folder = f"{server.base}/{uuid.uuid4()}/t"
    storage.make_folder(folder)
    return folder


@pytest.fixture
def place(server) -> str:
    return fresh(server)


def is_local(server: StoreServer) -> bool:
    return server.base.startswith("/")


class Model:
    """A store as a dictionary, and the store that has to do the same."""

    def __init__(self, place: str) -> None:
        self.place, self.files = place, dict[str, bytes]()
        for folder in FOLDERS:
            storage.make_folder(os.path.join(place, folder))

    def at(self, path: str) -> str:
        return os.path.join(self.place, path)

    def put(self, path: str, content: bytes) -> None:
        storage.put(self.at(path), content)
        self.files[path] = content

    def put_if_absent(self, path: str, content: bytes) -> None:
        if path in self.files:
            with pytest.raises(FileExistsError):
                storage.put_if_absent(self.at(path), content)
        else:
            storage.put_if_absent(self.at(path), content)
            self.files[path] = content

    def write(self, path: str, content: bytes) -> None:
        with storage.open_output(self.at(path)) as stream:
            for at in range(0, len(content), 500):
                stream.write(content[at : at + 500])
            assert stream.tell() == len(content)
        self.files[path] = content

    def remove(self, path: str, _: bytes) -> None:
        storage.remove_if_there(self.at(path))
        self.files.pop(path, None)

    def check(self, path: str, start: int, length: int) -> None:
        """A file is as it was written, or is missing, whoever is asked."""
        if path not in self.files:
            assert not storage.is_file(self.at(path)) and not storage.exists(self.at(path))
            for ask in (storage.read, storage.stat, storage.open_input):
                with pytest.raises(FileNotFoundError) as caught:
                    ask(self.at(path))
                assert caught.value.errno and storage.is_gone(caught.value, self.place)
            with pytest.raises(FileNotFoundError):
                storage.read_range(self.at(path), 0, 4)
            return
        content = self.files[path]
        assert storage.read(self.at(path)) == content and storage.is_file(self.at(path))
        assert storage.exists(self.at(path)) and storage.stat(self.at(path)).size == len(content)
        if start < len(content):
            part = storage.read_range(self.at(path), start, length)
            assert part == content[start : start + length]
        with storage.open_input(self.at(path)) as file:
            file.seek(start)
            assert file.read(length) == content[start : start + length]
            assert file.seek(0, os.SEEK_END) == len(content) and file.read(3) == b""
            file.seek(0)
            assert file.read() == content

    def check_listings(self, after: str) -> None:
        for folder in FOLDERS:
            begin = f"{folder}/" if folder else ""
            below = {path[len(begin) :] for path in self.files if path.startswith(begin)}
            right_below = {path for path in below if "/" not in path}
            at = self.at(folder).rstrip("/")
            shown = {name for name in storage.names(at) if begin + name not in FOLDERS}
            assert shown == right_below
            assert storage.names_after(at, after) == sorted(n for n in right_below if n > after)
            walked = {path: entry.size for path, entry in storage.walk(at)}
            sizes = {path: len(self.files[begin + path]) for path in below}
            assert {k: v for k, v in walked.items() if v} == {k: v for k, v in sizes.items() if v}


PATHS = st.builds(os.path.join, st.sampled_from(FOLDERS), st.sampled_from(NAMES))
STEPS = st.tuples(
    st.sampled_from((Model.put, Model.put_if_absent, Model.write, Model.remove)),
    PATHS,
    st.sampled_from(CONTENTS),
)


@given(
    steps=st.lists(STEPS, min_size=1, max_size=12), asked=PATHS, after=st.sampled_from(NAMES),
    start=st.integers(0, 2000), length=st.integers(1, 3000),
)  # fmt: skip
@settings(max_examples=12, deadline=None, database=None)
def test_any_steps_end_as_in_a_dictionary(server, steps, asked, after, start, length):
    model = Model(fresh(server))
    for step, path, content in steps:
        step(model, path, content)
    for path in {asked, *(path for _, path, _ in steps)}:
        model.check(path, start, length)
    model.check_listings(after)


def test_a_folder_is_there_while_something_is_below_it(server, place):
    folder = f"{place}/x"
    assert not storage.exists(folder) and storage.names(folder) == []
    assert storage.names_after(folder, "") == [] and list(storage.walk(folder)) == []
    storage.make_folder(f"{folder}/y")
    storage.put(f"{folder}/y/z", b"1")
    storage.make_folder(f"{folder}y")
    storage.put(f"{folder}y/z", b"1")
    assert storage.exists(folder) and storage.names(folder) == ["y"]
    assert not storage.is_file(folder) and storage.names_after(folder, "") == []
    with pytest.raises(FileNotFoundError):
        storage.stat(f"{folder}/y")
    storage.remove_folder(folder)
    assert not storage.exists(folder) and storage.exists(f"{folder}y/z")


def test_objects_are_removed_together_and_missing_ones_are_no_error(server, place):
    if not is_remote(place):
        pytest.skip("a local disk removes file by file")
    paths = [f"{place}/many/{number}" for number in range(20)]
    storage.remove_objects([])
    for missing in (paths[:1], paths[3:5], paths, []):
        for path in paths:
            if path not in missing:
                storage.put(path, b"1")
        storage.remove_objects(paths)
        assert storage.names(f"{place}/many") == []


def test_a_parquet_file_is_read_as_it_was_written(place):
    rows = pa.table({"id": range(300_000), "text": [f"row {i * i}" for i in range(300_000)]})
    path = f"{place}/a.parquet"
    with storage.open_output(path) as stream:
        pq.write_table(rows, stream, row_group_size=100_000)
    with pq.ParquetFile(storage.parquet_source(path), pre_buffer=True) as file:
        assert file.num_row_groups == 3 and file.read() == rows
    with storage.open_input(path) as stream:
        assert pq.read_table(stream, columns=["id"]) == rows.select(["id"])
    assert storage.is_whole(path)


def test_a_large_object_goes_in_parts(place):
    content = os.urandom(1 << 20) * 23
    for name, write in (("a", storage.put), ("b", _write)):
        write(f"{place}/{name}", content)
        assert storage.read(f"{place}/{name}") == content
        assert storage.read_range(f"{place}/{name}", 11 << 20, 9) == content[11 << 20 :][:9]


def _write(path: str, content: bytes) -> None:
    with storage.open_output(path) as stream:
        for at in range(0, len(content), 1 << 20):
            stream.write(content[at : at + (1 << 20)])


def test_what_was_not_written_to_its_end_is_not_there(server, place):
    if is_local(server):
        pytest.skip("a local file is there at once: durability is delta/log/durable's")
    for size in (10, 11 << 20):
        with pytest.raises(ZeroDivisionError), storage.open_output(f"{place}/a") as stream:
            stream.write(bytes(size))
            raise ZeroDivisionError
        assert not storage.is_file(f"{place}/a")


@pytest.mark.parametrize("same", [False, True])
def test_one_of_many_threads_writes_a_name(place, same):
    """Also where all of them write the same."""
    start = threading.Barrier(WRITERS)

    def write(number: int) -> list[int]:
        won = []
        for turn in range(5):
            start.wait()
            try:
                storage.put_if_absent(f"{place}/{turn}", b"same" if same else b"%d" % number)
                won.append(turn)
            except FileExistsError:
                pass
        return won

    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(write, range(WRITERS)))
    assert sorted(turn for turns in won for turn in turns) == [0, 1, 2, 3, 4]
    for number, turns in enumerate(won):
        for turn in turns:
            assert storage.read(f"{place}/{turn}") == (b"same" if same else b"%d" % number)


_WRITER = """
import sys
from spark_repl.delta.store import storage
place, number = sys.argv[1:]
print(flush=True)
sys.stdin.readline()
for turn in range(20):
    try:
        storage.put_if_absent(f"{place}/{turn}", number.encode())
        print(turn)
    except FileExistsError:
        pass
"""


def test_one_of_many_processes_writes_a_name(server, place):
    if server.base.startswith("memory:"):
        pytest.skip("memory is a process's own")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, place, str(number)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(3)
    ]  # fmt: skip
    for one in writers:
        assert one.stdout is not None and one.stdout.readline() == "\n"
    for one in writers:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    won = {number: one.communicate()[0].split() for number, one in enumerate(writers)}
    assert sorted(int(turn) for turns in won.values() for turn in turns) == list(range(20))
    for number, turns in won.items():
        assert {storage.read(f"{place}/{turn}") for turn in turns} <= {b"%d" % number}


def test_a_file_is_replaced_only_while_it_has_the_tag(place):
    path = f"{place}/a"
    assert storage.put_if_match(path, b"1", Tag("nothing", "1")) is None
    first = storage.put_if_match(path, b"1", None)
    assert first is not None and storage.put_if_match(path, b"2", None) is None
    assert storage.read_tagged(path) == (b"1", first)
    second = storage.put_if_match(path, b"2", first)
    assert second is not None and second != first
    assert storage.put_if_match(path, b"3", first) is None
    assert storage.read_tagged(path) == (b"2", second)
    storage.put(path, b"4")
    assert storage.put_if_match(path, b"5", second) is None
    content, fourth = storage.read_tagged(path)
    assert content == b"4"
    storage.remove(path)
    assert storage.put_if_match(path, b"6", fourth) is None and not storage.is_file(path)
    with pytest.raises(FileNotFoundError):
        storage.read_tagged(path)


def test_one_of_many_threads_replaces_a_file(place):
    start, path = threading.Barrier(WRITERS), f"{place}/a"
    storage.put(path, b"0")

    def write(number: int) -> list[int]:
        won = []
        for turn in range(5):
            start.wait()
            _, tag = storage.read_tagged(path)
            start.wait()
            if storage.put_if_match(path, f"{turn} {number}".encode(), tag) is not None:
                won.append(turn)
        return won

    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(write, range(WRITERS)))
    assert sorted(turn for turns in won for turn in turns) == [0, 1, 2, 3, 4]
    assert storage.read(path) in [f"4 {n}".encode() for n, turns in enumerate(won) if 4 in turns]


def test_writers_that_count_in_a_file_count_each_once(place):
    """Each reads, adds one, and replaces what it has read; a lost race begins again."""
    path = f"{place}/a"
    storage.put(path, b"0")

    def count(_: int) -> None:
        left = 10
        while left:
            content, tag = storage.read_tagged(path)
            next_number = f"{int(content) + 1}".encode()
            left -= storage.put_if_match(path, next_number, tag) is not None

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(4)))
    assert storage.read(path) == b"40"


@contextmanager
def behind_a_proxy(server: StoreServer, patch: pytest.MonkeyPatch) -> Iterator[Any]:
    if not server.url:
        pytest.skip("no line that could break")
    with store_proxy(server.url) as proxy, patch.context() as inner:
        for name, value in server.at(proxy.url).items():
            inner.setenv(name, value)
        yield proxy


def test_a_lost_answer_is_recognised(server, place, monkeypatch):
    """obstore asks again; what it is then told of its own file is not another writer's."""
    with behind_a_proxy(server, monkeypatch) as proxy:
        proxy.fault = first_answer_to("PUT")
        storage.put_if_absent(f"{place}/a", b"ours")
        proxy.fault = first_answer_to("PUT")
        with pytest.raises(FileExistsError):
            storage.put_if_absent(f"{place}/a", b"theirs")
        proxy.fault = first_answer_to("GET")
        assert storage.read(f"{place}/a") == b"ours"
        _, tag = storage.read_tagged(f"{place}/a")
        proxy.fault = first_answer_to("PUT")
        later = storage.put_if_match(f"{place}/a", b"ours again", tag)
        assert later is not None and later == storage.read_tagged(f"{place}/a")[1]
        assert storage.put_if_match(f"{place}/a", b"theirs", tag) is None
        proxy.fault = first_answer_to("PUT")
        storage.put(f"{place}/a", b"newer")
    assert storage.read(f"{place}/a") == b"newer"


@pytest.mark.parametrize("lost", [DROPPED_ANSWER, DROPPED_REQUEST])
def test_an_unknown_outcome_is_an_error_of_the_moment(server, place, monkeypatch, lost: Fault):
    """Whether the file is there shows when the store answers again."""
    with behind_a_proxy(server, monkeypatch) as proxy:
        proxy.fault = lambda method, target: lost
        with pytest.raises(OSError) as caught:
            storage.put_if_absent(f"{place}/a", b"ours")
        assert temporary(caught.value)
        assert not isinstance(caught.value, FileExistsError | FileNotFoundError)
    assert storage.is_file(f"{place}/a") == (lost is DROPPED_ANSWER)


def test_writers_on_a_line_that_breaks_know_what_has_landed(server, place, monkeypatch):
    """Each writes one name after the other, as commits are, and looks where it got no answer."""
    dice = random.Random(7)

    def write(number: int) -> set[str]:
        landed, version = set[str](), 0
        while len(landed) < 6:
            own = f"{number} {version}"
            try:
                storage.put_if_absent(f"{place}/{version:020d}.json", own.encode())
                landed.add(own)
            except FileExistsError:
                pass
            except OSError:
                if not (content := _if_there(f"{place}/{version:020d}.json")):
                    continue
                landed |= {own} if content == own.encode() else set()
            version += 1
        return landed

    with behind_a_proxy(server, monkeypatch) as proxy:
        faults = (DROPPED_ANSWER, DROPPED_REQUEST, None, None, None)
        proxy.fault = lambda method, target: dice.choice(faults)
        with ThreadPoolExecutor(3) as pool:
            landed = list(pool.map(write, range(3)))
    names = storage.names_after(place, "")
    assert names == [f"{version:020d}.json" for version in range(18)]
    written = [storage.read(f"{place}/{name}").decode() for name in names]
    assert sorted(written) == sorted(own for owns in landed for own in owns)


def _if_there(path: str) -> bytes:
    while True:
        try:
            return storage.read(path)
        except FileNotFoundError:
            return b""
        except OSError:
            continue


def test_a_store_that_writes_over_what_exists_is_refused(server, place, monkeypatch):
    storage.check_conditions(place)
    with behind_a_proxy(server, monkeypatch) as proxy:
        if server.base.startswith("abfss:"):
            pytest.skip("Azure's signatures have the condition in them")
        proxy.strips = frozenset({"if-none-match", "x-goog-if-generation-match"})
        with pytest.raises(TargetError, match="ignores conditional writes"):
            storage.check_conditions(place)
    assert not storage.names(place)


def test_what_no_retry_can_cure_is_named(server, place, monkeypatch):
    if not server.url:
        pytest.skip("nobody refuses")
    scheme, _, rest = place.partition("://")
    elsewhere = f"{scheme}://nowhere{rest[rest.index('@') :] if '@' in rest else '/t'}/a"
    for ask in (storage.read, storage.check_bucket, lambda path: storage.put(path, b"1")):
        with pytest.raises(TargetError, match="there is no bucket nowhere"):
            ask(elsewhere)
    assert server.refusing is not None
    with server.refusing() as variables, monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        for ask in (storage.read, storage.check_bucket, lambda path: storage.put(path, b"1")):
            with pytest.raises(TargetError, match="the object store refuses") as caught:
                ask(f"{place}/a")
            assert "credentials" in caught.value.hint


def test_requests_are_counted_by_kind_as_the_server_counts_them(server, place):
    if not server.base.startswith("s3a:"):
        pytest.skip("only moto's server records its requests")
    before = Counter(request_counts())
    with requested() as asked:
        storage.put(f"{place}/a", b"1")
        storage.put_if_absent(f"{place}/b", b"1")
        _, tag = storage.read_tagged(f"{place}/b")
        storage.put_if_match(f"{place}/b", b"2", tag)
        storage.read(f"{place}/a")
        storage.read_range(f"{place}/a", 0, 1)
        storage.stat(f"{place}/a")
        assert storage.exists(place) and not storage.exists(f"{place}/none")
        storage.names(place)
        storage.names_after(place, "a")
        assert len(list(storage.walk(place))) == 2
        _write(f"{place}/c", b"1" * (23 << 20))
        storage.remove(f"{place}/a")
        storage.remove_folder(place)
    counted = Counter(request_counts()) - before
    assert counted == Counter(map(kind_of, asked))


@pytest.mark.parametrize(("rows", "requests"), [(100, 1), (300_000, 3)])
def test_a_parquet_file_takes_few_requests(place, rows, requests):
    """A small one takes one. A large one takes one for its size and first bytes, one for its footer
    and one for its rows."""
    table = pa.table({"id": pa.array(np.random.default_rng(1).integers(0, 1 << 60, rows))})
    with storage.open_output(f"{place}/rows.parquet") as out:
        pq.write_table(table, out)
    before = Counter(request_counts())
    assert pq.ParquetFile(storage.parquet_source(f"{place}/rows.parquet")).read() == table
    if is_remote(place):
        assert Counter(request_counts()) - before == {"get": requests}


def test_an_empty_object_is_no_parquet_file(place):
    storage.put(f"{place}/empty", b"")
    with pytest.raises((OSError, pa.ArrowInvalid)):
        pq.ParquetFile(storage.parquet_source(f"{place}/empty"))
