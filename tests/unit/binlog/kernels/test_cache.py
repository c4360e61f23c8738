"""Compiled kernels on disk are those of the sources that are there.

The package is copied, and edited. Each run is a process of its own that calls ``next_key``, which
has ``kernels.number`` in it.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_repl.binlog.kernels.jit import compiled

if compiled:
    from spark_repl.binlog.kernels.cache import is_kernel_module
pytestmark = pytest.mark.skipif(not compiled, reason="without the compiler nothing is kept")

PACKAGE = Path(__file__).parents[4] / "spark_repl"
NUMBER = "value |= np.int64(buffer[at + i]) << (8 * i)"
OTHER_NUMBER = "value += np.int64(buffer[at + i]) << (8 * i + 1)"

_CALL = """
import sys, numpy as np
from spark_repl.binlog.json.json_document import next_key
buffer = np.arange(40, dtype=np.uint8)
buffer.flags.writeable = False
stack = np.array([[0, 4000, 2, 1, 0, 1]], np.int64)
{before}
print(*next_key(buffer, stack, 0), sum(next_key.stats.cache_misses.values()))
"""


@dataclass(frozen=True)
class Copy:
    """A package of its own, and a user's cache."""

    root: Path

    @property
    def beside(self) -> Path:
        return self.root / "spark_repl" / "__pycache__"

    @property
    def user(self) -> Path:
        return self.root / "user"

    def call(self, before: str = "", **environment: str) -> tuple[str, int, str]:
        """(what ``next_key`` says, how often it was compiled, what was logged)."""
        process = self.start(before, **environment)
        out, logged = process.communicate()
        assert not process.returncode, logged
        answer, _, compilations = out.strip().rpartition(" ")
        return answer, int(compilations), logged

    def start(self, before: str = "", **environment: str) -> subprocess.Popen[str]:
        unset = ("NUMBA_CACHE_DIR", "PYTHONPATH", "NUMBA_BOUNDSCHECK")
        given = {k: v for k, v in os.environ.items() if k not in unset}
        return subprocess.Popen(
            [sys.executable, "-c", _CALL.format(before=before)],
            cwd=self.root, env={**given, "SPARK_REPL_CACHE": str(self.user), **environment},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.root / "spark_repl" / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))


@pytest.fixture
def package(tmp_path: Path) -> Copy:
    leave = shutil.ignore_patterns("__pycache__", "demo")
    shutil.copytree(PACKAGE, tmp_path / "spark_repl", ignore=leave)
    return Copy(tmp_path)


def kept(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.nbc"))


def test_a_changed_callee_in_another_file_compiles_again(package: Copy) -> None:
    old, compilations, _ = package.call()
    assert (package.call()[:2], compilations) == ((old, 0), 1)
    package.edit("binlog/kernels/jit.py", NUMBER, OTHER_NUMBER)
    new, compilations, _ = package.call()
    assert (new != old, compilations) == (True, 1)
    assert package.call()[:2] == (new, 0)


@pytest.mark.slow
def test_folders_of_other_sources_go(package: Copy) -> None:
    package.call()
    (first,) = package.beside.glob("kernels-*")
    package.edit("binlog/kernels/jit.py", NUMBER, OTHER_NUMBER)
    package.call()
    (second,) = package.beside.glob("kernels-*")
    assert first.name != second.name and kept(second)
    package.call(NUMBA_BOUNDSCHECK="1")
    assert second in (both := sorted(package.beside.glob("kernels-*"))) and len(both) == 2


def test_an_edit_elsewhere_compiles_nothing(package: Copy) -> None:
    answer, _, _ = package.call()
    package.edit("cli/main.py", "import", "# import")
    assert package.call()[:2] == (answer, 0)


@pytest.mark.slow
def test_an_install_that_is_read_only(package: Copy) -> None:
    """What was compiled beside it is used; what is missing goes to the user's cache."""
    answer, _, _ = package.call()
    image = package.beside.rename(package.root / "image")
    package.beside.write_text("no folder can be made here")
    assert [package.call()[:2] for _ in range(2)] == [(answer, 1), (answer, 0)]
    assert kept(package.user) and not package.beside.is_dir()
    package.beside.unlink()
    image.rename(package.beside)
    shutil.rmtree(package.user)
    (folder,) = package.beside.glob("kernels-*")
    assert package.call()[:2] == (answer, 0)
    for one in kept(folder):
        one.unlink()
    folder.rename(folder.with_name("gone"))
    folder.write_text("no folder can be made here")
    assert [package.call()[:2] for _ in range(2)] == [(answer, 1), (answer, 0)]
    assert kept(package.user)


def test_nowhere_to_write_is_said_once(package: Copy) -> None:
    package.beside.write_text("")
    package.user.write_text("")
    (answer, first, logged), (again, second, _) = package.call(), package.call()
    assert (answer, first) == (again, second) and first == 1
    assert logged.count("compiles its kernels again") == 1 and str(package.user) in logged


def test_a_folder_that_is_named(package: Copy) -> None:
    """It alone is used; several installs may share it."""
    package.call()
    named = {"NUMBA_CACHE_DIR": str(package.root / "named")}
    assert [package.call(**named)[1] for _ in range(2)] == [1, 0]
    assert kept(package.root / "named") and not kept(package.user)


def test_a_torn_file_is_made_again(package: Copy) -> None:
    answer, _, _ = package.call()
    for size in (0, 1, 100, -1):
        for path in kept(package.beside):
            os.truncate(path, size % path.stat().st_size)
        assert package.call()[:2] == (answer, 1), size
    assert package.call()[:2] == (answer, 0)


def test_processes_that_start_together_compile_once(package: Copy) -> None:
    started = [package.start() for _ in range(4)]
    answers = {process.communicate()[0].strip().rpartition(" ")[0] for process in started}
    assert {process.returncode for process in started} == {0} and len(answers) == 1
    assert package.call()[:2] == (answers.pop(), 0)
    assert not list(package.beside.rglob("*.part"))


def test_replaced_while_a_process_runs(package: Copy) -> None:
    """What the old process compiles later is not taken for the new sources' code, nor kept."""
    change = f"""
import pathlib
path = pathlib.Path("spark_repl/binlog/kernels/jit.py")
path.write_text(path.read_text().replace({NUMBER!r}, {OTHER_NUMBER!r}))
"""
    old, compilations, _ = package.call(before=change)
    assert compilations == 1 and not kept(package.root)
    new, compilations, _ = package.call()
    assert new != old and compilations == 1 and kept(package.beside)


def kernels(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Functions under ``@jit``, or handed to it."""
    words = {"jit", "jit_inlined", "jit_allocating"}
    handed = {
        arg.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in words
        for arg in node.args
        if isinstance(arg, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            marks = {mark.id for mark in node.decorator_list if isinstance(mark, ast.Name)}
            if marks & words or node.name in handed:
                yield node


def test_whatever_is_compiled_into_kernels_names_the_folder() -> None:
    """Modules with kernels, and those whose kernels and constants they use."""
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        tree = ast.parse(path.read_text())
        used = {n.id for f in kernels(tree) for n in ast.walk(f) if isinstance(n, ast.Name)}
        if used and not is_kernel_module(module):
            wrong.append(f"{module} has kernels")
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                package = module.split(".")[: -node.level]
                for name in {alias.asname or alias.name for alias in node.names} & used:
                    origin = ".".join([*package, node.module or name])
                    if not is_kernel_module(origin):
                        wrong.append(f"{module} has {name} of {origin} in a kernel")
    assert not wrong, "add them to KERNEL_MODULES:\n" + "\n".join(wrong)


def test_kernels_are_compiled_in_one_way() -> None:
    named = [path.name for path in PACKAGE.rglob("*.py") if "njit" in path.read_text()]
    assert named == ["jit.py"]
