"""The owner's lease: when a rival on another host may claim, and that it never does before."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_repl.control.records.operator_decisions import decide
from spark_repl.control.table.control import Control
from spark_repl.control.table.control_rows import ControlRows
from spark_repl.control.table.layout import Layout
from spark_repl.control.table.owner import Owner
from spark_repl.control.table.owner_lease import (
    LeaseWatch,
    OwnerLease,
    Renewals,
    lease_path,
    wait_until_unclaimed,
)
from spark_repl.delta.store import storage
from spark_repl.errors import FencedError, Stopped
from spark_repl.runtime.part_files import remove_dead_parts
from spark_repl.runtime.target_uri import is_remote
from tests.support.stores import SERVERS

LEASE_S = 40
ELSEWHERE = replace(Owner.me("c"), host="elsewhere", lease_s=LEASE_S)


class OwnerRows(ControlRows):
    """A control table of owners only: the last one of the list is the owner."""

    def __init__(self) -> None:
        super().__init__(f"memory://bank/{uuid.uuid4()}/control")
        self.owners = list[Owner]()

    def owner(self) -> tuple[int, Owner] | None:
        return (len(self.owners), self.owners[-1]) if self.owners else None

    def claim(self) -> FaultyRenewals:
        self.owners.append(replace(ELSEWHERE, claim=uuid.uuid4().hex))
        return FaultyRenewals(self, len(self.owners), self.owners[-1])


class FaultyRenewals(Renewals):
    """``fault``: what happens to the next request: it is lost, or its answer is."""

    fault = ""

    def _put(self, content: bytes, tag: object) -> bool:
        fault, self.fault = self.fault, ""
        if fault == "request":
            raise OSError("the request was lost")
        put = super()._put(content, tag) if not fault else storage.put_if_match(
            self._path, content, tag)  # fmt: skip
        if fault:
            raise OSError("the answer was lost")
        return bool(put)


class Hosts:
    """Owners and rivals on hosts of their own, at one time of a fake clock. ``renewed_at``: when
    the object changed last."""

    def __init__(self) -> None:
        self.rows = OwnerRows()
        self.now = 0.0
        self.appliers = [self.rows.claim()]
        self.rivals = [self.rival() for _ in range(2)]
        self.changed_at = 0.0

    def rival(self) -> LeaseWatch:
        return LeaseWatch(lease_path(self.rows.path), LEASE_S, lambda: self.now)

    def renew(self, which: int, fault: str) -> None:
        applier = self.appliers[which % len(self.appliers)]
        applier.fault = fault
        before = OwnerLease.read(lease_path(self.rows.path))
        try:
            went_on = applier.renew()
        except OSError:
            went_on = True
        if applier is self.appliers[-1]:
            assert went_on, "the owner is never told that it is a former one"
        if OwnerLease.read(lease_path(self.rows.path)) != before:
            self.changed_at = self.now

    def look(self, which: int, _: str) -> None:
        rival = self.rivals[which % len(self.rivals)]
        rival.look()
        if rival.has_expired:
            assert self.now - self.changed_at >= LEASE_S
            self.appliers.append(self.rows.claim())
            self.rivals = [self.rival() for _ in self.rivals]  # they watch the new owner now

    def look_repeatedly(self, times: int, fault: str) -> None:
        for _ in range(times % 12):
            self.now += LEASE_S / 8
            self.look(0, fault)

    def pass_time(self, seconds: int, _: str) -> None:
        self.now += seconds

    def clean_up(self, *_: object) -> None:
        """Remove an object that each rival has seen."""
        path = lease_path(self.rows.path)
        for rival in self.rivals:
            rival.look()
        if storage.is_file(path):
            storage.remove(path)
            self.changed_at = self.now


STEPS = st.tuples(
    st.sampled_from(
        (Hosts.renew, Hosts.look, Hosts.look_repeatedly, Hosts.pass_time, Hosts.clean_up)
    ),
    st.integers(0, 30),
    st.sampled_from(("", "", "answer", "request")),
)


@given(steps=st.lists(STEPS, max_size=60))
@settings(max_examples=300, deadline=None, database=None)
def test_no_lease_expires_that_changed_within_its_time(steps) -> None:
    """Whatever renewals, pauses, lost requests and answers, deletions and takeovers come. After
    them all former owners learn that they are, and the owner's lease is the one that stays."""
    hosts = Hosts()
    for step, number, fault in steps:
        step(hosts, number, fault)
    for _ in range(2):
        hosts.renew(len(hosts.appliers) - 1, "")
        for applier in hosts.appliers[:-1]:
            assert not applier.renew()
    assert OwnerLease.read(lease_path(hosts.rows.path)).claim == hosts.rows.owners[-1].claim
    rival, since = hosts.rival(), hosts.now
    rival.look()
    while not rival.has_expired:
        hosts.now += LEASE_S / 8
        rival.look()
    assert hosts.now - since == LEASE_S


def test_a_rival_that_was_suspended_with_the_owner_counts_none_of_that_time() -> None:
    hosts = Hosts()
    hosts.renew(0, "")
    rival = hosts.rivals[0]
    rival.look()
    for _ in range(3):
        hosts.now += 3600
        rival.look()
        assert not rival.has_expired
    assert rival.unchanged_s == LEASE_S * 3 / 4


def test_a_look_that_fails_counts_no_time(tmp_path: Path) -> None:
    hosts = Hosts()
    rival = LeaseWatch(str(tmp_path), LEASE_S, lambda: hosts.now)  # a folder can't be read
    for _ in range(20):
        hosts.now += LEASE_S / 8
        with pytest.raises(OSError):
            rival.look()
    assert not rival.has_expired and rival.unchanged_s == 0


def owned_elsewhere(path: str, lease_s: int = 1) -> Control:
    """A target whose owner's row is of a process on another host."""
    control = Control(path)
    control.lease_s = 0
    control.claim()
    owner = replace(Owner.me("", "its claim", lease_s), host="elsewhere")
    control.write("owner", detail=json.dumps(asdict(owner)))
    return control


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "control")


def test_a_lease_that_nobody_renews_expires_and_one_of_two_rivals_claims(path: str) -> None:
    former = owned_elsewhere(path)
    rivals = [Control(path), Control(path)]
    said = list[str]()
    with pytest.raises(FencedError) as caught:
        rivals[0].claim()
    assert "the target is free in 1 s" in caught.value.hint
    for rival in rivals:
        wait_until_unclaimed(rival, say=said.append)
    assert said[0].startswith("another applier owns this target: pid")
    for rival in rivals:
        rival.snapshot()
    assert rivals[0].claim() == 2 and rivals[0].took_over
    with pytest.raises(FencedError):
        rivals[1].claim()
    with pytest.raises(FencedError):
        former.write("cut")
    rivals[0].release()


def test_a_rival_gives_up_when_the_owner_renews(path: str) -> None:
    control = owned_elsewhere(path, 40)
    _, owner = control.owner() or (0, ELSEWHERE)
    renewals = Renewals(control, control.epoch, owner)

    def renew(stopping: threading.Event, _: float) -> bool:
        renewals.renew()
        return stopping.is_set()

    with pytest.raises(FencedError) as caught:
        wait_until_unclaimed(Control(path), wait=renew)
    assert "renews its lease" in caught.value.hint


def test_a_rival_waits_no_longer_once_the_owner_releases_or_it_is_stopped(path: str) -> None:
    control = owned_elsewhere(path, 3600)
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(Stopped):
        wait_until_unclaimed(Control(path), stopping)
    control.release()
    rival = Control(path)
    wait_until_unclaimed(rival)
    assert rival.claim() == 2 and not rival.took_over
    rival.release()


def test_an_owner_without_a_lease_is_never_waited_for(path: str) -> None:
    owned_elsewhere(path, 0)
    with pytest.raises(FencedError, match=r"owns this target: .* on host elsewhere") as caught:
        wait_until_unclaimed(Control(path))
    assert "--take-over" in caught.value.hint


def test_an_owner_of_this_host_is_judged_by_its_process(path: str) -> None:
    control = Control(path)
    control.claim()
    with pytest.raises(FencedError):
        wait_until_unclaimed(Control(path))
    control.release()


def test_an_operator_waits_too(path: str) -> None:
    owned_elsewhere(path)
    decide(Control(path), "skip", {}, gtid_executed="")
    owner = Control(path).owner()
    assert owner is not None and owner[1].released


def test_a_short_claim_writes_no_lease_and_a_dropped_one_is_renewed_no_more(path: str) -> None:
    control = Control(path)
    control.claim()
    control.release()
    assert not storage.is_file(lease_path(path))
    others = threading.enumerate()
    control.claim()
    leases = [t for t in threading.enumerate() if t.name == "lease" and t not in others]
    del control
    for thread in leases:
        thread.join(60)
        assert not thread.is_alive()


_OWNER = """
import socket, sys
if len(sys.argv) > 2:
    socket.gethostname = lambda: sys.argv[2]
from spark_repl.control.table.control import Control
from spark_repl.errors import FencedError
control = Control(sys.argv[1], "c")
control.lease_s = 4
control.on_taken = lambda error: print("taken:", error.message, flush=True)
control.claim()
print("claimed", flush=True)
for line in sys.stdin:
    try:
        control.write("test")
        print("written", flush=True)
    except FencedError as error:
        print("fenced", flush=True)
"""


@contextmanager
def owner_elsewhere(path: str) -> Iterator[subprocess.Popen[str]]:
    """A process that believes to be on another host, and owns the target. It commits a row for
    each line."""
    with owner_process([sys.executable, "-c", _OWNER, path, "elsewhere"]) as process:
        yield process


@contextmanager
def owner_process(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert read_line(process) == "claimed"
        yield process
        process.send_signal(signal.SIGCONT)
        process.kill()


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def commit(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.parametrize("kind", ["local", pytest.param("s3", marks=pytest.mark.slow)])
def test_a_process_that_is_suspended_is_taken_over_and_fenced(kind, tmp_path, monkeypatch) -> None:
    with SERVERS[kind](tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        path = f"{server.base}/lake/_repl/control"
        with owner_elsewhere(path) as process:
            with pytest.raises(FencedError) as caught:
                wait_until_unclaimed(Control(path, "c"))
            assert "renews its lease" in caught.value.hint
            commit(process)
            assert read_line(process) == "written"
            process.send_signal(signal.SIGSTOP)
            rival = Control(path, "c")
            rival.lease_s = 4  # by its first renewal the other one's lease thread sees the takeover
            wait_until_unclaimed(rival)
            assert rival.claim() == 2 and rival.took_over
            process.send_signal(signal.SIGCONT)
            commit(process)
            answers = {read_line(process)}
            if not answers.pop().startswith("taken"):
                answers.add(read_line(process))
            rival.check_owner()
            rival.release()


_NAMESPACE = [
    "unshare", *(["-Ur"] if os.getuid() else []),
    "--pid", "--fork", "--mount-proc", "--kill-child",
]  # fmt: skip
_has_namespaces = subprocess.run([*_NAMESPACE, "true"], check=False, capture_output=True)


@pytest.mark.skipif(bool(_has_namespaces.returncode), reason="no PID namespaces")
def test_a_container_with_this_host_s_name_is_judged_by_its_lease(path: str) -> None:
    """Its process has another number here, and one of that number may run."""
    with owner_process([*_NAMESPACE, sys.executable, "-c", _OWNER, path]) as process:
        _, owner = Control(path).owner() or (0, ELSEWHERE)
        assert owner.host == socket.gethostname() and owner.pid < 10
        with pytest.raises(FencedError) as caught:
            wait_until_unclaimed(Control(path, "c"))
        assert "renews its lease" in caught.value.hint
        commit(process)
        assert read_line(process) == "written"
    rival = Control(path, "c")
    wait_until_unclaimed(rival)
    assert rival.claim() == 2
    rival.release()


def test_a_start_looks_for_what_killed_renewals_left(tmp_path: Path) -> None:
    """Also if the working state is on another disk than the target."""
    layout = Layout(str(tmp_path / "lake"), str(tmp_path / "state"))
    lease = Path(lease_path(layout.control))
    lease.parent.mkdir(parents=True)
    left = lease.with_name(f".{lease.name}.{uuid.uuid4()}.tmp")
    for path in (lease, left):
        path.touch()
        os.utime(path, (0, 0))
    remove_dead_parts(*layout.written_to(1))
    assert lease.exists() and not left.exists()
    assert not any(is_remote(path) for path in Layout("s3://bucket/lake").written_to(1))


def test_no_time_is_stored(path: str) -> None:
    control = owned_elsewhere(path, 40)
    _, owner = control.owner() or (0, ELSEWHERE)
    Renewals(control, control.epoch, owner).renew()
    assert json.loads(storage.read(lease_path(path))).keys() == {
        "epoch", "claim", "lease_s", "host", "pid", "id", "format", "written_by",
    }  # fmt: skip
