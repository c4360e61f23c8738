"""The shape of the package: chains of imports, parameters, names of one class, or of one room.

``python -m tests.unit.house.test_shape`` prints the measures.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache

from tests.support.imports import PACKAGE, ROOT, graph, imported, modules
from tests.support.sources import tree

CHAIN_MAX = 14
PARAMETERS_MAX, PARAMETERS_P90 = 8, 3


@cache
def depth(name: str) -> int:
    """Modules on the longest chain of imports that begins here."""
    return 1 + max((depth(other) for other in graph()[name] if other), default=0)


def parameters() -> Iterator[tuple[int, str]]:
    """(number without self, place) of every function."""
    for name, path in modules().items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                own = [one for one in given if one.arg not in ("self", "cls")]
                yield len(own), f"{name}.{node.name}"


def test_chains_of_imports() -> None:
    longest = max(graph(), key=depth)
    assert depth(longest) <= CHAIN_MAX, longest


def test_parameters() -> None:
    assert [place for count, place in parameters() if count > PARAMETERS_MAX] == []
    counts = sorted(count for count, _ in parameters())
    assert counts[int(len(counts) * 0.9)] <= PARAMETERS_P90


def test_names_with_an_underscore_stay_in_their_room() -> None:
    wrong = []
    for name, path in modules().items():
        for target in imported(name, path.name == "__init__.py", tree(path)):
            room, _, _ = target.removeprefix(f"{PACKAGE}.").partition(".")
            last = target.rpartition(".")[2]
            private = last.startswith("_") and not last.startswith("__")
            if target.startswith(f"{PACKAGE}.") and private and room != name.split(".")[0]:
                wrong.append(f"{name}: {target}")
    assert wrong == []


def classes() -> dict[str, list[str]]:
    """The modules of every name that a class has, nested ones too."""
    where: dict[str, list[str]] = {}
    for name, path in modules().items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, []).append(name)
    return where


def test_a_name_is_of_one_class() -> None:
    assert {name: where for name, where in classes().items() if len(where) > 1} == {}
    assert classes()["FileList"] == ["relay.file_list"]  # they are seen


def test_the_import_reader_sees_what_it_should() -> None:
    source = ast.parse(
        "import socket\n"
        "from . import crc\n"
        "from ..errors import LogError\n"
        "if TYPE_CHECKING:\n    import pyspark\n"
        "def f():\n    from deltalake import DeltaTable\n"
    )
    assert imported("binlog.rows", False, source) == {
        "socket",
        "spark_repl.binlog.crc",
        "spark_repl.errors.LogError",
        "deltalake.DeltaTable",
    }
    assert "spark_repl.binlog.crc" in imported("binlog", True, source)


if __name__ == "__main__":
    longest = max(graph(), key=depth)
    sizes = sorted(len(path.read_bytes().splitlines()) for path in modules().values())
    counts = sorted(count for count, _ in parameters())
    say = sys.stdout.write
    say(f"modules {len(sizes)}, median {sizes[len(sizes) // 2]} lines, longest {sizes[-1]}\n")
    say(f"chain {depth(longest)}, from {longest}\n")
    say(f"parameters p90 {counts[int(len(counts) * 0.9)]}, most {counts[-1]}\n")
    say(f"rooms {len(list((ROOT / PACKAGE).glob('*/__init__.py')))}\n")
