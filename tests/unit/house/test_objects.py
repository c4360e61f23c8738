"""No room assigns attributes of another room's object. It calls a method of the object, or passes
the value to its constructor. Errors get their place on their way; kernels fill arrays that they are
given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.imports import PACKAGE, modules
from tests.support.sources import tree


def rooms_of(package: list[str], source: ast.AST) -> dict[str, str]:
    """Name in a module of ``package`` (the folders below the package's own) -> the room that it is
    imported from, for type checkers too."""
    rooms = {}
    for node in ast.walk(source):
        if isinstance(node, ast.ImportFrom):
            parts = (node.module or "").split(".")
            if node.level:
                parts = [*package[: len(package) - node.level + 1], *parts]
            elif parts[0] == PACKAGE:
                parts = parts[1:]
            else:
                continue
            rooms |= {one.asname or one.name: parts[0] for one in node.names if parts[0]}
    return rooms


def _class_of(annotation: ast.expr | None) -> str:
    text = "" if annotation is None else ast.unparse(annotation)
    return text.split("|")[0].strip(" '\"")


def _others(function: ast.FunctionDef, foreign: dict[str, str]) -> dict[str, str]:
    """The parameters and variables that are objects of ``foreign`` classes, with these."""
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    others = {one.arg: _class_of(one.annotation) for one in given}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made = {ast.unparse(target): ast.unparse(node.value.func) for target in node.targets}
            others |= {name: of for name, of in made.items() if of in foreign}
    return {name: of for name, of in others.items() if of in foreign}


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from target.elts if isinstance(target, ast.Tuple) else [target]
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        yield node.target


def written(package: list[str], source: ast.AST) -> Iterator[str]:
    """Attributes of other rooms' objects that are assigned, or assigned into."""
    rooms = rooms_of(package, source)
    foreign = {n: room for n, room in rooms.items() if room not in [*package[:1], "errors"]}
    for function in ast.walk(source):
        if not isinstance(function, ast.FunctionDef):
            continue
        if any("jit" in ast.unparse(one) for one in function.decorator_list):
            continue
        others = _others(function, foreign)
        for target in (one for node in ast.walk(function) for one in _targets(node)):
            root, has_attribute = target, False
            while isinstance(root, ast.Attribute | ast.Subscript):
                has_attribute |= isinstance(root, ast.Attribute)
                root = root.value
            if has_attribute and isinstance(root, ast.Name) and root.id in others:
                yield f"{ast.unparse(target)} of {others[root.id]}"


def test_nobody_writes_into_another_rooms_object() -> None:
    wrong = []
    for name, path in modules().items():
        package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        wrong += [f"{name}: {what}" for what in written(package, tree(path))]
    assert wrong == []


def test_writes_into_another_rooms_object_are_recognised() -> None:
    text = """
from ..errors import LogError
from ..receiver.receiver import Receiver
from .memory import Memory
if TYPE_CHECKING:
    from ..control.recorded_filters import RecordedFilters
def f(rules: RecordedFilters | None, memory: Memory, error: LogError, count: int) -> None:
    receiver = Receiver(count)
    receiver.writer.told, count = print, 1
    rules.origins["a"] = memory.peak = error.table = "b"
    receiver.number += 1
    receiver.stop()
@jit
def kernel(rules: RecordedFilters) -> None:
    rules.places[0] = 1
"""
    assert sorted(written(["bench"], ast.parse(text))) == [
        "receiver.number of Receiver",
        "receiver.writer.told of Receiver",
        "rules.origins['a'] of RecordedFilters",
    ]
