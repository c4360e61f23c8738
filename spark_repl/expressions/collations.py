"""The collation that compares texts in an expression, whether its order is known, and the columns
whose collations matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..binlog.charsets.charset import NAMES, ORDERED, charset_of, name_of
from ..errors import NotComputed
from .value_type import ResultType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .syntax import Syntax
    from .value_type import Node

# The collation also decides which letter is the other case of a letter.
_BY_COLLATION = frozenset(("=", "<=>", "<>", "<", "<=", ">", ">=", "LIKE", "UPPER", "LOWER"))
_LETTER_BY_LETTER = frozenset((
    "name", "number", "string", "hex", "null", "moment", "CAST", "ASCII", "COALESCE", "CONCAT",
    "CONCAT_WS", "CHAR_LENGTH", "CRC32", "HEX", "IF", "IFNULL", "IS NULL", "ISNULL", "JSON_ARRAY",
    "JSON_OBJECT", "LEFT", "LENGTH", "MD5", "ORD", "RIGHT", "SHA1", "SHA2", "SUBSTR", "TO_BASE64",
    "UNHEX", "UUID_TO_BIN",
))  # fmt: skip


def known_collation(inputs: Sequence[Node]) -> int:
    """Return the number of the collation that compares a column's texts with literals, or with
    texts of the same collation. Return 0 if it is not known."""
    collations = {operand.type.collation for operand in inputs if not operand.is_literal}
    plain = all(not operand.type.charset for operand in inputs if operand.is_literal)
    number = collations.pop() if len(collations) == 1 and plain else 0
    return number if number in NAMES else 0


def collation_of(inputs: Sequence[Node], what: str) -> int:
    """Return the number of the collation that compares these texts. Raise NotComputed, with the
    collation's name, if its comparison is not implemented."""
    (number,) = {operand.type.collation for operand in inputs if not operand.is_literal} or {0}
    if not number:
        raise NotComputed(f"{what} of text whose collation is not known is not computed here")
    if not known_collation(inputs):
        raise NotComputed(f"{what} by {name_of(number)} is not computed here")
    for operand in inputs:
        converted = (
            operand.is_literal and operand.detail is not None and not operand.detail.isascii()
        )
        if converted and charset_of(number) != "utf8mb4":
            beside = f"{charset_of(number)} beside {operand.detail!r}"
            raise NotComputed(f"{what} of {beside} is not computed here")
    return number


def check_ordered(inputs: Sequence[Node]) -> None:
    """Raise NotComputed unless the inputs are one text of the row and literals, and their order is
    known."""
    texts = [operand for operand in inputs if not operand.is_literal]
    if len(texts) != 1:
        raise NotComputed("an order of TEXT that is not between a column and a literal is not"
                          " computed here")  # fmt: skip
    number = collation_of(inputs, "an order of TEXT")
    if number not in ORDERED:
        raise NotComputed(f"an order of TEXT by {name_of(number)} is not computed here")


def compared(node: Node) -> set[int]:
    """Return the numbers of the columns whose collations affect the expression's values."""
    by_collation = node.operator in _BY_COLLATION
    numbers = set[int]()
    for operand in node.inputs:
        numbers |= compared(operand)
        if by_collation and operand.type.result == ResultType.TEXT:
            numbers |= operand.columns
    return numbers


def compares_nothing(syntax: Syntax) -> bool:
    """Return whether no collation affects an expression's values, even if they can't be
    computed."""
    return syntax.name in _LETTER_BY_LETTER and all(map(compares_nothing, syntax.inputs))
