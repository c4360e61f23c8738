"""What is wrong with ``to`` of ``[[tables]]``: its form, rules that would give one name twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .renaming import (
    halves,
    has_bare_sign,
    letters,
    unusable,
    unusable_database,
    whole_of,
)
from .wildcards import covers

if TYPE_CHECKING:
    from .tables import TableRule


def renaming_faults(rules: Sequence[TableRule], *, asks_case: bool) -> list[str]:
    """The faults of each rule, and of rules beside the others. ``asks_case``: nobody has said
    whether the source tells upper and lower case apart."""
    faults, named = list[str](), dict[int, str]()
    for number, rule in enumerate(rules, 1):
        if not rule.to or not rule.match:
            continue
        own = [*_faults(rule)]
        if asks_case and rule.to != rule.to.lower():
            own.append("to: an upper-case letter needs source.lower_case_table_names")
        faults += [f"tables[{number}].{fault}" for fault in own]
        if own:
            continue
        earlier = next((n for n, other in named.items() if _gives_all(other, rule.named)), None)
        if earlier is not None:
            faults.append(
                f"tables[{number}].to {rule.to} would give names that tables[{earlier}].to has"
                " given: put the rule of the fewer tables first, or join databases by"
                " filters.rewrite_db"
            )
        named[number] = rule.named
    return faults


def _faults(rule: TableRule) -> Iterator[str]:
    if letters(rule.match) == letters(rule.named):
        yield f"to {rule.to} changes nothing"
    if has_bare_sign(rule.match):
        yield (
            f"match {rule.match}: with to, the wildcard _ has no place in {rule.to} to be carried"
            r" over to: write \_ for the character, or %"
        )
    for key, pattern in (("match", rule.match), ("to", rule.named)):
        if any(_signs(part) > 1 for part in halves(pattern)):
            yield f"{key} {pattern}: with to, more than one % in a part of the name is ambiguous"
    had, has = _signs(rule.match), _signs(rule.named)
    if had < has:
        yield f"to {rule.to} has a % that stands for nothing in match {rule.match}"
    if had > has:
        yield (
            f"to {rule.to} gives all tables of match {rule.match} one name, as a % is not in it:"
            " tables that share one need a key_prefix"
        )
    if reason := _unusable(rule.named):
        yield f"to {rule.to}: {reason}"


def _unusable(to: str) -> str:
    """Why no table can have a name that ``to`` gives, as far as no ``%`` decides it."""
    database, table = halves(to)
    if not _signs(to):
        return unusable(("".join(letters(database)), whole_of("".join(letters(table)))))
    return "" if _signs(database) else unusable_database("".join(letters(database)))


def _gives_all(earlier: str, later: str) -> bool:
    """Whether each name that ``later`` gives is one that ``earlier`` gives."""
    pairs = zip(halves(earlier), halves(later), strict=True)
    return all(covers(_escaped(one), _escaped(other)) for one, other in pairs)


def _escaped(part: str) -> str:
    """The part as a pattern whose ``_`` are plain letters."""
    return "".join(f"\\{sign}" if sign else "%" for sign in letters(part))


def _signs(pattern: str) -> int:
    return letters(pattern).count("")
