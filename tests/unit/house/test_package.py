"""The installed package: the wheel is complete, versions fit, and errors about missing parts name a
remedy."""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import spark_repl
from spark_repl.runtime.spark_release import _DELTA, delta_package
from tests.package.build import packed_again

ROOT = Path(__file__).parents[3]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


def tree() -> set[str]:
    """The package's files that are, or would be, in the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    ran = subprocess.run([*command, "spark_repl"], cwd=ROOT, capture_output=True, check=True)
    return {name for name in ran.stdout.decode().split("\0") if name and (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Built from a copy, so that nothing is left in the tree."""
    work = tmp_path_factory.mktemp("wheel")
    source = work / "source"
    for name in tree():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    subprocess.run([sys.executable, "-c", BUILD, work], cwd=source, capture_output=True, check=True)
    (made,) = work.glob("*.whl")
    return zipfile.ZipFile(made)


def test_the_wheel_has_every_file_of_the_tree(wheel: zipfile.ZipFile) -> None:
    held = {name for name in wheel.namelist() if not name.partition("/")[0].endswith(".dist-info")}
    assert held == tree()
    assert {"spark_repl/runtime/log4j2.properties", "spark_repl/py.typed"} <= held


def test_the_wheel_has_its_metadata(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    said = message_from_bytes(wheel.read(name))
    assert said["Version"] == spark_repl.__version__
    assert said["License-Expression"] == "Apache-2.0"
    assert said.get_all("License-File") == ["LICENSE"]
    extras = said.get_all("Provides-Extra") or []
    assert {"spark", "rsa"} <= set(extras)


def test_a_source_distribution_has_no_trace_of_its_build(tmp_path: Path) -> None:
    """Neither times, owners and modes of files, nor their order."""
    (tmp_path / "b").write_text("two")
    archives = []
    for epoch, names in ((1, "ab"), (2, "ba")):
        (tmp_path / "a").write_text("one")
        os.utime(tmp_path / "a", (epoch, epoch))
        (tmp_path / "a").chmod(0o600 if epoch == 1 else 0o664)
        with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
            for name in names:
                archive.add(tmp_path / name, name)
        archives.append((tmp_path / "x.tar.gz").read_bytes())
    assert archives[0] != archives[1]
    first, second = (packed_again(archive, 1_700_000_000) for archive in archives)
    assert first == second
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        assert [(one.name, one.mtime) for one in archive] == [("a", 1.7e9), ("b", 1.7e9)]


def test_the_chart_has_the_version() -> None:
    chart = (ROOT / "conf" / "helm" / "spark-repl" / "Chart.yaml").read_text("utf-8")
    version = spark_repl.__version__
    assert f"\nversion: {version}\n" in chart and f'\nappVersion: "{version}"\n' in chart
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\n## [{version}] - " in changes
    policy = (ROOT / ".github" / "SECURITY.md").read_text("utf-8")
    assert f"| {version.rpartition('.')[0]} | yes |" in policy


def requirements(extras: tuple[str, ...]) -> dict[str, Requirement]:
    optional = PROJECT["optional-dependencies"]
    texts = [*PROJECT["dependencies"], *(text for name in extras for text in optional[name])]
    found = [Requirement(text) for text in texts]
    return {canonicalize_name(one.name): one for one in found}


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def test_the_tested_set_is_within_the_ranges() -> None:
    pins = constraints()
    for name, needed in requirements(("spark", "dev", "readers", "browser")).items():
        if name != PROJECT["name"]:
            assert name in pins, f"{name} has no tested version"
            assert needed.specifier.contains(pins[name]), f"{needed}: tested is {pins[name]}"


def test_the_extra_installs_a_spark_that_delta_reads_with() -> None:
    admitted = requirements(("spark",))["pyspark"].specifier
    releases = [f"4.{minor}" for minor in range(10) if admitted.contains(f"4.{minor}.0")]
    assert releases == [*_DELTA]


def test_every_requirement_is_imported() -> None:
    used = set()
    for path in (ROOT / "spark_repl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                used |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                used.add(node.module.split(".")[0])
    known = packages_distributions()
    from_there = {canonicalize_name(d) for module in used for d in known.get(module, [])}
    assert requirements(("spark",)).keys() - {"delta-spark"} <= from_there
    assert "pandas" not in used


def test_version_has_one_place() -> None:
    assert "version" not in PROJECT
    command = [sys.executable, "-m", "spark_repl", "--version"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert (ran.stdout, ran.stderr) == (f"spark-repl {spark_repl.__version__}\n", "")


WITHOUT = "import sys; sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(',')));"
COMMAND = WITHOUT + "from spark_repl.cli.main import main; sys.exit(main(sys.argv[1:]))"


def run_without(packages: str, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, packages, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_commands_without_spark_name_the_extra(bank: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "lake")
    ran = run_without("pyspark,delta", COMMAND, "apply", "--relay", str(bank), "--target", target)
    assert ran.returncode == 2
    assert ran.stderr.startswith("Error: the Python package pyspark is not installed\nTry: ")
    assert "pip install 'spark-repl[spark]'" in ran.stderr
    ran = run_without("pyspark", WITHOUT + "from spark_repl import Replica")
    assert "SetupError: the Python package pyspark is not installed" in ran.stderr


def test_the_jars_are_of_the_delta_that_the_tests_have() -> None:
    assert delta_package().rpartition(":")[2] == constraints()["delta-spark"]
    assert "delta-spark" not in requirements(("spark",))
    assert "pyspark" not in requirements(()), "an environment's own stays as it is"


@pytest.mark.parametrize("words", ["relay verify", "relay ls"])
def test_commands_that_need_no_spark_work_without_it(bank: Path, words: str) -> None:
    ran = run_without("pyspark,py4j,delta,pandas", COMMAND, *words.split(), str(bank))
    assert (ran.returncode, ran.stderr) == (0, "")


def test_help_names_every_command_and_explains_every_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from spark_repl.cli.main import _RUN, main

    for words in ("", *_RUN):
        with pytest.raises(SystemExit) as ended:
            main([*words.split(), "--help"])
        assert ended.value.code == 0
        said = capsys.readouterr().out
        if not words:
            for command in {name.split()[0] for name in _RUN}:
                assert re.search(rf"^  {command} +\w", said, re.MULTILINE), command
            assert "Examples:" in said
        lines = said.splitlines()
        for number, line in enumerate(lines):
            if re.match(r"  --?\w", line):
                below = lines[number + 1] if number + 1 < len(lines) else ""
                told = re.search(r"\S {2,}\S", line) or below.startswith(" " * 20)
                assert told, f"{words}: {line} says nothing"
