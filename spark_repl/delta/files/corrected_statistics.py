"""Corrected statistics: bounds of data files that an earlier version or Delta itself wrote.

A corrected bound has the form that every reader decodes and orders alike
(``delta.files.statistics``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .statistics import Digits, as_json

if TYPE_CHECKING:
    from .delta_columns import Columns

PROPERTY, CORRECT = "spark_repl.statistics", "2"
"""a table's property whose data files have had correct statistics from its first version on"""
_SUSPECT = re.compile(
    r"\\u[dD][89abAB]"  # an escaped surrogate pair
    r"|[:\[]-?0\.0[,}]"
    r'|"(?:226[2-9]|22[7-9]\d|2[3-9]\d\d|[3-9]\d{3})-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[Z"]'
)
_PAIR = re.compile(r"\\u[dD][89abAB]")
_CUT = re.compile(r"(?<=T\d\d:\d\d:\d\d\.\d{3})(?=Z?$)")
_FLOATS, _MOMENTS = ("float", "double"), ("timestamp", "timestamp_ntz")
_FIRST_FAR = "2262"
_Bound = Callable[[str, str], str]


def corrected(stats: str, columns: Columns) -> str | None:
    """Return a data file's ``stats`` with bounds that are correct for every reader, or None if they
    already are. The table has these columns."""
    if not _SUSPECT.search(stats):
        return None
    kinds = {
        name: json.loads(kind) for name, kind in zip(columns.physical, columns.types, strict=True)
    }
    parsed = json.loads(stats, parse_float=Digits, parse_int=Digits)
    sound = dict(parsed)
    for name, bound in (("minValues", _least), ("maxValues", _greatest)):
        if name in parsed:
            sound[name] = _bounds(parsed[name], kinds, bound)
    return as_json(sound) if sound != parsed or _PAIR.search(stats) else None


def _bounds(values: Mapping[str, Any], kinds: Mapping[str, Any], bound: _Bound) -> dict[str, Any]:
    return {name: _corrected(value, kinds.get(name), bound) for name, value in values.items()}


def _corrected(value: Any, kind: Any, bound: _Bound) -> Any:
    if isinstance(value, dict):
        fields = kind["fields"] if isinstance(kind, dict) else []
        return _bounds(value, {_physical(field): field["type"] for field in fields}, bound)
    return bound(value, kind) if isinstance(value, str) and isinstance(kind, str) else value


def _physical(field: Mapping[str, Any]) -> str:
    name: str = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
    return name


def _least(value: str, kind: str) -> str:
    return Digits("-0.0") if kind in _FLOATS and float(value) == 0 else value


def _greatest(value: str, kind: str) -> str:
    """Return a maximum. A timestamp that was cut to milliseconds becomes the last one with the same
    milliseconds."""
    if kind in _FLOATS and float(value) == 0:
        return Digits("0.0")
    if kind in _MOMENTS and value >= _FIRST_FAR:
        return _CUT.sub("999", value)
    return value
