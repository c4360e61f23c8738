"""Requests to a store that refuses, is late, does its work twice, or does not answer: each is
repeated and counted, and a throttled store is asked less often."""

from __future__ import annotations

import os
import urllib.request
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from spark_repl.delta.store import storage
from spark_repl.runtime import store_clients
from spark_repl.runtime.store_requests import paused_s, repeat_counts, request_counts
from tests.support.store_proxy import (
    DROPPED_ANSWER,
    DROPPED_REQUEST,
    Fault,
    StoreProxy,
    first_requests,
    random_faults,
    store_proxy,
)
from tests.support.stores import SERVERS


@pytest.fixture(scope="module", params=["s3", "azure", "google"])
def served(request, tmp_path_factory) -> Iterator[tuple[str, StoreProxy]]:
    place = tmp_path_factory.mktemp(request.param)
    with SERVERS[request.param](place) as server, store_proxy(server.url) as proxy:
        patch = pytest.MonkeyPatch()
        for name, value in {**server.environment, **server.at(proxy.url)}.items():
            patch.setenv(name, value)
        yield server.base, proxy
        patch.undo()


@pytest.fixture
def proxy(served) -> Iterator[StoreProxy]:
    proxy = served[1]
    proxy.requests.clear()
    yield proxy
    proxy.fault = lambda method, target: None


@pytest.fixture
def path(served, request) -> str:
    return f"{served[0]}/{abs(hash(request.node.name))}/a"


def test_an_upload_has_more_time_than_an_answer(served, proxy, path, monkeypatch):
    """The time for an answer includes the upload. Found: on a line with 200 kB a second no object
    of 8 MiB ever came into a store."""
    monkeypatch.setattr(store_clients, "_ANSWER_TIMEOUT", "1s")
    store_clients.forget_clients()
    proxy.fault = first_requests(1, Fault(late_s=1.5))
    for put in (storage.put, storage.put_if_absent):
        proxy.requests.clear()
        put(f"{path}-{put.__name__}", bytes(2 << 20))
        assert len(proxy.requests) == 1
        proxy.fault = first_requests(1, Fault(late_s=1.5))
    proxy.requests.clear()
    storage.put(path, b"1")
    assert len(proxy.requests) > 1, "a small one is repeated"
    store_clients.forget_clients()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault(status=503), "throttled"),
        (Fault(status=429), "throttled"),
        (Fault(status=503, retry_after_s=1), "throttled"),
        (Fault(status=500), "failed"),
        (DROPPED_REQUEST, "failed"),
        (DROPPED_ANSWER, "failed"),
    ],
)
def test_a_request_is_repeated_and_counted(proxy, path, fault, reason):
    before, repeats = Counter(request_counts()), Counter(repeat_counts())
    paused_before = paused_s()
    proxy.fault = first_requests(1, fault)
    storage.put(path, b"1")
    counted = Counter(request_counts()) - before
    assert counted == {"put": 2} and len(proxy.requests) == 2
    assert Counter(repeat_counts()) - repeats == {reason: 1}
    waited_s = proxy.requests[1].at - proxy.requests[0].at
    first_s = 1.0 if reason == "throttled" else 0.1
    assert first_s <= paused_s() - paused_before <= waited_s
    assert storage.read(path) == b"1"


def test_a_throttled_store_is_asked_less_often(proxy, path):
    proxy.fault = first_requests(3, Fault(status=503))
    storage.put_if_absent(path, b"1")
    times = [request.at for request in proxy.requests]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert all(pause >= least for pause, least in zip(pauses, (1, 2, 4), strict=True))


def test_a_conditional_put_that_the_store_does_twice_is_recognised(proxy, path):
    proxy.fault = first_requests(1, Fault(twice=True))
    storage.put_if_absent(path, b"1")
    with pytest.raises(FileExistsError):
        storage.put_if_absent(path, b"1")


def test_a_listing_goes_on_after_a_request_that_failed(proxy, path):
    folder = os.path.dirname(path)
    for number in range(3):
        storage.put(f"{folder}/{number}", b"1")
    proxy.fault = first_requests(1, DROPPED_ANSWER)
    assert [name for name, _ in storage.walk(folder)] == ["0", "1", "2"]
    proxy.fault = first_requests(1, DROPPED_ANSWER)
    assert storage.names(folder) == ["0", "1", "2"]


def test_requests_of_a_removal_of_several_objects_are_counted(proxy, path):
    paths = [f"{path}{number}" for number in range(3)]
    for each in paths:
        storage.put(each, b"1")
    before, sent_before = Counter(request_counts()), len(proxy.requests)
    storage.remove_objects(paths)
    assert Counter(request_counts()) - before == {"delete": len(proxy.requests) - sent_before}


def test_a_removal_of_several_objects_goes_on_after_a_request_that_failed(proxy, path):
    folder = os.path.dirname(path)
    paths = [f"{folder}/{number}" for number in range(3)]
    for path in paths:
        storage.put(path, b"1")
    proxy.fault = first_requests(1, DROPPED_ANSWER)
    storage.remove_objects(paths)
    assert storage.names(folder) == []


def test_steps_through_a_faulty_store_end_as_written(proxy, path):
    proxy.fault = random_faults("steps", 0.2)
    folder = os.path.dirname(path)
    for number in range(20):
        storage.put_if_absent(f"{folder}/{number:02d}", b"%d" % number)
    assert storage.names_after(folder, "04") == [f"{number:02d}" for number in range(5, 20)]
    assert [storage.read(f"{folder}/{number:02d}") for number in range(20)] == [
        b"%d" % number for number in range(20)
    ]
    _, tag = storage.read_tagged(f"{folder}/00")
    assert (tag := storage.put_if_match(f"{folder}/00", b"x", tag)) is not None
    storage.remove_folder(folder)
    assert storage.names(folder) == []


@pytest.mark.parametrize("served", ["s3"], indirect=True)
class TestUploadsInParts:
    def test_an_upload_whose_context_fails_is_aborted(self, served, proxy, path):
        with pytest.raises(ZeroDivisionError), storage.open_output(path) as stream:
            stream.write(bytes(11 << 20))
            raise ZeroDivisionError
        assert _uploads(served) == [] and not storage.is_file(path)

    @pytest.mark.parametrize("whole", [True, False])
    def test_an_upload_of_which_a_part_fails_is_aborted(self, served, proxy, path, whole):
        proxy.fault = _refused_parts
        with pytest.raises(OSError, match="400"):
            _write(path, whole=whole)
        proxy.fault = lambda method, target: None
        assert _uploads(served) == [] and not storage.is_file(path)

    def test_an_upload_through_a_faulty_store_is_whole(self, served, proxy, path):
        proxy.fault = first_requests(4, Fault(status=500))
        _write(path, whole=False)
        assert storage.stat(path).size == 23 << 20
        assert _uploads(served) == []


def _refused_parts(method: str, target: str) -> Fault | None:
    return Fault(status=400) if method == "PUT" and "partNumber=2" in target else None


def _write(path: str, *, whole: bool) -> None:
    if whole:
        storage.put(path, bytes(23 << 20))
        return
    with storage.open_output(path) as stream:
        for _ in range(23):
            stream.write(bytes(1 << 20))


def _uploads(served: tuple[str, StoreProxy]) -> list[str]:
    bucket = served[0].partition("://")[2]
    with urllib.request.urlopen(f"{served[1].url}/{bucket}?uploads") as answer:
        listing = ElementTree.fromstring(answer.read())
    return [entry.text or "" for entry in listing.iter() if entry.tag.endswith("UploadId")]
