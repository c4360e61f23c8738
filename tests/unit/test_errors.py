"""Errors that say what an environment lacks."""

from __future__ import annotations

import pytest

from spark_repl.errors import SetupError, extra_named


def test_a_package_of_another_version() -> None:
    """One that is not installed: ``house/test_package.py``."""
    name = "pyspark.sql.streaming.nothing"
    with pytest.raises(SetupError) as caught, extra_named():
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    want = f"the Python package pyspark has no {name}: it is another version"
    assert caught.value.message == want
    assert "Spark 4.2" in (caught.value.hint or "")
