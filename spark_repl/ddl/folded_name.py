"""A name as a source with lower_case_table_names = 1 or 2 compares it."""

from __future__ import annotations


def fold(name: str) -> str:
    """``name`` in lower case as MySQL has it: one character becomes one."""
    if name.isascii():
        return name.lower()
    return "".join(char.lower()[0] for char in name)
