"""Carry-less multiplication: 16 bytes of a CRC a step, if the processor has PCLMULQDQ.

Source: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction"
(Intel, 2009). The constants are those of zlib's polynomial, with bits reflected. Multiplication by
them moves 128 bits over 512 or 128 bits of message. numba has no vectors, so a vector is two
integers.
"""

from __future__ import annotations

import platform
from typing import Any

import numpy as np

from .jit import compiled, jit, u64

# x^(4*128+32), x^(4*128-32), x^(128+32), x^(128-32) modulo the polynomial.
_BY_512 = np.uint64(0x154442BD4), np.uint64(0x1C6E41596)
_BY_128 = np.uint64(0x1751997D0), np.uint64(0x0CCAA009E)


def _has_instruction() -> bool:
    if not compiled or platform.machine() not in ("x86_64", "AMD64"):
        return False
    from llvmlite import binding

    return bool(binding.get_host_cpu_features().get("pclmul"))


AVAILABLE = _has_instruction()

if AVAILABLE:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    _VECTOR = ir.VectorType(ir.IntType(64), 2)

    def _vector(builder: Any, low: Any, high: Any) -> Any:
        empty = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(empty, low, ir.IntType(32)(0))
        return builder.insert_element(first, high, ir.IntType(32)(1))

    def _fold_vector(
        typing: Any, low: Any, high: Any, by_low: Any, by_high: Any, more_low: Any, more_high: Any
    ) -> Any:
        """Compute (low * by_low + high * by_high) + more: move one vector on, and add the
        message."""

        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            vector, by, data = (_vector(builder, values[i], values[i + 1]) for i in (0, 2, 4))
            kind = ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR, ir.IntType(8)])
            multiply = builder.module.declare_intrinsic("llvm.x86.pclmulqdq", (), kind)
            lows = builder.call(multiply, [vector, by, ir.IntType(8)(0x00)])
            highs = builder.call(multiply, [vector, by, ir.IntType(8)(0x11)])
            out = builder.xor(builder.xor(lows, highs), data)
            parts = [builder.extract_element(out, ir.IntType(32)(i)) for i in (0, 1)]
            return context.make_tuple(builder, signature.return_type, parts)

        pair: Any = types.UniTuple
        return pair(types.uint64, 2)(*[types.uint64] * 6), emit

    _folded: Any = intrinsic(_fold_vector)

    @jit
    def _load(buf: Any, at: Any) -> Any:
        return np.uint64(u64(buf, at))

    @jit
    def folded(crc: Any, buf: Any, start: Any, end: Any) -> Any:
        """Fold ``buf[start:at]`` into 16 bytes. Return (low, high, at). ``buf[start:end]`` must
        have at least 16 bytes. ``crc`` is the inverted CRC of the bytes before ``start``.

        The inverted CRC of all bytes up to ``end`` is the CRC, begun with 0, of the 16 bytes and
        ``buf[at:end]``.
        """
        low, high = _load(buf, start) ^ np.uint64(crc), _load(buf, start + 8)
        at = start + 16
        if end - at >= 112:
            low1, high1 = _load(buf, at), _load(buf, at + 8)
            low2, high2 = _load(buf, at + 16), _load(buf, at + 24)
            low3, high3 = _load(buf, at + 32), _load(buf, at + 40)
            at += 48
            k, m = _BY_512
            while end - at >= 64:
                low, high = _folded(low, high, k, m, _load(buf, at), _load(buf, at + 8))
                low1, high1 = _folded(low1, high1, k, m, _load(buf, at + 16), _load(buf, at + 24))
                low2, high2 = _folded(low2, high2, k, m, _load(buf, at + 32), _load(buf, at + 40))
                low3, high3 = _folded(low3, high3, k, m, _load(buf, at + 48), _load(buf, at + 56))
                at += 64
            k, m = _BY_128
            low, high = _folded(low, high, k, m, low1, high1)
            low, high = _folded(low, high, k, m, low2, high2)
            low, high = _folded(low, high, k, m, low3, high3)
        k, m = _BY_128
        while end - at >= 16:
            low, high = _folded(low, high, k, m, _load(buf, at), _load(buf, at + 8))
            at += 16
        return low, high, at
