"""One type that holds all values of two, as columns of shards have them."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from spark_repl.delta.files.delta_columns import arrow_type, common_type, delta_type, with_type

VALUES: dict[Any, list[Any]] = {
    pa.int8(): [-128, 127, None],
    pa.int16(): [-32768, 32767],
    pa.int32(): [-(2**31), 2**31 - 1],
    pa.int64(): [-(2**63), 2**63 - 1, None],
    pa.decimal128(5, 2): [Decimal("-999.99"), Decimal("0.10")],
    pa.decimal128(20, 0): [Decimal(2**64 - 1), Decimal(0)],
    pa.decimal128(38, 30): [Decimal("99999999." + 30 * "9")],
    pa.float32(): [1.5, -3.4028234663852886e38, 0.10000000149011612],
    pa.float64(): [0.1, -1.7976931348623157e308],
    pa.date32(): [date(1000, 1, 1), date(9999, 12, 31)],
    pa.timestamp("us"): [datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)],
    pa.timestamp("us", "UTC"): [None],
    pa.string(): ["1", "a"],
    pa.binary(): [b"1"],
    pa.bool_(): [True, False],
}


@pytest.mark.parametrize(("one", "other"), list(product(VALUES, VALUES)), ids=str)
def test_every_value_comes_back(one: pa.DataType, other: pa.DataType) -> None:
    names = delta_type(one), delta_type(other)
    both = common_type(*names)
    assert common_type(*names[::-1]) == both
    if both in (None, names[0]):
        return
    values = pa.array(VALUES[one], one)
    assert with_type(with_type(values, arrow_type(both)), one).equals(values)
    assert common_type(both, names[0]) == common_type(both, names[1]) == both


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("byte", "integer", "integer"),
        ("integer", "decimal(5,2)", "decimal(12,2)"),
        ("long", "decimal(20,0)", "decimal(20,0)"),
        ("decimal(10,2)", "decimal(8,4)", "decimal(12,4)"),
        ("decimal(38,30)", "long", None),
        ("short", "float", "float"),
        ("integer", "float", "double"),
        ("long", "double", None),
        ("decimal(5,2)", "double", None),
        ("date", "timestamp_ntz", "timestamp_ntz"),
        ("date", "timestamp", None),
        ("integer", "string", None),
        ("string", "string", "string"),
        ({"type": "struct", "fields": []}, "string", None),
    ],
)
def test_the_common_type_is_the_narrowest_that_holds_both(
    one: Any, other: Any, both: str | None
) -> None:
    assert common_type(one, other) == both
