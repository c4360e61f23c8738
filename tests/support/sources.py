"""Python files read as such, each once: for the tests that look at code and tests themselves."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def functions(path: Path) -> dict[str, ast.FunctionDef]:
    """All functions of a module by name, also those inside others and methods."""
    return {node.name: node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef)}
