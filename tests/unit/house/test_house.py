"""The rules of the house: sizes, names, addresses, what a room says. Imports: ``test_imports``."""

from __future__ import annotations

import ast
import re
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.imports import PACKAGE, ROOT, modules
from tests.support.sources import tree

MODULE_LINES_MAX, TEST_LINES_MAX = 600, 600
MODULE_LINES_REPORTED = 450
FUNCTION_LINES_MAX, TEST_FUNCTION_LINES_MAX = 50, 65
BAD_NAMES = {"utils", "util", "common", "base", "manager", "helpers", "helper", "misc"}

# Written with a ~ in them, so that this file keeps its own rule.
MACHINE_PATHS = [path.replace("~", "") for path in ("/wo~rk", "/tm~p/w", "/ro~ot")]
REGISTRIES = (
    "py~pi.org py~thonhosted.org repo1.ma~ven.org repo.ma~ven.apache.org maven-cen~tral"
    " arti~factory index-~url index_~url spark.jars.repo~sitories deb.deb~ian.org"
).replace("~", "")
FORBIDDEN_TEXT = re.compile(
    "|".join(
        [r"(?<![\w.}])" + re.escape(path) + r"\b" for path in MACHINE_PATHS]
        + [re.escape(name) for name in REGISTRIES.split()]
    ),
    re.IGNORECASE,
)
JAVA_INTERNALS = re.compile("_jvm|_jsparkSession|_jsc")
"""attributes of pyspark that hold objects in Java"""


def within(name: str, part: str) -> bool:
    return name == part or name.startswith(part + ".")


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """(name, lines from its ``def`` to its end) of every function."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def bound_names(source: ast.AST) -> Iterator[tuple[str, int]]:
    """(name, line) of every variable, parameter, field, attribute and function that is bound."""
    for node in ast.walk(source):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno


def docstrings(source: ast.AST) -> Iterator[tuple[str, int]]:
    """(text, line) of every docstring: of modules, classes and functions, and of attributes."""
    for node in ast.walk(source):
        said = node.value if isinstance(node, ast.Expr) else None
        if isinstance(said, ast.Constant) and isinstance(said.value, str):
            yield said.value, node.lineno


def nameless(source: ast.AST) -> list[int]:
    """The lines that call something by its having been found, not by what it is."""
    return [line for name, line in bound_names(source) if name.strip("_") == "found"]


def headless(source: ast.AST) -> list[int]:
    """The lines of docstrings that don't begin with what the thing is."""
    return [line for text, line in docstrings(source) if re.match(r"\s*(Of|As|Behind)\b", text)]


def own_files() -> list[Path]:
    """Files that are, or would be, in the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git work tree")
    return [path for n in ran.stdout.decode().split("\0") if n and (path := ROOT / n).is_file()]


def test_unit_tests_mirror_the_rooms() -> None:
    """A room's tests are in one folder, or in folders of the same names as the room's folders."""
    package, unit = ROOT / PACKAGE, ROOT / "tests" / "unit"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    inner = {path.parent.relative_to(package) for path in package.glob("*/*/__init__.py")}
    folders = {path.parent.relative_to(unit) for path in unit.rglob("test_*.py")}
    assert {path.as_posix().partition("/")[0] for path in folders} == {".", "house", *rooms}
    assert {path for path in folders if len(path.parts) > 1} <= inner


def test_each_room_says_its_contract() -> None:
    for path in (ROOT / PACKAGE).rglob("*/__init__.py"):
        lines = (ast.get_docstring(tree(path)) or "").splitlines()
        least = 5 if path.parent.parent == ROOT / PACKAGE else 1  # a room's own rooms: what it is
        assert least <= len(lines) <= 15, path


def python_files() -> list[Path]:
    return sorted(p for part in (PACKAGE, "jobs", "tests") for p in (ROOT / part).rglob("*.py"))


def test_no_module_is_too_long() -> None:
    sizes = {p.relative_to(ROOT): len(p.read_bytes().splitlines()) for p in python_files()}
    large = {str(p): n for p, n in sizes.items() if n > MODULE_LINES_REPORTED}
    if large:
        shown = ", ".join(f"{p} {n}" for p, n in sorted(large.items(), key=lambda i: -i[1]))
        warnings.warn(f"modules above {MODULE_LINES_REPORTED} lines: {shown}", stacklevel=1)
    most = {p: MODULE_LINES_MAX if p.startswith(PACKAGE) else TEST_LINES_MAX for p in large}
    too_large = {p: n for p, n in large.items() if n > most[p]}
    assert not too_large, f"at most {MODULE_LINES_MAX} lines, of tests {TEST_LINES_MAX}"


def test_no_function_is_too_long() -> None:
    long = []
    for path in python_files():
        of_package = path.is_relative_to(ROOT / PACKAGE)
        most = FUNCTION_LINES_MAX if of_package else TEST_FUNCTION_LINES_MAX
        for name, lines in functions(path):
            if lines > most:
                long.append(f"{path.relative_to(ROOT)}: {name} {lines}")
    assert not long, f"at most {FUNCTION_LINES_MAX} lines:\n" + "\n".join(long)


def test_no_module_has_a_name_that_says_nothing() -> None:
    names = [p.relative_to(ROOT) for p in python_files()]
    assert not [str(name) for name in names if BAD_NAMES & set(name.with_suffix("").parts)]


def test_results_are_named_by_their_content() -> None:
    wrong = [f"{n}:{line}" for n, path in modules().items() for line in nameless(tree(path))]
    assert wrong == []


def test_docstrings_begin_with_what_a_thing_is() -> None:
    wrong = [f"{n}:{line}" for n, path in modules().items() for line in headless(tree(path))]
    assert wrong == []


def test_the_rules_of_names_and_docstrings_bite() -> None:
    bound = "found = 1\ndef _found(found):\n  self._found = [found for found in found]\n"
    assert sorted(nameless(ast.parse(bound + "class A:\n  found: int\n"))) == [1, 2, 2, 3, 3, 5]
    assert nameless(ast.parse("names = found(found.found, found=found)\n")) == []
    told = '"""Of it."""\na = 1\n"""As such."""\ndef f():\n  """Behind it."""\n'
    assert sorted(headless(ast.parse(told))) == [1, 3, 5]
    assert headless(ast.parse('"""Often, assuming."""\nprint("As such.")\n')) == []


def test_only_the_ends_configure_logging() -> None:
    wrong = []
    for name, path in modules().items():
        called = {n.attr for n in ast.walk(tree(path)) if isinstance(n, ast.Attribute)}
        if called & {"basicConfig", "dictConfig", "addHandler"} and not within(name, "cli"):
            wrong.append(name)
    assert not wrong


def test_only_the_session_calls_spark_in_java() -> None:
    """Another module would depend on the internals of one release of Spark, or of one session."""
    wrong = []
    for name, path in modules().items():
        names = JAVA_INTERNALS.findall(path.read_text())
        if names and not name.startswith("runtime.spark_session"):
            wrong.append(f"{name}: {names}")
    assert not wrong


def test_no_machine_paths_and_no_registry_addresses() -> None:
    wrong = []
    for path in own_files():
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
            found = FORBIDDEN_TEXT.search(line.decode("latin-1"))
            if found:
                wrong.append(f"{path.relative_to(ROOT)}:{number}: {found.group()}")
    assert not wrong, "\n".join(wrong[:20])


def test_the_text_rule_bites() -> None:
    bad = [f'"{path}/x"' for path in MACHINE_PATHS] + [f"a {r} b" for r in REGISTRIES.split()]
    for text in bad:
        assert FORBIDDEN_TEXT.search(text), text
    for text in ("data/work/x", "mysql/root/usr", "$work/bank", "tmp/write"):
        assert not FORBIDDEN_TEXT.search(text), text
