"""Finding table maps and row events: many tables, ids that collide, arrays that have to grow."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from spark_repl.binlog.events.row_events import find_events
from spark_repl.binlog.kernels import jit as kernels
from spark_repl.binlog.rows.walk import walk
from spark_repl.errors import DecodeError
from tests.unit.binlog.rows.test_walk_damage import ROW, event, rows

# More than there are slots at first, and ids that all want the same one.
TABLES = 700
STRIDE = 1 << 20


def table_map(number: int, name: bytes | None = None) -> bytes:
    name = name or b"t%d" % number
    columns = bytes((2, 3, 15, 2, 10, 0, 2))
    names = b"\x04\x05\x02id\x01v" + b"\x08\x01\x00" + b"\x02\x01\x2d"
    table = struct.pack("<Q", number * STRIDE)
    return event(19, table + b"\x01d\0" + bytes((len(name),)) + name + b"\0" + columns + names)


def row(number: int, value: int, kind: int = 30) -> bytes:
    image = b"\0" + value.to_bytes(4, "little") + b"\x03abc"
    return rows(kind, image, table=number * STRIDE)


def walked(*transactions: bytes) -> dict[str, list[tuple[int, int]]]:
    """(transaction, id) of the rows by table."""
    ends = np.cumsum([len(one) for one in transactions])
    starts = np.concatenate(([0], ends[:-1]))
    data = np.frombuffer(b"".join(transactions), np.uint8)
    found = walk(data, starts, ends, np.arange(len(ends)), False)
    return {
        images.definition.name: list(
            zip(
                images.transaction.tolist(),
                images.decode(np.arange(len(images.flags))).column("id").to_pylist(),
                strict=True,
            )
        )
        for images in found
    }


def test_as_many_tables_as_may_be_in_one_transaction() -> None:
    numbers = range(TABLES)
    one = b"".join(table_map(i) for i in numbers) + b"".join(row(i, i) for i in numbers)
    other = b"".join(table_map(i) + row(i, TABLES + i) for i in reversed(numbers))
    found = walked(one, other)
    assert found == {f"d.t{i}": [(0, i), (1, TABLES + i)] for i in numbers}


def test_more_events_than_their_bytes_let_expect() -> None:
    one = table_map(1) + b"".join(row(1, i) for i in range(3000))
    assert walked(one, one) == {"d.t1": [(t, i) for t in range(2) for i in range(3000)]}


def test_an_id_stands_for_the_map_noted_last() -> None:
    """As when a table is altered: each row goes by the map before it, in its own transaction."""
    first = table_map(1, b"a") + row(1, 1) + table_map(1, b"b") + row(1, 2)
    second = table_map(1, b"a") + row(1, 3)
    assert walked(first, second) == {"d.a": [(0, 1), (1, 3)], "d.b": [(0, 2)]}


def test_a_map_of_an_earlier_transaction_is_none() -> None:
    with pytest.raises(DecodeError, match="no TABLE_MAP before it"):
        walked(table_map(1) + row(1, 1), row(1, 2))


def test_a_map_of_another_table_with_the_same_slot_is_none() -> None:
    with pytest.raises(DecodeError, match="no TABLE_MAP before it"):
        walked(table_map(1) + row(2, 1))


def test_the_slots_of_one_transaction_may_all_be_taken() -> None:
    """32 slots for a single transaction: the row of an id without map must not search for ever."""
    maps = b"".join(table_map(i) for i in range(32))
    assert walked(maps + row(31, 5)) == {"d.t31": [(0, 5)]}
    with pytest.raises(DecodeError, match="no TABLE_MAP before it"):
        walked(maps + row(77, 5))


def test_events_come_with_their_place_in_the_log() -> None:
    data = np.frombuffer(table_map(1) + row(1, 1) + row(1, 2, 32), np.uint8)
    code, _, _, maps, events = find_events(data, np.array([0]), np.array([len(data)]), False)
    assert code == kernels.DONE
    assert len(maps) == 1
    assert events[:, kernels.KIND].tolist() == [kernels.WRITE, kernels.DELETE]
    assert np.diff(events[:, kernels.BEGIN]).tolist() == [len(row(1, 1))]
    assert (events[:, kernels.END] - events[:, kernels.BEGIN] == 2 + len(ROW)).all()
