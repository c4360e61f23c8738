"""AddActions: the ``add`` action of each data file that is live at a version, by path.

The files of a checkpoint are kept as Arrow rows, sorted by path. A dict has the changes of later
commits. So a table of a million files needs memory in proportion to its checkpoint, and a commit
costs in proportion to its changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from . import log_checkpoints
from .file_rows import ADD, to_actions, to_rows, without_nulls
from .log_checkpoints import of_checkpoint
from .log_state import LiveTotals, LogSegment, totals_of

Action = dict[str, Any]
Longs = npt.NDArray[np.int64]

_SIZES = pa.schema(
    [
        *map(ADD.field, ("path", "partitionValues", "size", "stats")),
        pa.field("deleted", pa.int64()),
    ]
)
_FEW = 1_000
"""number of changes kept beside the rows, or an eighth of the rows if that is more"""
_BATCH = 10_000


class AddActions(Mapping[str, Action]):
    """An immutable mapping of paths to ``add`` actions. ``after`` returns the mapping of a later
    version."""

    def __init__(self, rows: pa.Table | None, changed: Mapping[str, Action]) -> None:
        """Hold ``rows``, the ``add`` actions of a checkpoint sorted by path, and ``changed``, the
        actions of other files by path."""
        self._rows, self._changed = rows, changed
        self._paths = _Texts(rows["path"]) if rows is not None else ()
        self._hidden = frozenset[int]()
        """rows whose file is no longer live, or has its action in ``changed``"""

    def __len__(self) -> int:
        return len(self._paths) - len(self._hidden) + len(self._changed)

    def __getitem__(self, path: str) -> Action:
        if path in self._changed:
            return self._changed[path]
        at = self._at(path)
        if self._rows is None or at < 0 or at in self._hidden:
            raise KeyError(path)
        return to_actions(self._rows.slice(at, 1))[0]

    def __iter__(self) -> Iterator[str]:
        for rows in self._unchanged():
            yield from rows["path"].to_pylist()
        yield from self._changed

    def values(self) -> ValuesView[Action]:
        """Return the actions, which are read in batches."""
        return _Values(self)

    def items(self) -> ItemsView[str, Action]:
        """Return paths and actions, which are read in batches."""
        return _Items(self)

    def each(self) -> Iterator[Action]:
        """Yield the actions in the order of the paths."""
        for rows in self._unchanged():
            yield from to_actions(rows)
        yield from self._changed.values()

    def paths(self) -> pa.Array:
        """Return the paths [files] in the order in which they are iterated over."""
        parts = [_one_array(rows["path"]) for rows in self._unchanged()]
        return pa.concat_arrays([*parts, pa.array(list(self._changed), pa.string())])

    def vectors(self) -> DeletionVectors:
        """Return the deletion vectors of the files that have one, by index in ``paths``."""
        places, parts, begin = list[Longs](), list[pa.Array](), 0
        for rows in self._unchanged():
            column = _one_array(rows["deletionVector"])
            places.append(np.flatnonzero(np.asarray(column.is_valid())) + begin)
            parts.append(column.drop_null())
            begin += len(rows)
        changed = [add.get("deletionVector") for add in self._changed.values()]
        places.append(np.flatnonzero([bool(vector) for vector in changed]) + begin)
        parts.append(pa.array(filter(None, changed), ADD.field("deletionVector").type))
        return DeletionVectors(np.concatenate(places), pa.concat_arrays(parts))

    def sizes(self) -> pa.Table:
        """Return a row for each file, in the order of ``paths``, without reading the actions one by
        one. Columns: path, partitionValues, size (in bytes), stats, deleted (number of rows)."""
        parts = list[pa.Table]()
        for rows in self._unchanged():
            deleted = pc.fill_null(pc.struct_field(rows["deletionVector"], "cardinality"), 0)
            parts.append(rows.select(_SIZES.names[:-1]).append_column(_SIZES[-1], deleted))
        adds = self._changed.values()
        vectors = [add.get("deletionVector") or {} for add in adds]
        changed = (
            [add["path"] for add in adds],
            [list((add.get("partitionValues") or {}).items()) for add in adds],
            [add["size"] for add in adds],
            [add.get("stats") for add in adds],
            [vector.get("cardinality", 0) for vector in vectors],
        )
        parts.append(pa.table(list(map(pa.array, changed, _SIZES.types)), _SIZES))
        return pa.concat_tables(parts).combine_chunks()

    def after(self, commits: Iterable[Sequence[Action]]) -> AddActions:
        """Return the files after commits, each of which has these actions. Within a commit a file
        may be removed and added again, with another deletion vector."""
        changed, hidden = dict(self._changed), set(self._hidden)
        for actions in commits:
            for action in actions:
                if "remove" in action:
                    path = action["remove"]["path"]
                    changed.pop(path, None)
                    hidden.add(self._at(path))
            for action in actions:
                if "add" in action:
                    path = action["add"]["path"]
                    changed[path] = action["add"]
                    hidden.add(self._at(path))
        result = AddActions(self._rows, changed)
        result._hidden = frozenset(hidden - {-1})
        many = len(changed) + len(hidden) > max(_FEW, len(self._paths) // 8)
        return result._folded() if many else result

    def totals(self) -> LiveTotals:
        """Return the number and bytes of the files, and of their deleted rows."""
        totals = totals_of(self._changed.values())
        for rows in self._unchanged():
            deleted = pc.fill_null(pc.struct_field(rows["deletionVector"], "cardinality"), 0)
            totals = LiveTotals(
                totals.files + len(rows),
                totals.size_bytes + pc.sum(rows["size"]).as_py(),
                totals.vectors + pc.sum(pc.greater(deleted, 0)).as_py(),
                totals.deleted_rows + pc.sum(deleted).as_py(),
            )
        return totals

    def _at(self, path: str) -> int:
        """Return the place of a path in the rows, -1 if it has none."""
        at = bisect_left(self._paths, path)
        return at if at < len(self._paths) and self._paths[at] == path else -1

    def _unchanged(self) -> Iterator[pa.Table]:
        """Yield the rows of files that are still live, in batches."""
        if self._rows is None:
            return
        rows = self._rows
        if self._hidden:
            mask = np.ones(len(rows), bool)
            mask[list(self._hidden)] = False
            rows = rows.filter(pa.array(mask))
        for begin in range(0, len(rows), _BATCH):
            yield rows.slice(begin, _BATCH)

    def _folded(self) -> AddActions:
        """Return the mapping with the changes merged into the rows."""
        return from_rows([*self._unchanged(), to_rows(self._changed.values(), ADD)])


class DeletionVectors(Mapping[int, Action]):
    """Deletion vectors by the place of their file. Each is made a dict when it is read: tasks get
    the vectors of all files, and read few. ``rows``: the vectors, in the order of the places."""

    def __init__(self, places: Longs, rows: pa.Array) -> None:
        self._places, self.rows = places, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[int]:
        return iter(self._places.tolist())

    def __getitem__(self, place: int) -> Action:
        at = int(np.searchsorted(self._places, place))
        if at == len(self._places) or self._places[at] != place:
            raise KeyError(place)
        return without_nulls(self.rows[at].as_py())


def from_rows(tables: Iterable[pa.Table]) -> AddActions:
    """Return the files of ``add`` rows, which have different paths."""
    rows = pa.concat_tables([*tables, ADD.empty_table()])
    if len(rows) <= _FEW:
        return AddActions(None, {add["path"]: add for add in to_actions(rows)})
    # Python compares text as UTF-8 bytes are ordered, which is how Arrow sorts.
    return AddActions(rows.sort_by("path").combine_chunks(), {})


def live_files(folder: str, version: int) -> AddActions:
    """Return the live data files at a version. Raise OSError, and TargetError if the log does not
    reach back to it."""
    segment = LogSegment(folder, log_checkpoints.newest(folder, version), version)
    return files_of(segment, segment.commits())


def files_of(segment: LogSegment, commits: Iterable[Sequence[Action]]) -> AddActions:
    """Return the live data files after a segment's ``commits``. Raise OSError and TargetError."""
    return from_rows(of_checkpoint(segment.checkpoint, "add", ADD)).after(commits)


class _Texts(Sequence[str]):
    """A column of texts that converts an item when it is read."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._array = _one_array(column)

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, at: Any) -> Any:
        return self._array[at].as_py()


class _Values(ValuesView[Action]):
    def __init__(self, files: AddActions) -> None:
        super().__init__(files)
        self._files = files

    def __iter__(self) -> Iterator[Action]:
        return self._files.each()


class _Items(ItemsView[str, Action]):
    def __init__(self, files: AddActions) -> None:
        super().__init__(files)
        self._files = files

    def __iter__(self) -> Iterator[tuple[str, Action]]:
        return ((add["path"], add) for add in self._files.each())


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
