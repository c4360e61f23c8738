"""Exact numbers as conversions hold them, decimal256(76, scale), and their digits."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

DIGITS = 76
INTEGRAL = pa.decimal256(DIGITS, 0)


def plain_text(number: pa.Array) -> pa.Array:
    """Digits of decimals with all digits behind the point, never with an exponent."""
    scale = number.type.scale
    wide = number if pa.types.is_decimal256(number.type) else number.cast(pa.decimal256(76, scale))
    buffers = wide.buffers()
    whole = pa.Array.from_buffers(
        pa.decimal256(76, 0), len(wide), buffers, wide.null_count, wide.offset
    )
    digits = whole.cast(pa.string())
    if scale == 0:
        return digits
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    padded = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    front = pc.utf8_slice_codeunits(padded, 0, -scale)
    behind = pc.utf8_slice_codeunits(padded, -scale)
    return pc.binary_join_element_wise(sign, front, ".", behind, "").cast(pa.string())
