"""The shape of the package: chains of imports, parameters, names of one class, or of one room.

``python -m tests.unit.house.test_shape`` prints the measures.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache

from tests.support.imports import PACKAGE, ROOT, folder_graph, graph, imported, modules
from tests.support.sources import tree

CHAIN_MAX = 24
"""A bound against accidents only: a subject is not cut in two to shorten the chain."""
FOLDER_CHAIN_MAX = 16
"""a ratchet: folders on the longest chain of imports; docs/design/rooms.md says why so many"""
PARAMETERS_MAX, PARAMETERS_P90 = 8, 3
WITH_PARTS = {"tracking": "write", "applier": "apply", "replica": "apply", "opened": "apply"}
"""what is made of parts -> its room, in which they are known"""
HANDED_OUT = {"tables", "waiting", "index", "config", "opened", "options"}
"""values, which whoever has them may read"""


@cache
def depth(name: str) -> int:
    """Modules on the longest chain of imports that begins here."""
    return 1 + max((depth(other) for other in graph()[name] if other), default=0)


@cache
def folder_chain(folder: str) -> tuple[str, ...]:
    """The folders on the longest chain of imports that begins at a folder."""
    chains = (folder_chain(other) for other in sorted(folder_graph()[folder]))
    return (folder, *max(chains, key=len, default=()))


def longest_folder_chain() -> tuple[str, ...]:
    return max(map(folder_chain, folder_graph()), key=len)


def parameters() -> Iterator[tuple[int, str]]:
    """(number without self, place) of every function."""
    for name, path in modules().items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                own = [one for one in given if one.arg not in ("self", "cls")]
                yield len(own), f"{name}.{node.name}"


def test_no_chain_of_imports_is_too_long() -> None:
    longest = max(graph(), key=depth)
    assert depth(longest) <= CHAIN_MAX, longest


def test_the_chain_of_imports_between_folders_becomes_no_longer() -> None:
    longest = longest_folder_chain()
    assert len(longest) <= FOLDER_CHAIN_MAX, longest
    assert longest[0] == "cli" and longest[-1] in ("", "binlog")  # the whole way of the data


def test_no_function_has_too_many_parameters() -> None:
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


def reached_into(source: ast.AST, names: frozenset[str]) -> Iterator[str]:
    """What is read of a part of one of ``names``: ``tracking.control.epoch``."""
    for node in ast.walk(source):
        if isinstance(node, ast.Attribute) and isinstance(part := node.value, ast.Attribute):
            whole = part.value
            name = getattr(whole, "attr", getattr(whole, "id", ""))
            if name.lstrip("_") in names and part.attr not in HANDED_OUT:
                yield ast.unparse(node)


def test_no_part_of_another_rooms_part_is_asked() -> None:
    """It is asked itself, or hands the part out: to who keeps it."""
    wrong = []
    for name, path in modules().items():
        room = name.split(".")[0]
        asked = frozenset(what for what, owner in WITH_PARTS.items() if owner != room)
        wrong += [f"{name}: {chain}" for chain in reached_into(tree(path), asked)]
    assert wrong == []


def test_the_rule_of_parts_bites() -> None:
    source = ast.parse("a = self._tracking.control.epoch\nb = tracking.tables.values()\n")
    assert list(reached_into(source, frozenset(WITH_PARTS))) == ["self._tracking.control.epoch"]
    source = ast.parse("c = tracking.control\nd = self.applier.opened.status.copies(1)\n")
    assert list(reached_into(source, frozenset(WITH_PARTS))) == [
        "self.applier.opened.status.copies"
    ]


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


def raised(source: ast.AST) -> Iterator[str]:
    """The classes that can be raised, by the names of what they derive from: what is called an
    error, an exception or a signal, or is one of ``errors``."""
    for node in ast.walk(source):
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            named = any(re.search("(Error|Exception|Signal)$", base) for base in bases)
            if named or bases & ERRORS:
                yield node.name


ERRORS = {
    node.name for node in tree(ROOT / PACKAGE / "errors.py").body if isinstance(node, ast.ClassDef)
}


def test_what_can_be_raised_stands_in_errors() -> None:
    where = {name: list(raised(tree(path))) for name, path in modules().items()}
    assert set(where.pop("errors")) == ERRORS
    assert {name: classes for name, classes in where.items() if classes} == {}
    wrong = "class A(KeyError):\n  pass\nclass B(errors.Stopped):\n  class C(Exception):\n    pass"
    assert sorted(raised(ast.parse(wrong))) == ["A", "B", "C"]


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
    chain = longest_folder_chain()
    say(f"chain of folders {len(chain)}: {' -> '.join(name or PACKAGE for name in chain)}\n")
    say(f"parameters p90 {counts[int(len(counts) * 0.9)]}, most {counts[-1]}\n")
    say(f"rooms {len(list((ROOT / PACKAGE).glob('*/__init__.py')))}\n")
