"""A request is carried out only by an owner that shares this process's working state."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from spark_repl import formats
from spark_repl.config import Config
from spark_repl.control.table.control import Control
from spark_repl.control.table.cut import Cut, TableVersion
from spark_repl.control.table.layout import Layout
from spark_repl.control.table.owner import Owner
from spark_repl.control.table.owner_lease import Renewals, has_ended
from spark_repl.copy.recopy import running_owner
from spark_repl.copy.repair_request import left
from spark_repl.errors import FencedError
from spark_repl.service.snapshot_run import snapshot
from spark_repl.service.table_repairs import repair_table
from tests.support.no_source import no_source
from tests.support.wait_until import wait_until
from tests.unit.copy.test_repairer import REQUEST


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return no_source(tmp_path).override({"target.state_path": str(tmp_path / "state")})


def layout(config: Config) -> Layout:
    return Layout.of(config.target)


def owned_elsewhere(config: Config, lease_s: int) -> tuple[Control, Owner]:
    """A target with a cut, whose owner is on another host."""
    control = Control(layout(config).control, config.channel)
    control.lease_s = 0
    control.claim()
    control.publish(Cut(7, "", "log", {}, {"t.a": TableVersion("t/a", 1, "", 7)}))
    owner = replace(Owner.me(config.channel, "its claim", lease_s), host="elsewhere")
    control.write("owner", detail=json.dumps(asdict(owner)))
    return control, owner


@contextmanager
def renewed(control: Control, owner: Owner) -> Iterator[None]:
    ending, renewals = threading.Event(), Renewals(control, control.epoch, owner)

    def renew() -> None:
        while not ending.wait(0.2):
            renewals.renew()

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def test_owner_on_another_host_refuses_as_a_start_does(config: Config) -> None:
    """The owner would not see a request in this host's working state."""
    with renewed(*owned_elsewhere(config, 8)):
        for ask in (
            lambda: snapshot(config, ("t.a",)),
            lambda: repair_table(config, REQUEST, pytest.fail),
        ):
            with pytest.raises(FencedError, match="another applier owns this target: pid") as met:
                ask()
            assert "renews its lease" in met.value.hint
    assert left(Path(layout(config).requests)) == []


def test_owner_that_shares_the_working_state_is_asked(config: Config) -> None:
    control, owner = owned_elsewhere(config, 8)
    status = Path(layout(config).status)
    status.parent.mkdir(parents=True)
    status.write_text(formats.stamp(json.dumps({"epoch": control.epoch}), 1))
    with renewed(control, owner):
        assert running_owner(config, Control(control.path)) == (control.epoch, owner)


def test_owner_whose_lease_expires_is_asked_nothing(config: Config) -> None:
    control, owner = owned_elsewhere(config, 1)
    assert running_owner(config, Control(control.path)) is None
    assert has_ended(control.path, owner)


def test_owner_on_this_host_is_looked_up(config: Config) -> None:
    control = Control(layout(config).control, config.channel)
    assert running_owner(config, control) is None
    control.claim()
    assert running_owner(config, control) == control.owner()
    control.release()
    assert running_owner(config, control) is None


def test_end_of_an_owner_on_another_host_is_seen_while_it_is_asked(config: Config) -> None:
    control, owner = owned_elsewhere(config, 1)
    assert not has_ended(control.path, owner)
    wait_until(lambda: has_ended(control.path, owner))
