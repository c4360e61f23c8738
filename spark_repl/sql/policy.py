"""Policy: what statements may do to the target's table, by the patterns of ``ddl.policy``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from ..config.renaming import whole_of
from ..config.rules import policed
from ..tables.table_name import plain_name
from .case_folding import fold


class Policy(StrEnum):
    """The values of ``ddl.policy``."""

    APPLY = "apply"
    ADDITIVE_ONLY = "additive_only"
    """columns that are dropped or narrowed stay in the target"""
    STOP = "stop"
    """what changes columns, rows or name stops the applier"""
    IGNORE_DROP = "ignore_drop"
    """DROP and TRUNCATE leave the target's rows"""


@dataclass(frozen=True)
class Policies:
    """(pattern, policy), of which the first that fits a name counts. ``folds``: whether upper and
    lower case of names are the same, unless the source tells them apart."""

    entries: tuple[tuple[str, Policy], ...] = ()
    folds: bool = True

    @classmethod
    def of(cls, given: str | Iterable[str], *, folds: bool) -> Policies:
        """Reads what the configuration has checked: a policy of all tables, or a list."""
        listed = [f"*.*: {given}"] if isinstance(given, str) else given
        pairs = filter(None, map(policed, listed))
        return cls(tuple((pattern, Policy(policy)) for pattern, policy in pairs), folds)

    def of_table(self, name: str) -> Policy:
        """The policy of the table ``name`` (db.table)."""
        return self.deciding(name)[1]

    def deciding(self, name: str) -> tuple[str, Policy]:
        """The entry that decides about the table; without a pattern where none fits. A shard goes
        by the name of the table that it is in, too."""
        names = {plain_name(name), plain_name(whole_of(name))}
        for pattern, policy in self.entries:
            if any(self._fits(pattern, candidate) for candidate in names):
                return pattern, policy
        return "", Policy.APPLY

    def _fits(self, pattern: str, name: str) -> bool:
        exact = fnmatchcase(name, _literal(pattern))
        return exact or (self.folds and fnmatchcase(fold(name), _literal(fold(pattern))))


def _literal(pattern: str) -> str:
    """The pattern, in which a bracket is a letter like others: only * and ? mean something."""
    return pattern.replace("[", "[[]")
