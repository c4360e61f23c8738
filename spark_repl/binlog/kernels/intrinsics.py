"""Loads and copies without a check of the index, as numba intrinsics; see ``jit``."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    if kind.layout != "C":
        raise TypeError(f"{kind} is not contiguous")
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


def _load(bits: int) -> Any:
    def load(typing: Any, buffer: Any, at: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            place = _place(context, builder, signature.args[0], values[0], values[1])
            wide = builder.bitcast(place, ir.IntType(bits).as_pointer())
            loaded = builder.load(wide, align=1)
            return loaded if bits == 64 else builder.zext(loaded, ir.IntType(64))

        return types.int64(buffer, types.int64), emit

    return intrinsic(load)


def _copy(typing: Any, buffer: Any, at: Any, length: Any, out: Any, to: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        source = _place(context, builder, signature.args[0], values[0], values[1])
        target = _place(context, builder, signature.args[3], values[3], values[4])
        cgutils.raw_memcpy(builder, target, source, values[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    whole = types.int64
    return types.void(buffer, whole, whole, out, whole), emit


def _prefetch(typing: Any, buffer: Any, at: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        place = _place(context, builder, signature.args[0], values[0], values[1])
        builder.call(hint, [place, whole(0), whole(3), whole(1)])
        return context.get_dummy_value()

    return types.void(buffer, types.int64), emit


u8, u16, u32, u64 = (_load(bits) for bits in (8, 16, 32, 64))
copy: Any = intrinsic(_copy)
prefetch: Any = intrinsic(_prefetch)
