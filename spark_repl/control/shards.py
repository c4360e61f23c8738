"""Shards: tables of one shape that a reader of a cut sees as one, each with its name's part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..config.renaming import halves, letters, standing_for
from ..errors import ConfigError


@dataclass(frozen=True)
class Shards:
    """``parts``: what the ``%`` of ``pattern`` stands for in the name of each table, in order."""

    pattern: str
    parts: Mapping[str, str]

    @classmethod
    def of(cls, pattern: str, names: Iterable[str]) -> Shards:
        """Those of the tables ``names`` (db.table) that the pattern fits; all signs but ``%`` are
        plain letters. Raises ConfigError where it has not one ``%``, or fits none."""
        if letters(pattern).count("") != 1 or not all(pattern.partition(".")):
            raise ConfigError(
                f"{pattern!r} does not tell tables apart by one %", hint='such as "all.orders_%"'
            )
        asked = {name: standing_for(halves(pattern), halves(name)) for name in sorted(names)}
        parts = {name: values[0] for name, values in asked.items() if values is not None}
        if not parts:
            raise ConfigError(f"the cut has no table like {pattern}", hint=", ".join(asked))
        return cls(pattern, parts)

    def union(self, columns: Mapping[str, Mapping[str, str]], own: str) -> dict[str, str]:
        """The columns of all, by name in any case, in the order in which tables bring them, with
        their types. ``columns``: those of each table with their types; ``own``: the one that has
        the part. Raises ConfigError where a column has two types, or a table has ``own`` too."""
        made: dict[str, tuple[str, str, str]] = {}
        for table in self.parts:
            for name, kind in columns[table].items():
                first, there, declared = made.setdefault(name.lower(), (table, name, kind))
                if declared != kind:
                    raise ConfigError(
                        f"column {there} is {declared} in {first} and {kind} in {table}",
                        hint="while ALTERs arrive one by one: take another cut, or read them apart",
                    )
        if own.lower() in made:
            raise ConfigError(
                f"{made[own.lower()][0]} has a column {own} itself",
                hint="give the column that has the table's part another name",
            )
        return {name: kind for _, name, kind in made.values()}
