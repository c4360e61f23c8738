"""Row changes as Arrow record batches: the results of ``read_changes``, one table at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..binlog.json.diff import describe, pending_diffs
from ..binlog.rows.change_bits import EXISTS, MOVED
from ..binlog.rows.partial_rows import PartialImages
from ..errors import DecodeError
from ..position import RelayPosition

if TYPE_CHECKING:
    from ..binlog.rows.row_images import RowImages
    from ..binlog.types.forms import Forms

Longs = npt.NDArray[np.int64]

_BATCH_ROWS = 1 << 16
_WORDS = pa.array(["INSERT", "UPDATE", "DELETE"])
_NAMES = (
    "table", "operation", "gtid", "position", "commit_time", "before", "after", "before_absent",
    "after_absent", "after_diffs",
)  # fmt: skip


def table_batches(
    images: RowImages,
    records: Any,
    gtids: pa.Array,
    ordinals: Longs,
    forms: Forms,
    *,
    rows_query: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield batches in which each pair of entries (``walk``, pairs) is one row with both images.

    ``records`` and ``gtids`` (StringArray) belong to all transactions; ``ordinals`` are the numbers
    of the images' transactions among them.
    """
    names = [*_NAMES, "rows_query"] if rows_query else list(_NAMES)
    heads = np.flatnonzero(images.flags & MOVED == 0)
    paired = np.append(images.flags[1:] & MOVED != 0, False)[heads]
    for at in range(0, len(heads), _BATCH_ROWS):
        head, pair = heads[at : at + _BATCH_ROWS], paired[at : at + _BATCH_ROWS]
        inserted = images.flags[head] == EXISTS
        after = np.where(inserted, head, np.where(pair, head + 1, -1))
        before = np.where(inserted, -1, head)
        owner = ordinals[images.transaction[head]]
        operation = pa.array(np.where(inserted, 0, np.where(pair, 1, 2)).astype(np.int8))
        first = np.append(True, owner[1:] != owner[:-1])  # they come in the log's order
        gtid, place = gtids.take(pa.array(owner[first])), np.cumsum(first) - 1
        try:
            old, old_absent, _ = _side(images, before, forms)
            new, new_absent, diffs = _side(images, after, forms)
        except DecodeError as error:
            if error.row is not None:
                start = records["position"][owner[error.row]]
                error.at(position=RelayPosition.unpack(int(start)))
            raise
        yield pa.RecordBatch.from_arrays(
            [
                _constant(images.definition.name, len(head)),
                pa.DictionaryArray.from_arrays(operation, _WORDS),
                pa.DictionaryArray.from_arrays(pa.array(place.astype(np.int32)), gtid),
                pa.array(records["position"][owner].astype(np.int64)),
                pa.array(records["commit_time"][owner].astype(np.int64)).cast(
                    pa.timestamp("us", "UTC")
                ),
                old, new, old_absent, new_absent, diffs,
                *([images.rows_query(head)] if rows_query else []),
            ],
            names=names,
        )  # fmt: skip


def _constant(text: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array([text]))


def _side(images: RowImages, entries: Longs, forms: Forms) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return (struct of the images of ``entries``, -1 for none; absent columns; JSON diffs), [n]
    each."""
    fields = [field.with_nullable(True) for field in images.definition.arrow_schema()]
    none = entries < 0
    if none.all():
        rows = pa.nulls(len(entries), pa.struct(fields))
    else:
        mask = pa.array(none) if none.any() else None
        arrays = images.values(entries, forms)
        rows = pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)
    if not isinstance(images, PartialImages):
        nothing = pa.nulls(len(entries), pa.list_(pa.string()))
        return rows, nothing, nothing
    existing = np.flatnonzero(~none)
    absent, diffs = _lacks(images, entries[existing])
    index = np.zeros(len(entries), np.int64)
    index[existing] = np.arange(len(existing))
    back = pa.array(index, mask=none)
    return rows, absent.take(back), diffs.take(back)


def _lacks(images: PartialImages, entries: Longs) -> tuple[pa.Array, pa.Array]:
    """Return the names of the columns that images lack, and the JSON diffs in words; NULL for
    none."""
    columns = images.definition.columns
    present, pending = images.presence(entries)
    names = np.array([column.name for column in columns], object)
    distinct = present.dictionary_encode()
    lists = [_absent(bitmap, names) for bitmap in distinct.dictionary.to_pylist()]
    absent = pa.array(lists, pa.list_(pa.string())).take(distinct.indices)
    words: list[list[str] | None] = [None] * len(entries)
    for row in np.flatnonzero(np.asarray(pending.is_valid())):
        words[row] = [
            text
            for column, data in pending_diffs(pending[int(row)].as_py())
            for text in describe(data, columns[column].name)
        ]
    return absent, pa.array(words, pa.list_(pa.string()))


def _absent(bitmap: bytes, names: Any) -> Sequence[str] | None:
    present = np.unpackbits(
        np.frombuffer(bitmap, np.uint8), count=len(names), bitorder="little"
    ).astype(bool)
    return None if present.all() else list(names[~present])
