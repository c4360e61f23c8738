"""The page docs/api/README.md, from docstrings: ``python -m tests.package.api_page`` writes it.

It has the names of ``spark_repl.__all__``, the types that these return, and all errors.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import spark_repl
from spark_repl import Config, errors
from spark_repl.apply.start.replica import Replica
from spark_repl.control.cuts.cut_reader import CutReader
from spark_repl.control.cuts.joint_cut import JointCut
from spark_repl.control.table.cut import Cut
from spark_repl.errors import SparkReplError
from spark_repl.observe.reports.applier_status import Result

PAGE = Path(__file__).parents[2] / "docs" / "api" / "README.md"
_RETURNED = (CutReader, JointCut, Cut, Result)
# The other methods are for the package itself.
_ONLY: dict[type, tuple[str, ...]] = {
    Replica: ("apply", "result", "stop", "close"),
    Config: ("from_mapping", "override", "names"),
    Cut: (),
}
_HEAD = """\
# API reference

The public names of `spark_repl`, from their docstrings. [From Python](../python.md) has examples.

`make api` writes this page. Names that are not on it may change in any version.
"""


class _Plain:
    """An annotation that is shown without quotes."""

    def __init__(self, text: object) -> None:
        self._text = text if isinstance(text, str) else inspect.formatannotation(text)

    def __repr__(self) -> str:
        return self._text


def page() -> str:
    """Return the page's text."""
    parts = [_HEAD, "## Names of spark_repl\n"]
    for name in spark_repl.__all__:
        parts += _described(name, getattr(spark_repl, name))
    parts.append("## What they return\n")
    for kind in _RETURNED:
        parts += _described(kind.__name__, kind)
    parts += [
        "## Errors\n",
        "All errors are in `spark_repl.errors`.\n",
        "| error | base | |\n|---|---|---|",
    ]
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, SparkReplError):
            parts.append(f"| `{name}` | `{kind.__base__.__name__}` | {_line(kind)} |")
    return "\n".join(parts) + "\n"


def _described(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}\n"
    if not inspect.isclass(value) or "__init__" in vars(value):
        text = f"{name}{_signature(value)}"
        yield textwrap.fill(text, 150, initial_indent=" " * 4, subsequent_indent=" " * 8) + "\n"
    yield _text(value)
    if inspect.isclass(value):
        for member, own in _members(value):
            is_value = isinstance(own, (property, cached_property))
            yield f"**`.{member}{'' if is_value else _signature(own)}`**\n"
            yield _text(own)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that have a docstring."""
    for name, own in vars(kind).items():
        own = own.__func__ if isinstance(own, (classmethod, staticmethod)) else own
        described = isinstance(own, (property, cached_property)) or inspect.isfunction(own)
        wanted = name in _ONLY.get(kind, vars(kind)) and not name.startswith("_")
        if described and wanted and own.__doc__:
            yield name, own


def _signature(value: Any) -> str:
    """The parameters and the result, without the method's own object."""
    signature = inspect.signature(value)
    shown = [
        one.replace(
            annotation=one.annotation if one.annotation is one.empty else _Plain(one.annotation),
            default=_Plain("...") if "factory" in repr(one.default) else one.default,
        )
        for name, one in signature.parameters.items()
        if name not in ("self", "cls")
    ]
    result = signature.return_annotation
    if result is signature.empty or inspect.isclass(value):
        return str(inspect.Signature(shown))
    return str(inspect.Signature(shown, return_annotation=_Plain(result)))


def _text(value: Any) -> str:
    doc = inspect.cleandoc(value.__doc__ or "")
    return "\n\n".join(map(_wrapped, doc.split("\n\n"))) + "\n"


def _wrapped(part: str) -> str:
    if part.startswith(("- ", "* ", "    ")):
        return part
    return textwrap.fill(
        " ".join(part.split()), 150, break_long_words=False, break_on_hyphens=False
    )


def _line(kind: type) -> str:
    first = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0]
    return " ".join(first.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), "utf-8")
