"""The bytes of text in its character set, and the functions of bytes: HEX, digests, checksums."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from ..binlog.charsets.charset import UTF8
from ..convert.to_text import store_text
from ..convert.type_change import TypeChange, by_distinct
from ..errors import NotComputed
from ..sql.charsets import collation
from ..sql.session import Session
from ..tables.column import BINARY, Column, ColumnType
from .coercions import as_bytes, exact, text
from .literals import constant
from .value_type import (
    EXACT,
    MIXED,
    PLAIN_TEXT,
    UNKNOWN,
    UNSIGNED,
    Node,
    ResultType,
    ValueType,
    uncertain,
)

_BLOB = Column("", ColumnType.BLOB, 4, nullable=True, collation=BINARY)
_SHA2 = {224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384, 512: hashlib.sha512}


def encoded(texts: pa.Array, kind: ValueType) -> pa.Array:
    """Return texts as BYTES. Raise Unconvertible for letters beyond ASCII in a set that is not
    known."""
    if kind.charset in UTF8:
        return texts.cast(pa.binary())
    if kind.charset == UNKNOWN and pc.any(pc.greater(pc.binary_length(texts), 0)).as_py():
        raise uncertain("the bytes of a text depend on its character set, which is not known")
    if kind.charset in ("", MIXED, UNKNOWN):
        if pc.all(pc.string_is_ascii(texts)).as_py() is False:
            raise uncertain("the bytes of letters beyond ASCII depend on the connection")
        return texts.cast(pa.binary())
    number, longest = collation(kind.charset)
    column = Column("", ColumnType.VARCHAR, longest << 24, nullable=True, collation=number)
    return store_text(texts, TypeChange(column, _BLOB, Session())).values


def build_hex(operator: str, inputs: Sequence[Node]) -> Node:
    (value,) = inputs
    if value.type.result in EXACT and value.type.source != "HEX":
        value = exact(value)
        if value.type.result != ResultType.INTEGER:
            raise NotComputed("HEX of decimals is not computed here")
        return Node("HEX", PLAIN_TEXT, (value,))
    return Node("HEX", PLAIN_TEXT, (as_bytes(value),))


def compute_hex(node: Node, values: pa.Array) -> pa.Array:
    if pa.types.is_decimal(values.type):
        mask = (1 << 64) - 1
        return by_distinct(
            values, lambda v: (None if v is None else f"{int(v) & mask:X}", True), pa.string()
        ).values
    return _of_bytes(values, lambda raw: raw.hex().upper())


def _of_bytes(values: pa.Array, function: Callable[[bytes], str]) -> pa.Array:
    return by_distinct(
        values, lambda raw: (None if raw is None else function(raw), True), pa.string()
    ).values


def build_digest(operator: str, inputs: Sequence[Node]) -> Node:
    value, *sizes = inputs
    size = constant(sizes[0]) if sizes else None
    if operator == "SHA2":
        size = 256 if size == 0 else size
        if size not in _SHA2:
            raise NotComputed("SHA2 of such a length is not computed here")
    return Node(operator, PLAIN_TEXT, (as_bytes(value),), size)


def compute_digest(node: Node, values: pa.Array) -> pa.Array:
    digests = {"MD5": hashlib.md5, "SHA1": hashlib.sha1}
    make = _SHA2[node.detail] if node.operator == "SHA2" else digests[node.operator]
    return _of_bytes(values, lambda raw: make(raw).hexdigest())


def build_crc32(operator: str, inputs: Sequence[Node]) -> Node:
    (value,) = inputs
    return Node(operator, replace(UNSIGNED, digits=10), (as_bytes(text(value)),))


def compute_crc32(node: Node, values: pa.Array) -> pa.Array:
    checksums = by_distinct(
        values, lambda raw: (None if raw is None else zlib.crc32(raw), True), pa.int64()
    )
    return checksums.values.cast(node.type.arrow)


BUILT: dict[str, Callable[[str, Sequence[Node]], Node]] = {
    "HEX": build_hex,
    **dict.fromkeys(("MD5", "SHA1", "SHA2"), build_digest),
    "CRC32": build_crc32,
}
COMPUTED: dict[str, Callable[..., pa.Array]] = {
    "TO BYTES": lambda node, values: encoded(values, node.inputs[0].type),
    "HEX": compute_hex,
    **dict.fromkeys(("MD5", "SHA1", "SHA2"), compute_digest),
    "CRC32": compute_crc32,
}
