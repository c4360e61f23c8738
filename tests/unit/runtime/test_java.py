"""Where a JVM of ours finds Spark: without the zipped Python, wherever that can be had."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from spark_repl.runtime.java import spark_home

OWN = Path(pytest.importorskip("pyspark").__file__).parent


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_REPL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_sparks_home_has_all_but_the_zipped_python(cache: Path) -> None:
    home = Path(spark_home())
    assert home.parent == cache
    assert (home / "bin" / "spark-submit").samefile(OWN / "bin" / "spark-submit")
    assert sorted(os.listdir(home / "jars")) == sorted(os.listdir(OWN / "jars"))
    assert not (home / "python").exists()
    assert spark_home() == str(home), "a second time"


def test_a_relative_cache_gives_an_absolute_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARK_REPL_CACHE", "here")
    assert os.path.isabs(spark_home())


def test_a_given_spark_home_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert spark_home() == "/opt/spark"


def test_another_python_gets_the_installed_spark_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "python3"
    other.symlink_to(sys.executable)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    assert spark_home() == str(OWN)


def test_a_python_that_is_not_there_is_in_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(os.path.dirname(sys.executable))
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    assert spark_home() == str(OWN)


def test_one_environment_by_another_path_has_one_home(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path
) -> None:
    """Else Java's class archive, which is another home's, would not fit."""
    link = tmp_path / "environment"
    link.symlink_to(os.path.dirname(os.path.dirname(sys.executable)))
    monkeypatch.setenv("PYSPARK_PYTHON", str(link / "bin" / os.path.basename(sys.executable)))
    assert Path(spark_home()).parent == cache


def test_a_cache_that_cant_be_written(cache: Path) -> None:
    cache.write_text("in the way")
    assert spark_home() == str(OWN)
