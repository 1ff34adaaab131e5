"""Converts metric records to flat rows with an Avro schema.

Writer (mirror) and table (pinot) derive their columns from the same dataclass, so they always agree. Field
types: int -> long, float -> double (None is `UNKNOWN`), str or StrEnum -> string; `latency_counts` becomes
one long column per bucket, and a nested record its columns.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Any, Final, get_type_hints

from mirror.model.latency import LATENCY_BUCKETS

HISTOGRAM_FIELD: Final = "latency_counts"
HISTOGRAM_COLUMNS: Final = tuple(f"latency_{index:02}" for index in range(LATENCY_BUCKETS))


class ColumnType(StrEnum):
    """Avro type of a column."""

    LONG = "long"
    DOUBLE = "double"
    STRING = "string"


@dataclass(frozen=True, slots=True)
class Column:
    """Name and type of a column."""

    name: str
    type: ColumnType


_TYPES: Final[dict[Any, ColumnType]] = {
    int: ColumnType.LONG,
    int | None: ColumnType.LONG,
    float: ColumnType.DOUBLE,
    float | None: ColumnType.DOUBLE,
    str: ColumnType.STRING,
}
UNKNOWN: Final = -1
"""Value of a column for an unknown number."""


def columns_of(record: type[Any]) -> tuple[Column, ...]:
    """Return the columns of a record class, in field order."""
    hints = get_type_hints(record)
    columns: list[Column] = []
    for field in fields(record):
        if field.name == HISTOGRAM_FIELD:
            columns.extend(Column(name, ColumnType.LONG) for name in HISTOGRAM_COLUMNS)
        elif is_dataclass(hints[field.name]):
            columns.extend(columns_of(hints[field.name]))
        else:
            columns.append(Column(field.name, _type_of(hints[field.name])))
    return tuple(columns)


def _type_of(hint: Any) -> ColumnType:
    is_choice = isinstance(hint, type) and issubclass(hint, StrEnum)
    return ColumnType.STRING if is_choice else _TYPES[hint]


def row_of(record: Any) -> dict[str, int | float | str]:
    """Return a record as a row: a mapping of column name to value."""
    row: dict[str, int | float | str] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name == HISTOGRAM_FIELD:
            row.update(zip(HISTOGRAM_COLUMNS, value, strict=True))
        elif is_dataclass(value):
            row.update(row_of(value))
        else:
            row[field.name] = UNKNOWN if value is None else value
    return row


def avro_schema(record: type[Any]) -> dict[str, Any]:
    """Return the Avro schema for the rows of a record class. Append new columns at the end, because Pinot
    knows only one schema."""
    return {
        "type": "record",
        "name": record.__name__,
        "namespace": "headrace",
        "fields": [{"name": column.name, "type": column.type.value} for column in columns_of(record)],
    }
