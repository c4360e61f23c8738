"""The collation by which texts are compared in an expression, and whether their order is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...binlog.charsets.charset import NAMES, ORDERED, charset_of, name_of
from ...errors import NotComputed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .value_type import Node


def known_collation(inputs: Sequence[Node]) -> int:
    """By which texts of one column are compared with literals, or with those of another, where that
    is known; else 0."""
    told = {one.type.collation for one in inputs if not one.is_literal}
    plain = all(not one.type.charset for one in inputs if one.is_literal)
    number = told.pop() if len(told) == 1 and plain else 0
    return number if number in NAMES else 0


def collation_of(inputs: Sequence[Node], what: str) -> int:
    """The same, for what is asked at once whether it is computed here. Raises NotComputed, which
    names the collation."""
    (number,) = {one.type.collation for one in inputs if not one.is_literal} or {0}
    if not number:
        raise NotComputed(f"{what} of text whose collation is not known is not computed here")
    if not known_collation(inputs):
        raise NotComputed(f"{what} by {name_of(number)} is not computed here")
    for one in inputs:
        converted = one.is_literal and one.detail is not None and not one.detail.isascii()
        if converted and charset_of(number) != "utf8mb4":
            beside = f"{charset_of(number)} beside {one.detail!r}"
            raise NotComputed(f"{what} of {beside} is not computed here")
    return number


def check_ordered(inputs: Sequence[Node]) -> None:
    """Raises NotComputed unless the order of one text of the row beside literals is known."""
    texts = [one for one in inputs if not one.is_literal]
    if len(texts) != 1:
        raise NotComputed("an order of TEXT that is not between a column and a literal is not"
                          " computed here")  # fmt: skip
    number = collation_of(inputs, "an order of TEXT")
    if number not in ORDERED:
        raise NotComputed(f"an order of TEXT by {name_of(number)} is not computed here")
