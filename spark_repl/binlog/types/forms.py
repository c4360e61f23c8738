"""Forms: how to store values for which Arrow and Delta have no type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...tables.column import DATE_TYPES, TIME_TYPES, ColumnType, Form

if TYPE_CHECKING:
    from ...config import Target
    from ...tables.table_definition import Definition


@dataclass(frozen=True, slots=True)
class Forms:
    """The options of the configuration's [target] that decide the forms of values, with the same
    names."""

    zero_dates: str = "error"
    """for a date that no calendar has: "error", "null", or "string": all dates are text"""
    time_as: str = "string"
    """the type of TIME: "string", or "microseconds" (int64)"""
    geometry_as: str = "struct"
    """the type of GEOMETRY: "struct", or "binary": four bytes of SRID, then WKB"""
    json_as: str = "string"
    """the type of JSON: "string", or "variant" (Parquet's encoding)"""
    text_errors: str = "error"
    """for bytes without a character: "error", or "replace": U+FFFD"""

    @classmethod
    def of_target(cls, target: Target) -> Forms:
        """Return the options of a configuration."""
        return cls(
            target.zero_dates, target.time_as, target.geometry_as, target.json_as,
            target.text_errors,
        )  # fmt: skip

    def of(self, kind: int) -> Form:
        """Return ``Column.form`` for a type."""
        if kind in DATE_TYPES and self.zero_dates == "string":
            return Form.TEXT
        if kind in TIME_TYPES and self.time_as == "microseconds":
            return Form.MICROSECONDS
        if kind == ColumnType.GEOMETRY and self.geometry_as == "binary":
            return Form.BYTES
        if kind == ColumnType.JSON and self.json_as == "variant":
            return Form.VARIANT
        return Form.USUAL

    def apply(self, definition: Definition) -> Definition:
        """Return the definition with the form of every column set."""
        columns = tuple(
            column if column.form == self.of(column.type) else replace(column, form=form)
            for column in definition.columns
            for form in (self.of(column.type),)
        )
        return definition if columns == definition.columns else replace(definition, columns=columns)


USUAL = Forms()
