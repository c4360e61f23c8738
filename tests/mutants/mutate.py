"""Source text -> its mutants: one small change each, as a tired programmer would make it.

A mutant is keyed by its module, the function it lies in and the two texts, not by a line: it stays
the same one while other lines move.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.BitAnd: "|", ast.BitOr: "&", ast.LShift: ">>",
    ast.RShift: "<<", ast.FloorDiv: "*", ast.Mod: "//",
}  # fmt: skip
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Calls whose loss changes what people read, or where tests cut off, not what is applied.
_SAID = ("log.", "_LOG.", "LOG.", "logging.", "warnings.", "print(", "reach(")


@dataclass(frozen=True)
class Mutant:
    """``new`` instead of ``old`` at one place of a module."""

    module: str
    """below the package: schedule/waves.py"""
    function: str
    line: int
    old: str
    new: str
    start: int
    end: int
    """bytes of the source"""
    lines: range
    """of the statement it lies in, without those below it"""

    @property
    def key(self) -> str:
        return f"{self.module} {self.function}: {self.old} -> {self.new}"

    def of(self, source: bytes) -> bytes:
        """The module's text with the change made."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    def drawn(self, seed: int) -> bytes:
        """A place in the order of a seed."""
        return hashlib.sha256(f"{seed} {self.key}".encode()).digest()


def mutants(module: str, source: bytes) -> list[Mutant]:
    """All mutants of a module that still compile, in the order of its text; of equal ones in one
    function the first."""
    found: dict[str, Mutant] = {}
    walk = _Walk(module, source)
    for mutant in walk.function("", ast.parse(source)):
        try:
            compile(mutant.of(source), module, "exec")
        except (SyntaxError, ValueError):
            continue
        found.setdefault(mutant.key, mutant)
    return list(found.values())


class _Walk:
    def __init__(self, module: str, source: bytes) -> None:
        self.module, self.source = module, source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        nodes = ast.walk(ast.parse(source))
        self._statements = [_lines_of(node) for node in nodes if isinstance(node, ast.stmt)]

    def function(self, name: str, node: ast.AST) -> Iterator[Mutant]:
        """What lies in one function or class, and in those inside it."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                below = f"{name}.{child.name}" if name else child.name
                yield from self.function(below, _Body(child.body))
            elif isinstance(child, ast.AnnAssign):
                if name and child.value:
                    yield from self.function(name, ast.Expr(child.value))
            elif not (isinstance(child, ast.Import | ast.ImportFrom) or _is_same(node, child)):
                yield from self._node(name, child)
                yield from self.function(name, child)

    def _node(self, name: str, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
                new = f"{self._text(left)} {_COMPARED[type(op)]} {self._text(right)}"
                yield self._change(name, node, new)
            case ast.BoolOp(op=op, values=[first, *others]):
                word = " or " if isinstance(op, ast.And) else " and "
                texts = [f"({self._text(value)})" for value in (first, *others)]
                yield self._change(name, node, f"({word.join(texts)})")
                for gone in range(len(texts)):
                    same = " and " if isinstance(op, ast.And) else " or "
                    kept = same.join(texts[:gone] + texts[gone + 1 :])
                    yield self._change(name, node, f"({kept})")
            case ast.If(test=test) | ast.IfExp(test=test):
                if self._text(test) != "TYPE_CHECKING":
                    yield self._change(name, test, "False")
                    yield self._change(name, test, "True")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._change(name, node, self._text(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _COMPUTED:
                if not isinstance(left, ast.Constant) or not isinstance(left.value, str):
                    new = f"({self._text(left)}) {_COMPUTED[type(op)]} ({self._text(right)})"
                    yield self._change(name, node, f"({new})")
            case ast.Constant(value=int(value)) if not isinstance(value, bool) and name:
                yield self._change(name, node, str(value + 1))
            case ast.Constant(value=bool(value)) if name:
                yield self._change(name, node, str(not value))
            case ast.Call(func=ast.Name(id=called)) if called in _CALLED:
                yield self._change(name, node.func, _CALLED[called])
            case ast.Expr(value=ast.Call()) if not self._text(node).startswith(_SAID):
                yield self._change(name, node, "pass")
            case ast.Raise() | ast.AugAssign():
                yield self._change(name, node, "pass")
            case ast.Continue():
                yield self._change(name, node, "break")
            case ast.Break():
                yield self._change(name, node, "continue")

    def _change(self, name: str, node: ast.AST, new: str) -> Mutant:
        start, end = self._span(node)
        old = " ".join(self.source[start:end].decode().split())
        line = self.source.count(b"\n", 0, start) + 1
        # A later case of ``match`` is of no statement's own lines.
        own = (lines for lines in self._statements if line in lines)
        within = min(own, key=len, default=range(line, line + 1))
        return Mutant(self.module, name, line, old, " ".join(new.split()), start, end, within)

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._lines[node.lineno - 1] + node.col_offset
        return start, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.source[start:end].decode()


def _lines_of(node: ast.stmt) -> range:
    """The statement's own: of ``if`` those of its test."""
    below = getattr(node, "body", None) or getattr(node, "cases", None)
    assert node.end_lineno is not None
    match below:
        case [ast.stmt() as first, *_]:
            end = first.lineno
        case [ast.match_case(pattern=pattern), *_]:
            end = pattern.lineno
        case _:
            end = node.end_lineno + 1
    return range(node.lineno, max(end, node.lineno + 1))


def _is_same(node: ast.AST, child: ast.AST) -> bool:
    """Of ``zip(..., strict=True)``: an assertion, that nothing depends on; and of ``reshape(-1)``:
    numpy takes any negative size for the one that is left."""
    if isinstance(child, ast.keyword):
        return child.arg == "strict"
    match node:
        case ast.Call(func=ast.Attribute(attr="reshape")):
            return isinstance(child, ast.UnaryOp)
    return False


class _Body(ast.Module):
    """A function's statements without its decorators, arguments and annotations."""

    def __init__(self, body: list[ast.stmt]) -> None:
        super().__init__(body, [])
