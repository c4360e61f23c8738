"""Cascade codes: rows as numbers for the cascade kernel. The values of keys' columns become
codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...binlog.charsets.collation_compare import comparable
from ...decode.cascades.cascade_simulation import CASCADE, NO_ACTION, SET_NULL
from ...decode.cascades.row_chains import Graph
from ...delta.files.delta_columns import one_chunk
from ...errors import DecodeError
from ..files.key_index import value_codes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...decode.cascades.cascade_plan import CascadePlan

Longs = npt.NDArray[np.int64]
Place = tuple[int, int]
"""number of a table and of one of its columns"""

_ACTIONS = {"": NO_ACTION, "CASCADE": CASCADE, "SET NULL": SET_NULL}


@dataclass(frozen=True)
class Domain:
    """The values of columns that are compared with each other: ``values[i]`` has the code
    ``first + i``."""

    first: int
    values: pa.Array

    def values_of(self, codes: Longs) -> pa.Array:
        """Return array [n] of the values of codes; -1 is NULL."""
        return self.values.take(pa.array(codes - self.first, mask=codes < 0))


@dataclass(frozen=True)
class Codes:
    """Codes of the rows of all tables. ``of``: by table, int64[rows, places]; ``lookups``: by
    number of a key, int64[values, columns], values that were looked up; ``domains``: of each column
    that is in a key; ``place``: the place of each such column in the codes; ``classes``: equal for
    codes that are equal in a key."""

    of: tuple[Longs, ...]
    lookups: Mapping[int, Longs]
    domains: Mapping[Place, Domain]
    place: Mapping[Place, int]
    classes: Longs
    width: int


def codes_of(plan: CascadePlan, rows: Sequence[pa.Table], lookups: Mapping[int, pa.Table]) -> Codes:
    """Return the codes of ``rows``, those of each of the plan's tables, and of ``lookups``: by
    number of a key, values of the columns that it references. Raise DecodeError with the table if
    values can't be compared."""
    tables = list(plan.definitions)
    place = _places(plan)
    width = 1 + max(place.values())
    of = [np.full((len(part), width), -1, np.int64) for part in rows]
    for number, part in enumerate(rows):
        of[number][:, 0] = _rest(plan, number, part, place)
    lookup_codes = {
        number: np.zeros((len(values), values.num_columns), np.int64)
        for number, values in lookups.items()
    }
    domains: dict[Place, Domain] = {}
    classes, first = [np.zeros(0, np.int64)], 0
    for members in plan.domains:
        columns = [(tables.index(name), c) for name, c in members]
        targets = [(one_chunk(rows[t].column(c)), of[t][:, place[t, c]]) for t, c in columns]
        for number, values in lookups.items():
            key = plan.keys[number]
            for i, c in enumerate(key.referenced):
                if (tables.index(key.parent), c) in columns:
                    targets.append((one_chunk(values.column(i)), lookup_codes[number][:, i]))
        encoded = pa.concat_arrays([values for values, _ in targets]).dictionary_encode()
        codes = encoded.indices.fill_null(-1 - first).to_numpy().astype(np.int64) + first
        begin = 0
        for _, out in targets:
            out[:] = codes[begin : begin + len(out)]
            begin += len(out)
        domain = Domain(first, encoded.dictionary)
        domains.update(dict.fromkeys(columns, domain))
        classes.append(_classes(plan, members[0], domain))
        first += len(encoded.dictionary)
    return Codes(tuple(of), lookup_codes, domains, place, np.concatenate(classes), width)


def _places(plan: CascadePlan) -> dict[Place, int]:
    """Return the place in the codes of each column of a key."""
    place = {}
    for number, name in enumerate(plan.definitions):
        own_columns = sorted(c for domain in plan.domains for table, c in domain if table == name)
        place.update({(number, column): 1 + i for i, column in enumerate(own_columns)})
    return place


def _rest(plan: CascadePlan, number: int, rows: pa.Table, place: Mapping[Place, int]) -> Longs:
    """Return codes of the columns that identify a table's rows and are in no key."""
    definition = plan.definitions[list(plan.definitions)[number]]
    wanted = definition.primary_key or range(len(definition.columns))
    columns = [rows.column(c) for c in wanted if (number, c) not in place]
    if not columns or not len(rows):
        return np.zeros(len(rows), np.int64)
    if definition.primary_key:  # -0.0 is 0.0 in a key
        columns = [
            pa.chunked_array([np.asarray(one_chunk(c)) + 0.0])
            if pa.types.is_floating(c.type)
            else c
            for c in columns
        ]
    names = [str(i) for i in range(len(columns))]
    return value_codes(pa.Table.from_arrays(columns, names=names))[0].astype(np.int64)


def _classes(plan: CascadePlan, member: tuple[str, int], domain: Domain) -> Longs:
    try:
        same = comparable(domain.values, plan.collation(member))
    except DecodeError as error:
        raise error.at(table=member[0]) from None
    return np.asarray(same.dictionary_encode().indices.to_numpy()) + np.int64(domain.first)


def graph_of(plan: CascadePlan, codes: Codes) -> Graph:
    """Return the plan's keys for the kernel."""
    tables, count = list(plan.definitions), len(plan.keys)
    numbers = {name: number for number, name in enumerate(tables)}
    parent = np.array([numbers[key.parent] for key in plan.keys], np.int64)
    order = np.argsort(parent, kind="stable")
    assert (order == np.arange(count)).all(), "keys are ascending by parent"
    most = max(len(key.referenced) for key in plan.keys)
    referenced, referencing = (np.full((count, most), -1, np.int64) for _ in range(2))
    identity = np.zeros((len(tables), codes.width), bool)
    own: list[list[int]] = [[] for _ in tables]
    for f, key in enumerate(plan.keys):
        child = numbers[key.child]
        own[child].append(f)
        for k, (a, b) in enumerate(zip(key.referencing, key.referenced, strict=True)):
            referencing[f, k] = codes.place[child, a]
            referenced[f, k] = codes.place[numbers[key.parent], b]
    for number, name in enumerate(tables):
        definition = plan.definitions[name]
        identity[number, 0] = True
        for column in definition.primary_key or range(len(definition.columns)):
            if (number, column) in codes.place:
                identity[number, codes.place[number, column]] = True
    chains = np.full((len(tables), max(1, *map(len, own))), -1, np.int64)
    for number, keys in enumerate(own):
        chains[number, : len(keys)] = keys
    return Graph(
        begin=np.searchsorted(parent, np.arange(len(tables) + 1)).astype(np.int64),
        width=np.array([len(key.referenced) for key in plan.keys], np.int64),
        referenced=referenced,
        referencing=referencing,
        on_delete=np.array([_ACTIONS[key.key.on_delete] for key in plan.keys], np.int64),
        on_update=np.array([_ACTIONS[key.key.on_update] for key in plan.keys], np.int64),
        own=chains,
        identity=identity,
        keyed=np.array([bool(plan.definitions[name].primary_key) for name in tables]),
        tracked=np.array([name in plan.children for name in tables]),
        classes=codes.classes,
    )
