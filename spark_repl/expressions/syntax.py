"""Syntax: an expression as it is written, before its types are known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Syntax:
    """A part of an expression. ``name`` is an operator or function in upper case, or ``number``,
    ``string``, ``hex``, ``null``, ``moment``, ``name``. ``words`` has the parts that are not
    expressions: a literal's text, a type, a unit."""

    name: str
    inputs: tuple[Syntax, ...] = ()
    words: tuple[str, ...] = ()
