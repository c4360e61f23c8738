"""Who may import whom: the contracts of pyproject.toml, which import-linter checks."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from importlinter.api import use_cases  # configured there

from tests.support.imports import PACKAGE, ROOT
from tests.support.sources import tree

CONFIG = ROOT / "pyproject.toml"
CONTRACTS = tomllib.loads(CONFIG.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
# contract -> a module, and the line in it that breaks the contract
WRONG = {
    "rooms": ("errors.py", "from . import crash_points"),
    "cycles": ("binlog/types/column_values.py", "from ..rows import columns"),
    "pure": ("sql/classify.py", "from ..runtime import spark_session"),
    "spark": ("observe/metrics.py", "import pyspark"),
    "kernels": ("relay/log.py", "import numba"),
    "delta-rs": ("write/tables/table.py", "import deltalake"),
    "pymysql": ("receiver/packet.py", "import pymysql"),
    "socket": ("apply/stream/stream.py", "import socket"),
}
LINT = "from importlinter import cli; cli.lint_imports(no_cache=True, no_logo=True)"


def test_rooms_import_only_what_their_contracts_allow() -> None:
    assert use_cases.lint_imports(str(CONFIG), cache_dir=None, no_logo=True)


def test_each_contract_can_be_broken(tmp_path: Path) -> None:
    """In a copy of the package, with a wrong line for each."""
    assert WRONG.keys() == {contract["id"] for contract in CONTRACTS}
    package = shutil.copytree(
        ROOT / PACKAGE, tmp_path / PACKAGE, ignore=shutil.ignore_patterns("bank", "__pycache__")
    )
    shutil.copy(CONFIG, tmp_path)
    for name, line in WRONG.values():
        with (package / name).open("a", encoding="utf-8") as module:
            module.write(f"\n{line}\n")
    ran = subprocess.run(
        [sys.executable, "-c", LINT], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    said = " ".join(ran.stdout.split())
    assert [name for name in (c["name"] for c in CONTRACTS) if f"{name} BROKEN" not in said] == []


def test_the_package_itself_imports_nothing_at_start() -> None:
    """An import of spark_repl.binlog imports no Spark: public names are loaded when they are used.
    A contract can't test that, because it also counts imports within functions."""
    eager = [
        ast.unparse(node)
        for node in tree(ROOT / PACKAGE / "__init__.py").body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and getattr(node, "module", "") not in ("__future__", "typing", "importlib")
    ]
    assert not eager
