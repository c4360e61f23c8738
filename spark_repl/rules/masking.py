"""Masked columns: the values that the target has instead of a column's own."""

from __future__ import annotations

import os
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..alter.column_defaults import literal
from ..binlog.kernels.sha256 import hmac_sha256
from ..config.tables import KEY_MASK
from ..errors import ConfigError, StatementError

if TYPE_CHECKING:
    from ..config import Target
    from ..config.tables import TableRule
    from ..tables.column import Column
    from ..tables.source_table import SourceTable

_KEY_BYTES = 64


def mask_key(target: Target) -> bytes:
    """Return the secret key of sha256 masks, or b"" if there is none. A key longer than a block is
    hashed, as HMAC does.

    Raise ConfigError if the configured place has no key.
    """
    key = b""
    if target.mask_key_env:
        key = os.environ.get(target.mask_key_env, "").encode()
        if not key:
            raise ConfigError(f"the environment has no {target.mask_key_env} (target.mask_key_env)")
    elif target.mask_key_file:
        try:
            with open(target.mask_key_file, "rb") as lines:
                key = lines.readline().rstrip(b"\r\n")
        except OSError as error:
            raise ConfigError(
                f"can't read the key of masks: {error.strerror}", file=target.mask_key_file
            ) from error
        if not key:
            raise ConfigError("the key of masks is empty", file=target.mask_key_file)
    return sha256(key).digest() if len(key) > _KEY_BYTES else key


def masked(values: pa.Array, column: Column, key: bytes) -> pa.Array:
    """Return the source's ``values`` in the form of the target's ``column``. NULL stays NULL,
    except for a constant mask. ``key``: the secret key of sha256."""
    verb, _, value = column.mask.partition(":")
    match verb:
        case "null":
            return pa.nulls(len(values), column.arrow_type)
        case "constant":
            return pa.repeat(pa.scalar(value, column.arrow_type), len(values))
        case "truncate" if pa.types.is_binary(values.type):
            return pc.binary_slice(values, 0, int(value))
        case "truncate":
            return pc.utf8_slice_codeunits(values, 0, int(value))
        case "keep_last":
            return _kept_last(values, int(value))
        case "sha256":
            return hashed(values, key)
    raise AssertionError(column.mask)


def masked_default(column: Column, key: bytes) -> str | None:
    """Return ``Column.default`` of the target's masked ``column``: the value for an INSERT that
    leaves the column out. None if the source's default is not known, or is not a literal."""
    source = column.logged
    default, constant = source and source.default, is_constant(column)
    if source is None or (default is None and not constant):
        return None
    if default and default.startswith("*") and not constant:
        prefix = f"*{column.mask}*"
        return default.removeprefix(prefix) if default.startswith(prefix) else None
    try:
        values = pa.nulls(1) if constant else literal(source)
    except StatementError:
        return None
    value = masked(values, column, key)[0].as_py()
    if value is None:
        return "NULL"
    return f"0x{value.hex()}" if isinstance(value, bytes) else f"'{value}"


def without_default(source: Column, masked: Column | None = None) -> Column:
    """Return the source's column in the form that is recorded with the target's ``masked`` one
    (None: there is none). Its own default may be a value that must not be shown. An unknown default
    is then ``**``, which differs from a column without a default."""
    if source.default in (None, "NULL"):
        return source
    has_default = masked is not None and masked.default is not None and not is_constant(masked)
    return replace(
        source, default=f"*{masked.mask}*{masked.default}" if masked and has_default else "**"
    )


def mask_change(old: Column, new: Column, *, strict: bool) -> str:
    """Return the change of the source's column because of which masked values of ``old`` differ
    from those of ``new``; "" if they do not differ. ``strict``: whether the session is strict, so
    that a column that becomes NOT NULL has no NULL."""
    assert old.logged is not None and new.logged is not None
    before, after = old.logged, new.logged
    if new.mask == "null":
        return ""
    if replace(before, name=after.name, visible=after.visible, nullable=after.nullable) != after:
        return "another type"
    hashed = new.mask.startswith("sha256")
    return "NOT NULL" if hashed and before.nullable > after.nullable and not strict else ""


def key_fault(table: SourceTable, column: str, rule: TableRule) -> str:
    """Return why the ``column`` (in lower case) of the table's key cannot be masked as the rule
    requires, as the end of a sentence; "" if it can."""
    mask = next((mask for name, mask in rule.mask if name.lower() == column), "")
    if not mask:
        return ", which tells rows apart"
    if mask != KEY_MASK:
        return (
            f", and mask {mask} may give two rows one value: of a key's columns {KEY_MASK} alone"
            " may be asked for, by mask_keys = true"
        )
    if not rule.mask_keys:
        return f", which {KEY_MASK} may mask where mask_keys = true says so"
    by = table.partitioning
    if by is not None and (by.unknown or column in {name.lower() for name in by.columns}):
        return ", and its values are in what the table says of its partitions"
    return ""


def is_constant(column: Column) -> bool:
    """Return whether the mask gives all rows the same value, so that images need not have the
    column."""
    return column.mask.partition(":")[0] in ("null", "constant")


def _kept_last(values: pa.Array, count: int) -> pa.Array:
    """Return the last ``count`` characters after asterisks; only asterisks if the value has no more
    than ``count`` characters."""
    length = pc.utf8_length(values)
    is_longer = pc.greater(length, count)
    stars = pc.if_else(is_longer, pc.subtract(length, count), length)
    last = pc.utf8_slice_codeunits(values, -count, None) if count else pc.replace_with_mask(
        values, pc.is_valid(values), pa.scalar("", values.type)
    )  # fmt: skip
    last = pc.if_else(is_longer, last, pa.scalar("", values.type))
    repeated = pc.binary_repeat(pa.array(["*"] * len(values), values.type), stars)
    return pc.binary_join_element_wise(repeated, last, "")


def hashed(values: pa.Array, key: bytes) -> pa.Array:
    """Return the hexadecimal digits of the HMAC of each value's text or bytes, by the secret
    ``key``."""
    binary = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
    texts = values if binary else values.cast(pa.string())
    texts = pc.fill_null(texts.cast(pa.large_binary()), b"")
    data = texts.buffers()[2]
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset :][: len(texts) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None and len(data) else np.zeros(0, np.uint8)
    digits = hmac_sha256(key, raw, np.ascontiguousarray(offsets))
    ends = np.arange(len(texts) + 1, dtype=np.int32) * 64
    hexadecimal = pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(digits))
    return pc.if_else(pc.is_valid(values), hexadecimal, pa.scalar(None, pa.string()))
