"""What all kernels stand on: unaligned loads, comparing, copying, and counting no references."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spark_repl
from spark_repl.binlog.kernels.jit import compiled, copy, jit, same, short, u64
from spark_repl.binlog.rows.images import skip_columns, skip_image
from spark_repl.binlog.rows.row_format import row_format
from spark_repl.tables.column import Column, ColumnType
from spark_repl.tables.source_table import SourceTable


def frozen(data: bytes) -> Any:
    return np.frombuffer(data, np.uint8)


# Intrinsics are for kernels only.
@jit
def loaded(data: Any, at: int, width: int) -> Any:
    return u64(data, at) if width == 8 else short(data, at, width)


@jit
def copied(data: Any, at: int, length: int, out: Any, to: int) -> None:
    copy(data, at, length, out, to)


@given(st.binary(min_size=8, max_size=40), st.data())
def test_integers_are_loaded_from_unaligned_places(data: bytes, drawn: Any) -> None:
    for width in (1, 2, 3, 4, 8):
        at = drawn.draw(st.integers(0, len(data) - width))
        expected = int.from_bytes(data[at : at + width], "little", signed=width == 8)
        assert loaded(frozen(data), at, width) == expected


@given(st.binary(max_size=30), st.integers(0, 30))
def test_same_compares_bytes_at_any_places(data: bytes, other: int) -> None:
    twice = data + b"\xff" + data
    assert same(frozen(twice), 0, len(data) + 1, len(data))
    if other < len(data):
        changed = bytearray(twice)
        changed[len(data) + 1 + other] ^= 0x10
        assert not same(frozen(bytes(changed)), 0, len(data) + 1, len(data))
        assert same(frozen(bytes(changed)), 0, len(data) + 1, other)


@given(st.binary(min_size=1, max_size=300), st.data())
def test_copied_writes_only_the_bytes_asked_for(data: bytes, drawn: Any) -> None:
    at = drawn.draw(st.integers(0, len(data)))
    length = drawn.draw(st.integers(0, len(data) - at))
    out = np.full(len(data) + 9, 7, np.uint8)
    copied(frozen(data), at, length, out, 4)
    assert out.tobytes() == b"\7" * 4 + data[at : at + length] + b"\7" * (len(out) - 4 - length)


@pytest.mark.skipif(not compiled, reason="without the compiler there are no references to count")
def test_a_kernel_that_counts_no_references_makes_no_array() -> None:
    """A leak, or a crash, if numba compiled it."""
    with pytest.raises(Exception, match="NRT required but not enabled"):
        jit(lambda n: np.zeros(n, np.int64))(3)


_T = ColumnType
_KINDS = st.sampled_from(
    [(_T.LONG, 0), (_T.VARCHAR, 40), (_T.VARCHAR, 400), (_T.BLOB, 3), (_T.BLOB, 4), (_T.TINY, 0)]
)


@given(st.lists(st.tuples(_KINDS, st.booleans(), st.binary(max_size=20)), min_size=1, max_size=20))
def test_steps_go_where_the_columns_go(drawn: Any) -> None:
    """An image without NULLs, walked by steps and column by column; cut it ends nowhere."""
    columns = [Column(f"c{i}", kind, meta, True) for i, ((kind, meta), _, _) in enumerate(drawn)]
    key = tuple(i for i, (_, in_key, _) in enumerate(drawn) if in_key)
    form = row_format(SourceTable("d", "t", tuple(columns), key))
    begin = (len(columns) + 7) // 8  # of NULLs
    image = bytes(begin)
    for wire, (_, _, data) in zip(form.wire.tolist(), drawn, strict=True):
        image += bytes(wire) if wire > 0 else len(data).to_bytes(-wire, "little") + data
    marks = np.full(max(2, len(form.bounds)), -1, np.int64)
    args = form, marks
    assert skip_image(frozen(image + b"more"), 0, len(image), *args) == len(image)
    places = [
        skip_columns(frozen(image), 0, begin, len(image), form.wire, 0, int(bound))
        for bound in form.bounds
    ]
    assert marks[: len(places)].tolist() == places or not key
    assert skip_image(frozen(image), 0, len(image) - 1, *args) == -1


def kernels() -> Iterator[tuple[str, bool, ast.FunctionDef]]:
    """(name, whether it may make arrays, definition) of every one."""
    for path in sorted(Path(spark_repl.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                decorators = {ast.unparse(one) for one in node.decorator_list}
                if decorators & {"jit", "jit_inlined", "jit_allocating"}:
                    yield f"{path.name}: {node.name}", "jit_allocating" in decorators, node


def test_kernels_that_make_arrays_say_so() -> None:
    """Else it shows when one is first called."""
    allocating = {node.name for _, may, node in kernels() if may}
    wrong, seen = [], 0
    for name, may, node in kernels():
        seen += 1
        called = {ast.unparse(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
        if not may:
            makes = {one for one in called if _MAKES.search(one) or one in allocating}
            wrong += [f"{name} calls {one}" for one in makes]
            wrong += [f"{name} returns an array"] * bool(_ARRAY.search(ast.unparse(node.returns)))
    assert seen > 100
    assert not wrong, "\n".join(wrong)


_MAKES = re.compile(
    r"\.(empty|zeros|full|ones|arange|concatenate|cumsum|copy|sort|astype|append)(_like)?$"
)
_ARRAY = re.compile("Ints|Bytes|Lengths|Bools|ndarray|NDArray")
