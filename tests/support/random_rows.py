"""Random rows of every type that a column of the target has, in a Delta table of many small files:
values at the edges of types, texts with characters of every plane, and NULLs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from spark_repl.delta.files import deletion_vector
from spark_repl.delta.files.delta_columns import Columns, schema_json, write_file
from spark_repl.delta.files.partitions import PROPERTIES
from spark_repl.delta.files.statistics import loosened
from spark_repl.delta.log.log_replay import Action
from spark_repl.delta.log.stamp import Stamp
from spark_repl.delta.log.table_snapshot import NewTable
from spark_repl.write.tables.target_options import TargetOptions
from tests.support.local_delta import LocalDelta
from tests.support.readers import COMPARISONS, Condition

CHARACTERS = (
    "a", "b", "Z", "0", " ", "é", "Ω", "高", "\ud7ff", "\ue000", "\ufffd", "\uffff", "\U0001f600",
    "\U00020bb7", "\U0002a6b2", "\U0003106c", "\U0010fffd", "\U0010ffff", "\x00", "\x7f", "\n",
    "'", '"', "\\", "%", "/", "=",
)  # fmt: skip
_EPOCH, _FIRST_DAY, _LAST_DAY = datetime(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)
_YEAR_1, _YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999
_EXACT = Context(prec=60)


def _text(random: Random) -> str:
    if random.random() < 0.3:  # around the length at which bounds are cut
        return random.choice(CHARACTERS) * random.choice((0, 31, 32, 33, 40))
    head = "x" * random.choice((0, 0, 0, 30, 31, 32))
    return head + "".join(random.choices(CHARACTERS, k=random.randrange(5)))


def _integer(bits: int) -> Callable[[Random], int]:
    end = 2 ** (bits - 1)
    edges = (-end, end - 1, 0, end // 2 + 1, 2 ** (bits * 53 // 64) + 1)
    return lambda random: random.choice((*edges, random.randrange(-9, 9)))


def _decimal(precision: int, scale: int) -> Callable[[Random], Decimal]:
    most = 10**precision - 1

    def value(random: Random) -> Decimal:
        number = random.choice((0, 1, -most, most, random.randint(-most, most)))
        return Decimal(number).scaleb(-scale, _EXACT)

    return value


def _double(random: Random) -> float:
    edges = (0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308)
    random_one = random.uniform(-1, 1) * 10.0 ** random.randrange(-300, 300)
    return random.choice((*edges, 0.1, 1.0000000000000002, 2.0**53, random_one, random_one))


def _float(random: Random) -> float:
    edges = (0.0, -0.0, 1e-45, 3.4028234663852886e38, 0.1, random.uniform(-9, 9))
    (number,) = struct.unpack("f", struct.pack("f", random.choice(edges)))
    return float(number)


def _day(random: Random) -> date:
    days = _FIRST_DAY.toordinal(), _LAST_DAY.toordinal()
    edges = (_FIRST_DAY, _LAST_DAY, date(1970, 1, 1), date(1969, 12, 31), date(1582, 10, 4))
    return random.choice((*edges, date.fromordinal(random.randint(*days))))


def _moment(first: int, last: int) -> Callable[[Random], datetime]:
    def value(random: Random) -> datetime:
        near_zero = random.choice((-1001, -1, 0, 1, 999, 1000, 1_000_999))
        edges = (first, last, last - 999_999, last - 999, near_zero)
        at = random.choice((*edges, *(random.randint(first, last) for _ in range(6))))
        return _EPOCH + timedelta(microseconds=min(max(at, first), last))

    return value


KINDS: dict[str, tuple[pa.DataType, Callable[[Random], Any]]] = {
    "truth": (pa.bool_(), lambda random: random.random() < 0.5),
    "i8": (pa.int8(), _integer(8)),
    "i16": (pa.int16(), _integer(16)),
    "i32": (pa.int32(), _integer(32)),
    "i64": (pa.int64(), _integer(64)),
    "unsigned": (pa.decimal128(20, 0), _decimal(20, 0)),
    "d5": (pa.decimal128(5, 2), _decimal(5, 2)),
    "d15": (pa.decimal128(15, 4), _decimal(15, 4)),
    "d30": (pa.decimal128(30, 10), _decimal(30, 10)),
    "d38": (pa.decimal128(38, 38), _decimal(38, 38)),
    "single": (pa.float32(), _float),
    "double": (pa.float64(), _double),
    "text": (pa.string(), _text),
    "bytes": (pa.binary(), lambda random: _text(random).encode() + b"\xff" * random.randrange(2)),
    "day": (pa.date32(), _day),
    "local": (pa.timestamp("us"), _moment(_YEAR_1, _YEAR_9999)),
    "moment": (pa.timestamp("us", "UTC"), _moment(1_000_000, 2_147_483_647_999_999)),
    "far": (pa.timestamp("us", "UTC"), _moment(_YEAR_1, _YEAR_9999)),
    "point": (
        pa.struct([("srid", pa.int32()), ("label", pa.string())]),
        lambda random: {"srid": random.randrange(-9, 9), "label": _text(random)},
    ),
}
PLACES = ("a", "b c", "ä%20", "x/y", "=:", "'q'", "A", "\U00020bb7", "#?", "%41", None)
"""values of the column ``place``, by which a table may be partitioned"""
SCHEMA = pa.schema(
    [("id", pa.int64()), ("place", pa.string()), *((n, kind) for n, (kind, _) in KINDS.items())]
)


@dataclass(frozen=True)
class RandomTable:
    """A Delta table and its rows, each with a unique ``id``."""

    folder: str
    rows: list[dict[str, Any]]

    def conditions(self, random: Random, each: int) -> list[Condition]:
        return random_conditions(random, self.rows, each)


def random_conditions(
    random: Random, rows: Sequence[Mapping[str, Any]], each: int
) -> list[Condition]:
    """For every column (of structs every field) and comparison ``each`` conditions, by values of
    these rows and others; IS NULL and IS NOT NULL."""
    chosen = list[Condition]()
    for name in [name for name in rows[0] if name != "id"]:
        values = [row[name] for row in rows if row[name] is not None]
        if name in KINDS:
            values += [KINDS[name][1](random) for _ in range(20)]
        chosen += [Condition(name, "IS NULL"), Condition(name, "IS NOT NULL")]
        for comparison in COMPARISONS:
            for value in random.choices(values, k=each):
                fields = value.items() if isinstance(value, dict) else [("", value)]
                chosen += [Condition(f"{name}.{k}".rstrip("."), comparison, v) for k, v in fields]
    return chosen


def row(random: Random, number: int) -> dict[str, Any]:
    values = {
        name: None if random.random() < 0.15 else value(random)
        for name, (_, value) in KINDS.items()
    }
    return {"id": number, "place": random.choice(PLACES), **values}


def random_table(
    folder: Path, random: Random, *, mapped: bool = False, parted: bool = False,
    marked: bool = False, files: int = 40,
) -> RandomTable:  # fmt: skip
    """Writes a table of ``files`` files or more. ``mapped``: with column mapping; ``parted``: by
    ``place``; ``marked``: some rows of each file are gone, by its deletion vector."""
    delta, place = LocalDelta(), str(folder)
    properties = TargetOptions(column_mapping=mapped).properties()
    by = ("place",) if parted else ()
    created = NewTable(schema_json(SCHEMA), properties | (PROPERTIES if parted else {}), by)
    delta.create(place, created, Stamp("us", 1, ""))
    snapshot = delta.snapshot(place)
    assert snapshot is not None
    columns = Columns.of(snapshot.schema_string, snapshot.partition_columns)
    rows, adds = list[dict[str, Any]](), list[Action]()
    for _ in range(files):
        some = [row(random, len(rows) + n) for n in range(random.randint(1, 3))]
        for values, part in columns.split(pa.Table.from_pylist(some, SCHEMA)):
            gone = random.randrange(part.num_rows) if marked and part.num_rows > 1 else None
            adds.append(_without(place, write_file(place, columns, part, values), gone))
            ids = part.column("id").to_pylist()
            left = {one for n, one in enumerate(ids) if n != gone}
            rows += [one for one in some if one["id"] in left]
    delta.commit(snapshot, [{"add": add} for add in adds], Stamp("us", 2, ""))
    return RandomTable(place, rows)


def _without(folder: str, add: Action, gone: int | None) -> Action:
    if gone is None:
        return add
    (vector,) = deletion_vector.write(folder, [BitMap([gone])])
    return {**add, "deletionVector": vector, "stats": loosened(folder, add)}
