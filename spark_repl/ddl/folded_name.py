"""A name as a source with lower_case_table_names = 1 or 2 compares it."""

from __future__ import annotations

CASE_HINT = (
    "set source.lower_case_table_names to what the source has: 0 (names of other letters are other"
    " tables), 1 or 2"
)
"""what to do where nobody has said whether the source folds names"""


def fold(name: str) -> str:
    """``name`` in lower case as MySQL has it: one character becomes one."""
    if name.isascii():
        return name.lower()
    return "".join(char.lower()[0] for char in name)
