"""Syntax: an expression as it is written, before anything is known of types."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Syntax:
    """``name``: an operator or function in upper case, or ``number``, ``string``, ``hex``,
    ``null``, ``moment``, ``name``; ``words`` are what is no expression: a literal's text, a type, a
    unit."""

    name: str
    inputs: tuple[Syntax, ...] = ()
    words: tuple[str, ...] = ()
