"""One table between looks: the keys not yet shown to be equal on both sides.

A look is one reading of the source, and a cut that contains all that the source had executed then.
A key that is equal at a look is done.

A differing key is named after several looks in a row at which the source's rows stayed equal, and
the target's rows stayed in the same files and places. Then the applier has not changed them from
one cut to the next, and the source was read between those cuts. A key without rows in the target
has no place to compare: it is named after more looks.

``repairs_of`` returns the repair of a table: a request for the rows of the named keys, or why the
table needs a new copy.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..binlog.types.forms import Forms
from ..copy.repair_request import KEY, THERE, RepairRequest, key_types
from ..copy.source_tables import literal, quoted
from ..tables.column import BINARY, CHARACTER_TYPES, NUMERIC_TYPES, ColumnType
from ..write.rows.certain_rows import key_digests
from .differences import Differing, differences
from .digest_sums import Keys, Sums, differing, sums
from .source_range import RangeRows, RangeTask
from .target_files import FileSet, places
from .work_folder import load

if TYPE_CHECKING:
    from ..config import Config
    from ..tables.target_table import TargetTable
    from .row_sample import SampledRows

NAMED_AFTER, NAMED_AFTER_MISSING = 2, 5
"""looks after the first one with the same difference; the second if the target lacks the key"""
_KEYS_IN_A_STATEMENT, _KEYS_ASKED_FOR = 500, 20_000
_NONE = np.zeros(0, np.uint64)


@dataclass(frozen=True)
class _Seen:
    """State of each remaining key at a look; ``places``: sums of the places of the target's
    rows."""

    keys: Keys
    source: Sums
    target: Sums
    places: Sums


@dataclass
class TableCheck:
    """The state of one table's comparison.

    ``ranges``: WHERE clauses that together read all rows, or the ``sample``; ``rows``: the number
    of the source's rows in them, at the first look; ``rate``: rows a second, 0 for no limit;
    ``mask_key``: the secret key of the definition's masks; ``row_limit``: the number of keys whose
    rows are fetched from each range. ``changed``: why the looks at the table so far no longer
    count.
    """

    config: Config
    definition: TargetTable
    ranges: tuple[str, ...]
    work: str
    sample: SampledRows | None = None
    rate: float = 0
    mask_key: bytes = field(default=b"", repr=False)
    row_limit: int = 0
    rows: int = 0
    looks: int = 0
    changed: str = ""
    values: pa.Table | None = None
    """rows of the source at the last look, of remaining keys"""
    at: FileSet | None = None
    left: Keys = field(default_factory=lambda: _NONE)
    times: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """number of looks in a row at which each remaining key showed the same difference"""
    _range: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """number of the range of each remaining key; -1: read by its value, -2: unknown range"""
    _literal_keys: tuple[str, ...] = ()
    _seen: _Seen | None = None

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def named(self) -> Keys:
        if self._seen is None:
            return _NONE
        return self.left[self._is_named(self._seen)]

    def differing(self) -> Differing:
        """Return the keys to report, with the numbers of their rows at the last look."""
        if (seen := self._seen) is None:
            return Differing(_NONE, np.zeros(0, np.int64), np.zeros(0, np.int64))
        return Differing(self.left, seen.source.count, seen.target.count).take(self._is_named(seen))

    def differences(self, most: int) -> list[dict[str, Any]]:
        """Describe at most ``most`` of the keys to report."""
        if (at := self.at) is None:
            return []

        def target_rows(keys: Keys) -> list[pa.Table]:
            return self.target_rows(keys, at)

        return differences(self.definition, self.differing(), self.values, target_rows, most)

    def _is_named(self, seen: _Seen) -> npt.NDArray[np.bool_]:
        missing = seen.target.count == 0
        return np.asarray(self.times >= np.where(missing, NAMED_AFTER_MISSING, NAMED_AFTER))

    @property
    def is_open(self) -> bool:
        return self.looks == 0 or len(self.named) < len(self.left)

    def tasks(self) -> list[RangeTask]:
        """Return the tasks of the next look: all ranges at first, later those of the remaining
        keys."""
        if self.looks == 0:
            outs = [self._out(number) for number in range(len(self.ranges))]
            pairs = zip(self.ranges, outs, strict=True)
            return [self._task(where, out) for where, out in pairs if not os.path.exists(out)]
        keep, alone = self.left[self._range != -1], self.left[self._range == -1]
        tasks = [self._task(where, "", keep) for where in self._within(self._range)]
        return tasks + [self._task(where, "", alone) for where in self._alone(self._range)]

    def wheres(self, keys: Keys) -> tuple[str, ...]:
        """Return WHERE clauses that find all of the source's rows of some remaining keys."""
        chosen = self._range[np.isin(self.left, keys)]
        return (*self._within(chosen), *self._alone(chosen))

    def _within(self, chosen: npt.NDArray[np.int64]) -> list[str]:
        """Return the ranges of keys."""
        unknown = bool((chosen == -2).any())
        numbers = range(len(self.ranges)) if unknown else np.unique(chosen[chosen >= 0])
        return [self.ranges[number] for number in numbers]

    def _alone(self, chosen: npt.NDArray[np.int64]) -> list[str]:
        """Return WHERE clauses that find the keys that are read by their values."""
        if not (chosen == -1).any():
            return []
        column = quoted(self.definition.columns[self.definition.primary_key[0]].name)
        literals, step = self._literal_keys, _KEYS_IN_A_STATEMENT
        lists = (", ".join(literals[at : at + step]) for at in range(0, len(literals), step))
        return [f"WHERE {column} IN ({values})" for values in lists]

    def _task(self, where: str, out: str, keep: Keys | None = None) -> RangeTask:
        forms = Forms.of_target(self.config.target)
        source = self.config.source
        return RangeTask(
            source,
            self.definition,
            forms,
            where,
            out,
            keep,
            self.rate,
            self.mask_key,
            self.row_limit,
        )

    def _out(self, number: int) -> str:
        return os.path.join(self.work, f"s-{number}.npy")

    def compare(self, read: Sequence[RangeRows], at: FileSet) -> None:
        """Compare the rows read from the source with the files of a cut that was published after
        the reading."""
        if self.at is not None and self.at.schema_string != at.schema_string:
            self.changed = "its columns were changed while it was compared"
            return
        self.at = at
        if self.looks == 0:
            self._first(at)
        else:
            self._next(read, at)
        self.looks += 1

    def _first(self, at: FileSet) -> None:
        ranges = [load(self._out(number)) for number in range(len(self.ranges))]
        self.rows = sum(part.shape[1] for part in ranges)
        self.left = differing(ranges, at.live(self.work, self.definition.primary_key))
        self.times = np.zeros(len(self.left), np.int64)
        source = Sums(np.zeros(len(self.left), np.int64), np.zeros(len(self.left), np.uint64))
        self._range = np.full(len(self.left), -2, np.int64)
        for number, part in enumerate(ranges if len(self.left) else ()):
            target_sums = sums(self.left, part[0], part[1])
            source = source.plus(target_sums)
            self._range[target_sums.count > 0] = number
        target, lie = self._target(self.left, at)
        self._seen = _Seen(self.left, source, target, lie)
        alone = self.left[source.count == 0]  # in no known range: read by their values
        if len(alone) and (literals := self._literals(alone, at)):
            self._literal_keys, self._range[source.count == 0] = literals, -1

    def _literals(self, keys: Keys, at: FileSet) -> tuple[str, ...]:
        """Return values of the key's first column as SQL literals.

        Return () if there are too many, or a statement may not find them: BINARY is filled up with
        zeros, and a masked value is a hash.
        """
        if not self.definition.primary_key or len(keys) > _KEYS_ASKED_FOR:
            return ()
        if self.definition.masks_order:
            return ()
        number = self.definition.primary_key[0]
        column = self.definition.columns[number]
        text = column.type in CHARACTER_TYPES
        inexact = column.type in (ColumnType.FLOAT, ColumnType.DOUBLE) or (
            column.type == ColumnType.STRING and column.collation == BINARY
        )
        if not (text or column.type in NUMERIC_TYPES) or inexact:
            return ()
        literals = set[str]()
        for rows in self.target_rows(keys, at):
            try:
                values = rows.column(number).to_pylist()
            except UnicodeDecodeError:  # no literal finds bytes that are no UTF-8
                return ()
            for value in values:
                data = value if column.collation == BINARY else str(value).encode()
                literals.add(literal(column, data.hex() if text else value))
        return tuple(sorted(literals))

    def target_rows(self, keys: Keys, at: FileSet) -> list[pa.Table]:
        """Return the target's rows of some keys, by file."""
        key, schema = self.definition.primary_key, self.definition.arrow_schema()
        return at.rows_with(self.work, keys, key, schema)

    def _target(self, keys: Keys, at: FileSet) -> tuple[Sums, Sums]:
        target = lie = sums(keys, _NONE, _NONE)
        if not len(keys):
            return target, lie
        for path, digested, alive in at.live(self.work, self.definition.primary_key):
            rows = alive[np.isin(digested[0][alive], keys)]
            target = target.plus(sums(keys, digested[0][rows], digested[1][rows]))
            lie = lie.plus(sums(keys, digested[0][rows], places(path, rows)))
        return target, lie

    def _next(self, read: Sequence[RangeRows], at: FileSet) -> None:
        before = self._seen
        assert before is not None
        digested = np.concatenate(
            [np.zeros((2, 0), np.uint64), *(part.digests for part in read)], axis=1
        )
        source = sums(self.left, digested[0], digested[1])
        target, lie = self._target(self.left, at)
        same = source.same(before.source) & lie.same(before.places)
        times = np.where(same, self.times + 1, 0)
        differs = ~source.same(target)
        parts = [part.values for part in read if part.values is not None]
        self.values = pa.concat_tables(parts) if parts else None
        self.left, self.times = self.left[differs], times[differs]
        self._seen = _Seen(self.left, source.take(differs), target.take(differs), lie.take(differs))
        self._range = self._range[differs]


Repairs = RepairRequest | str
"""the request, or the reason for a new copy"""

_KEYS_MOST = 10_000


def repairs_of(check: TableCheck) -> Repairs:
    """Return the repair of a table that has keys to report."""
    key, named, at = check.definition.primary_key, check.named, check.at
    if not key:
        return "it has no key"
    if len(named) > _KEYS_MOST:
        return f"more than {_KEYS_MOST:,} rows differ"
    assert at is not None
    schema = check.definition.arrow_schema()
    fields = [(str(i), schema.field(number).type) for i, number in enumerate(key)]
    existing = [_keys(rows, key) for rows in check.target_rows(named, at)]
    target_keys = np.concatenate([named[:0], *(part.column(KEY).to_numpy() for part in existing)])
    alone = np.setdiff1d(named, target_keys)
    nothing = [pa.nulls(len(alone), kind) for _, kind in fields]
    lacking = [pa.array(alone), pa.array(np.zeros(len(alone), bool)), *nothing]
    whole = pa.schema([(KEY, pa.uint64()), (THERE, pa.bool_()), *fields])
    keys = pa.concat_tables([*existing, pa.Table.from_arrays(lacking, schema=whole)])
    return RepairRequest(check.name, check.wheres(named), key_types(check.definition), keys)


def _keys(rows: pa.Table, key: tuple[int, ...]) -> pa.Table:
    """Return the keys of rows that the target has."""
    exists = pa.array(np.ones(rows.num_rows, bool))
    values = [rows.column(number) for number in key]
    names = [KEY, THERE, *map(str, range(len(key)))]
    return pa.Table.from_arrays([pa.array(key_digests(rows, key)), exists, *values], names=names)
