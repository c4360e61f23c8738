"""A channel's name is said wherever a target is looked at, also where there is no configuration."""

from __future__ import annotations

import json
from unittest.mock import MagicMock

import pytest

from spark_repl import Config
from spark_repl.apply.start.replica import Replica
from spark_repl.cli.main import main
from spark_repl.control.table.control import Control
from spark_repl.control.table.layout import Layout
from spark_repl.errors import TargetError
from spark_repl.observe.metrics import metrics
from spark_repl.observe.status.status import status
from tests.support import local_delta


def apply(log, target, channel):
    values = {"path": str(target), "column_mapping": False}
    config = {"channel": channel, "relay": {"path": str(log.folder)}, "target": values}
    with (
        local_delta.without_spark(),
        Replica(MagicMock(), Config.from_mapping(config), parts=local_delta.HERE) as found,
    ):
        found.coordinator.apply(found.index.slice(0, found.index.end))


def channels(found):
    kinds = ("applier_status", "applier_status_by_coordinator", "applier_status_by_worker")
    return {row["CHANNEL_NAME"] for kind in kinds for row in found[f"replication_{kind}"]}


@pytest.mark.parametrize("lost", [False, True])
def test_status_and_metrics_name_the_channel(log, target, lost):
    apply(log, target, "eu")
    if lost:
        (target / "_repl" / "status.json").unlink()
    found = status(str(target))
    assert channels(found) == {"eu"}
    said = [line for line in metrics(found).splitlines() if not line.startswith("#")]
    assert said and all('channel="eu"' in line for line in said)


def test_a_command_by_hand_keeps_the_channels_name(log, target, capsys):
    apply(log, target, "eu")
    gtid = "11111111-2222-3333-4444-555555555555:99"
    assert main(["skip", "--gtid", gtid, "--target", str(target)]) == 0
    assert channels(status(str(target))) == {"eu"}
    apply(log, target, "eu")


def test_a_target_of_before_has_no_name_for_it(log, target):
    """Nothing but the status file said it."""
    apply(log, target, "eu")
    control = Control(Layout(str(target)).control)
    control.claim()
    owner = json.loads(max(control.rows("owner"), key=lambda row: row["at"])["detail"])
    del owner["channel"]
    control.write("owner", detail=json.dumps({**owner, "released": True}))
    control._handle = None
    assert channels(status(str(target))) == {"eu"}
    (target / "_repl" / "status.json").unlink()
    assert channels(status(str(target))) == {"default"}


def test_another_channel_name_for_a_target_is_refused(log, target):
    apply(log, target, "eu")
    with pytest.raises(TargetError, match=r'"eu" has t\.a of .*/lake: "us" can not feed it'):
        apply(log, target, "us")
    assert channels(status(str(target))) == {"eu"}
