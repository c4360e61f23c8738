"""Policy: what statements may do to a table of the target, by the patterns of ``ddl.policy``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from ..config.renaming import whole_of
from ..config.rules import policed
from ..tables.case_folding import fold
from ..tables.table_name import plain_name


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
    """(pattern, policy) pairs; the first one that matches a name decides. ``folds``: whether names
    are compared without regard to case, unless the source distinguishes cases."""

    entries: tuple[tuple[str, Policy], ...] = ()
    folds: bool = True

    @classmethod
    def of(cls, given: str | Iterable[str], *, folds: bool) -> Policies:
        """Return the policies that the configuration has checked: one for all tables, or a list."""
        listed = [f"*.*: {given}"] if isinstance(given, str) else given
        pairs = filter(None, map(policed, listed))
        return cls(tuple((pattern, Policy(policy)) for pattern, policy in pairs), folds)

    def of_table(self, name: str) -> Policy:
        """Return the policy of the table ``name`` (db.table)."""
        return self.deciding(name)[1]

    def deciding(self, name: str) -> tuple[str, Policy]:
        """Return the entry that decides about the table, or one without a pattern if none matches.
        A shard also matches by the name of its Delta table."""
        names = {plain_name(name), plain_name(whole_of(name))}
        for pattern, policy in self.entries:
            if any(self._fits(pattern, candidate) for candidate in names):
                return pattern, policy
        return "", Policy.APPLY

    def _fits(self, pattern: str, name: str) -> bool:
        exact = fnmatchcase(name, _literal(pattern))
        return exact or (self.folds and fnmatchcase(fold(name), _literal(fold(pattern))))


def _literal(pattern: str) -> str:
    """Return the pattern with literal brackets: only * and ? are wildcards."""
    return pattern.replace("[", "[[]")
