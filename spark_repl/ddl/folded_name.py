"""A name as a source with lower_case_table_names = 1 or 2 compares it."""

from __future__ import annotations

from ..errors import SettingError

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


def unlike_rule(name: str, rules: str, log: str, hint: str = CASE_HINT) -> SettingError:
    """Rows of a table came whose name one of the ``rules`` has with other letters; ``log``: what
    that says, or does not say, of whether the source takes them for the same."""
    return SettingError(
        f"a rule of {rules} has the name {name} with other letters, and the log {log} the source"
        " takes them for the same",
        table=name,
        hint=hint,
    )
