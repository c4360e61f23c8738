"""What the JVM of several channels is started with."""

from __future__ import annotations

import pytest

from spark_repl.config import Config
from spark_repl.errors import ConfigError
from spark_repl.service.shared_jvm import SharedJvm


def config(target: str, workers: int) -> Config:
    return Config().override({"target.path": target, "apply.workers": workers})


def test_slots_for_all_and_jars_for_an_object_store() -> None:
    local, remote = config("/lake", 2), config("s3://bucket/lake", 3)
    for both in ([local, remote], [remote, local]):
        shared = SharedJvm(both, None)
        assert (shared._master, shared._target) == ("local[5]", "s3://bucket/lake")
    assert SharedJvm([local], "yarn")._master == "yarn"


def test_a_target_that_came_to_an_object_store_later() -> None:
    with pytest.raises(ConfigError, match="was not when this process started"):
        SharedJvm([config("/lake", 2)], None).session_of(config("s3://bucket/lake", 3))()
