"""What the JVM of several channels is started with."""

from __future__ import annotations

from spark_repl.config import Config
from spark_repl.service.shared_spark import SharedSpark


def config(target: str, workers: int) -> Config:
    return Config().override({"target.path": target, "apply.workers": workers})


def test_the_jvm_has_slots_for_all_channels() -> None:
    local, remote = config("/lake", 2), config("s3://bucket/lake", 3)
    assert SharedSpark([local, remote], None)._master == "local[5]"
    assert SharedSpark([local], "yarn")._master == "yarn"
