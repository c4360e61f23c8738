"""Errors that say what an environment lacks."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version

import pytest

from spark_repl.errors import SetupError, extra_named


def test_a_package_of_another_version_is_named() -> None:
    """One that is not installed: ``house/test_package.py``."""
    name = "pyspark.sql.streaming.nothing"
    with pytest.raises(SetupError) as caught, extra_named():
        import_module(name)
    installed = f"pyspark {version('pyspark')} is installed (No module named {name!r})"
    needed = "spark_repl needs pyspark 4.0 or newer, below 5"
    assert caught.value.message == f"{installed}; {needed}"
    assert "pip install 'spark-repl[spark]'" in (caught.value.hint or "")


def test_a_package_without_a_name_that_is_imported() -> None:
    wanted = r"cannot import name 'Nothing'.*needs pyspark 4\.0 or newer"
    with pytest.raises(SetupError, match=wanted), extra_named():
        from pyspark.errors import Nothing  # noqa: F401
