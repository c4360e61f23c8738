"""Functions that change text or bytes piece by piece: REPLACE, REPEAT, REVERSE, padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from ..errors import NotComputed
from .texts import LENGTH_MAX, alike, check_letters, each, integer, plain_text_type
from .uncertainty import uncertain
from .value_type import Node


def _replaced(value: Any, old: Any, new: Any) -> Any:
    return value.replace(old, new) if len(old) else value


def _part(value: Any, mark: Any, count: Any) -> Any:
    """SUBSTRING_INDEX."""
    number = int(count)
    if not len(mark) or not number:
        return value[:0]
    if number > 0:
        return mark.join(value.split(mark)[:number])
    if any(mark.startswith(mark[at:]) for at in range(1, len(mark))):
        # Of characters with several bytes the server counts such marks from the left.
        raise uncertain("SUBSTRING_INDEX counts marks that overlap themselves from the right")
    return mark.join(value.rsplit(mark, -number)[number:])


def _padded(value: Any, size: Any, pad: Any) -> tuple[Any, Any] | None:
    """(what stays, what is put beside it)."""
    if size < 0:
        return None
    room = int(size) - len(value)
    if room <= 0:
        return value[: int(size)], value[:0]
    if not len(pad) or size > LENGTH_MAX:
        raise uncertain("what the server pads a text with is not known")
    return value, (pad * (room // len(pad) + 1))[:room]


def _lpad(value: Any, size: Any, pad: Any) -> Any:
    parts = _padded(value, size, pad)
    return parts and parts[1] + parts[0]


def _rpad(value: Any, size: Any, pad: Any) -> Any:
    parts = _padded(value, size, pad)
    return parts and parts[0] + parts[1]


def _repeated(value: Any, count: Any) -> Any:
    if count > 0 and len(value) * count > LENGTH_MAX:
        raise uncertain("a text is longer than a server may take")
    return value * max(int(count), 0)


_EACH: dict[str, tuple[Callable[..., Any], str]] = {
    "REPLACE": (_replaced, "ttt"), "SUBSTRING_INDEX": (_part, "tti"), "LPAD": (_lpad, "tit"),
    "RPAD": (_rpad, "tit"), "REPEAT": (_repeated, "ti"),
    "REVERSE": (lambda value: value[::-1], "t"),
}  # fmt: skip


def build_each(operator: str, inputs: Sequence[Node]) -> Node:
    form = _EACH[operator][1]
    if len(form) != len(inputs):
        raise NotComputed(f"{operator} of {len(inputs)} values is not computed here")
    kind, texts = alike([one for one, sort in zip(inputs, form, strict=True) if sort == "t"])
    left = iter(texts)
    operands = [
        next(left) if f == "t" else integer(one) for one, f in zip(inputs, form, strict=True)
    ]
    return Node(operator, plain_text_type(kind), tuple(operands))


def compute_each(node: Node, *values: pa.Array) -> pa.Array:
    check_letters(node, *values)
    return each(_EACH[node.operator][0], node.type.arrow, *values)


BUILT: dict[str, Callable[[str, Sequence[Node]], Node]] = dict.fromkeys(_EACH, build_each)
COMPUTED: dict[str, Callable[..., pa.Array]] = dict.fromkeys(_EACH, compute_each)
