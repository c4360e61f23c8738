"""Who imports whom in the package, read from its sources; what type checkers alone import is not
counted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.sources import tree

ROOT = Path(__file__).parents[2]
PACKAGE = "spark_repl"


@cache
def modules() -> dict[str, Path]:
    """Dotted name below the package ("" for its __init__, "binlog.rows") -> file."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def import_nodes(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import, also those inside functions; not those for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not _type_checking(child):
            yield from import_nodes(child)


def imported(name: str, is_package: bool, source: ast.AST) -> set[str]:
    """Absolute dotted names that the module ``name`` (below the package) imports."""
    here = [PACKAGE, *name.split(".")] if name else [PACKAGE]
    package = here if is_package else here[:-1]
    found = set()
    for node in import_nodes(source):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            start = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*start, *([node.module] if node.module else [])])
            found |= {f"{origin}.{alias.name}" for alias in node.names}
    return found


def folder(name: str) -> str:
    """Return the dotted folder of a module; "" is the package's own."""
    if modules()[name].name == "__init__.py":
        return name
    return name.rpartition(".")[0]


@cache
def folder_graph() -> dict[str, set[str]]:
    """Folder -> other folders from which its modules import. The commands' entry is left out."""
    edges: dict[str, set[str]] = {}
    for name, others in graph().items():
        if name != "__main__":
            edges.setdefault(folder(name), set()).update(map(folder, others))
    return {own: others - {own} for own, others in edges.items()}


@cache
def graph() -> dict[str, set[str]]:
    """Module -> modules of the package that it imports, names below the package."""
    known = modules()
    edges: dict[str, set[str]] = {}
    for name, path in known.items():
        edges[name] = set()
        for target in imported(name, path.name == "__init__.py", tree(path)):
            if target.split(".")[0] != PACKAGE:
                continue
            parts = target.split(".")[1:]
            while parts and ".".join(parts) not in known:
                parts.pop()  # a name inside a module
            edges[name].add(".".join(parts))
        edges[name].discard(name)
    return edges
