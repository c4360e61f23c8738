"""LIKE with a literal pattern. Text is compared character by character by the column's collation;
trailing spaces count, even if the collation pads. Bytes are compared byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ..binlog.charsets.collation_compare import letters, tells_all_letters
from ..errors import DecodeError, NotComputed
from .collations import collation_of
from .value_type import NULL_TYPE, TRUTH, Node, ResultType, uncertain

_MANY, _ONE, _ESCAPE = "%", "_", "\\"


def build_like(operator: str, inputs: Sequence[Node]) -> Node:
    """Build LIKE from ``inputs``: value, pattern, and optionally the ESCAPE character. Raise
    NotComputed for a pattern that is not implemented."""
    value, pattern, *escapes = inputs
    if NULL_TYPE in (value.type, pattern.type):
        raise NotComputed("LIKE beside NULL is never true")
    if not pattern.is_literal or not all(escape.is_literal for escape in escapes):
        raise NotComputed("LIKE with a pattern that is no literal is not computed here")
    escape = _escape(escapes[0]) if escapes else _ESCAPE
    if value.type.result == ResultType.BYTES:
        return Node(operator, TRUTH, (value,), (0, _regex(_steps(_as_bytes(pattern), escape))))
    if value.type.result != ResultType.TEXT or pattern.type.result != ResultType.TEXT:
        name = value.type.result.name
        raise NotComputed(f"LIKE of {name} is not computed here")
    collation = collation_of((value, pattern), "LIKE")
    steps = _steps(pattern.detail, escape)
    if not tells_all_letters(collation):
        try:
            literals = letters(
                pa.array([character for character, plain in steps if plain], pa.string()), collation
            )
        except DecodeError as error:
            raise NotComputed(f"LIKE: {error.message}") from None
        remaining = iter(literals.to_pylist())
        steps = [(next(remaining) if plain else character, plain) for character, plain in steps]
    return Node(operator, TRUTH, (value,), (collation, _regex(steps)))


def compute_like(node: Node, values: pa.Array) -> pa.Array:
    collation, regex = node.detail
    try:
        compared = letters(values, collation) if collation else values
    except DecodeError as error:
        raise uncertain(error.message) from None
    return pc.match_substring_regex(compared, regex)


def _escape(node: Node) -> str:
    text = node.detail
    plain = isinstance(text, str) and len(text) == 1 and text.isascii()
    if not plain or text in (_MANY, _ONE):
        raise NotComputed("ESCAPE of anything but one ASCII character, neither % nor _, is not"
                          " computed here")  # fmt: skip
    return str(text)


def _as_bytes(pattern: Node) -> str:
    """Return the pattern's bytes, one letter for each. Raise NotComputed for text beyond ASCII."""
    detail = pattern.detail
    if isinstance(detail, bytes):
        return detail.decode("latin-1")
    if not isinstance(detail, str) or not detail.isascii():
        raise NotComputed("LIKE of such a pattern beside bytes is not computed here")
    return detail


def _steps(pattern: str, escape: str) -> list[tuple[str, bool]]:
    """Return pairs of a letter and whether it means itself. Raise NotComputed for an escape at the
    end."""
    steps, letters_left = [], iter(pattern)
    for letter in letters_left:
        if letter != escape:
            steps.append((letter, letter not in (_MANY, _ONE)))
            continue
        following = next(letters_left, "")
        if not following:
            raise NotComputed("a pattern that ends with its escape is not computed here")
        steps.append((following, True))
    return steps


def _regex(steps: Sequence[tuple[str, bool]]) -> str:
    """Return RE2's regular expression, written in ASCII only. Raise NotComputed if RE2 refuses it,
    as a match of the empty text shows."""
    parts = [f"\\x{{{ord(character):X}}}" if plain else ".*" if character == _MANY else "."
             for character, plain in steps]  # fmt: skip
    regex = rf"\A(?s:{''.join(parts)})\z"
    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowException:
        raise NotComputed("LIKE with so long a pattern is not computed here") from None
    return regex


BUILT: dict[str, Callable[[str, Sequence[Node]], Node]] = {"LIKE": build_like}
COMPUTED: dict[str, Callable[..., pa.Array]] = {"LIKE": compute_like}
