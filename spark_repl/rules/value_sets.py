"""Sets of a column's values: whole numbers, and texts as a collation takes them for equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import product
from math import gcd

Equal = Callable[[Iterable[str]], frozenset[str]]
"""texts -> one for all that are equal"""
_MOST = 1000


@dataclass(frozen=True)
class Steps:
    """The whole numbers from ``low`` to ``high`` (None: without end) that leave ``rest`` divided by
    ``step``, which is 1 at least, as Python divides."""

    low: int | None = None
    high: int | None = None
    step: int = 1
    rest: int = 0

    def meet(self, other: Steps) -> Steps | None:
        """The numbers that are in both; None where there is none."""
        shared = gcd(self.step, other.step)
        apart = other.rest - self.rest
        if apart % shared:
            return None
        ours, theirs = self.step // shared, other.step // shared
        step = self.step * theirs
        rest = (self.rest + self.step * (apart // shared * pow(ours, -1, theirs) % theirs)) % step
        low = max((one.low for one in (self, other) if one.low is not None), default=None)
        high = min((one.high for one in (self, other) if one.high is not None), default=None)
        first = low if low is None else low + (rest - low) % step
        if first is not None and high is not None and first > high:
            return None
        return Steps(low, high, step, rest)


@dataclass(frozen=True)
class Wholes:
    """The numbers that are in any of ``parts``."""

    parts: tuple[Steps, ...]

    def both(self, other: Wholes) -> Wholes:
        """At least what is in both."""
        if len(self.parts) * len(other.parts) > _MOST:
            return min(self, other, key=lambda one: len(one.parts))
        met = (one.meet(two) for one, two in product(self.parts, other.parts))
        return Wholes(tuple(part for part in met if part is not None))

    def either(self, other: Wholes) -> Wholes | None:
        """What is in any of the two; None: all numbers, as there are too many parts."""
        parts = tuple(dict.fromkeys((*self.parts, *other.parts)))
        return Wholes(parts) if len(parts) <= _MOST else None

    def is_apart(self, other: Wholes) -> bool:
        """Whether no number is in both."""
        pairs = product(self.parts, other.parts)
        return not any(one.meet(two) is not None for one, two in pairs)


@dataclass(frozen=True)
class Texts:
    """All texts that equal one of ``listed``, or (``others``) all that equal none."""

    listed: frozenset[str]
    others: bool = False

    def both(self, other: Texts) -> Texts:
        """At least what is in both."""
        if self.others and other.others:
            return replace(self, listed=self.listed | other.listed)
        if self.others or other.others:
            named, without = (other, self) if self.others else (self, other)
            return Texts(named.listed - without.listed)
        # Two texts that differ may be equal: what is in one of the sets is enough.
        return min(self, other, key=lambda one: len(one.listed))

    def either(self, other: Texts) -> Texts | None:
        """At least what is in any of the two; None: all texts."""
        if self.others != other.others:
            return None
        if self.others:
            return replace(self, listed=self.listed & other.listed)
        return Texts(self.listed | other.listed)

    def is_apart(self, other: Texts, equal: Equal) -> bool:
        """Whether no text is in both, as ``equal`` takes texts."""
        if self.others and other.others:
            return False
        mine, theirs = equal(self.listed), equal(other.listed)
        if self.others or other.others:
            named, without = (theirs, mine) if self.others else (mine, theirs)
            return named <= without
        return mine.isdisjoint(theirs)


Values = Wholes | Texts
